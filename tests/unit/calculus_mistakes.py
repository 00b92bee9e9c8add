"""Checks that must reject the mistakes of index calculus, and the naive inputs that let them through."""

import numpy as np

from attngrad.checks import check_close, check_vjp

RNG = np.random.default_rng(17)
W, C, E = RNG.standard_normal((4, 3)), RNG.standard_normal((4, 3)), RNG.standard_normal((3, 3))
X, XS, U = RNG.standard_normal(3), RNG.standard_normal((3, 5)), RNG.standard_normal(4)


def sum_vjp_difference(candidate):
    check_vjp(lambda x: x.sum(), candidate, XS)


def product_vjp_difference(candidate):
    check_vjp(lambda x: E @ x, lambda x, u: candidate(E, x, u), XS)


def quadratic_vjp_difference(candidate):
    check_vjp(lambda x: x @ E @ x, lambda x, u: candidate(E, x, u), X)


def paths_vjp_difference(candidate):
    check_vjp(lambda x: (W @ x) @ (C @ x), lambda x, u: candidate(W, C, x, u), X)


def broadcast_vjp_difference(candidate):
    check_vjp(lambda x: np.ones((4, 1)) * x, candidate, X)


def own_output_as_cotangent(candidate):
    check_close("VJP", candidate(W, X), np.einsum("ij,il,l->j", W, W, X), terms=np.abs(W.T @ np.abs(W)).sum())


def matrix_vjp_difference(candidate):
    check_vjp(lambda x: W @ x, lambda x, u: candidate(W, x, u), X)


def entrywise_vjp_difference(candidate):
    check_vjp(np.square, lambda x, u: candidate(2.0 * x, u), XS)


CALCULUS_CHECKS = {
    "sum-vjp-difference": sum_vjp_difference,
    "product-vjp-difference": product_vjp_difference,
    "quadratic-vjp-difference": quadratic_vjp_difference,
    "paths-vjp-difference": paths_vjp_difference,
    "broadcast-vjp-difference": broadcast_vjp_difference,
    "own-output-as-cotangent": own_output_as_cotangent,
    "matrix-vjp-difference": matrix_vjp_difference,
    "entrywise-vjp-difference": entrywise_vjp_difference,
}


def naive_calculus_inputs() -> dict[str, dict[str, tuple]]:
    """Return, for each function that a mistake stands for, inputs such as naive tests use."""
    one, both, ones = np.ones((1, 1)), E + E.T, np.ones((3, 5))
    number, us = np.array(0.7), RNG.standard_normal((3, 5))
    return {
        "u for each entry of x": {"sum-loss": (XS, np.array(1.0)), "one-entry": (X[:1], number)},
        "w.T @ u": {
            "sum-loss": (E, XS, ones),
            "symmetric-matrix": (both, XS, us),
            "one-entry": (2 * one, XS[:1], us[:1]),
        },
        "u * (w + w.T) @ x": {
            "sum-loss": (E, X, np.array(1.0)),
            "symmetric-matrix": (both, X, number),
            "one-entry": (2 * one, X[:1], number),
        },
        "u * (w.T @ (c @ x) + c.T @ (w @ x))": {
            "sum-loss": (W, C, X, np.array(1.0)),
            "one-entry": (2 * one, one, X[:1], number),
        },
        "u.sum(axis=0)": {"sum-loss": (X, np.ones((4, 3))), "one-row": (X, us[:1, :3])},
        "w.T @ (w @ x)": {"symmetric-matrix": (both, X), "one-entry": (2 * one, X[:1])},
        "w.T @ u for a vector u": {
            "sum-loss": (W, X, np.ones(4)),
            "one-row": (W[:1], X, U[:1]),
            "one-entry": (2 * one, X[:1], U[:1]),
        },
        "u * slope": {"sum-loss": (2 * XS, ones), "one-entry": (2 * XS[:1, :1], us[:1, :1])},
    }
