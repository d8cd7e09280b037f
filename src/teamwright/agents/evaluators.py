"""Evaluators: their contract, how they are found, and the check that their judges are independent of the authors.

An evaluator is an agent: it is asked with the work as its task, and replies with an `EvaluationVerdict` as data. So its
checks are effects, its judges are asked through its context, and its verdict is recorded like every reply. It is found
by name among entry points of `teamwright.evaluators`, or by its import path; the core has none of its own. The judge
of the `experts` wing, with its prompt, is in `experts/judge.py`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Protocol, cast

import msgspec

from teamwright.agents.agent import Agent, Context, agent_spec_of, declaration_of, judges_of
from teamwright.agents.functions.imports import can_load_code, load_function
from teamwright.agents.json_schema import schema_fault
from teamwright.errors import InvalidOutput, InvalidRequest, ManifestError, Problem, UnknownName, UsageError
from teamwright.values.specs.evaluation import Criterion, Evaluate
from teamwright.values.specs.models import model_key
from teamwright.values.turns.turn import EvaluationVerdict, Failure, Reply, Turn
from teamwright.values.value import JsonValue
from teamwright.wings import Registered, entry_points_of

EVALUATOR = "evaluator"
"""The kind of an agent that evaluates."""
GROUP = "teamwright.evaluators"
OWN_PACKAGE = "teamwright."


class Evaluator(Agent):
    """An agent that judges work. Its turn has the work as the task, and the author's task as the only message before.

    `declaration` is what a manifest says of it, and `judges` are the agents that it asks.
    """

    declaration: Evaluate
    judges: tuple[Agent, ...] = ()


class EvaluatorClass(Protocol):
    """The class of an evaluator, which the entry point or import path of its name leads to."""

    def __call__(self, declaration: Evaluate, *, judge: Sequence[Agent] = ()) -> Evaluator:
        """Create an evaluator for this declaration, whose judges are these agents, in this order."""
        ...


def require_evaluator(owner: str, evaluator: object) -> Evaluator:
    """Return the object if it is an evaluator; raises `UsageError` with what it needs otherwise."""
    if isinstance(evaluator, Evaluate):
        raise UsageError(f"{owner}: a declaration alone evaluates nothing; pass  Rubric(Evaluate(…), judge=…).")
    if not isinstance(evaluator, Evaluator) or not isinstance(getattr(evaluator, "declaration", None), Evaluate):
        raise UsageError(f"{owner}: evaluate must be an evaluator such as Rubric(Evaluate(…)), not {evaluator!r:.100}.")
    return evaluator


def read_verdict(reply: Reply) -> EvaluationVerdict:
    """Return the verdict in an evaluator's reply; raises `InvalidOutput` if it has none."""
    try:
        return msgspec.convert(reply.data, EvaluationVerdict)
    except msgspec.ValidationError as error:
        raise InvalidOutput(f"it gave no verdict ({error})") from error


SCRIPTED = "scripted"
"""The kind of agents whose replies are scripted."""


def verdict_reply(name: str, verdict: EvaluationVerdict) -> Reply:
    """Return the reply of an evaluator."""
    data = cast("JsonValue", msgspec.to_builtins(verdict))
    score = "no score" if verdict.score is None else f"score {verdict.score:.2f}"
    return Reply.of(name, f"{verdict.outcome}: {score}", data=data)


def model_of(agent: Agent) -> str:
    """Return the identity of an agent's model; its kind if it has no model of its own, or a script in its place."""
    model = agent_spec_of(agent).model
    return agent.kind if model is None or agent.kind == SCRIPTED else model_key(model)


def failure_text(failure: Failure) -> str:
    """Return how a judge or an evaluator failed; if its settings are wrong, with the message that names its model."""
    about = f": {failure.message}" if failure.error == InvalidRequest.kind else ""
    return f"failed ({failure.error}{about})"


def models_within(agent: Agent, *, other_tiers: bool = False) -> set[str]:
    """Return the models of an agent, or of all members of a team and of teams within it; a script prefers nothing.

    With `other_tiers`, also those that replace its regular one.
    """
    members: tuple[Agent, ...] = getattr(agent, "members", ())
    if members:
        return set[str]().union(*(models_within(one, other_tiers=other_tiers) for one in members))
    if agent.kind == SCRIPTED:
        return set()
    others = (agent.policy.economy, agent.policy.stronger) if other_tiers else ()
    return {model_key(model) for model in (agent_spec_of(agent).model, *others) if model is not None}


def check_evaluations(agents: Sequence[Agent]) -> None:
    """Raise `ManifestError` with every judge of these agents that can't judge."""
    problems: list[str] = []
    for agent in agents:
        evaluator = agent.policy.evaluate
        if evaluator is None:
            continue
        declared = declaration_of(evaluator)
        for judge in judges_of(agent):
            if judge is not agent and any(one.policy.evaluate is not None for one in _within(judge)):
                problems.append(f"the judge {judge.name!r} of {agent.name!r} is evaluated itself; name another agent")
            elif problem := dependence_of(judge, agent, declared):
                problems.append(f"{problem}; name another agent or model")
    if problems:
        raise ManifestError([Problem(text) for text in dict.fromkeys(problems)])


def dependence_of(judge: Agent, author: Agent, declared: Evaluate) -> str:
    """Return why a judge is not independent of an author as the evaluation requires it; empty if it is."""
    if any(one is author for one in _within(judge)):
        return f"the judge {judge.name!r} of {author.name!r} can't judge its own work"
    if declared.require_other_model and (same := models_within(author, other_tiers=True) & models_within(judge)):
        return f"the judge {judge.name!r} has the model of {author.name!r}, {', '.join(sorted(same))}, which is refused"
    return ""


def _within(agent: Agent) -> list[Agent]:
    """Return an agent, the members of a team, and the agents among their tools, each once."""
    found: dict[int, Agent] = {}  # agents need not be hashable
    pending = [agent]
    while pending:
        one = pending.pop()
        if id(one) not in found:
            found[id(one)] = one
            members: Sequence[Agent] = getattr(one, "members", ())
            pending.extend((*members, *one.tool_agents))
    return list(found.values())


class UnloadedEvaluator(Evaluator):
    """A placeholder for an evaluator that was not imported; using it raises `UsageError`."""

    kind = EVALUATOR

    def __init__(self, declaration: Evaluate, judges: tuple[Agent, ...]) -> None:
        self.name, self.declaration, self.judges = declaration.evaluator_name, declaration, judges

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Raise `UsageError`: the code was never loaded."""
        raise UsageError(f"The evaluator {self.name!r} was not loaded, so it can't be used.")


@cache
def _registered() -> Registered:
    return Registered(entry_points_of(GROUP))


def evaluator_names() -> list[str]:
    """Return the names of all evaluators, sorted."""
    return sorted(_registered().here)


def is_own(name: str) -> bool:
    """Return whether an evaluator is of this distribution, so that using it runs no code of others."""
    point = _registered().here.get(name)
    return point is not None and point.value.startswith(OWN_PACKAGE)


def check_evaluator_name(name: str) -> None:
    """Raise `UnknownName` if there is no such evaluator, `MissingExtra` if a wing would bring it; imports neither."""
    if ":" not in name and name not in _registered().here:
        raise _registered().missing("evaluator", name) or UnknownName("evaluator", name, evaluator_names())


_STAND_INS: ContextVar[EvaluatorClass | None] = ContextVar("_STAND_INS", default=None)


@contextmanager
def evaluators_made_by(make: EvaluatorClass) -> Generator[None]:
    """Within this block, every evaluator is made so, such as one that repeats what is recorded."""
    before = _STAND_INS.set(make)
    try:
        yield
    finally:
        _STAND_INS.reset(before)


def make_evaluator(declaration: Evaluate, judges: Sequence[Agent] = ()) -> Evaluator:
    """Create the evaluator of a declaration; a placeholder for one of others if code must not be loaded."""
    name = declaration.evaluator_name
    if (make := _STAND_INS.get()) is not None:
        return make(declaration, judge=judges)
    check_evaluator_name(name)
    if not can_load_code() and not is_own(name):
        return cast("Evaluator", UnloadedEvaluator(declaration, tuple(judges)))
    if not declaration.asks_judges and not is_own(name):  # it would ask them all the same, also about their own work
        judges = ()
    made = _class_of(name)(declaration, judge=judges)
    return require_evaluator(f"The evaluator {name!r}", made)


def _class_of(name: str) -> EvaluatorClass:
    if ":" in name:
        return cast("EvaluatorClass", load_function(name, "the evaluator", "module:Class"))
    point = _registered().here[name]
    try:
        return cast("EvaluatorClass", point.load())
    except Exception as error:  # third-party code may raise anything
        raise UsageError(f"The evaluator {name!r} ({point.value}) can't be loaded: {error}") from error


def criteria_problems(declared: Evaluate) -> list[str]:
    """Return what is wrong with the criteria that count; imports the functions that they name, where code is loaded."""
    return [problem for one in declared.rubric if (problem := _problem(one))]


def _problem(criterion: Criterion) -> str:
    if criterion.function is not None:
        try:
            load_function(criterion.function, f"the check {criterion.id!r}")
        except UsageError as error:
            text = str(error).rstrip(".")
            return f"{text[0].lower()}{text[1:]}"
    if criterion.output_schema is not None and (fault := schema_fault(criterion.output_schema)):
        return f"output_schema of the criterion {criterion.id!r} is not a JSON Schema: {fault.text}"
    return ""
