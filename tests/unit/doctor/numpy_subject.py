"""Attention in plain NumPy, right and wrong, as somebody has it in a file."""

import types

import numpy as np

spec = {"framework": "numpy", "dtypes": ["float32"], "causal": "both", "options": ["cross", "mask", "lse"]}


class Unsupported(Exception):
    """Told without the library."""


def forward(case):
    """Return the output, lse and weights."""
    s = case.scale * case.q @ np.swapaxes(case.k, -1, -2)
    allowed = np.ones(s.shape, dtype=bool) if case.mask is None else np.broadcast_to(case.mask, s.shape)
    if case.causal:
        allowed = allowed & (np.arange(case.M) <= np.arange(case.N)[:, None] + case.start)
    s = np.where(allowed, s, s.dtype.type(-np.inf))
    top = s.max(axis=-1, keepdims=True)
    e = np.exp(s - top)
    total = e.sum(axis=-1, keepdims=True)
    return {"o": e / total @ case.v, "lse": (np.log(total) + top)[..., 0], "p": e / total}


def backward(case, saved):
    """Return the gradients."""
    p = saved["p"]
    dp = case.do @ np.swapaxes(case.v, -1, -2)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    return {
        "dq": case.scale * ds @ case.k,
        "dk": case.scale * np.swapaxes(ds, -1, -2) @ case.q,
        "dv": np.swapaxes(p, -1, -2) @ case.do,
    }


def _changed(name, change):
    """Return the backward pass with one gradient changed."""

    def changed(case, saved):
        found = backward(case, saved)
        return {**found, name: change(case, found[name])}

    return changed


def _partly(case):
    """Do cases of one size alone."""
    if case.N != 1:
        raise Unsupported("one query only")
    return forward(case)


def _nothing(case):
    """Do no case."""
    raise Unsupported("this machine has none of it")


def _broken(case):
    """Need a module that is missing."""
    import attention_of_another_world  # noqa: F401


def _subject(forward=forward, backward=backward):
    """Return an implementation."""
    return types.SimpleNamespace(forward=forward, backward=backward, spec=spec)


class Remembering:
    """Keep the scale of the first call."""

    spec = spec
    scale = None

    def forward(self, case):
        """Return the output of the scale that was first."""
        self.scale = case.scale if self.scale is None else self.scale
        case.scale = self.scale
        return forward(case)

    def backward(self, case, saved):
        """Return the gradients."""
        return backward(case, saved)


healthy = _subject()
unscaled = _subject(backward=_changed("dk", lambda case, dk: dk / case.scale))
transposed = _subject(backward=_changed("dv", lambda case, dv: np.swapaxes(dv, 1, 2)))
none = _subject(backward=_changed("dq", lambda case, dq: None))
not_a_number = _subject(backward=_changed("dq", lambda case, dq: dq * np.nan))
raising = _subject(backward=_changed("dq", lambda case, dq: dq[:, 100]))
partly, nothing, broken = _subject(_partly), _subject(_nothing), _subject(_broken)
