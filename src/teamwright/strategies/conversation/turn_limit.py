"""Limits on the turns of a team: the outcome when one is reached."""

from __future__ import annotations

from teamwright.agents.contract.agent import Agent
from teamwright.strategies.protocol import Settings
from teamwright.strategies.team_conversation import TeamConversation
from teamwright.values.results import Outcome
from teamwright.values.turns.turn import AT_ITS_LIMIT, Failure


def can_terminate(member: Agent) -> bool:
    """Return whether a member has the built-in `terminate` tool."""
    return member.policy.can_terminate


def stop_at_limit(talk: TeamConversation, settings: Settings, limit: str, option: str = "") -> Outcome:
    """Return the outcome of a team that reached a limit; a warning names the limit and the option that sets it."""
    text = limit_text(limit, option or f"max_turns: {settings.max_turns}")
    if settings.on_max_turns == "stop":
        return talk.ended("max_turns", text)
    failure = Failure(member="", error="max_turns", message=text)
    return talk.failed(failure).changed(stop_reason="max_turns")


def limit_text(limit: str, option: str) -> str:
    """Return the warning for a limit that was reached and the option that sets it."""
    return f"{AT_ITS_LIMIT}{limit} ({option})"
