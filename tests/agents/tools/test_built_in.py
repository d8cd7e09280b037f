"""Memory across runs: notes that an agent writes, finds and forgets, recorded like every other tool call."""

import sys
import textwrap
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright import Engine, ModelAgent, Team
from teamwright.agents.tools import built_in
from teamwright.errors import UsageError
from teamwright.journal.agent_notes import Note, Notes
from teamwright.teams.team_loader import load_team
from tests.paths import ROOT

NOTHING = '{"notes":[]}'
ARGUMENTS = {"remember": "text", "recall": "query"}


def obey(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Call the tool that the task names, and answer with its result."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse(parts=[TextPart(last.model_response_str())])
    name, _, given = str(getattr(last, "content", "")).partition(" ")
    arguments = {"id": int(given)} if name == "forget" else {ARGUMENTS[name]: given}
    return ModelResponse(parts=[ToolCallPart(name, arguments, tool_call_id="c1")])


def desk(memory: str = "own", *, name: str = "desk", agent: str = "clerk") -> Team:
    return Team(name, members=[ModelAgent(agent, model=FunctionModel(obey), memory=memory)])


def notes_of(engine: Engine) -> Notes:
    assert engine.journal.notes is not None
    return engine.journal.notes


@pytest.fixture(params=["memory", "sqlite"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Engine]:
    async with Engine("memory" if request.param == "memory" else tmp_path / "j.db") as engine:
        yield engine


async def said(engine: Engine, team: Team, task: str) -> str:
    return (await engine.run(team, task)).output or ""


async def test_a_note_of_one_run_is_found_in_another_and_can_be_forgotten(engine: Engine) -> None:  # L-C-9
    assert await said(engine, desk(), "remember Ada likes green tea.") == '{"id":1}'
    assert await said(engine, desk(), "remember Bob likes coffee.") == '{"id":2}'
    assert await said(engine, desk(), "recall tea?") == '{"notes":[{"id":1,"text":"Ada likes green tea."}]}'
    assert await said(engine, desk(), "recall COFFEE or milk") == '{"notes":[{"id":2,"text":"Bob likes coffee."}]}'
    assert '"id":2' in (await said(engine, desk(), "recall ")).split("},")[0]  # the newest first
    assert await said(engine, desk(), "forget 1") == '{"forgotten":1}'
    assert await said(engine, desk(), "recall tea") == NOTHING
    assert "There is no note 1" in await said(engine, desk(), "forget 1")
    for invented in (2**63, 2**200, -1):
        assert f"There is no note {invented}" in await said(engine, desk(), f"forget {invented}")


async def test_a_memory_belongs_to_a_member_to_a_team_or_to_all_who_name_it(engine: Engine) -> None:  # L-C-10
    await engine.run(desk("own"), "remember mine")
    await engine.run(desk("team"), "remember ours")
    await engine.run(desk("library"), "remember everybody's")
    assert await notes_of(engine).memories() == {"desk/": 1, "desk/clerk": 1, "library": 1}
    assert await said(engine, desk("desk"), "recall ours") == NOTHING  # a shared name that is also that of the team
    assert await said(engine, desk("own", agent="other"), "recall mine") == NOTHING
    assert "ours" in await said(engine, desk("team", agent="other"), "recall ours")
    assert await said(engine, desk("team", name="shop"), "recall ours") == NOTHING
    assert "everybody" in await said(engine, desk("library", name="shop"), "recall everybody")


async def test_the_same_note_is_kept_once_and_limits_are_told_to_the_model(  # L-C-10
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(built_in, "MOST_NOTES", 2)
    monkeypatch.setattr(built_in, "MOST_NOTE_BYTES", 20)
    assert await said(engine, desk(), "remember one") == await said(engine, desk(), "remember one")
    assert "longer than 20 bytes" in await said(engine, desk(), "remember " + "x" * 21)
    assert "is empty" in await said(engine, desk(), "remember  ")
    await engine.run(desk(), "remember two")
    assert "it holds 2 notes" in await said(engine, desk(), "remember three")


@pytest.mark.parametrize("query", ['"', "a* OR b", "NEAR(x y)", "text:x", "-", "ä ö 漢字", "'; DROP TABLE notes"])
async def test_any_words_can_be_searched_for(engine: Engine, query: str) -> None:
    await engine.run(desk(), "remember 漢字 and a text")
    assert (await said(engine, desk(), f"recall {query}")).startswith('{"notes":[')


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Die Straße ist lang.", "Straße"),
        ("Die Straße ist lang.", "strasse"),
        ("She lives in Köln.", "koln"),
        ("Use snake_case here.", "snake"),
        ("我喜欢喝茶", "喝茶"),
        ("我喜欢喝茶", "他喝茶吗"),
        ("寿司が好きです", "寿司"),
        ("The backup runs nightly.", "back"),
    ],
)
async def test_a_note_is_found_by_parts_of_words_and_without_accents(engine: Engine, text: str, query: str) -> None:
    await engine.run(desk(), "remember Something else.")
    await engine.run(desk(), f"remember {text}")
    assert await said(engine, desk(), f"recall {query}") == f'{{"notes":[{{"id":2,"text":"{text}"}}]}}'


async def test_short_words_are_found_only_as_words(engine: Engine) -> None:
    await engine.run(desk(), "remember Something else.")
    assert await said(engine, desk(), "recall me") == NOTHING


async def test_a_call_that_is_repeated_after_a_crash_writes_and_forgets_once(engine: Engine) -> None:  # L-C-9
    notes = notes_of(engine)
    note = Note(0, "m", "once", "clerk", "r", 1.0)
    first = await notes.add(note, key="k1", most=10)
    assert first is not None
    again = await notes.add(note, key="k1", most=10)
    assert again is not None
    assert (again.id, len(await notes.search("m", (), 10))) == (first.id, 1)
    assert [await notes.forget("m", first.id, key="k2") for _ in range(2)] == [True, True]
    assert not await notes.forget("m", first.id, key="k3")
    assert (await notes.add(note, key="k1", most=10)) is not None  # the recorded call, not a new note
    assert await notes.search("m", (), 10) == []


async def test_a_resumed_run_repeats_no_recorded_call(tmp_path: Path) -> None:  # L-C-9
    waiting = anyio.Event()

    async def hang(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if isinstance(messages[-1].parts[-1], ToolReturnPart):
            waiting.set()
            await anyio.sleep_forever()
        return obey(messages, info)

    async with Engine(tmp_path / "j.db") as engine:
        stuck = Team("desk", members=[ModelAgent("clerk", model=FunctionModel(hang), memory="own")])
        handle = await engine.start(stuck, "remember tea")
        await waiting.wait()
        handle.interrupt()
        await handle.result()
        await notes_of(engine).forget("desk/clerk", 1, key="a person")
    async with Engine(tmp_path / "j.db") as engine:
        assert (await engine.resume(handle.run_id, team=desk())).output == '{"id":1}'
        assert await notes_of(engine).memories() == {}


async def test_a_call_that_was_killed_after_its_write_writes_no_second_note(tmp_path: Path) -> None:  # L-C-9
    program = textwrap.dedent(
        """
        import os, signal, sys
        import anyio
        from teamwright import Engine
        from teamwright.journal.sqlite.journal import SqliteNotes
        from tests.agents.tools.test_built_in import desk

        add = SqliteNotes.add

        async def add_and_die(self, note, **more):
            await add(self, note, **more)
            os.kill(os.getpid(), signal.SIGKILL)

        async def main():
            SqliteNotes.add = add_and_die
            async with Engine(sys.argv[1]) as engine:
                await engine.run(desk(), "remember tea", run_id="killed")

        anyio.run(main)
        """
    )
    path = tmp_path / "j.db"
    killed = await anyio.run_process([sys.executable, "-c", program, str(path)], check=False, cwd=ROOT)
    assert killed.returncode == -9, killed.stderr
    async with Engine(path) as engine:
        assert await notes_of(engine).memories() == {"desk/clerk": 1}  # written, but its call is in doubt
        assert (await engine.resume("killed", team=desk())).output == '{"id":1}'
        assert await notes_of(engine).memories() == {"desk/clerk": 1}


async def test_a_manifest_declares_a_memory_and_a_record_rebuilds_it(tmp_path: Path) -> None:  # L-C-10
    (tmp_path / "team.yaml").write_text(
        "agents:\n  clerk: {model: scripted:replies.yaml, memory: team}\nteams:\n  desk: {members: [clerk]}\n",
        encoding="utf-8",
    )
    (tmp_path / "replies.yaml").write_text(
        "rules:\n  - {times: 1, tool: {name: remember, args: {text: Ada likes tea}}}\n  - {reply: noted}\n",
        encoding="utf-8",
    )
    async with Engine(tmp_path / "j.db") as engine:
        result = await engine.run(load_team(tmp_path / "team.yaml"), "Ada likes tea")
        assert result.output == "noted", result
        assert await notes_of(engine).memories() == {"desk/": 1}
        assert (await engine.fork(result.run_id)).output == "noted"
        assert await notes_of(engine).memories() == {"desk/": 1}


def test_a_memory_that_does_not_fit_is_refused() -> None:  # L-C-10
    with pytest.raises(UsageError, match="name"):
        desk("two words")
