"""What is known of answers that no known mistake explains: a factor, a region, the cases that they are in."""

from collections.abc import Iterator

import numpy as np

from attngrad.doctor.case import Case
from attngrad.doctor.cases.sizes import names_in_all
from attngrad.doctor.naming.explaining import Evidence
from attngrad.mistakes.whole import right

AXES = {
    "o": "bhic", "lse": "bhi", "dq": "bhic", "dk": "bhjc", "dv": "bhjc", "dtable": "hr", "dsink": "h",
}  # fmt: skip
AXES_OF_BIAS = "bhij"
PART = 0.8  # of an axis: wrong entries at more of it are said to be all over


def what_is_known(found: list[Evidence], between: tuple[str, ...]) -> str:
    """Return sentences on wrong answers of an unknown cause, "" where nothing is wrong."""
    wrong = [e for e in found if e.wrong]
    names = [n for n in dict.fromkeys(n for e in wrong for n in e.got) if any(n in e.wrong for e in wrong)]
    if not names:
        return ""
    sentences = [f"Unknown: no known mistake explains all answers. Wrong: {', '.join(names)}."]
    sentences += _all_right(found, names)
    for name in names:
        sentences += _of_answer([e for e in wrong if name in e.wrong], name)
    sentences += _where(found)
    if between:
        sentences.append(f"Beside it, between calls: {', '.join(between)}.")
    return " ".join(sentences)


def _all_right(found: list[Evidence], names: list[str]) -> Iterator[str]:
    """Yield the answers that are right in all cases."""
    well = [n for n in dict.fromkeys(n for e in found for n in e.got) if n not in names]
    if well:
        yield f"Right in every case: {', '.join(well)}."


def _of_answer(wrong: list[Evidence], name: str) -> Iterator[str]:
    """Yield what is known of one answer in the cases in which it is wrong."""
    if any(not np.isfinite(e.got[name][np.isfinite(e.exact[name])]).all() for e in wrong):
        yield f"{name} holds NaN or infinity in {_cases(wrong)}."
        return
    factors = [(e, c) for e in wrong if (c := factor(e, name)) is not None]
    if len(factors) == len(wrong) and (told := _told_factor(factors, name)):
        yield told
        return
    parts = [(e, part) for e in wrong if (part := region(e, name))]
    if parts:
        e, part = parts[0]
        more = f", and in a part of it in {len(parts) - 1} more" if len(parts) > 1 else ""
        yield f"{name} is wrong only at {part} in {e.case.name}{more}."


def factor(e: Evidence, name: str) -> float | None:
    """Return the constant c for which an answer is c times the right one inside the band; None if none is."""
    exact = e.exact[name]
    finite = np.isfinite(exact) & np.isfinite(e.got[name])
    got, want = e.got[name][finite], exact[finite]
    bound = np.broadcast_to(e.bound[name], exact.shape)[finite]
    weight = np.where(bound > 0.0, 1.0 / np.where(bound > 0.0, bound, 1.0), 0.0)
    weight /= max(weight.max(initial=0.0), 1e-300)
    square = float((weight**2 * want**2).sum())
    if square == 0.0:
        return None
    c = float((weight**2 * want * got).sum()) / square
    return c if (np.abs(got - c * want) <= 2.0 * max(1.0, abs(c)) * bound).all() else None


def _told_factor(factors: list[tuple[Evidence, float]], name: str) -> str:
    """Return a sentence on a constant factor and all that it can be; "" for 1, or one number that is any."""
    if all(abs(c) < 1e-3 for _, c in factors):
        return f"{name} is zero in every case in which it is wrong."
    off = [resolution(e, name) for e, _ in factors]
    widths = [4.0 * max(width, 1e-9) for width in off]
    if all(abs(c - 1.0) <= width or f"{c:.4g}" == "1" for (_, c), width in zip(factors, widths, strict=True)):
        return ""
    known = names_in_all([(e.case, c, width) for (e, c), width in zip(factors, widths, strict=True)])
    e, c = factors[int(np.argmin(off))]
    widths = [4.0 * width * max(abs(x), abs(c)) for (_, x), width in zip(factors, off, strict=True)]
    same = all(abs(x - c) <= width for (_, x), width in zip(factors, widths, strict=True))
    if not known and (not same or len(factors) < 3) and max(e.exact[name].size for e, _ in factors) <= 8:
        return ""
    told = f"{c:.4g}" if same else f"{c:.4g} (in {e.case.name}; it changes with the case)"
    meant = f", which is {' or '.join(known)}" if known else ", which is no known factor"
    return f"{name} is {told} times the right one{meant}."


def resolution(e: Evidence, name: str) -> float:
    """Return how far a factor can be off by rounding, relative to one."""
    exact = np.abs(e.exact[name][np.isfinite(e.exact[name])])
    bound = np.broadcast_to(e.bound[name], e.exact[name].shape)[np.isfinite(e.exact[name])]
    largest = exact.max(initial=0.0)
    return float(bound[exact == largest].max(initial=0.0) / largest) if largest else 1.0


def region(e: Evidence, name: str) -> str:
    """Return where an answer is wrong if that is a part of it, such as "i >= 64"; "" if it is all over."""
    bound = np.broadcast_to(e.bound[name], e.exact[name].shape)
    finite = np.isfinite(e.exact[name])
    error = np.zeros(bound.shape)
    error[finite] = np.abs(e.got[name][finite] - e.exact[name][finite])
    bad, parts = error > bound, []
    letters = AXES.get(name, AXES_OF_BIAS[-bad.ndim :] if name == "dbias" else "r")[: bad.ndim]
    for axis, letter in enumerate(letters):
        at = np.flatnonzero(bad.any(axis=tuple(a for a in range(bad.ndim) if a != axis)))
        size = bad.shape[axis]
        if 0 < len(at) <= PART * size:
            parts.append(_places(letter, at, size))
    return ", ".join(part for part in parts if part)


def _places(letter: str, at: np.ndarray, size: int) -> str:
    """Return some indices of an axis in words, "" where they are scattered."""
    first, last = int(at[0]), int(at[-1])
    if first == last:
        return f"{letter} = {first}"
    if last - first + 1 != len(at):
        return ""
    if first == 0:
        return f"{letter} <= {last}"
    return f"{letter} >= {first}" if last == size - 1 else f"{letter} from {first} to {last}"


def _cases(found: list[Evidence], most: int = 3) -> str:
    """Return the names of some cases."""
    names = [e.case.name for e in found]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


TRAITS = {
    "causal masking": lambda case: case.causal,
    "no causal masking": lambda case: not case.causal,
    "N != M": lambda case: case.sizes["N"] != case.sizes["M"],
    "more keys than queries": lambda case: case.sizes["N"] < case.sizes["M"],
    "more queries than keys": lambda case: case.sizes["N"] > case.sizes["M"],
    "grouped heads": lambda case: case.sizes["H"] > case.sizes["H_kv"],
    "more than one head": lambda case: case.sizes["H"] > 1,
    "more than one batch": lambda case: case.sizes["B"] > 1,
    "values of other features than keys": lambda case: case.sizes["D_v"] != case.sizes["D"],
    "a mask": lambda case: case.mask is not None,
    "a row without a key": lambda case: not _no_empty_row(case),
    "a dense bias": lambda case: case.bias is not None,
    "a table that heads share": lambda case: case.table is not None and case.table.ndim == 2
    and case.table.shape[0] < case.sizes["H"],
    "dropout": lambda case: case.keep is not None,
    "a sink": lambda case: case.sink is not None,
    "a cotangent of lse": lambda case: case.dlse is not None,
    "a soft-cap": lambda case: case.softcap is not None,
    "packed sequences": lambda case: bool(case.lengths),
    "strides that are not contiguous": lambda case: bool(case.strides),
    "a cotangent of stride 0": lambda case: case.strides == "expanded",
    "large scores": lambda case: case.name.startswith(("saturated", "outlier", "probe-cap")),
    **{f"N or M no multiple of {n}": lambda case, n=n: bool(case.sizes["N"] % n or case.sizes["M"] % n)
       for n in (16, 32, 64, 128)},
    **{f"N no multiple of {n}": lambda case, n=n: bool(case.sizes["N"] % n) for n in (16, 32, 64, 128)},
    **{f"M no multiple of {n}": lambda case, n=n: bool(case.sizes["M"] % n) for n in (16, 32, 64, 128)},
    **{dtype: lambda case, dtype=dtype: case.dtype == dtype
       for dtype in ("float64", "float32", "float16", "bfloat16")},
}  # fmt: skip


def _no_empty_row(case: Case) -> bool:
    """Say whether every query has a key."""
    return bool(right(case).allowed.any(axis=-1).all())


def _where(found: list[Evidence]) -> Iterator[str]:
    """Yield what the wrong cases have in common that no right one has, else that not all right ones have."""
    sick, well = [e.case for e in found if e.wrong], [e.case for e in found if not e.wrong]
    if not well:
        yield "Wrong in every case." if len(sick) > 1 else ""
        return
    shared = [word for word, has in TRAITS.items() if all(has(case) for case in sick)]
    exactly = [word for word in shared if not any(TRAITS[word](case) for case in well)]
    if exactly:
        yield f"Wrong exactly in the cases with {' or, what is the same here, '.join(exactly[:3])}."
        return
    telling = [word for word in shared if not all(TRAITS[word](case) for case in well)]
    if telling and len(sick) > 1:
        yield f"Wrong in {len(sick)} of {len(found)} cases, all of them with {', '.join(telling[:4])}."
    else:
        yield f"Wrong in {len(sick)} of {len(found)} cases: {_cases([e for e in found if e.wrong])}."
