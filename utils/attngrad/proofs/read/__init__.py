"""The reader: printed LaTeX to the object that is proved.

A string passes through ``lexer`` and ``grammar``; ``meaning`` gives the tree its value, with ``shapes``
for scalars, columns and matrices, ``indices`` for subscripts, ``products``, ``summation`` and
``differentials``. ``table`` is the notation of a chapter; ``spelling``, ``meanings`` and ``lookalikes``
check it. ``explain`` says how a formula was read.
"""

from .errors import ReadError, TableError
from .reader import Reading, Statement, explain, fingerprint, read, read_expression
from .table import Table

__all__ = [
    "ReadError",
    "Reading",
    "Statement",
    "Table",
    "TableError",
    "explain",
    "fingerprint",
    "read",
    "read_expression",
]
