"""The claims of the book, one module a chapter."""

from __future__ import annotations

from importlib import import_module

from ..claim import Chapter

PAGES = (
    "01_index_calculus",
    "02_softmax_jacobian",
    "03_attention_backward",
    "04_bias_gradient",
    "05_shared_tables",
    "06_repairing_a_post",
    "10_checking_gradients",
    "14_recomputation",
    "15_fused_table_gradient",
    "16_benchmarks",
)


def chapter(page: str) -> Chapter:
    """Return the claims of one page.

    Raises
    ------
    KeyError
        When the page has no ledger; the pages that have one are named.
    """
    if page not in PAGES:
        raise KeyError(f"no ledger for {page!r}; there is one for {', '.join(PAGES)}")
    return import_module(f"{__name__}.chapter_{page}").CHAPTER


def chapters() -> list[Chapter]:
    """Return the claims of every page, in the book's order."""
    return [chapter(page) for page in PAGES]
