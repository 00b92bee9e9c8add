"""What a forward pass computes: with values that are the identity, its output is the weights."""

from collections.abc import Iterator, Sequence

import numpy as np

from attngrad.doctor.case import Case
from attngrad.doctor.naming.fitting import cap_of, residue
from attngrad.doctor.naming.showing import SURE, Shown, Told, coefficients, number, sums
from attngrad.doctor.outcome import Finding, Outcome
from attngrad.doctor.spec import Spec
from attngrad.mistakes.whole import right
from attngrad.offsets import causal_mask


def probe(
    tried: Sequence[tuple[Case, Outcome, tuple[Finding, ...]]], spec: Spec
) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """Return sentences on what the forward pass computes, and a finding for each that contradicts the claim.

    It reads the cases whose names begin with "probe-". With V = I the output is the weights: their logarithms
    are fitted, row by row, by the products q.k and the bias; zeros under causal masking show the alignment;
    large scores show a soft-cap. With V = dO = I, dv is the transpose of the output. What is about an answer
    that differs by a lack of precision, or not at all, contradicts nothing.
    """
    told: list[Told] = []
    for name, ask in PROBES.items():
        for case, outcome, findings in tried:
            if case.name.startswith(name) and _usable(case, outcome):
                wrong = {finding.what for finding in findings if finding.kind in ("wrong", "nan")}
                said = ask(Shown(case, outcome.answers))
                told += [(text, found) for text, found in said if found is None or found.what in wrong]
    return tuple(text for text, _ in told), tuple(finding for _, finding in told if finding is not None)


def _usable(case: Case, outcome: Outcome) -> bool:
    """Say whether a probe gave weights to look at."""
    o = outcome.answers.get("o") if outcome.status == "ok" else None
    return o is not None and o.shape == right(case).o.shape and bool(np.isfinite(o).all())


def _weights(shown: Shown) -> Iterator[Told]:
    """Yield what the weights say of the sums of rows, the scale and the bias."""
    yield from sums(shown)
    yield from coefficients(shown)


def _causal(shown: Shown) -> Iterator[Told]:
    """Yield where the zeros of the weights put the first query."""
    N, M = shown.case.sizes["N"], shown.case.sizes["M"]
    start = shown.right.start
    visible = (np.abs(shown.o) > 2.0 * shown.bound()).reshape(-1, N, M)

    def stands_at(position: int) -> bool:
        return bool((visible == causal_mask(N, M, position)).all())

    if stands_at(start):
        yield f"causal: query 0 stands at position {start}, {_called(start, N, M)}, as declared", None
        return
    others = dict.fromkeys((0, M - N, start - 1, start + 1))
    found = next((position for position in others if stands_at(position)), None)
    if found is not None:
        text = f"causal: query 0 stands at position {found}, {_called(found, N, M)} (declared: {start})"
        yield shown.contradiction(text, float(found), float(start), 0.0)
    elif visible.all():
        yield shown.contradiction("causal: queries attend to later keys", float(M), float(start + 1), 0.0)
    else:
        text = "causal: the zeros of the weights are those of no position of query 0"
        share = float(causal_mask(N, M, start).mean())
        yield shown.contradiction(text, float(visible.mean()), share, 0.0)


def _called(position: int, N: int, M: int) -> str:
    """Return how a position of query 0 is called."""
    if N == M and position == 0:
        return "the diagonal"
    return {0: "top-left", M - N: "bottom-right"}.get(position, "neither top-left nor bottom-right")


def _cap(shown: Shown) -> Iterator[Told]:
    """Yield the soft-cap that large scores show; nothing where the scores are others altogether."""
    case, pipeline, bound = shown.case, shown.right, shown.bound()
    o = np.where(pipeline.allowed, shown.o, 0.0)
    x = pipeline.scale * pipeline.qk
    bias = pipeline.bias_factor * shown.bias()
    declared = "none" if case.softcap is None else f"{number(case.softcap)} on the {case.softcap_on}"
    if residue(o, bound, pipeline.s) <= SURE:
        yield f"soft-cap: {declared}{', ' if case.softcap is None else ' '}as declared", None
        return
    if case.softcap is not None and residue(o, bound, x + bias) <= SURE:
        yield shown.contradiction(f"soft-cap: none (declared: {declared})", 0.0, case.softcap, 0.0)
        return
    for where, capped, beside in (("scores", x + bias, 0.0), ("product", x, bias)):
        c, left = cap_of(o, bound, capped, beside)
        if left <= SURE:
            text = f"soft-cap: {number(c)} on the {where} (declared: {declared})"
            yield shown.contradiction(text, c, case.softcap or 0.0, 0.0)
            return


def _values(shown: Shown) -> Iterator[Told]:
    """Yield whether dv is the transpose of the output where values and cotangents are the identity."""
    want, dv = np.swapaxes(shown.o, -1, -2), shown.answers.get("dv")
    if dv is None or dv.shape != want.shape or not np.isfinite(dv).all():
        return
    grown = max(1.0, float(np.abs(want).max()) / max(float(np.abs(shown.right.o).max()), 1e-300))
    off = 2.0 * grown * (shown.bound("dv") + np.swapaxes(shown.bound(), -1, -2))
    error = np.abs(dv - want)
    if (error <= off).all():
        yield "dv is the transpose of the output where V = dO = I, as it must be", None
        return
    at = tuple(int(n) for n in np.unravel_index(int((error - off).argmax()), error.shape))
    text = "dv is not the transpose of the output, though V = dO = I"
    yield shown.contradiction(text, float(dv[at]), float(want[at]), float(off[at]), "dv", at)


PROBES = {"probe-weights": _weights, "probe-causal": _causal, "probe-cap": _cap, "probe-values": _values}
