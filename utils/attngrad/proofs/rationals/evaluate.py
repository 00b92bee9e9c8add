"""SymPy trees compiled to functions of a world and an environment of index letters."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

from sympy import (
    Abs,
    Add,
    Dummy,
    Expr,
    Function,
    Indexed,
    KroneckerDelta,
    Max,
    Min,
    Mul,
    Pow,
    Rational,
    S,
    Sum,
    Symbol,
    exp,
    log,
)
from sympy.core.function import AppliedUndef

from ..sums import Norm2, Partial
from .nilpotent import Number, integer_power, is_plain, real

Evaluator = Callable[[Any, dict], Number]


@lru_cache(maxsize=1 << 14)
def compiled(e: Expr) -> Evaluator:
    """Return the function (world, env) -> value of an expression.

    Raises: NotExact for a kind of expression that has no exact value.
    """
    build = BUILDERS.get(type(e)) or next((f for kind, f in BUILDERS.items() if isinstance(e, kind)), None)
    if build is None:
        raise _not_exact(f"the oracle does not evaluate {type(e).__name__}: {e}")
    return build(e)


def _not_exact(reason: str) -> Exception:
    from .world import NotExact

    return NotExact(reason)


def _rational(e: Rational) -> Evaluator:
    value = int(e.p) if e.q == 1 else Fraction(int(e.p), int(e.q))
    return lambda world, env: value


def _symbol(e: Symbol) -> Evaluator:
    return lambda world, env: env[e] if e in env else world.symbol(e)


def _add(e: Add) -> Evaluator:
    parts = [compiled(a) for a in e.args]

    def run(world: Any, env: dict) -> Number:
        total = parts[0](world, env)
        for p in parts[1:]:
            total = total + p(world, env)
        return total

    return run


def _mul(e: Mul) -> Evaluator:
    """Deltas come first: where one is 0, the other factors need not have a value."""
    parts = [compiled(a) for a in sorted(e.args, key=lambda a: not isinstance(a, KroneckerDelta))]

    def run(world: Any, env: dict) -> Number:
        result: Number = 1
        for p in parts:
            result = result * p(world, env)
            if isinstance(result, int) and result == 0:
                return 0
        return result

    return run


def _pow(e: Pow) -> Evaluator:
    base, exponent = compiled(e.base), e.exp
    if isinstance(exponent, Rational) and exponent.q == 1:
        whole = int(exponent)
        return lambda world, env: integer_power(base(world, env), whole)
    if isinstance(exponent, Rational):
        fraction = Fraction(int(exponent.p), int(exponent.q))
        return lambda world, env: world.root(base(world, env), fraction, e.base)
    varying = compiled(exponent)

    def run(world: Any, env: dict) -> Number:
        power = varying(world, env)
        if not is_plain(power):
            raise _not_exact(f"a derivative through the exponent of {e}")
        fraction = Fraction(real(power))
        if fraction.denominator == 1:
            return integer_power(base(world, env), int(fraction))
        return world.root(base(world, env), fraction, e.base)

    return run


def _sum(e: Sum) -> Evaluator:
    if len(e.limits) > 1:
        inner, limit = Sum(e.function, *e.limits[:-1]), e.limits[-1]
    else:
        inner, limit = e.function, e.limits[0]
    if len(limit) != 3:
        raise _not_exact(f"the sum over {limit[0]} has no limits")
    body, low, high = compiled(inner), compiled(limit[1]), compiled(limit[2])
    letter = limit[0]

    def run(world: Any, env: dict) -> Number:
        total: Number = 0
        first, last = integer(low(world, env), limit[1]), integer(high(world, env), limit[2])
        here = dict(env)
        for value in range(first, last + 1):
            here[letter] = value
            total = total + body(world, here)
        return total

    return run


def integer(number: Number, what: Any) -> int:
    """Return a number as an integer.

    Raises: NotExact when it is none.
    """
    value = real(number)
    if value != int(value):
        raise _not_exact(f"an index or limit is an integer, but {what} = {value}")
    return int(value)


def _indexed(e: Indexed) -> Evaluator:
    key = _key(e)
    positive = bool(e.base.label.is_positive)
    return lambda world, env: world.entry(key(world, env), positive)


def _key(e: Indexed | Symbol) -> Callable[[Any, dict], tuple]:
    """Return the function that gives the name and the integer indices of an entry or scalar."""
    if isinstance(e, Symbol):
        return lambda world, env: (e.name,)
    name = str(e.base.label)
    indices = [(compiled(i), i) for i in e.indices]
    return lambda world, env: (name, *[integer(f(world, env), i) for f, i in indices])


def _delta(e: KroneckerDelta) -> Evaluator:
    if len(e.args) != 2:
        raise _not_exact(f"a Kronecker delta with a range of its own: {e}")
    left, right = compiled(e.args[0]), compiled(e.args[1])
    return lambda world, env: int(real(left(world, env)) == real(right(world, env)))


def _abs(e: Abs) -> Evaluator:
    inside = compiled(e.args[0])

    def run(world: Any, env: dict) -> Number:
        x = inside(world, env)
        if real(x) == 0 and not is_plain(x):
            raise _not_exact(f"{e.args[0]} is 0, where its absolute value has no derivative")
        return x if real(x) >= 0 else x * -1

    return run


def _extreme(e: Max | Min) -> Evaluator:
    parts = [compiled(a) for a in e.args]
    pick = max if isinstance(e, Max) else min

    def run(world: Any, env: dict) -> Number:
        values = [p(world, env) for p in parts]
        best = pick(map(real, values))
        winners = [v for v in values if real(v) == best]
        if len(winners) > 1 and not all(map(is_plain, winners)):
            raise _not_exact(f"a tie in {e}, where it has no derivative")
        return winners[0]

    return run


def _partial(e: Partial) -> Evaluator:
    function, key = compiled(e.function), _key(e.variable)
    if isinstance(e.variable, Symbol) and e.variable.is_integer:
        raise _not_exact(f"a derivative by the integer {e.variable}")
    return lambda world, env: world.derivative(function, key(world, env), env)


def _opaque(e: Function) -> Evaluator:
    if not isinstance(e, AppliedUndef):
        raise _not_exact(f"{e.func.__name__} has no rational values: give it an opaque symbol")
    name, parts = e.func.__name__, [compiled(a) for a in e.args]
    return lambda world, env: world.function(name, [p(world, env) for p in parts])


def _norm(e: Norm2) -> Evaluator:
    raise _not_exact(f"the spectral norm of {e.base} is evaluated numerically, not on rational numbers")


def _inside(method: str) -> Callable[[Expr], Evaluator]:
    def build(e: Expr) -> Evaluator:
        inside = compiled(e.args[0])
        return lambda world, env: getattr(world, method)(inside(world, env))

    return build


BUILDERS: dict[type, Callable[[Any], Evaluator]] = {
    Symbol: _symbol,
    Dummy: _symbol,
    Rational: _rational,
    Add: _add,
    Mul: _mul,
    Pow: _pow,
    Sum: _sum,
    Indexed: _indexed,
    KroneckerDelta: _delta,
    exp: _inside("exp"),
    log: _inside("log"),
    Abs: _abs,
    Max: _extreme,
    Min: _extreme,
    Partial: _partial,
    Norm2: _norm,
    type(S.Exp1): lambda e: lambda world, env: world.exp(1),
    Function: _opaque,
}
