"""Proofs of the printed formulas: what the page shows is read, proved for every size, and attacked.

The modules, in the order in which a formula passes through them:

``page``       the labelled displays of a chapter's text
``read``       LaTeX to the object that is meant; the notation table of a chapter
``claim``      what the ledger says about a label
``derive``     definitions unfolded, derivatives taken
``sums``       the normal form: equal or not, for every size
``rationals``  the oracle: values on exact rational numbers
``witness``    exact counterexamples, found by the oracle
``floats``     inequalities and numerical facts, attacked with numbers
``prove``      a printed formula to its verdict
``mutants``    small errors planted in a formula
``examine``    all that is asked of one claim
``ledger``     the claims, one module a chapter
``report``     verdicts for the terminal, the notebooks and the ledger page
``gate``       the built site against the proofs
``ask``        one formula by itself
"""

try:
    import lark  # noqa: F401
    import sympy  # noqa: F401
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"attngrad.proofs needs {missing.name}, which the extra attngrad[proofs] brings"
    ) from missing
