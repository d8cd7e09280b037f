"""Checks that judges are independent: not evaluated themselves, and of another model where that is required."""

from __future__ import annotations

from collections.abc import Sequence

from teamwright.agents.contract.attributes import evaluator_of, judges_of, tool_agents_of
from teamwright.agents.contract.context import AgentLike
from teamwright.agents.contract.policy import declaration_of
from teamwright.agents.evaluators.protocol import models_within
from teamwright.errors import ManifestError, Problem
from teamwright.values.specs.evaluation import Evaluate


def check_evaluations(agents: Sequence[AgentLike]) -> None:
    """Raise `ManifestError` with every judge of these agents that can't judge."""
    problems: list[str] = []
    for agent in agents:
        evaluator = evaluator_of(agent)
        if evaluator is None:
            continue
        declared = declaration_of(evaluator)
        for judge in judges_of(agent):
            if judge is not agent and any(evaluator_of(one) is not None for one in _within(judge)):
                problems.append(f"the judge {judge.name!r} of {agent.name!r} is evaluated itself; name another agent")
            elif problem := dependence_of(judge, agent, declared):
                problems.append(f"{problem}; name another agent or model")
    if problems:
        raise ManifestError([Problem(text) for text in dict.fromkeys(problems)])


def dependence_of(judge: AgentLike, author: AgentLike, declared: Evaluate) -> str:
    """Return why a judge is not independent of an author as the evaluation requires it; empty if it is."""
    if any(one is author for one in _within(judge)):
        return f"the judge {judge.name!r} of {author.name!r} can't judge its own work"
    if declared.require_other_model and (same := models_within(author) & models_within(judge)):
        return f"the judge {judge.name!r} has the model of {author.name!r}, {', '.join(sorted(same))}, which is refused"
    return ""


def _within(agent: AgentLike) -> list[AgentLike]:
    """Return an agent, the members of a team, and the agents among their tools, each once."""
    found: dict[int, AgentLike] = {}  # agents need not be hashable
    pending = [agent]
    while pending:
        one = pending.pop()
        if id(one) not in found:
            found[id(one)] = one
            members: Sequence[AgentLike] = getattr(one, "members", ())
            pending.extend((*members, *tool_agents_of(one)))
    return list(found.values())
