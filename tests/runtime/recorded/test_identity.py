"""An id stands for one team and one task, also if two callers start it at once, in any journal."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from teamwright import Engine, Limits, Message, RunResult, ScriptedAgent, Team
from teamwright.agents.attachments import Attachment
from teamwright.agents.scripted import Rule
from teamwright.errors import RunExists, UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Journal
from teamwright.runtime.recorded.identity import require_same_run, require_same_task
from teamwright.values.specs.manifest import AgentSpec, Manifest, Source
from teamwright.values.specs.models import ServerModel
from tests.kit.postgres import postgres_server, schema_url

__all__ = ["postgres_server"]

SAID = (Message(name="ada", content="Hi", role="user"),)
NOTES = Attachment(name="notes.txt", content=b"eggs")


def team(instructions: str = "Write.", name: str = "t") -> Team:
    return Team(name, members=[ScriptedAgent("writer", [Rule(reply="Done.")], instructions=instructions)])


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Journal | str:
    if request.param == "memory":
        return MemoryJournal()
    if request.param == "sqlite":
        return str(tmp_path / "journal.db")
    return schema_url(request.getfixturevalue("postgres_server"), tmp_path)


async def test_an_id_returns_its_run_or_names_what_differs(journal: Journal | str) -> None:
    async with Engine(journal) as engine:
        await engine.run(team(), "Go.", run_id="r")
    async with Engine(journal) as engine:
        again = await engine.run(team(), "Go.", run_id="r", limits=Limits(tokens=9))
        assert again.output == "Done."
        with pytest.raises(RunExists, match=r"its team \(agents.writer.instructions\)") as refused:
            await engine.start(team("Write more."), "Go.", run_id="r")
        assert (refused.value.run_id, len(refused.value.differences)) == ("r", 1)
        with pytest.raises(RunExists, match=r"its team .*; in its task, 'Go.' there and 'Stop.' here"):
            await engine.run(team("Write more."), "Stop.", run_id="r")
        assert isinstance(refused.value, UsageError)
        assert len(await engine.runs.list()) == 1


async def test_two_engines_that_start_one_id_with_two_tasks_run_one_of_them(journal: Journal | str) -> None:
    results: list[RunResult] = []
    refused: list[RunExists] = []

    async def run(engine: Engine, task: str) -> None:
        try:
            results.append(await engine.run(team(), task, run_id="r"))
        except RunExists as error:
            refused.append(error)

    async with Engine(journal) as one, Engine(journal if isinstance(journal, str) else one.journal) as two:
        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(run, one, "Go.")
                group.start_soon(run, two, "Go." if number else "Stop.")
        history = await one.runs.history("r")
    assert len(results) + len(refused) == 6
    assert len(refused) in (1, 5)
    assert len([event for event in history.events if event.kind == "run.started"]) == 1


@pytest.mark.parametrize(
    ("asked", "differs"),
    [
        ({"history": SAID}, "its history"),
        ({"attachments": [NOTES]}, "the files of its task"),
        ({"conversation": "c"}, "its conversation, none there and 'c' here"),
        ({"continues": "other"}, "the run that it continues, none there and 'other' here"),
    ],
)
async def test_what_goes_with_the_task_counts_as_the_task(asked: dict[str, object], differs: str) -> None:
    async with Engine("memory") as engine:
        for run_id in ("r", "other"):
            await engine.run(team(), "Go.", run_id=run_id)
        with pytest.raises(RunExists, match=differs):
            await engine.run(team(), "Go.", run_id="r", **asked)  # pyright: ignore[reportArgumentType]
        if "conversation" not in asked:
            await engine.run(team(), "Go.", run_id="new", **asked)  # pyright: ignore[reportArgumentType]
            await engine.run(team(), "Go.", run_id="new", **asked)  # pyright: ignore[reportArgumentType]


async def test_tasks_that_differ_late_are_shown_from_where_they_do() -> None:
    async with Engine("memory") as engine:
        await engine.run(team(), "x" * 100 + " before noon", run_id="r")
        with pytest.raises(RunExists, match=r"its task, '…x{9} before noon' there and '…x{9} after noon' here"):
            await engine.run(team(), "x" * 100 + " after noon", run_id="r")


async def test_a_turn_of_a_conversation_is_found_again_after_later_turns() -> None:
    async with Engine("memory") as engine:
        for number in (1, 2):
            await engine.run(team(), f"Go {number}.", run_id=f"r{number}", conversation="c")
        assert (await engine.run(team(), "Go 1.", run_id="r1", conversation="c")).output == "Done."
        with pytest.raises(RunExists, match="its conversation, 'c' there and 'd' here"):
            await engine.run(team(), "Go 1.", run_id="r1", conversation="d")


async def test_a_run_that_is_driven_is_compared_too() -> None:
    async with Engine("memory") as engine:
        handle = await engine.start(team(), "Go.", run_id="r")
        with pytest.raises(RunExists):
            await engine.start(team(name="u"), "Go.", run_id="r")
        assert not (await engine.start(team(), "Go.", run_id="r")).drives
        assert (await handle.result()).output == "Done."


async def test_a_batch_for_a_queue_is_compared_with_the_run_of_its_id() -> None:
    async with Engine("memory") as engine:
        await require_same_run(engine.journal, await engine.enqueue(team(), "Go.", queue="q", run_id="r"))
        await engine.run(team(), "Go.", run_id="r")
        await require_same_run(engine.journal, await engine.enqueue(team(), "Go.", queue="q", run_id="r"))
        with pytest.raises(RunExists, match="'t' there and 'u' here"):
            await require_same_run(engine.journal, await engine.enqueue(team(name="u"), "Go.", queue="q", run_id="r"))


async def test_only_task_and_model_are_compared_where_a_team_is_formed_for_the_task() -> None:
    manifest = Manifest(agents={"writer": AgentSpec(model="scripted:replies.yaml")})
    formed = team()
    formed.declared = Source(manifest=manifest, team="t")
    async with Engine("memory") as engine:
        await engine.run(formed, "Go.", run_id="r")
        await require_same_task(engine.journal, "r", "Go.", "scripted:replies.yaml")
        await require_same_task(engine.journal, "nobody", "Go.", "local")
        with pytest.raises(RunExists, match=r"its task, 'Go.' there and 'x+…' here"):
            await require_same_task(engine.journal, "r", "x" * 1000, "scripted:replies.yaml")
        with pytest.raises(RunExists, match=r"its model, 'scripted:replies.yaml' there and 'm' here"):
            await require_same_task(engine.journal, "r", "Go.", ServerModel(url="http://x/v1", name="m"))
