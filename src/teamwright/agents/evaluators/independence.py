"""Checks that judges are independent: not evaluated themselves, and of another model where that is required."""

from __future__ import annotations

from collections.abc import Sequence

from teamwright.agents.contract.agent import Agent, judges_of
from teamwright.agents.contract.policy import declaration_of
from teamwright.agents.evaluators.protocol import models_within
from teamwright.errors import ManifestError, Problem
from teamwright.values.specs.evaluation import Evaluate


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
    if declared.require_other_model and (same := models_within(author) & models_within(judge)):
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
