"""Expands agents that are experts: a wing fills in templates, texts and skills.

It does so once, when a manifest is loaded. A run records the result, so no later change of a template reaches it.
"""

from __future__ import annotations

from teamwright.documents.nodes import ProblemReport
from teamwright.teams.manifests.declarations import Declarations
from teamwright.wings import absent_words, hooks


def expand_experts(declared: Declarations, report: ProblemReport) -> None:
    """Expand every expert of a manifest; does nothing, and imports nothing, if there is none."""
    experts = [one for one in declared.every("agent") if one.fields.has("expert")]
    if not experts:
        return
    expands = hooks("expand_agents")
    for expand in expands:
        expand(declared, report)
    if not expands:
        for one in experts:
            hint = f"experts need an optional part{absent_words()}"
            report.problem(one.fields.key_place("expert"), f"{one.words}: no templates are installed", hint)
