"""The exact oracle: an expression at explicit sizes, on rational numbers.

Derivatives are taken with nilpotent numbers. The oracle shares nothing with the normal form: SymPy serves
as a tree of operations, no rule of its calculus is used, and no number is a float. Entries are drawn when
they are first needed, each from its own key, so that a value never depends on what was evaluated before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import product
from math import factorial, isqrt
from random import Random
from typing import NamedTuple

from sympy import Expr, IndexedBase, Symbol, sympify

from .evaluate import compiled
from .nilpotent import Nilpotent, Number, Rational, ZeroDenominator, is_plain, part, real, small, taylor

__all__ = ["Definition", "NotExact", "World", "ZeroDenominator"]

MODELS = ("formal", "powers")
Key = tuple


class NotExact(ValueError):
    """A value that rational numbers do not hold, and what would help."""


class Definition(NamedTuple):
    """``name[indices] = body``; the body may use the indices, sizes and other names."""

    indices: tuple[Symbol, ...]
    body: Expr


class World:
    """Sizes and lazily drawn rational entries in which expressions have exact values.

    exp_model 'formal': exp of each distinct argument is an independent positive rational, exp(0) = 1. This is
    sound only for claims that use no relation between different exponentials.
    exp_model 'powers': exp(x) = 2**x for integer x, and all entries are drawn as integers; log is the
    homomorphism with log 2 = 1 and a random rational for each other prime. Derivatives are formal in both:
    exp' = exp, log' = 1/x.

    Raises: ValueError for an unknown model, sizes that are no positive integers, or given values of defined
    names.

    >>> x, k, n = IndexedBase('x'), Symbol('k', integer=True), Symbol('n', integer=True, positive=True)
    >>> from sympy import Sum
    >>> World({n: 2}, 0, given={('x', 1): Fraction(1, 2), ('x', 2): Fraction(1)}).value(Sum(x[k], (k, 1, n)))
    Fraction(3, 2)
    """

    def __init__(
        self,
        sizes: Mapping[Symbol, int],
        seed: int,
        definitions: Mapping[str, tuple] | None = None,
        given: Mapping[Key, Rational] | None = None,
        exp_model: str = "formal",
        ranges: Mapping[Symbol | IndexedBase, tuple[Expr, Expr]] | None = None,
    ):
        if exp_model not in MODELS:
            raise ValueError(f"exp_model is one of {MODELS}, got {exp_model!r}")
        for symbol, size in sizes.items():
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"the size {symbol} is an integer from 1, got {size!r}")
        self.sizes, self.seed, self.exp_model = dict(sizes), seed, exp_model
        self.definitions = {name: Definition(*d) for name, d in (definitions or {}).items()}
        self._ranges = {
            str(getattr(k, "label", k)): tuple(map(sympify, limits)) for k, limits in (ranges or {}).items()
        }
        self._drawn: dict[Key, Rational] = {k: _plain(v) for k, v in (given or {}).items()}
        for key in self._drawn:
            if key[0] in self.definitions:
                raise ValueError(f"{key[0]} is defined, so its entries cannot be given")
        self._defined: dict[tuple, Number] = {}
        self._pending: set[tuple] = set()
        self._taken: dict[Rational, Fraction] = {}
        self._exp_of: dict[Rational, Rational] = {0: 1}
        self._log_of: dict[Rational, Rational] = {1: 0}
        self._inputs: tuple[Key, ...] = ()

    def value(self, expr: Expr, env: Mapping[Symbol, int] | None = None) -> Fraction:
        """Return the exact value of an expression; ``env`` gives the values of free index letters.

        Raises: NotExact for a value that is not rational; ZeroDenominator; ValueError for a letter without
        value.
        """
        self._inputs = ()
        return Fraction(real(compiled(sympify(expr))(self, dict(env or {}))))

    # --- entries -----------------------------------------------------------------------------

    @property
    def drawn(self) -> dict[Key, Fraction]:
        """The entries drawn or given so far."""
        return {key: Fraction(value) for key, value in self._drawn.items()}

    def symbol(self, symbol: Symbol) -> Number:
        """Return a scalar, a size, or an integer that a range declares."""
        if symbol in self.sizes:
            return self.sizes[symbol]
        if symbol.is_integer and symbol.name not in self._ranges and symbol.name not in self.definitions:
            kind = "size" if symbol.is_positive else "index letter"
            raise ValueError(f"no value for the {kind} {symbol}")
        return self.entry((symbol.name,), bool(symbol.is_positive))

    def entry(self, key: Key, positive: bool) -> Number:
        """Return an entry with an eps for each derivative by it that is being taken."""
        value = self._of_definition(key) if key[0] in self.definitions else self._draw(key, positive)
        if key not in self._inputs:
            return value
        return Nilpotent({0: 0, **{1 << bit: 1 for bit, k in enumerate(self._inputs) if k == key}}) + value

    def _draw(self, key: Key, positive: bool) -> Rational:
        if key not in self._drawn:
            random = self._random(key)
            if key[0] in self._ranges:
                low, high = (self._fixed(x) for x in self._ranges[key[0]])
                if low > high:
                    raise ValueError(f"the range {low}..{high} of {key[0]} is empty at these sizes")
                self._drawn[key] = random.randint(low, high)
            else:
                numerator = (
                    random.randint(1, 9) if positive else random.choice([*range(-9, 0), *range(1, 10)])
                )
                if self.exp_model == "powers":
                    self._drawn[key] = (
                        numerator if positive else (abs(numerator) + 1) // 2 * (1 if numerator > 0 else -1)
                    )
                else:
                    self._drawn[key] = _plain(Fraction(numerator, random.randint(1, 7)))
        return self._drawn[key]

    def _fixed(self, limit: Expr) -> int:
        return int(real(compiled(limit)(self, {})))

    def _random(self, *key: object) -> Random:
        return Random(f"{self.seed}|{key!r}")

    def _of_definition(self, key: Key) -> Number:
        """Evaluate a definition; where its name is an input, later derivatives do not enter it."""
        name, *at = key
        first = next((k for k, x in enumerate(self._inputs) if x[0] == name), len(self._inputs))
        inputs = self._inputs[:first]
        if (key, inputs) in self._defined:
            return self._defined[key, inputs]
        if (key, inputs) in self._pending:
            raise ValueError(f"{name} is defined by itself")
        indices, body = self.definitions[name]
        if len(indices) != len(at):
            raise ValueError(f"{name} is defined with {len(indices)} indices, used with {len(at)}")
        held, self._inputs = self._inputs, inputs
        self._pending.add((key, inputs))
        try:
            value = compiled(body)(self, dict(zip(indices, at, strict=True)))
        finally:
            self._inputs = held
            self._pending.discard((key, inputs))
        self._defined[key, inputs] = value
        return value

    def derivative(self, function: Callable, key: Key, env: dict) -> Number:
        """Return the derivative of a compiled expression by the entry of this key."""
        held = self._inputs
        self._inputs = (*held, key)
        try:
            value = function(self, env)
        finally:
            self._inputs = held
        slope = part(value, 1 << len(held))
        return real(slope) if is_plain(slope) else slope

    # --- functions ---------------------------------------------------------------------------

    def exp(self, x: Number) -> Number:
        """Return exp in the model of this world."""
        power = self._exp(_plain(real(x)))
        return taylor(x, lambda k: power)

    def _exp(self, x: Rational) -> Rational:
        if self.exp_model == "powers":
            for rest, factor in ((x, Fraction(1)), *self._without_a_log(x)):
                if rest == int(rest) and abs(rest) <= 4000:
                    return _plain(factor * Fraction(2) ** int(rest))
            raise NotExact(f"exp({x}) in the model of powers of 2 needs a small integer")
        if x not in self._exp_of:
            random = self._random("exp", x)
            self._exp_of[x] = _plain(Fraction(random.randint(1, 999), random.randint(1, 999)))
            self._log_of.setdefault(self._exp_of[x], x)
        return self._exp_of[x]

    def _without_a_log(self, x: Rational) -> Iterator[tuple[Rational, Fraction]]:
        """Yield x without one of the logarithms taken so far, and what that logarithm stands for."""
        for value, argument in self._taken.items():
            yield x - value, argument
            yield x + value, 1 / argument

    def log(self, x: Number) -> Number:
        """Return log in the model of this world.

        Raises: NotExact for an argument that is not positive.
        """
        value = Fraction(real(x))
        if value <= 0:
            raise NotExact(f"log({value}) needs a positive argument: declare what is positive")

        def derivative(k: int) -> Rational:
            return (-1) ** (k - 1) * factorial(k - 1) / value**k if k else self._log(value)

        return taylor(x, derivative)

    def _log(self, x: Fraction) -> Rational:
        if self.exp_model == "powers":
            pairs = [*_factored(x.numerator), *((p, -e) for p, e in _factored(x.denominator))]
            value = sum(e * self._log_of_prime(p) for p, e in pairs)
            self._taken[value] = x
            return value
        if x not in self._log_of:
            random = self._random("log", x)
            self._log_of[x] = Fraction(random.randint(1, 999) * (1 if x > 1 else -1), random.randint(1, 999))
            self._exp_of.setdefault(self._log_of[x], x)
        return self._log_of[x]

    def _log_of_prime(self, prime: int) -> Rational:
        """Return 1 for 2, else a fraction over a large prime: no sum of them is an integer by chance."""
        return 1 if prime == 2 else Fraction(self._random("log", prime).randint(1, 10**6), 1000003)

    def root(self, x: Number, exponent: Fraction, what: Expr) -> Number:
        """Return a power that is not an integer, of a perfect square or other perfect power.

        Raises: NotExact, naming what to plant; ZeroDenominator for a negative power of 0.
        """
        value, degree = Fraction(real(x)), exponent.denominator
        top, bottom = _root(value.numerator, degree), _root(value.denominator, degree)
        if top is None or bottom is None:
            raise NotExact(
                f"{what} = {value} is no perfect power of degree {degree}: plant a value that makes it one"
            )
        if not top:
            if exponent < 0:
                raise ZeroDenominator(f"{what} is 0 in a denominator")
            if not is_plain(x):
                raise NotExact(f"{what} is 0, where its root has no derivative")
            return 0
        root = Fraction(top, bottom) ** exponent.numerator

        def derivative(k: int) -> Rational:
            result = root / value**k
            for step in range(k):
                result *= exponent - step
            return result

        return taylor(x, derivative)

    def function(self, name: str, args: list[Number]) -> Number:
        """Return an opaque function; a prime at the end of its name means the derivative."""
        order = len(name) - len(name.rstrip("'"))
        at = tuple(_plain(real(a)) for a in args)
        steps = [small(a) for a in args]
        depth = len(self._inputs)
        total: Number = 0
        for degrees in product(range(depth + 1), repeat=len(args)):
            if sum(degrees) > depth:
                continue
            term: Number = self._function(name.rstrip("'"), (degrees[0] + order, *degrees[1:]), at)
            for degree, step in zip(degrees, steps, strict=True):
                for _ in range(degree):
                    term = step * term
                term = term * Fraction(1, factorial(degree)) if degree else term
            total = total + term
        return total

    def _function(self, name: str, degrees: tuple[int, ...], at: tuple) -> Rational:
        random = self._random("function", name, degrees, at)
        return Fraction(
            random.choice([*range(-9, 0), *range(1, 10)]),
            1 if self.exp_model == "powers" else random.randint(1, 7),
        )


def _plain(value: Rational) -> Rational:
    """Return an integer where a fraction is one, so that equal values are equal keys with equal text."""
    return int(value) if value == int(value) else Fraction(value)


def _root(value: int, degree: int) -> int | None:
    """Return the exact root of a non-negative integer, or None."""
    if value < 0:
        return None
    if degree == 2:
        root = isqrt(value)
    else:
        low, high = 0, 1 << (value.bit_length() // degree + 1)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if middle**degree <= value else (low, middle - 1)
        root = low
    return root if root**degree == value else None


def _factored(value: int) -> list[tuple[int, int]]:
    from sympy import factorint

    return list(factorint(value).items())
