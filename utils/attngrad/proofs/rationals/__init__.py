"""The oracle: expressions on exact rational numbers, derivatives by numbers whose square is zero.

It shares no calculus with the normal form. ``world`` draws the numbers, ``evaluate`` walks the expression,
``nilpotent`` has the numbers.
"""

from .world import Definition, NotExact, World, ZeroDenominator

__all__ = ["Definition", "NotExact", "World", "ZeroDenominator"]
