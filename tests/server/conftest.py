"""Folders of teams for servers: a quick pair, one that waits for a person, and a slow one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.terminal import call, team, write_team

__all__ = ["call", "team", "teams"]

PAIR = """\
agents:
  a: {model: scripted:replies.yaml}
  b: {model: scripted:replies.yaml}
teams:
  pair: {members: [a, b]}
"""
GATED = PAIR.replace(
    "b: {model: scripted:replies.yaml}", "b: {model: scripted:replies.yaml, confirm: {after: true}}"
).replace("pair:", "gated:")
REPLIES = "rules:\n  - {agent: a, reply: one}\n  - {agent: b, reply: two}\n"
SLOW_REPLIES = "rules:\n  - {agent: a, reply: one}\n  - {agent: b, delay: 1.5, reply: word word word}\n"


@pytest.fixture
def teams(tmp_path: Path) -> Path:
    folder = tmp_path / "teams"
    write_team(folder / "pair", PAIR, REPLIES)
    write_team(folder / "gated", GATED, REPLIES)
    write_team(folder / "slow", PAIR.replace("pair:", "slow:"), SLOW_REPLIES)
    held = "rules:\n  - {agent: a, delay: 0.5, reply: one}\n  - {agent: b, delay: 30, reply: two}\n"
    write_team(folder / "held", PAIR.replace("pair:", "held:"), held)
    return folder
