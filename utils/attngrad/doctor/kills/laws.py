"""Checks that need no reference: laws that hold for every right attention."""

from dataclasses import replace

import numpy as np

from attngrad.doctor.case import Case
from attngrad.doctor.kills import cases
from attngrad.doctor.kills.record import Make, any_differ, check, differ
from attngrad.reference import expand_kv_heads


@check("a", "zero-sum", "the gradient of a table sums to 0 for each head")
def zero_sum(make: Make) -> bool:
    """Say whether some sum is not 0, whatever the lengths, and where a block of keys has a tail."""
    ran = (cases.tabled(), cases.tabled(shared=True), cases.tabled(N=5, M=19), cases.tabled(N=19, M=5))
    sums = [make()(case)["dtable"].sum(axis=-1) for case in ran]
    return any(differ(x, np.zeros(x.shape), size=1.0) for x in sums)


@check("b", "row-sums", "each row of the gradient of a bias (B, H, N, M) sums to 0")
def row_sums(make: Make) -> bool:
    """Say whether some row does not sum to 0."""
    rows = make()(cases.biased("bhnm"))["dbias"].sum(axis=-1)
    return differ(rows, np.zeros(rows.shape), size=1.0)


@check("c", "broadcast", "the gradient of what is shared is the sum of those of its copies")
def broadcast(make: Make) -> bool:
    """Say whether the gradient of what is shared differs from the sum over the copies."""
    for axes in ("1hnm", "b1nm", "11nm", "bh1m"):
        case = cases.biased(axes)
        copies = cases.kept(case, "copies", lambda case=case: _copied(case))
        one, full = make()(case)["dbias"], make()(copies)["dbias"]
        stretched = tuple(axis for axis, size in enumerate(one.shape) if size == 1)
        if differ(one, full.sum(axis=stretched, keepdims=True)):
            return True
    shared = cases.tabled(shared=True)
    copies = cases.kept(
        shared, "copies", lambda: replace(shared, table=np.repeat(shared.table, cases.H, axis=0))
    )
    return differ(make()(shared)["dtable"], make()(copies)["dtable"].sum(axis=0, keepdims=True))


def _copied(case: Case) -> Case:
    """Return the case with its bias copied to all pairs."""
    sizes = case.sizes
    shape = tuple(sizes[axis] for axis in "BHNM")
    return replace(case, bias=np.broadcast_to(case.bias, shape).copy())


@check("d", "sum-of-keys", "the gradients of the keys of a head sum to 0")
def sum_of_keys(make: Make) -> bool:
    """Say whether some sum over keys is not 0."""
    sums = make()(cases.plain())["dk"].sum(axis=2)
    return differ(sums, np.zeros(sums.shape), size=1.0)


@check("e", "balance", "q^T dq = dk^T k for each group of heads, and sum q dq = scale dscale")
def balance(make: Make) -> bool:
    """Say whether what flows to queries and to keys is out of balance."""
    case = cases.plain()
    got = make()(case)
    left = _of_groups(np.swapaxes(case.q, -1, -2) @ got["dq"])
    right = np.swapaxes(got["dk"], -1, -2) @ case.k
    return differ(left, right) or differ((case.q * got["dq"]).sum(), case.scale * got["dscale"], size=1.0)


@check("f", "shift", "a number added to all scores of a query changes lse alone, by it")
def shift(make: Make) -> bool:
    """Say whether a shift of a row is seen elsewhere."""
    case = cases.biased("bhnm")
    by = np.linspace(-1.0, 2.0, cases.N)
    moved = cases.kept(case, "shift", lambda: replace(case, bias=case.bias + by[:, None]))
    one, other = make()(case), make()(moved)
    return any_differ(other, one | {"lse": one["lse"] + by})


@check("g", "groups", "shared heads of keys act as their copies, and get their sum")
def groups(make: Make) -> bool:
    """Say whether grouped heads differ from copied ones."""
    case = cases.plain()
    keys, values = expand_kv_heads(case.k, cases.H), expand_kv_heads(case.v, cases.H)
    copied = cases.kept(case, "groups", lambda: replace(case, k=keys, v=values))
    one, full = make()(case), make()(copied)
    want = {name: full[name] for name in ("o", "lse", "dq")}
    return any_differ(one, want | {name: _of_groups(full[name]) for name in ("dk", "dv")})


def _of_groups(x: np.ndarray) -> np.ndarray:
    """Return the sum over the query heads of each group."""
    return x.reshape(x.shape[0], cases.H_KV, -1, *x.shape[2:]).sum(axis=2)


@check("h", "hidden-keys", "a key that is hidden changes nothing and gets gradient 0")
def hidden_keys(make: Make) -> bool:
    """Say whether what is hidden can be seen."""
    masked = cases.kept(cases.plain(), "masked", lambda: replace(cases.plain(), mask=cases.mask()))
    packed = cases.kept(cases.plain(), "packed", lambda: cases.tabled(N=7, M=7, lengths=(3, 4)))
    for case, keys, queries in ((masked, slice(2, 3), slice(None)), (packed, slice(3, 7), slice(0, 3))):
        moved = cases.kept(case, "moved", lambda case=case, keys=keys: _moved(case, keys))
        if differ(make()(case)["o"][:, :, queries], make()(moved)["o"][:, :, queries]):
            return True
    got = make()(masked)
    return any(np.abs(got[name][:, :, 2]).max() > 0.0 for name in ("dk", "dv"))


def _moved(case: Case, keys: slice) -> Case:
    """Return the case with other keys and values at some places."""
    k, v = case.k.copy(), case.v.copy()
    k[:, :, keys] += 1.5
    v[:, :, keys] -= 2.5
    return replace(case, k=k, v=v)


@check("i", "decode", "a causal pass gives each query what it gets step by step")
def decode(make: Make) -> bool:
    """Say whether some step differs from its row of the whole pass."""
    whole = cases.tabled(N=6, M=6, causal=True)
    subject = make()
    o = subject(whole)["o"]
    for t in (0, 2, 5):
        step = cases.kept(whole, f"step {t}", lambda t=t: _step(whole, t))
        if differ(subject(step)["o"][:, :, 0], o[:, :, t]):
            return True
    return False


def _step(case: Case, t: int) -> Case:
    """Return the case of query t alone with the keys up to it."""
    now, past = slice(t, t + 1), slice(0, t + 1)
    return replace(
        case, q=case.q[:, :, now], do=case.do[:, :, now], k=case.k[:, :, past], v=case.v[:, :, past],
        row=case.row[now, past],
    )  # fmt: skip


@check("j", "again", "equal inputs give equal bits, whatever came before, and stay")
def again(make: Make) -> bool:
    """Say whether a second call, or another one in between, changes an answer or an input."""
    first, second = cases.tabled(), cases.tabled(seed=1)
    own = replace(first, q=first.q.copy())  # shared cases are read-only
    subject = make()
    one = {name: x.copy() for name, x in subject(own).items()}
    changed = not np.array_equal(own.q, first.q)
    other, twice = subject(second), subject(first)
    return changed or not (_equal(one, twice) and _equal(other, make()(second)))


def _equal(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    """Say whether all answers have the same bits."""
    return all(np.array_equal(x, other[name], equal_nan=True) for name, x in one.items())


@check("k", "probe", "with values V = I the output is the softmax of the scores")
def probe(make: Make) -> bool:
    """Say whether the output is not the weights."""
    for case in cases.kept(cases.plain(), "probes", _probes):
        products = case.q @ np.swapaxes(expand_kv_heads(case.k, cases.H), -1, -2)
        s = case.scale * products + case.bias * (case.scale if case.bias_inside_scale else 1.0)
        e = np.exp(s - s.max(axis=-1, keepdims=True))
        if differ(make()(case)["o"], e / e.sum(axis=-1, keepdims=True)):
            return True
    return False


def _probes() -> tuple[Case, ...]:
    """Return cases with V = I: a bias out of the scale, one in it, and one of float32 beside float16."""
    eye = np.broadcast_to(np.eye(cases.M), (cases.B, cases.H_KV, cases.M, cases.M)).copy()
    case = replace(cases.biased(D_v=cases.M), v=eye)
    single = case.bias.astype(np.float32).astype(np.float64)
    narrow = replace(case, bias=single, dtype="float16", bias_dtype="float32")
    return case, replace(case, bias_inside_scale=True), narrow


@check("l", "values", "with V = dO = I the gradient of the values is o^T")
def values(make: Make) -> bool:
    """Say whether dv is not the output transposed."""
    case = cases.kept(cases.plain(), "values", _identity)
    got = make()(case)
    return differ(got["dv"], np.swapaxes(got["o"], -1, -2))


def _identity() -> Case:
    """Return a case with as many queries as keys, V = I and dO = I, with dropout."""
    n = cases.M
    case = cases.drawn(sizes={"N": n, "M": n, "D_v": n, "H_kv": cases.H}, dropout=0.3)
    eye = np.broadcast_to(np.eye(n), (cases.B, cases.H, n, n)).copy()
    return replace(case, v=eye, do=eye)


@check("m", "empty-rows", "a query without a key gives o = 0, dq = 0 and no NaN")
def empty_rows(make: Make) -> bool:
    """Say whether a row without a key is not 0."""
    case = cases.kept(cases.plain(), "empty", lambda: replace(cases.plain(), mask=cases.mask(empty=True)))
    got = make()(case)
    if not all(np.isfinite(x).all() for name, x in got.items() if name != "lse"):
        return True
    return any(np.abs(got[name][:, :, 1]).max() > 0.0 for name in ("o", "dq"))
