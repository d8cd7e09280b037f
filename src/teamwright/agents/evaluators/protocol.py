"""The contract of evaluators.

An evaluator is an agent: it is asked with the work as its task, and replies with an `EvaluationVerdict` as data. So its
checks are effects, its judges are asked through its context, and its verdict is recorded like every reply.
"""

from __future__ import annotations

from typing import Protocol, cast

import msgspec

from teamwright.agents.contract.agent import Agent, agent_spec_of
from teamwright.errors import InvalidOutput, InvalidRequest, UsageError
from teamwright.values.models import JsonValue
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.specs.manifest import model_key
from teamwright.values.turns.turn import Failure, Reply
from teamwright.values.verdicts import EvaluationVerdict

EVALUATOR = "evaluator"
"""The kind of an agent that evaluates."""


class Evaluator(Agent):
    """An agent that judges work. Its turn has the work as the task, and the author's task as the only message before.

    `declaration` is what a manifest says of it, and `judges` are the agents that it asks.
    """

    declaration: Evaluate
    judges: tuple[Agent, ...] = ()


class EvaluatorClass(Protocol):
    """The class of an evaluator, which the entry point or import path of its name leads to."""

    def __call__(
        self, declaration: Evaluate, *, judge: Agent | None = None, final_judge: Agent | None = None
    ) -> Evaluator:
        """Create an evaluator for this declaration, whose judges are these agents."""
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


def verdict_reply(name: str, verdict: EvaluationVerdict) -> Reply:
    """Return the reply of an evaluator."""
    data = cast("JsonValue", msgspec.to_builtins(verdict))
    score = "no score" if verdict.score is None else f"score {verdict.score:.2f}"
    return Reply.of(name, f"{verdict.outcome}: {score}", data=data)


def model_of(agent: Agent) -> str:
    """Return the identity of an agent's model; its kind if it has no model of its own."""
    model = agent_spec_of(agent).model
    return agent.kind if model is None else model_key(model)


def failure_text(failure: Failure) -> str:
    """Return how a judge or an evaluator failed; if its settings are wrong, with the message that names its model."""
    about = f": {failure.message}" if failure.error == InvalidRequest.kind else ""
    return f"failed ({failure.error}{about})"


def models_within(agent: Agent) -> set[str]:
    """Return the models of an agent, or of all members of a team and of teams within it."""
    members: tuple[Agent, ...] = getattr(agent, "members", ())
    if members:
        return set[str]().union(*map(models_within, members))
    model = agent_spec_of(agent).model
    return set() if model is None else {model_key(model)}
