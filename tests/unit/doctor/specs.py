"""Specifications that between them claim everything."""

from attngrad.doctor import Spec, alibi, clip, offset, t5, window
from attngrad.doctor.spec import BIASES, OPTIONS

ALL = tuple(OPTIONS)

SPECS = {
    "plain": Spec(),
    "t5": Spec(map=t5(32, 128), causal="both", options=ALL),
    "biases": Spec(bias=BIASES, causal="both", options=ALL, bias_dtype="float32", dtypes=("float64",)),
    "alibi": Spec(map=alibi(6, learned=True), causal="always", alignment="top-left", options=ALL),
    "frozen": Spec(map=alibi(8), causal="always", scale="default"),
    "window": Spec(map=window(3, 5), table="rh", options=("mask", "dropout", "dscale"), layout="bnhd"),
    "blocks": Spec(map=clip(4), length_multiple=32, head_dims=(64, 128), causal="both", scale="default"),
    "short": Spec(map=offset(9), causal="both", options=("cross", "sink", "dlse", "lse")),
    "inside": Spec(bias=("1hnm",), bias_inside_scale=True, scale=0.3, options=ALL, dtypes=("float16",)),
    "one-way": Spec(map=t5(8, 20, False), causal="always", options=ALL, dtypes=("bfloat16", "float64")),
    "tight": Spec(map=window(4, 4), head_dims=(16,), causal="both", options=ALL),
    "bare": Spec(options=(), dtypes=("float64", "bfloat16")),
}
