"""Expands agents that are experts: the optional package `teamwright.experts` fills in templates, texts and skills.

It does so once, when a manifest is loaded. A run records the result, so no later change of a template reaches it.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Protocol, cast

from teamwright.documents.problems import ProblemReport
from teamwright.teams.manifests.declarations import Declarations

GROUP = "teamwright.experts"
NAME = "profiles"
NOT_INSTALLED = "experts are part of the optional package  teamwright.experts"


class ExpandExperts(Protocol):
    """Replaces the declarations of agents that have `expert` by complete ones, and reports every mistake in them."""

    def __call__(self, declared: Declarations, report: ProblemReport) -> None: ...


def expand_experts(declared: Declarations, report: ProblemReport) -> None:
    """Expand every expert of a manifest; does nothing, and imports nothing, if there is none."""
    experts = [one for one in declared.every("agent") if one.fields.has("expert")]
    if not experts:
        return
    expand = _find()
    if expand is not None:
        expand(declared, report)
        return
    for one in experts:
        report.problem(one.fields.key_place("expert"), f"{one.words}: no templates are installed", NOT_INSTALLED)


def _find() -> ExpandExperts | None:
    """The function of the optional package; `None` if it is not installed."""
    for point in entry_points(group=GROUP, name=NAME):
        try:
            return cast("ExpandExperts", point.load())
        except ImportError:
            continue
    return None
