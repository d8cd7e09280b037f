"""Teamwright runs teams of AI agents as dependable software.

Names load on first use, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from teamwright.agents.function import FunctionAgent
    from teamwright.agents.model import ModelAgent
    from teamwright.agents.protocol import Agent, Context
    from teamwright.agents.scripted import ScriptedAgent
    from teamwright.errors import TeamwrightError
    from teamwright.runtime.engine import Engine, run_sync
    from teamwright.strategies.protocol import Members, Strategy, Talk, Task
    from teamwright.teams.load import load_team
    from teamwright.teams.team import Team
    from teamwright.values.envelope import Envelope, HandoffPolicy
    from teamwright.values.events import Event
    from teamwright.values.limits import Limits
    from teamwright.values.messages import Message
    from teamwright.values.people import Question
    from teamwright.values.results import Outcome, RunResult
    from teamwright.values.turns import Failure, Reply, Turn

__all__ = [
    "Agent",
    "Context",
    "Engine",
    "Envelope",
    "Event",
    "Failure",
    "FunctionAgent",
    "HandoffPolicy",
    "Limits",
    "Members",
    "Message",
    "ModelAgent",
    "Outcome",
    "Question",
    "Reply",
    "RunResult",
    "ScriptedAgent",
    "Strategy",
    "Talk",
    "Task",
    "Team",
    "TeamwrightError",
    "Turn",
    "load_team",
    "run_sync",
]

_HOMES = {
    "Question": "values.people",
    "Members": "strategies.protocol",
    "Agent": "agents.protocol",
    "Context": "agents.protocol",
    "Engine": "runtime.engine",
    "Envelope": "values.envelope",
    "Event": "values.events",
    "Failure": "values.turns",
    "FunctionAgent": "agents.function",
    "HandoffPolicy": "values.envelope",
    "Limits": "values.limits",
    "Message": "values.messages",
    "ModelAgent": "agents.model",
    "Outcome": "values.results",
    "Reply": "values.turns",
    "RunResult": "values.results",
    "ScriptedAgent": "agents.scripted",
    "Strategy": "strategies.protocol",
    "Talk": "strategies.protocol",
    "Task": "strategies.protocol",
    "Team": "teams.team",
    "TeamwrightError": "errors",
    "Turn": "values.turns",
    "load_team": "teams.load",
    "run_sync": "runtime.engine",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
