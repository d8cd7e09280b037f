"""Members as prompts and pictures introduce them: by name and description, on one line."""

from __future__ import annotations

from teamwright.agents.contract import description_of
from teamwright.agents.protocol import Agent


def description_line(agent: Agent) -> str:
    """The description of an agent on one line; empty where it has none."""
    return " ".join(description_of(agent).split())


def introduction(agent: Agent) -> str:
    """The name of an agent, followed by its description where it has one."""
    about = description_line(agent)
    return f"{agent.name}: {about}" if about else agent.name
