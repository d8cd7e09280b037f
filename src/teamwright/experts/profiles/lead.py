"""Finds the lead of a team of experts whose options do not name one."""

from __future__ import annotations

from teamwright.agents.contract.agent import Agent
from teamwright.strategies.protocol import Members


def default_lead(members: Members) -> Agent:
    """Return the expert with `is_lead`, or else the first member."""
    for member in members:
        profile = member.policy.expert
        if profile is not None and profile.is_lead:
            return member
    return members[0]
