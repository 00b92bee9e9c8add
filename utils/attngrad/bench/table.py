"""Runs as text: ratios first, then times and what follows from them, and where the rows come from."""

import math
from collections.abc import Callable, Iterator

from attngrad.bench.measuring import code_of
from attngrad.bench.results import Row, Run
from attngrad.bench.spec import Contender, Operator
from attngrad.bench.timing import Spread

NOT_MEASURED = "not measured"
COLUMNS = ("ratio", "quartiles", "time", "GFLOP/s", "GB/s", "MiB")
WIDTHS = (5, 11, 8, 8, 6, 7)
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
DETAILS: dict[str, Callable[[Row], str]] = {
    "limit": lambda row: "" if row.limit is None else f"{row.limit:.2f}",
    "pages": lambda row: "" if row.pages is None else str(row.pages),
    "error": lambda row: "" if row.error is None else f"{row.error:.1e}",
    "bits": lambda row: "" if row.repeats is None else ("equal" if row.repeats else "other"),
}


def run_lines(operator: Operator, run: Run, said: str) -> Iterator[str]:
    """Yield the table of one run: its sizes, a row for each contender, and where it comes from.

    A row is marked stale where its code, that of the first row, or the case is not what it was.
    """
    case = {one.name: one for one in operator.cases_on(run.device)}.get(run.case)
    current = [one.name for one in operator.on(run.device, case)]
    rows = {row.contender: row for row in run.rows}
    stale = stale_rows(operator, run)
    tuned = ", tuned allocator" if case is not None and case.tuned else ""
    yield f"{sizes_of(run)}, {run.dtype}{tuned}"
    yield f"{'':<{_width(operator)}}" + "".join(f"{c:>{w}}" for c, w in zip(COLUMNS, WIDTHS, strict=True))
    for name in [*current, *(name for name in rows if name not in current)]:
        row = rows.get(name, Row(name, ""))
        cells = _cells(run, row)
        notes = [note for note in (row.note, "stale" if name in stale else "") if note]
        yield f"{name:<{_width(operator)}}{cells}" + "".join(f"  {note}" for note in notes)
    yield from _detail_lines(operator, run)
    yield from facts(run, said)


def _detail_lines(operator: Operator, run: Run) -> Iterator[str]:
    """Yield a second table with what else was measured, or nothing, and the shares of parts below it."""
    rows = [row for row in run.rows if any(value(row) for value in DETAILS.values())]
    shown = [name for name, value in DETAILS.items() if any(map(value, rows))]
    if shown:
        yield ""
        yield f"{'':<{_width(operator)}}" + "".join(f"{name:>9}" for name in shown)
    for row in rows:
        cells = (DETAILS[name](row) or "-" for name in shown)
        yield f"{row.contender:<{_width(operator)}}" + "".join(f"{cell:>9}" for cell in cells)
    whole = {one.name: one.part_of for one in operator.on(run.device) if one.part_of}
    less = [
        f"{row.contender} takes {percent(row.rest)} less than {whole[row.contender]}"
        for row in run.rows
        if row.rest is not None and row.contender in whole
    ]
    yield from ["", *less] if less else []
    yield from [""] if shown or less else []


def percent(share: Spread) -> str:
    """Return a share with its quartiles, in percent.

    >>> percent(Spread(-0.0001, 0.025, 0.056))
    '2.5 % (0.0 to 5.6)'
    """
    low, median, high = (round(100.0 * x, 1) + 0.0 for x in (share.low, share.median, share.high))
    return f"{median:.1f} % ({low:.1f} to {high:.1f})"


def unmeasured_lines(contenders: tuple[Contender, ...]) -> Iterator[str]:
    """Yield a row for each contender of an operator of which nothing is recorded."""
    width = max(len(one.name) for one in contenders) + 2
    yield from (f"{one.name:<{width}}{NOT_MEASURED}" for one in contenders)


def stale_rows(operator: Operator, run: Run) -> set[str]:
    """Return the contenders whose measured rows do not hold for the code and the case that are here now."""
    measured = {row.contender: row.fingerprint for row in run.rows if row.time is not None}
    case = {one.name: one for one in operator.cases_on(run.device)}.get(run.case)
    if case is None or (dict(case.sizes), case.dtype) != (dict(run.sizes), run.dtype):
        return set(measured)
    current = {one.name: code_of(operator, one, run.device) for one in operator.on(run.device, case)}
    changed = {name for name, code in measured.items() if current.get(name) != code}
    # All ratios are to the first row.
    return set(measured) if run.rows[0].contender in changed else changed


def sizes_of(run: Run) -> str:
    """Return the sizes of a run as text."""
    return " ".join(f"{letter}={size}" for letter, size in run.sizes.items())


def facts(run: Run, said: str) -> Iterator[str]:
    """Yield where a run comes from: when and on what, and with which releases."""
    of = run.provenance
    threads = f"{of['threads']} thread{'s' if of['threads'] != 1 else ''}"
    flushed = ", cache flushed" if of["flush"] else ""
    yield f"{said} {of['date']}, {of['device']}, {threads}, {of['rounds']} rounds{flushed}"
    yield f"Python {of['python']}, NumPy {of['numpy']}, torch {of['torch']}, {of['system']}"


def _width(operator: Operator) -> int:
    """Return the width of the column of names."""
    return max(len(one.name) for one in operator.contenders) + 1


def _cells(run: Run, row: Row) -> str:
    """Return the numbers of a row, or that there are none."""
    if row.time is None or row.ratio is None:
        return f" {NOT_MEASURED}"
    seconds = row.time.median
    texts = (
        _ratio(row.ratio.median),
        f"{_ratio(row.ratio.low)}-{_ratio(row.ratio.high)}",
        format_time(seconds),
        three_digits(run.flops / seconds * 1e-9),
        three_digits(run.bytes / seconds * 1e-9)[:5],
        "-" if row.memory is None else f"{row.memory / 2**20:.1f}",
    )
    return "".join(f"{text:>{width}}" for text, width in zip(texts, WIDTHS, strict=True))


def _ratio(value: float) -> str:
    """Return a ratio with two digits behind the point, or three in all."""
    return f"{value:.2f}" if value < 9.995 else three_digits(value)


def format_time(seconds: float) -> str:
    """Return a time with three digits and a unit.

    >>> format_time(0.01234)
    '12.3 ms'
    """
    size, unit = next(((size, unit) for size, unit in UNITS if seconds >= size), UNITS[-1])
    return f"{three_digits(seconds / size)} {unit}"


def three_digits(value: float) -> str:
    """Return a positive number with three digits, or with all those before the point.

    >>> three_digits(0.0123), three_digits(45.67), three_digits(1234.5)
    ('0.0123', '45.7', '1234')
    """
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"
