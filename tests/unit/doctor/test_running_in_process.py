"""Implementations in this process: what is found wrong beside the answers, and what it leaves as it was."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from attngrad.doctor import Spec, Unsupported, t5
from attngrad.doctor.running.runners import CannotRun, InProcess

from .run_subjects import NUMPY, case, close, exact

HELD = {name: getattr(torch, name) for name in ("bfloat16", "float16", "float32", "float64")}
LEFT = "entries hold fresh memory, never set, the first at"


class Hand:
    """Right attention by hand in torch; a case whose name is that of a method goes through it."""

    spec = Spec(options=("cross", "strides", "lse"))

    def __init__(self):
        """Keep a buffer for several calls."""
        self.total, self.calls = None, 0

    def forward(self, case):
        s = case.q @ case.k.mT * case.scale
        lse = s.logsumexp(dim=-1)
        return getattr(self, f"{case.name}_forward", lambda case, saved: saved)(
            case, {"o": torch.softmax(s, dim=-1) @ case.v, "lse": lse, "p": torch.softmax(s, dim=-1)}
        )

    def backward(self, case, saved):
        p = saved["p"]
        dp = case.do @ case.v.mT
        ds = p * (dp - (p * dp).sum(dim=-1, keepdim=True)) * case.scale
        found = {"dq": ds @ case.k, "dk": ds.mT @ case.q, "dv": p.mT @ case.do}
        return getattr(self, case.name, lambda case, found: found)(case, found)

    def buffers(self, case, found):
        return {name: case.out(name).copy_(x) for name, x in found.items()}

    def half_a_buffer(self, case, found):
        dq = case.out("dq")
        dq[:, :, :2] = found["dq"][:, :, :2]
        return {**found, "dq": dq}

    def half_an_empty(self, case, found):
        dk = torch.empty_like(case.k)
        dk[:, :, 1:] = found["dk"][:, :, 1:]
        return {**found, "dk": dk}

    def nan_computed(self, case, found):
        return {**found, "dq": found["dq"] * torch.nan}

    def behind(self, case, found):
        dq = case.out("dq").copy_(found["dq"])
        dq.as_strided((dq.numel() + 3,), (1,))[dq.numel() :] = 1.0
        return {**found, "dq": dq}

    def before(self, case, found):
        dq = case.out("dq").copy_(found["dq"])
        dq.as_strided((2,), (1,), dq.storage_offset() - 2).fill_(1.0)
        return {**found, "dq": dq}

    def changes_q(self, case, found):
        case.q[0, 0, 1, 2] += 1.0
        return found

    def changes_k_forward(self, case, saved):
        case.k.mul_(2.0)
        return saved

    def beside_v(self, case, found):
        case.v.as_strided((1,), (1,), case.v.storage_offset() - 1).fill_(1.0)
        return found

    def negative_zero(self, case, found):
        case.do[0, 0, 0, 0] = -0.0
        return found

    def typo(self, case, found):
        return {"d_q": found.pop("dq"), **found}

    def nothing(self, case, found):
        return None

    def a_tuple(self, case, found):
        return found["dq"], found["dk"], found["dv"]

    def a_list(self, case, found):
        return {**found, "dq": found["dq"].tolist()}

    def fewer_bits(self, case, found):
        return {**found, "dq": found["dq"].half()}

    def more_bits(self, case, found):
        return {**found, "dq": found["dq"].double()}

    def integers(self, case, found):
        return {**found, "dq": found["dq"].long()}

    def with_graph(self, case, found):
        return {**found, "dq": found["dq"].requires_grad_() * 1.0}

    def sparse(self, case, found):
        return {**found, "dq": found["dq"].to_sparse()}

    def as_numpy(self, case, found):
        return {**found, "dq": found["dq"].numpy()}

    def other_name_forward(self, case, saved):
        return {"out": saved.pop("o"), **saved}

    def no_dict_forward(self, case, saved):
        return saved["o"]

    def accumulates(self, case, found):
        self.total = found["dq"].clone() if self.total is None else self.total.add_(found["dq"])
        return {**found, "dq": self.total}

    def fails_later(self, case, found):
        self.calls += 1
        if self.calls > 1:
            raise RuntimeError("no second time")
        return found

    def refuses(self, case, found):
        raise Unsupported("of no use")

    def leaves(self, case, found):
        raise SystemExit(2)


def ran(name, spec=Hand.spec, **options):
    """Return a case of some name and what came of it."""
    one = case(name, **options)
    with InProcess(Hand()) as run:
        return one, run.run(one, spec)


@pytest.mark.parametrize("strides", ["", "transposed", "sliced", "expanded"])
@pytest.mark.parametrize("name", ["right", "buffers", "with_graph", "sparse", "as_numpy", "more_bits"])
def test_what_is_right_has_no_fault(name, strides):
    one, outcome = ran(name, strides=strides)
    assert (outcome.status, outcome.faults) == ("ok", ())
    assert close(one, outcome, ("o", "lse", "dq", "dk", "dv"))


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("half_a_buffer", f"unwritten: dq: 16 of 48 {LEFT} (0, 0, 2, 0)"),
        ("half_an_empty", f"unwritten: dk: 16 of 80 {LEFT} (0, 0, 0, 0)"),
        ("behind", "guard: dq: written up to 12 bytes behind the buffer"),
        ("before", "guard: dq: written up to 8 bytes before the buffer"),
        ("changes_q", "input-changed: q differs after backward, first at (0, 0, 1, 2)"),
        ("changes_k", "input-changed: k differs after forward, first at (0, 0, 0, 0)"),
        ("typo", "shape: d_q is no known answer, expected one of dq, dk, dv, dbias, dtable, dsink, dscale"),
        ("a_list", "shape: dq is a list, expected an array of torch"),
        ("fewer_bits", "shape: dq has type float16, expected float32"),
        ("integers", "shape: dq has type int64, expected float32"),
        ("other_name", "shape: o: expected it by this name from forward, got out, lse, p"),
    ],
)
def test_a_fault_beside_the_answers_is_told(name, fault):
    _, outcome = ran(name)
    assert (outcome.status, outcome.faults) == ("ok", (fault,))


def test_memory_beside_a_slice_is_watched():
    _, outcome = ran("beside_v", strides="sliced")
    told = "v differs after backward, first at (1, 1, 0, 15) of its whole memory"
    assert outcome.faults == (f"input-changed: {told}",)


def test_inputs_are_compared_bit_for_bit():
    one = case("negative_zero")
    one.do[0, 0, 0, 0] = 0.0
    with InProcess(Hand()) as run:
        outcome = run.run(one, Hand.spec)
    assert outcome.faults == ("input-changed: do differs after backward, first at (0, 0, 0, 0)",)
    assert not np.signbit(one.do[0, 0, 0, 0])


def test_nan_that_was_computed_is_not_called_unwritten():
    _, outcome = ran("nan_computed")
    assert outcome.faults == ()
    assert np.isnan(outcome.answers["dq"]).all()


@pytest.mark.parametrize(
    ("name", "status", "text"),
    [
        ("nothing", "error", "TypeError: backward: expected a dict of gradients, got None"),
        ("a_tuple", "error", "TypeError: backward: expected a dict of gradients, got tuple"),
        ("no_dict", "error", "TypeError: forward: expected a dict with o, got Tensor"),
        ("refuses", "unsupported", "of no use"),
        ("leaves", "error", "SystemExit: 2 (test_running_in_process.py line "),
    ],
)
def test_what_gives_no_answers_is_told(name, status, text):
    _, outcome = ran(name)
    assert outcome.status == status
    assert outcome.text.startswith(text)
    assert outcome.answers == {}


def test_runs_of_one_case_are_kept_apart():
    one, outcome = ran("accumulates", repeats=3)
    assert len(outcome.repeats) == 2
    for times, answers in enumerate([outcome.answers, *outcome.repeats], start=1):
        assert np.allclose(answers["dq"], times * exact(one)["dq"], atol=1e-6)
    _, outcome = ran("fails_later", repeats=3)
    assert outcome.status == "ok"
    assert outcome.repeats == ()
    assert len(outcome.faults) == 1
    assert outcome.faults[0].startswith("repeat: case, run 2: RuntimeError: no second time (")


@pytest.mark.parametrize("dtype", HELD)
def test_types_are_those_of_the_case(dtype):
    seen = {}

    def forward(case):
        seen.update({name: x.dtype for name, x in case.inputs().items()})
        seen.update({name: case.out(name).dtype for name in ("o", "dq", "lse", "dtable", "dscale", "dsink")})
        return {"o": case.out("o").fill_(0.0)}

    table, row = np.zeros((2, 3)), np.zeros((3, 5), dtype=np.int64)
    shared = {"bias_dtype": "float64", "table": table, "row": row}
    one = case(dtype=dtype, **shared, sink=np.zeros(2), mask=np.ones((3, 5), dtype=bool))
    with InProcess(SimpleNamespace(forward=forward, backward=lambda case, saved: {})) as run:
        outcome = run.run(one, Spec())
    assert (outcome.status, outcome.faults) == ("ok", ())
    assert {seen[name] for name in ("q", "k", "v", "do", "sink", "o", "dq", "dsink")} == {HELD[dtype]}
    assert seen["table"] == seen["dtable"] == torch.float64
    assert seen["lse"] == seen["dscale"] == (torch.float64 if dtype == "float64" else torch.float32)
    assert (seen["row"], seen["mask"]) == (torch.int64, torch.bool)


def test_lse_may_come_in_the_type_of_the_case():
    """A plain log-sum-exp of 16 bits is imprecise, which its values say."""
    _, outcome = ran("right", dtype="bfloat16")
    assert (outcome.status, outcome.faults) == ("ok", ())


def test_the_gradient_of_a_bias_may_have_the_type_of_the_case():
    """A kernel that writes it in 16 bits is imprecise, which its values say; below that the type is wrong."""

    def given(dtype):
        def backward(case, saved):
            return {"dbias": torch.zeros(1, 2, 3, 5, dtype=dtype)}

        return SimpleNamespace(forward=lambda case: {"o": None}, backward=backward)

    one = case(dtype="bfloat16", bias=np.zeros((1, 2, 3, 5)), bias_dtype="float32", wants=("dbias",))
    for dtype, fault in [
        (torch.bfloat16, ()),
        (torch.float32, ()),
        (torch.float16, ("shape: dbias has type float16, expected bfloat16",)),
    ]:
        with InProcess(given(dtype)) as run:
            assert run.run(one, Spec(dtypes=("bfloat16",))).faults == fault


def test_layouts_of_tokens_and_tables():
    spec = Spec(layout="bnhd", table="rh", map=t5(4, 8))
    seen = {}

    def forward(case):
        seen.update({name: tuple(x.shape) for name, x in case.inputs().items()})
        seen.update({name: tuple(case.out(name).shape) for name in ("o", "lse", "dk", "dtable")})
        return {"o": torch.einsum("bnhd->bnhd", case.q)}

    one = case(H=4, H_kv=2, table=np.zeros((4, 5)), row=np.zeros((3, 5), dtype=np.int64))
    with InProcess(SimpleNamespace(forward=forward, backward=lambda case, saved: {})) as run:
        outcome = run.run(one, spec)
    assert seen["q"] == seen["o"] == seen["do"] == (2, 3, 4, 4)
    assert seen["k"] == seen["dk"] == (2, 5, 2, 4)
    assert seen["table"] == seen["dtable"] == (5, 4)
    assert seen["lse"] == (2, 4, 3)
    assert np.array_equal(outcome.answers["o"], one.q)


def test_numpy_is_run_with_arrays_of_its_own():
    space = {"__name__": "subject"}
    exec(NUMPY, space)
    own = case(dtype="float64", scale=0.25)
    kept = {name: getattr(own, name).copy() for name in ("q", "k", "v", "do")}

    def spoil(case, found):
        for name in kept:
            getattr(case, name)[...] = 0.0
        return found

    space["right"] = spoil
    with InProcess(SimpleNamespace(**space)) as run:
        spec = run.describe().spec
        outcome = run.run(own, spec)
        kinds = {fault.partition(" differs")[0] for fault in outcome.faults}
        assert kinds == {f"input-changed: {name}" for name in kept}
        assert run.run(case(dtype="bfloat16"), spec).status == "ok"
    assert all(np.array_equal(getattr(own, name), x) for name, x in kept.items())


def test_a_specification_that_is_given_comes_first():
    given = Spec(layout="bnhd")
    with InProcess(Hand(), given) as run:
        assert run.describe().spec == given
    with InProcess(Hand()) as run:
        assert run.describe().spec == Hand.spec


def test_rows_of_an_own_map():
    def rows(N, M, query_start):
        return torch.zeros(N, M, dtype=torch.int64)

    with InProcess(Hand(), Spec(map=rows, map_rows=1)) as run:
        assert run.describe().spec.map is rows
        assert run.rows(2, 3, None).tolist() == [[0] * 3] * 2
    with (
        InProcess(Hand()) as run,
        pytest.raises(ValueError, match="expected a specification with a callable map"),
    ):
        run.rows(2, 3, None)


@pytest.mark.parametrize("subject", [3, SimpleNamespace(forward=len), np, "no_module_of_this_name:x"])
def test_what_is_no_implementation_is_refused(subject):
    with pytest.raises(CannotRun):
        InProcess(subject)


def test_a_class_is_made_without_arguments():
    with InProcess(Hand) as run:
        assert close(case(), run.run(case(), Hand.spec))

    class Needs(Hand):
        def __init__(self, heads):
            """Need what nobody gives."""

    with pytest.raises(CannotRun, match=r"Needs\(\): TypeError: .*'heads'"):
        InProcess(Needs)


def test_a_missing_device_is_not_tried():
    _, outcome = ran("right", Spec(device="no_such_device"))
    assert outcome.status == "unsupported"
    assert "no arrays could be made" in outcome.text
