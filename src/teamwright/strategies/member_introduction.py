"""How prompts and diagrams introduce members: name and description on one line."""

from __future__ import annotations

from teamwright.agents.contract.agent import Agent


def description_line(agent: Agent) -> str:
    """Return the description of an agent on one line; empty if it has none."""
    return " ".join(agent.description.split())


def introduction(agent: Agent) -> str:
    """Return the name of an agent, followed by its description if it has one."""
    about = description_line(agent)
    return f"{agent.name}: {about}" if about else agent.name
