"""Derivatives along a direction in four ways: two differences, the complex step, dual numbers.

Each takes a function f, a point x and a tangent t, and returns the derivative of f(x + h t) by h at h = 0.
None of them knows a formula for the derivative, so each can judge one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from attngrad.notation import DtypeError, check_same_shape, finite_array, float_array, positive_number


def forward_difference(f: Callable[[Any], Any], x: np.ndarray, t: np.ndarray, h: float) -> np.ndarray:
    """Return the forward difference of f at x along t.

    Formula: (f(x + h t) - f(x)) / h.

    Error: h |f''| / 2 from the step, and 2 u |f| / h and u |x f'| / h from rounding f and the point, u the
    unit roundoff; the sum is least for a step near the square root of u.

    Raises: DtypeError for what is no float array; ShapeError where x and t differ in shape; RangeError for a
    NaN, an infinity, or a step that is not positive.

    >>> print(forward_difference(lambda x: x**2, np.array(3.0), np.array(1.0), h=0.25))
    6.25
    """
    x, t = _point(f, x, t)
    h = positive_number("h", h)
    return np.asarray((_real(f(x + h * t)) - _real(f(x))) / h)


def central_difference(f: Callable[[Any], Any], x: np.ndarray, t: np.ndarray, h: float) -> np.ndarray:
    """Return the central difference of f at x along t.

    Formula: (f(x + h t) - f(x - h t)) / 2h.

    Error: h^2 |f'''| / 6 from the step, and u |f| / h and u |x f'| / h from rounding f and the points, u the
    unit roundoff; the sum is least for a step near the cube root of u.

    Derived in: thm-calc-central.

    Raises: as `forward_difference`.

    >>> print(central_difference(lambda x: x**2, np.array(3.0), np.array(1.0), h=0.25))
    6.0
    """
    x, t = _point(f, x, t)
    h = positive_number("h", h)
    return np.asarray((_real(f(x + h * t)) - _real(f(x - h * t))) / (2.0 * h))


def complex_step(f: Callable[[Any], Any], x: np.ndarray, t: np.ndarray, h: float = 1e-100) -> np.ndarray:
    """Return the complex-step derivative of f at x along t.

    Formula: Im f(x + i h t) / h.

    Error: h^2 |f'''| / 6 from the step, and rounding of the derivative itself; nothing is subtracted, so h
    may be as small as one likes. f must be analytic: a modulus, a maximum or a comparison makes it wrong.

    Raises: as `forward_difference`; DtypeError where f returns real numbers, and so has lost the derivative.

    >>> print(complex_step(lambda x: x**2, np.array(3.0), np.array(1.0)))
    6.0
    """
    x, t = _point(f, x, t)
    h = positive_number("h", h)
    y = np.asarray(f(x + 1j * h * t))
    if y.dtype.kind != "c":
        raise DtypeError(f"f: expected complex values of a complex argument, got {y.dtype}")
    return np.asarray(y.imag / h)


def dual_derivative(f: Callable[[Any], Any], x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return the derivative of f at x along t by dual numbers: exact but for rounding, and without a step.

    Formula: f(x + eps t) = f(x) + eps f'(x) t with eps^2 = 0.

    Raises: as `forward_difference`; DtypeError where f uses what `Dual` has no rule for, or returns no Dual.

    >>> print(dual_derivative(lambda x: x**2, np.array(3.0), np.array(1.0)))
    6.0
    """
    y = f(Dual(*_point(f, x, t)))
    if not isinstance(y, Dual):
        raise DtypeError(f"f: expected a Dual for a Dual, got {type(y).__name__}, which has no tangent")
    return y.tangent


# How a function of one array moves: its derivative, from the argument x and the value y.
_SLOPES: dict[Any, Callable[[np.ndarray, np.ndarray], Any]] = {
    np.negative: lambda x, y: -1.0,
    np.square: lambda x, y: 2.0 * x,
    np.sqrt: lambda x, y: 0.5 / y,
    np.exp: lambda x, y: y,
    np.log: lambda x, y: 1.0 / x,
    np.sin: lambda x, y: np.cos(x),
    np.cos: lambda x, y: -np.sin(x),
    np.tanh: lambda x, y: 1.0 - y * y,
}
# How a function of two arrays moves: from a and its tangent, b and its tangent, and the value y.
_PAIRS: dict[Any, Callable[..., Any]] = {
    np.add: lambda a, ta, b, tb, y: ta + tb,
    np.subtract: lambda a, ta, b, tb, y: ta - tb,
    np.multiply: lambda a, ta, b, tb, y: ta * b + a * tb,
    np.divide: lambda a, ta, b, tb, y: (ta - y * tb) / b,
    np.matmul: lambda a, ta, b, tb, y: ta @ b + a @ tb,
}


@dataclass(frozen=True, eq=False)
class Dual(NDArrayOperatorsMixin):
    """A value and its tangent, value + eps tangent with eps^2 = 0, on which NumPy's operators act.

    Operators, ``@``, powers with a plain exponent, and exp, log, sqrt, square, sin, cos, tanh follow the
    rules of differentiation; what has no rule is refused, so that no derivative is lost in silence.

    Raises: DtypeError for what is no float array; ShapeError where value and tangent differ in shape.

    >>> x = Dual(np.array([1.0, 2.0]), np.array([1.0, 0.0]))
    >>> print((x * x).sum().tangent, (x / 4.0).tangent)
    2.0 [0.25 0.  ]
    """

    value: np.ndarray
    tangent: np.ndarray

    def __post_init__(self) -> None:
        """Turn both parts into float64 and require one shape."""
        object.__setattr__(self, "value", float_array("value", self.value, rank=0))
        object.__setattr__(self, "tangent", float_array("tangent", self.tangent, rank=0))
        check_same_shape("tangent", self.tangent.shape, "value", self.value.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the value."""
        return self.value.shape

    @property
    def T(self) -> "Dual":
        """Return the transpose."""
        return Dual(self.value.T, self.tangent.T)

    def __getitem__(self, at: Any) -> "Dual":
        """Return some of the entries."""
        return Dual(np.asarray(self.value[at]), np.asarray(self.tangent[at]))

    def sum(self, axis: Any = None, out: None = None, keepdims: bool = False) -> "Dual":
        """Return the sum over axes, also for ``np.sum``."""
        if out is not None:
            raise DtypeError("out: a Dual cannot be written in place")
        return Dual(*(np.asarray(x.sum(axis=axis, keepdims=keepdims)) for x in (self.value, self.tangent)))

    def __array__(self, *args: Any, **options: Any) -> np.ndarray:
        """Refuse to become a plain array, in which the tangent would be lost."""
        raise DtypeError("a Dual has a value and a tangent; take one of them to get an array")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> "Dual":
        """Apply a function of NumPy to the values, and its rule to the tangents."""
        if method != "__call__" or options:
            raise DtypeError(f"Dual: expected a plain call of {ufunc.__name__}, got {method} {options or ''}")
        parts = [x if isinstance(x, Dual) else _constant(x) for x in inputs]
        if ufunc is np.power and not isinstance(inputs[1], Dual):
            return _power(parts[0], parts[1].value)
        if ufunc not in _SLOPES and ufunc not in _PAIRS:
            known = ", ".join(f.__name__ for f in (*_PAIRS, *_SLOPES))
            raise DtypeError(f"Dual: expected {known} or a plain exponent, got {ufunc.__name__}")
        y = np.asarray(ufunc(*(x.value for x in parts)))
        if ufunc in _SLOPES:
            tangent = _SLOPES[ufunc](parts[0].value, y) * parts[0].tangent
        else:
            a, b = parts
            tangent = _PAIRS[ufunc](a.value, a.tangent, b.value, b.tangent, y)
        return Dual(y, np.array(np.broadcast_to(tangent, y.shape)))


def _constant(x: Any) -> Dual:
    """Return what does not move: a number or an array with tangent 0."""
    x = np.asarray(x, dtype=np.float64)
    return Dual(x, np.zeros_like(x))


def _power(a: Dual, n: np.ndarray) -> Dual:
    """Return a power with a constant exponent; at exponent 0 it is constant, also for a base of 0."""
    slope = n * a.value ** np.where(n == 0.0, 0.0, n - 1.0)
    return Dual(np.asarray(a.value**n), np.asarray(slope * a.tangent))


def _point(f: Any, x: Any, t: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return a point and a tangent of the same shape, where a function can be differentiated."""
    if not callable(f):
        raise DtypeError(f"f: expected a function, got {type(f).__name__}")
    x, t = finite_array("x", x, rank=0), finite_array("t", t, rank=0)
    check_same_shape("t", t.shape, "x", x.shape)
    return x, t


def _real(y: Any) -> np.ndarray:
    """Return what a function of real numbers returned."""
    y = np.asarray(y)
    if y.dtype.kind != "f":
        raise DtypeError(f"f: expected real floats of a real argument, got {y.dtype}")
    return y
