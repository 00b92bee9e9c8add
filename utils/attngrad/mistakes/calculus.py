"""Wrong derivatives of the plainest maps: a sum, a product of matrices, a quadratic form, a copy.

``w`` is a matrix (N, M), ``x`` what it multiplies, ``u`` the cotangent of the result.
"""

import numpy as np

from attngrad.mistakes.record import Mistake


def sum_vjp_index_clash(x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Differentiate every term of a sum by its own entry: the number of terms in the place of 1."""
    return np.full_like(x, x.size * u)


def _right_sum_vjp(x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the cotangent of the entries of a sum."""
    return np.full_like(x, u)


def product_vjp_transpose_dropped(w: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Multiply by a square matrix where its transpose belongs."""
    return w @ u


def _right_product_vjp(w: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the cotangent of the right factor of a product."""
    return w.T @ u


def quadratic_vjp_symmetric(w: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Take the derivative of x^2 for that of a quadratic form whose matrix is not symmetric."""
    return 2.0 * u * (w @ x)


def _right_quadratic_vjp(w: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the cotangent of x in the quadratic form of w."""
    return u * ((w + w.T) @ x)


def paths_vjp_last_only(w: np.ndarray, c: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Assign the gradient of the last path where it should be added to that of the first."""
    return u * (c.T @ (w @ x))


def _right_paths_vjp(w: np.ndarray, c: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the cotangent of x, which both factors of the pairing read."""
    return u * (w.T @ (c @ x) + c.T @ (w @ x))


def broadcast_vjp_mean(x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Take the mean over the copies of a row instead of their sum."""
    return u.mean(axis=0)


def _right_broadcast_vjp(x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the cotangent of a row that is copied to all rows."""
    return u.sum(axis=0)


def unfrozen_pairing(w: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Differentiate a pairing whose cotangent, the output itself, moves with x."""
    return 2.0 * w.T @ (w @ x)


def _right_frozen_pairing(w: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the VJP of w x for the cotangent w x."""
    return w.T @ (w @ x)


def matrix_vjp_averaged(w: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Use the mean of the cotangent for each of its entries."""
    return w.T @ np.full_like(u, u.mean())


def entrywise_vjp_literal(slope: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Sum over the letters that say which entry is meant: one number for all entries."""
    return np.full_like(u, (u * slope).sum())


def _right_entrywise_vjp(slope: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the cotangent of the argument of a map that acts on each entry by itself."""
    return u * slope


POST = "https://blog.csdn.net/pzccool/article/details/147657740, section 3.3"
CALCULUS = (
    Mistake(
        id="sum-vjp-index-clash",
        formula=r"\frac{\partial}{\partial x_j} \sum_{l=1}^{M} x_l = M",
        seen="https://github.com/sympy/sympy/issues/21891",
        check="sum-vjp-difference",
        function=sum_vjp_index_clash,
        right=_right_sum_vjp,
        stands_for="u for each entry of x",
        missed_by=("one-entry",),
    ),
    Mistake(
        id="product-vjp-transpose-dropped",
        formula=r"\mathrm{d}X = W\, \mathrm{d}Y \text{ for } Y = W X",
        seen="a slip that shapes do not show where the matrix is square; no public source",
        check="product-vjp-difference",
        function=product_vjp_transpose_dropped,
        right=_right_product_vjp,
        stands_for="w.T @ u",
        missed_by=("symmetric-matrix", "one-entry"),
    ),
    Mistake(
        id="quadratic-vjp-symmetric",
        formula=r"\frac{\partial\, x^\top W x}{\partial x} = 2 W x",
        seen="the rule for symmetric matrices, used without its condition; no public source",
        check="quadratic-vjp-difference",
        function=quadratic_vjp_symmetric,
        right=_right_quadratic_vjp,
        stands_for="u * (w + w.T) @ x",
        missed_by=("symmetric-matrix", "one-entry"),
    ),
    Mistake(
        id="paths-vjp-last-only",
        formula=r"\mathrm{d}x = C^\top y \text{ for } L = y^\top v,\; y = W x,\; v = C x",
        seen="a gradient that is assigned, not accumulated; no public source",
        check="paths-vjp-difference",
        function=paths_vjp_last_only,
        right=_right_paths_vjp,
        stands_for="u * (w.T @ (c @ x) + c.T @ (w @ x))",
    ),
    Mistake(
        id="broadcast-vjp-mean",
        formula=r"\mathrm{d}g_f = \frac{1}{N} \sum_i \mathrm{d}Y_{if} \text{ for } Y_{if} = g_f",
        seen="a mean over a batch taken twice; no public source",
        check="broadcast-vjp-difference",
        function=broadcast_vjp_mean,
        right=_right_broadcast_vjp,
        stands_for="u.sum(axis=0)",
        missed_by=("one-row",),
    ),
    Mistake(
        id="pairing-vjp-unfrozen",
        formula=r"J^\top y = \frac{\partial}{\partial x} \sum_i y_i^2 \text{ for } y = W x",
        seen="a cotangent that is not detached; no public source",
        check="own-output-as-cotangent",
        function=unfrozen_pairing,
        right=_right_frozen_pairing,
        stands_for="w.T @ (w @ x)",
    ),
    Mistake(
        id="matrix-vjp-averaged",
        formula=r"\mathrm{d}x_j = \Bigl(\frac{1}{N} \sum_i \mathrm{d}y_i\Bigr) \sum_i W_{ij}",
        seen="made to show what a sum as loss lets pass; no public source",
        check="matrix-vjp-difference",
        function=matrix_vjp_averaged,
        right=_right_product_vjp,
        stands_for="w.T @ u for a vector u",
        missed_by=("sum-loss", "one-row", "one-entry"),
    ),
    Mistake(
        id="entrywise-vjp-literal-sum",
        formula=r"\frac{\partial L}{\partial b_{ij}} = \sum_{i,j} G_{ij}"
        r" \frac{\partial A_{ij}}{\partial b_{ij}}",
        seen=POST,
        check="entrywise-vjp-difference",
        function=entrywise_vjp_literal,
        right=_right_entrywise_vjp,
        stands_for="u * slope",
        missed_by=("one-entry",),
    ),
)
