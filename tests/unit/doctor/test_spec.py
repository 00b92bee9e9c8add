"""What an implementation claims: every field is checked, and a text tells all of it."""

import json

import pytest

from attngrad.doctor import Spec, alibi, clip, offset, t5, window
from attngrad.doctor.spec import MAPS, OPTIONS, no_rows
from attngrad.notation import DtypeError, RangeError


def own_map(N, M, query_start):
    raise NotImplementedError


SPECS = [
    Spec(),
    Spec(map=t5(16, 64, bidirectional=False), causal="always", table="rh"),
    Spec(map=offset(9), dtypes=["float64", "bfloat16"], deterministic=True),
    Spec(map=clip(4), bias_dtype="float32"),
    Spec(map=window(2, 3, 4), layout="bnhd"),
    Spec(map=alibi(3, learned=True)),
    Spec(bias=("1hnm", "nm"), head_dims=(32, 64), length_multiple=16, scale=1, options=tuple(OPTIONS)),
    Spec(framework="numpy", alignment="top-left", causal="both", bias_inside_scale=True),
]


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_a_text_tells_all_of_a_specification(spec):
    assert Spec.from_json(spec.to_json()) == spec


def test_every_kind_of_map_is_told():
    told = {json.loads(spec.to_json()).get("map", {}).get("kind") for spec in SPECS}
    assert told >= set(MAPS) - {"BeitMap"}


def test_a_map_of_the_owners_own_is_told_by_its_rows():
    spec = Spec(map=own_map, map_rows=7)
    read = Spec.from_json(spec.to_json())
    assert (read.R, read.map) == (7, no_rows)
    assert Spec.from_json(spec.to_json(), own_map) == spec
    with pytest.raises(RangeError, match="not loaded here"):
        read.map(2, 2, None)


def test_the_rows_of_a_table():
    rows = [spec.R for spec in SPECS]
    assert rows == [None, 16, 17, 9, 3 * 5 * 7, None, None, None]


@pytest.mark.parametrize(
    ("fields", "error", "told"),
    [
        ({"framework": "jax"}, RangeError, "framework: expected one of 'torch', 'numpy', got 'jax'"),
        ({"device": 0}, DtypeError, "device: expected a name"),
        ({"dtypes": "float32"}, DtypeError, "dtypes: expected a sequence of words"),
        ({"dtypes": ("fp32",)}, RangeError, "dtypes: expected one of 'float64'"),
        ({"dtypes": ()}, RangeError, "dtypes: expected at least one"),
        ({"head_dims": ()}, RangeError, "head_dims: expected at least one"),
        ({"head_dims": (0,)}, RangeError, "head_dims: expected an integer of at least 1, got 0"),
        ({"length_multiple": 0}, RangeError, "length_multiple: expected an integer of at least 1"),
        ({"layout": "bhdn"}, RangeError, "layout: expected one of 'bhnd', 'bnhd'"),
        ({"table": "hn"}, RangeError, "table: expected one of 'hr', 'rh'"),
        ({"bias": ("hmn",)}, RangeError, "bias: expected one of 'bhnm'"),
        ({"bias_dtype": "float8"}, RangeError, "bias_dtype: expected one of 'same'"),
        ({"bias_inside_scale": 1}, DtypeError, "bias_inside_scale: expected True or False"),
        ({"causal": True}, RangeError, "causal: expected one of 'never'"),
        ({"alignment": "left"}, RangeError, "alignment: expected one of"),
        ({"scale": "none"}, RangeError, "scale: expected one of 'argument', 'default'"),
        ({"scale": float("nan")}, RangeError, "scale: expected a finite number"),
        ({"options": ("dropuot",)}, RangeError, "options: expected one of 'cross'"),
        ({"deterministic": None}, DtypeError, "deterministic: expected True or False"),
        ({"map": 3}, DtypeError, "map: expected t5"),
        ({"map": own_map}, DtypeError, "map_rows: expected an integer"),
        ({"map": t5(), "map_rows": 32}, RangeError, "map_rows: expected None unless the map is a callable"),
        ({"map_rows": 32}, RangeError, "map_rows: expected None unless"),
        ({"map": t5(), "bias": ("nm",)}, RangeError, "bias: expected none beside a map"),
    ],
)
def test_bad_input_is_named(fields, error, told):
    with pytest.raises(error, match=told.replace("(", r"\(").split(", got")[0]):
        Spec(**fields)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", r"spec: expected the text that Spec\.to_json gives"),
        ("[1]", r"spec: expected the text that Spec\.to_json gives"),
        ("{", r"spec: expected the text that Spec\.to_json gives"),
        ('{"layuot": "bhnd"}', "spec: expected one of 'framework', .*, got 'layuot'"),
        ('{"layout": "bhdn"}', "layout: expected one of"),
        ('{"map": "t5"}', "map: expected one of 'OffsetMap', .*, got 't5'"),
        ('{"map": {"kind": "T5Map", "n": 3}}', "map: expected the arguments of T5Map, got {'n': 3}"),
        ('{"map": {"kind": "WindowMap"}}', "map: expected the arguments of WindowMap"),
    ],
)
def test_another_text_is_refused(text, told):
    with pytest.raises(RangeError, match=told):
        Spec.from_json(text)
