"""Members are introduced on one line."""

from __future__ import annotations

import pytest

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.strategies.member_introduction import description_line, introduction


@pytest.mark.parametrize(
    ("description", "line", "introduced"),
    [("", "", "critic"), ("Finds\n  weak  spots.", "Finds weak spots.", "critic: Finds weak spots.")],
)
def test_a_member_is_introduced_by_name_and_description(description: str, line: str, introduced: str) -> None:
    agent = FunctionAgent("critic", lambda turn: "", description=description)
    assert description_line(agent) == line
    assert introduction(agent) == introduced
