"""In every strategy, a member that sees the task sees its files, and no other member does."""

from __future__ import annotations

import pytest

from teamwright.agents.agent import Context
from teamwright.agents.attachments import Attachment
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.runtime.engine import Engine
from teamwright.values.turns.turn import Reply, Turn
from tests.histories.teams import TASK, TEAMS, speak

PHOTO = Attachment(b"\x89PNG\r\n\x1a\n", "photo.png")
OWN = {"program"}
"""A team with a strategy of the tests that creates turns itself."""


@pytest.mark.parametrize("name", sorted(TEAMS.keys() - OWN))
async def test_the_files_of_a_task_go_where_the_task_goes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:  # L-A-3
    turns: list[tuple[str, Turn]] = []
    respond = FunctionAgent.respond

    async def noted(self: FunctionAgent, turn: Turn, ctx: Context) -> Reply:
        turns.append((self.name, turn))
        return await respond(self, turn, ctx)

    monkeypatch.setattr(FunctionAgent, "respond", noted)
    async with Engine("memory") as engine:
        await engine.run(TEAMS[name](speak), TASK, attachments=[PHOTO])
    assert turns
    for member, turn in turns:
        said = [message for message in turn.history if TASK in message.content and message.role == "user"]
        sees_task = TASK in turn.task or bool(said)
        files = {one.name for source in (turn, *turn.history) for one in source.attachments}
        assert bool(files) == sees_task, f"{member} of {name}: {turn.task[:60]!r}"
