"""The role {claim}`label`: a link from a sentence to the proof of its formula in the ledger."""

import re
from typing import Any

from docutils import nodes
from docutils.parsers.rst.states import Inliner
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

LABEL = re.compile(r"(eq|def|thm|bad|num)-[a-z0-9-]+")


def claim_role(
    name: str,
    rawtext: str,
    text: str,
    lineno: int,
    inliner: Inliner,
    options: dict[str, Any] | None = None,
    content: list[str] | None = None,
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """Link to `claim-<label>`, the anchor that the ledger defines; Sphinx warns when there is none."""
    label = text.strip()
    if LABEL.fullmatch(label) is None:
        message = inliner.reporter.error(
            f"expected the label of a claim, eq-, def-, thm-, bad- or num- and a name; got {label!r}",
            line=lineno,
        )
        return [inliner.problematic(rawtext, rawtext, message)], [message]
    reference = pending_xref(
        rawtext,
        nodes.inline(rawtext, label, classes=["xref", "claim-label"]),
        refdomain="std",
        reftype="ref",
        refexplicit=True,
        reftarget=f"claim-{label}",
        refdoc=inliner.document.settings.env.docname,
        refwarn=True,
        classes=["claim"],
    )
    reference.source, reference.line = inliner.document.current_source, lineno
    return [reference], []


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the role with Sphinx."""
    app.add_role("claim", claim_role)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
