"""The `live` tools, called by scripts as by models: a manifest with them, and what becomes of the calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import Engine, load_team
from teamwright.agents.scripted import ScriptedAgent
from teamwright.errors import ToolError
from teamwright.experts.talk_tools import LiveSource
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.strategies.plan.talk.member_requests import MemberRequest, Outbox
from teamwright.values.events.team import TeamMessage
from tests.kit.records import cut_and_resume

TEAM = """\
agents:
  lead: {model: scripted:replies.yaml}
  joiner: {model: scripted:replies.yaml, tools: [{live: {}}]}
  buyer: {model: scripted:replies.yaml, tools: [{live: {}}]}
teams:
  shed:
    strategy: live
    members: [lead, joiner, buyer]
    live: {steps: [{id: walls, agent: joiner, task: Build the walls.}]}
"""
REPLIES = """\
rules:
  - {agent: joiner, match: "has answered", reply: The walls stand.}
  - {agent: joiner, times: 1, tool: {name: message_team, args: {text: Bring boots and a pump., summary: Bring boots.}}}
  - {agent: joiner, times: 1, tool: {name: ask_colleague, args: {name: buyer, question: Which wood do we have?}}}
  - {agent: joiner, reply: I wait for the buyer.}
  - {agent: buyer, reply: Larch.}
  - {agent: lead, reply: The shed is built.}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "team.yaml").write_text(TEAM)
    (tmp_path / "replies.yaml").write_text(REPLIES)
    return tmp_path


async def test_members_talk_with_tools_and_the_original_lies_in_the_workspace(folder: Path) -> None:
    journal, team = MemoryJournal(), load_team(folder / "team.yaml")
    async with Engine(journal) as engine:
        result = await engine.run(team, "Build a shed.", run_id="r")
        events = await journal.read("r")
        messages = [event.fact for event in events if isinstance(event.fact, TeamMessage)]
        assert [(one.type, one.by, one.text) for one in messages] == [
            ("chat", "joiner", "Bring boots."),
            ("assist_request", "joiner", "Which wood do we have?"),
            ("assist", "buyer", "Larch."),
        ]
        assert result.output == "The shed is built."
        assert "The walls stand." in [message.content for message in result.messages]
        bodies = await journal.bodies([messages[0].original])
        assert "a pump" in bodies[messages[0].original]
    for at in range(1, len(events)):
        again, _ = await cut_and_resume(load_team(folder / "team.yaml"), at, journal)
        assert again.output == result.output, at


async def test_an_empty_message_and_a_question_outside_a_turn_are_refused() -> None:
    with pytest.raises(ToolError, match="within a turn alone"):
        LiveSource().bind(None)  # type: ignore[arg-type]
    assert ScriptedAgent("a", [], tools=[LiveSource()]).name == "a"


class Notes:
    """A workspace of plain values."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {"requests/a/0": {"type": "message", "text": "before"}}

    def names(self) -> list[str]:
        return list(self.values)

    def get(self, name: str) -> object:
        class Held:
            value = self.values[name]

        return Held()


def test_an_outbox_returns_each_new_request_once_and_nothing_else() -> None:
    notes = Notes()
    outbox = Outbox(notes)  # type: ignore[arg-type]
    notes.values |= {
        "requests/a/1": {"type": "assist", "text": "Which?", "to": "b"},
        "requests/a/2": "no request",
        "requests/a/3": {"type": "shout", "text": "Hi"},
        "requests/a/4": {"type": "message", "text": 5},
        "requests/b/1": {"type": "message", "text": "of another"},
    }
    assert outbox.read("a") == [MemberRequest(type="assist", text="Which?", to="b")]
    assert outbox.read("a") == []
