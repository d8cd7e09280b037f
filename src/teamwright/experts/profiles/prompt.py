"""The prompt of an expert: who it is, how it works, and who the others are.

The text depends on declarations alone and not on the run, so that providers can cache it. A run records it whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teamwright.values.specs.expert import ExpertProfile


@dataclass(frozen=True, slots=True)
class Colleague:
    """What one expert knows of another member of its team."""

    name: str
    description: str = ""
    capabilities: tuple[str, ...] = ()
    is_lead: bool = False

    @property
    def line(self) -> str:
        """The colleague as a line of a list."""
        about = " ".join(self.description.split())
        skilled = f" Good at: {', '.join(self.capabilities)}." if self.capabilities else ""
        lead = " (leads the team)" if self.is_lead else ""
        return f"- {self.name}{lead}" + (f": {about}" if about else "") + skilled


def expert_prompt(name: str, description: str, profile: ExpertProfile, method: str = "", own: str = "") -> str:
    """Return the instructions of an expert without its team: its role, its profile, its method, and its own."""
    about = " ".join(description.split())
    opening = f"You are {name}, an expert in a team." + (f" Your role: {about}" if about else "")
    sections = {
        "Who you are": profile.persona,
        "How you think": profile.thinking_style,
        "How you work with others": profile.collaboration_strategy,
    }
    written = [f"## {title}\n\n{text.strip()}" for title, text in sections.items() if text.strip()]
    if method.strip() and own.strip():
        own = f"## What you do here\n\n{own.strip()}"
    return join_parts(opening, *written, method, own)


def join_parts(*parts: str) -> str:
    """Join the parts of a prompt, without empty ones."""
    return "\n\n".join(text.strip() for text in parts if text.strip())


def team_prompt(team: str, colleagues: Sequence[Colleague], *, is_lead: bool = False) -> str:
    """Return what an expert knows of its team; empty if it has no colleagues."""
    if not colleagues:
        return ""
    lead = " You lead it: what you decide holds." if is_lead else ""
    listed = "\n".join(one.line for one in colleagues)
    return f"## Your team: {team}\n\nYou work with these members.{lead} Address them by name.\n\n{listed}"
