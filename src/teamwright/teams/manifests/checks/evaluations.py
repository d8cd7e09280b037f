"""Checks `evaluate` of agents and teams: its evaluator, its judges and its criteria."""

from __future__ import annotations

from pydantic import ValidationError

from teamwright.agents.evaluator_registry import evaluator_names
from teamwright.documents.nodes import Fields, ProblemReport, place_at, plain, shown
from teamwright.teams.manifests.checks.judges import check_criteria, judges_in
from teamwright.teams.manifests.checks.teams import check_reference
from teamwright.teams.manifests.declarations import Declaration, Declarations
from teamwright.values.specs.evaluation import Evaluate

NOT_INSTALLED = "no evaluator is installed: evaluation is part of the optional package  teamwright.experts"


def check_evaluation(owner: Declaration, declared: Declarations, report: ProblemReport) -> None:
    """Report everything in a declared evaluation that its schema does not find."""
    node = owner.fields.get("evaluate")
    if not isinstance(node, Fields):
        return
    _check_evaluator(node, owner, report)
    for judge, place in judges_in(node):
        if judge == owner.name:
            report.problem(place, f"{owner.words} can't judge its own work", "name another agent")
        else:
            check_reference(judge, place, "", owner.words, declared, report)
    check_criteria(node, owner.words, report)
    try:
        evaluate = Evaluate.model_validate(plain(node))
    except ValidationError as error:
        for one in error.errors(include_url=False):
            if one["type"] == "value_error":  # the schema of the manifest finds the others
                text = one["msg"].removeprefix("Value error, ")
                report.problem(place_at(node, one["loc"]), f"{owner.words}: {text}")
        return
    for text in evaluate.problems():
        report.problem(owner.fields.key_place("evaluate"), f"{owner.words}: {text}")


def _check_evaluator(node: Fields, owner: Declaration, report: ProblemReport) -> None:
    written = node.text("evaluator")
    name = "rubric" if written is None else str(written.value)
    if ":" in name or name in evaluator_names():
        return
    hint = report.near(name, evaluator_names()) if evaluator_names() else NOT_INSTALLED
    place = owner.fields.key_place("evaluate") if written is None else written.place
    report.problem(place, f"{owner.words}: there is no evaluator {shown(name)}", hint)
