"""Checks `evaluate` of agents, teams and steps: the evaluator, the criteria, and that judge and author differ in model.

It reads declarations, since a manifest with other mistakes has no agents yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from pydantic import JsonValue, ValidationError

from teamwright.agents.evaluators import check_evaluator_name, evaluator_names
from teamwright.agents.json_schema import schema_fault
from teamwright.agents.review import same_model_text
from teamwright.documents.nodes import Fields, Items, Node, Place, ProblemReport, Scalar, place_at, plain, shown
from teamwright.errors import MissingExtra, UnknownName
from teamwright.strategies.plan.steps.step_options import EVALUATE, STEPS
from teamwright.teams.manifests.declarations import OPTIONS, Declaration, Declarations
from teamwright.teams.manifests.team_checks import check_reference
from teamwright.values.specs.evaluation import RUBRIC, Evaluate

SCRIPTED = "scripted:"


@dataclass(frozen=True, slots=True)
class DeclaredEvaluation:
    """An `evaluate` of a manifest: its node, who declares it, and the agents or teams whose work it evaluates."""

    node: Fields
    owner: Declaration
    words: str
    authors: tuple[str, ...]


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
    name = Evaluate(evaluator=str(written.value)).evaluator_name if written is not None else RUBRIC
    place = owner.fields.key_place("evaluate") if written is None else written.place
    try:
        check_evaluator_name(name)
    except MissingExtra as error:
        report.problem(place, f"{owner.words}: {error}")
    except UnknownName:
        hint = report.near(name, evaluator_names())
        report.problem(place, f"{owner.words}: there is no evaluator {shown(name)}", hint)


def judges_in(evaluate: Fields) -> Iterator[tuple[str, Place]]:
    """Yield the judges that an evaluation names, with their places."""
    if (judge := evaluate.text("judge")) is not None:
        yield str(judge.value), judge.place
    yield from evaluate.texts("judge")


def declared_evaluations(declared: Declarations) -> Iterator[DeclaredEvaluation]:
    """Yield every evaluation of agents, teams and steps."""
    for kind in ("agent", "team"):
        for owner in declared.every(kind):
            if isinstance(node := owner.fields.get(EVALUATE), Fields):
                yield DeclaredEvaluation(node, owner, owner.words, (owner.name,))
    for team in declared.every("team"):
        yield from step_evaluations(team)


def step_evaluations(team: Declaration) -> Iterator[DeclaredEvaluation]:
    """Yield the evaluations of the steps of a team's plan, and the one for all steps that name none."""
    options = team.fields.get(OPTIONS)
    if not isinstance(options, Fields):
        return
    members = tuple(name for name, _ in team.fields.texts("members"))
    if isinstance(node := options.get(EVALUATE), Fields):
        yield DeclaredEvaluation(node, team, team.words, members)
    steps = options.get(STEPS)
    for step in steps.items if isinstance(steps, Items) else ():
        node = step.get(EVALUATE) if isinstance(step, Fields) else None
        if isinstance(step, Fields) and isinstance(node, Fields):
            name = step.text("id")
            words = f"{team.words}: the step {str(name.value) if name else ''!r}"
            yield DeclaredEvaluation(node, team, words, _authors(step, members))


def _authors(step: Fields, members: tuple[str, ...]) -> tuple[str, ...]:
    """Return the members that may work on a step: the one that it names, or all."""
    agent = step.text("agent")
    if agent is not None:
        return (str(agent.value),)
    named = (step.text(field) for field in ("role", "id"))
    return next(((str(one.value),) for one in named if one is not None and str(one.value) in members), members)


def check_judges(declared: Declarations, report: ProblemReport, default_model: str | None) -> None:
    """Report judges that have the model of an author, and criteria that do not count at this risk."""
    for one in declared_evaluations(declared):
        try:
            evaluate = Evaluate.model_validate(plain(one.node))
        except ValidationError:
            continue  # reported by others
        for text in evaluate.warnings():
            report.warning(one.node.place, f"{one.words}: {text}")
        if not evaluate.asks_judges:
            continue
        for judge, place in judges_in(one.node):
            _check_models(one, judge, place, evaluate, declared, report, default_model)


def _check_models(
    one: DeclaredEvaluation,
    judge: str,
    place: Place,
    evaluate: Evaluate,
    declared: Declarations,
    report: ProblemReport,
    default_model: str | None,
) -> None:
    judging = declared_models(judge, declared, default_model)
    for author in one.authors:
        same = judging & declared_models(author, declared, default_model)
        if author == judge or not same:
            continue
        text = f"{one.words}: {same_model_text(judge, author, min(same))}"
        if evaluate.require_other_model:
            report.problem(place, text, "the evaluation requires another model; give the judge one")
        else:
            report.warning(place, text, "give the judge another model")


def declared_models(name: str, declared: Declarations, default_model: str | None) -> set[str]:
    """Return the models of an agent, or of all members of a team; none for functions and scripts."""
    found: set[str] = set()
    pending, seen = [name], set[str]()
    while pending:
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        if (team := declared.teams.get(one)) is not None:
            pending.extend(member for member, _ in team.fields.texts("members"))
        elif (agent := declared.agents.get(one)) is not None and (model := _model_of(agent, declared, default_model)):
            found.add(model)
    return found


def _model_of(agent: Declaration, declared: Declarations, default_model: str | None) -> str:
    """Return the identity of an agent's model, as `model_key` has it; empty if it has none."""
    if agent.fields.has("function"):
        return ""
    node: Node | None = agent.fields.get("model")
    name = str(node.value) if isinstance(node, Scalar) else default_model if node is None else None
    if name is not None and name in declared.models:
        node = declared.models[name].node
    if isinstance(node, Fields):
        named, server, url = node.text("model"), node.text("name"), node.text("url")
        found = str(named.value) if named else f"{server.value} at {url.value}" if server and url else ""
    else:
        found = str(node.value) if isinstance(node, Scalar) else ""
    return "" if found.startswith(SCRIPTED) else found


def check_criteria(node: Fields, words: str, report: ProblemReport) -> None:
    """Report criteria whose JSON Schema is invalid."""
    criteria = node.get("criteria")
    for item in criteria.items if isinstance(criteria, Items) else ():
        schema = item.get("output_schema") if isinstance(item, Fields) else None
        if isinstance(schema, Fields) and (fault := schema_fault(cast("dict[str, JsonValue]", plain(schema)))):
            report.problem(place_at(schema, fault.at), f"{words}: 'output_schema' is not a JSON Schema: {fault.text}")
