"""Cases, and the texts of implementations in files of their own, for the tests of how they are run."""

import numpy as np

from attngrad import reference
from attngrad.doctor import Case

NUMPY = """
import os
import sys
import time

import numpy as np

spec = {"framework": "numpy", "options": ["cross", "strides", "lse"]}
state = {"calls": 0}


class Unsupported(Exception):
    pass


def forward(case):
    s = case.scale * case.q @ case.k.swapaxes(-1, -2)
    top = s.max(axis=-1, keepdims=True)
    p = np.exp(s - top)
    total = p.sum(axis=-1, keepdims=True)
    return {"o": (p / total) @ case.v, "lse": (top + np.log(total))[..., 0], "p": p / total}


def backward(case, saved):
    p = saved["p"]
    dp = case.do @ case.v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    found = {"dq": case.scale * ds @ case.k, "dk": case.scale * ds.swapaxes(-1, -2) @ case.q,
             "dv": p.swapaxes(-1, -2) @ case.do}
    return globals()[case.name.replace("-", "_")](case, found)


def right(case, found):
    return found
"""


def array(random, *shape):
    """Return numbers that float32 and float64 hold alike."""
    return random.standard_normal(shape).astype(np.float32).astype(np.float64)


def case(name="right", *, B=2, H=2, H_kv=2, N=3, M=5, D=4, D_v=4, **options):
    """Return a case of some sizes."""
    random = np.random.default_rng(7)
    q, k, v, do = (array(random, *shape) for shape in ((B, H, N, D), (B, H_kv, M, D), (B, H_kv, M, D_v),
                                                        (B, H, N, D_v)))  # fmt: skip
    if options.get("strides") == "expanded":
        do[:] = do[..., :1]
    options = {"dtype": "float32", "scale": 0.4, **options}
    return Case(name, "a test", q=q, k=k, v=v, do=do, **options)


def exact(case):
    """Return every answer of a case by the reference."""
    saved = reference.attention(
        case.q, case.k, case.v, case.dense_bias(), scale=case.scale, mask=case.allowed(), causal=case.causal,
        query_start=case.query_start if case.causal else None, sink=case.sink, keep=case.keep,
        dropout=case.dropout, softcap=case.softcap, softcap_on=case.softcap_on,
    )  # fmt: skip
    found = reference.attention_vjp(saved, case.do, case.dlse)._asdict()
    return {"o": saved.o, "lse": saved.lse, **{name: x for name, x in found.items() if x is not None}}


def close(case, outcome, names=("o", "dq", "dk", "dv"), tolerance=2e-6):
    """Say whether the answers of some names are there and right."""
    want = exact(case)
    return all(np.abs(outcome.answers[name] - want[name]).max() <= tolerance for name in names)
