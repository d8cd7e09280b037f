"""Teamwright runs teams of AI agents as dependable software.

These names are what a first program needs. The rest is in `teamwright.agents`, `.strategies`, `.plans`, `.events`,
`.people`, `.engine`, `.history`, `.journal`, `.testing` and `.errors`, and in the wings that are installed. Every other
module is private and may move. Names load on first use, so importing the package is cheap.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.agents.contract.agent import Agent
    from teamwright.agents.contract.context import Context
    from teamwright.agents.contract.policy import Policy
    from teamwright.agents.functions.agent import FunctionAgent
    from teamwright.agents.model.agent import ModelAgent
    from teamwright.agents.scripted import Rule, ScriptedAgent
    from teamwright.errors import TeamwrightError
    from teamwright.runtime.engine import Engine
    from teamwright.runtime.sync import run_sync
    from teamwright.strategies.protocol import Strategy
    from teamwright.teams.load import load_team
    from teamwright.teams.team import Team
    from teamwright.values.call_limits import RetryPolicy
    from teamwright.values.events.event import Event
    from teamwright.values.limits import Limits
    from teamwright.values.people import Answer, Approve
    from teamwright.values.specs.plan import Plan, Step
    from teamwright.values.turns.messages import Message
    from teamwright.values.turns.results import RunResult
    from teamwright.values.turns.turn import Failure, Reply, Turn

__all__ = [
    "Agent",
    "Answer",
    "Approve",
    "Context",
    "Engine",
    "Event",
    "Failure",
    "FunctionAgent",
    "Limits",
    "Message",
    "ModelAgent",
    "Plan",
    "Policy",
    "Reply",
    "RetryPolicy",
    "Rule",
    "RunResult",
    "ScriptedAgent",
    "Step",
    "Strategy",
    "Team",
    "TeamwrightError",
    "Turn",
    "load_team",
    "run_sync",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.agents.contract.context": "Context",
        "teamwright.agents.functions.agent": "FunctionAgent",
        "teamwright.agents.model.agent": "ModelAgent",
        "teamwright.agents.contract.policy": "Policy",
        "teamwright.agents.contract.agent": "Agent",
        "teamwright.agents.scripted": "Rule ScriptedAgent",
        "teamwright.errors": "TeamwrightError",
        "teamwright.runtime.engine": "Engine",
        "teamwright.runtime.sync": "run_sync",
        "teamwright.strategies.protocol": "Strategy",
        "teamwright.teams.load": "load_team",
        "teamwright.teams.team": "Team",
        "teamwright.values.people": "Answer Approve",
        "teamwright.values.events.event": "Event",
        "teamwright.values.limits": "Limits",
        "teamwright.values.call_limits": "RetryPolicy",
        "teamwright.values.turns.messages": "Message",
        "teamwright.values.specs.plan": "Plan Step",
        "teamwright.values.turns.results": "RunResult",
        "teamwright.values.turns.turn": "Failure Reply Turn",
    },
)
