"""Conversations: runs under one name that continue each other, one at a time, across processes and crashes."""

import subprocess
import sys
import textwrap
from collections.abc import AsyncGenerator, Collection
from pathlib import Path

import anyio
import pytest

from teamwright import Engine, FunctionAgent, Message, Team, Turn
from teamwright.errors import ConversationBusy, InvalidName, UnknownName, UsageError
from tests.growth import assert_linear_count
from tests.kit.runs import contents


def echo(turn: Turn) -> str:
    return f"{turn.task} after {len(turn.history)}"


TEAM = Team("desk", members=[FunctionAgent("clerk", echo)])


@pytest.fixture(params=["memory", "sqlite"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Engine]:
    async with Engine("memory" if request.param == "memory" else tmp_path / "j.db") as engine:
        yield engine


async def test_each_turn_continues_the_one_before(engine: Engine) -> None:
    said = [(await engine.run(TEAM, task, conversation="talk")).output for task in ("one", "two", "three")]
    assert said == ["one after 0", "two after 2", "three after 4"]
    conversation = await engine.conversations.read("talk")
    assert [turn.task for turn in conversation.turns] == ["one", "two", "three"]
    assert [turn.output for turn in conversation.turns] == said
    assert contents(conversation.messages) == ["one", said[0], "two", said[1], "three", said[2]]
    assert conversation.last_run == (await engine.runs.list(1))[0].id


async def test_conversations_are_apart_from_each_other_and_from_other_runs(engine: Engine) -> None:
    await engine.run(TEAM, "one", conversation="first")
    await engine.run(TEAM, "alone")
    assert (await engine.run(TEAM, "one", conversation="second")).output == "one after 0"
    assert (await engine.run(TEAM, "two", conversation="first")).output == "two after 2"
    assert [(one.name, one.turns, one.team) for one in await engine.conversations.list()] == [
        ("first", 2, "desk"), ("second", 1, "desk"),
    ]  # fmt: skip
    assert [run.conversation for run in await engine.runs.list()] == ["first", "second", "", "first"]


async def test_an_undone_turn_is_as_if_it_had_not_been(engine: Engine) -> None:
    for task in ("one", "two", "three"):
        await engine.run(TEAM, task, conversation="talk")
    assert (await engine.conversations.undo("talk")).task == "three"
    assert (await engine.conversations.undo("talk")).task == "two"
    assert [turn.task for turn in (await engine.conversations.read("talk")).turns] == ["one"]
    assert (await engine.run(TEAM, "other", conversation="talk")).output == "other after 2"
    assert [turn.task for turn in (await engine.conversations.read("talk")).turns] == ["one", "other"]
    await engine.conversations.undo("talk")
    await engine.conversations.undo("talk")
    assert (await engine.conversations.read("talk")).messages == ()
    with pytest.raises(UsageError, match="no turn to undo"):
        await engine.conversations.undo("talk")
    assert (await engine.run(TEAM, "anew", conversation="talk")).output == "anew after 0"


async def test_a_conversation_can_begin_from_a_turn_of_another(engine: Engine) -> None:
    await engine.run(TEAM, "one", conversation="talk")
    last = (await engine.conversations.read("talk")).last_run
    assert (await engine.run(TEAM, "aside", conversation="branch", continues=last)).output == "aside after 2"
    assert (await engine.run(TEAM, "two", conversation="talk")).output == "two after 2"
    assert [turn.task for turn in (await engine.conversations.read("branch")).turns] == ["aside"]
    with pytest.raises(UsageError, match="'branch' has turns already"):
        await engine.run(TEAM, "more", conversation="branch", continues=last)


async def test_a_fork_without_own_turns_goes_back_by_those_that_it_began_with(engine: Engine) -> None:
    for task in ("one", "two"):
        await engine.run(TEAM, task, conversation="talk")
    two = (await engine.conversations.read("talk")).last_run
    await engine.run(TEAM, "aside", conversation="branch", continues=two)
    undone = [await engine.conversations.undo("branch") for _ in range(2)]
    assert [(turn.task, turn.inherited) for turn in undone] == [("aside", False), ("two", True)]
    assert [turn.task for turn in (await engine.conversations.read("talk")).turns] == ["one", "two"]
    assert (await engine.run(TEAM, "other", conversation="branch")).output == "other after 2"
    assert [(await engine.conversations.undo("branch")).task for _ in range(2)] == ["other", "one"]
    with pytest.raises(UsageError, match="no turn to undo"):
        await engine.conversations.undo("branch")
    assert (await engine.run(TEAM, "anew", conversation="branch")).output == "anew after 0"


async def test_a_fork_keeps_turns_that_are_undone_elsewhere(engine: Engine) -> None:
    for task in ("one", "two"):
        await engine.run(TEAM, task, conversation="talk")
    two = (await engine.conversations.read("talk")).last_run
    await engine.run(TEAM, "aside", conversation="branch", continues=two)
    await engine.conversations.undo("branch")
    await engine.conversations.undo("talk")
    assert (await engine.run(TEAM, "other", conversation="branch")).output == "other after 4"


async def test_undoing_a_forked_run_goes_back_to_what_it_continued(engine: Engine) -> None:
    for task in ("one", "two"):
        await engine.run(TEAM, task, conversation="talk")
    two = (await engine.conversations.read("talk")).last_run
    assert two is not None
    forked = await engine.fork(two, team=TEAM, task="another two")
    await engine.run(TEAM, "aside", conversation="branch", continues=forked.run_id)
    assert [(await engine.conversations.undo("branch")).task for _ in range(2)] == ["aside", "another two"]
    assert (await engine.run(TEAM, "other", conversation="branch")).output == "other after 2"


async def test_a_conversation_says_that_the_turn_before_its_undone_ones_was_deleted(engine: Engine) -> None:
    first = await engine.run(TEAM, "one", conversation="talk")
    await engine.run(TEAM, "two", conversation="talk")
    await engine.conversations.undo("talk")
    await engine.runs.delete(first.run_id)
    told = f"'talk' can't go on: the run '{first.run_id}' was deleted"
    for use in (engine.run(TEAM, "three", conversation="talk"), engine.conversations.undo("talk")):
        with pytest.raises(UsageError, match=told):
            await use


async def test_a_fork_of_a_turn_is_no_turn_of_the_conversation(engine: Engine) -> None:
    turn = await engine.run(TEAM, "one", conversation="talk")
    await engine.fork(turn.run_id, team=TEAM, task="another")
    assert (await engine.conversations.read("talk")).last_run == turn.run_id


async def test_two_turns_never_run_at_once(engine: Engine) -> None:
    go_on = anyio.Event()

    async def wait(turn: Turn) -> str:
        await go_on.wait()
        return echo(turn)

    slow = Team("desk", members=[FunctionAgent("clerk", wait)])
    outcomes: list[object] = []

    async def start(task: str) -> None:
        try:
            outcomes.append(await engine.start(slow, task, conversation="talk"))
        except ConversationBusy as error:
            outcomes.append(error)

    async with anyio.create_task_group() as tasks:
        for task in ("one", "two", "three"):
            tasks.start_soon(start, task)
    refused = [one for one in outcomes if isinstance(one, ConversationBusy)]
    assert len(refused) == 2
    assert all("is running; wait for it with  teamwright runs show" in str(one) for one in refused)
    go_on.set()
    await engine.runs.wait((await engine.runs.list())[0].id)
    assert len((await engine.conversations.read("talk")).turns) == 1


async def test_a_paused_or_interrupted_turn_has_to_be_finished_first(engine: Engine) -> None:
    async def never(task: str) -> str:
        await anyio.sleep_forever()
        return task

    handle = await engine.start(Team("desk", members=[FunctionAgent("clerk", never)]), "one", conversation="talk")
    handle.interrupt()
    await handle.result()
    with pytest.raises(ConversationBusy, match=f"{handle.run_id}, is interrupted: finish it with  teamwright runs res"):
        await engine.run(TEAM, "two", conversation="talk")
    with pytest.raises(ConversationBusy):
        await engine.conversations.undo("talk")
    await engine.resume(handle.run_id, team=TEAM)
    assert (await engine.run(TEAM, "two", conversation="talk")).output == "two after 2"


async def test_names_and_arguments_that_do_not_fit_are_refused(engine: Engine) -> None:
    with pytest.raises(InvalidName, match="can't name a conversation"):
        await engine.run(TEAM, "one", conversation="my talk")
    first = await engine.run(TEAM, "one", conversation="talk")
    with pytest.raises(UsageError, match="The conversation 'talk' continues the run"):
        await engine.run(TEAM, "two", conversation="talk", history=[Message(name="a", content="b")])
    with pytest.raises(UsageError, match="leave out `history`"):
        await engine.run(TEAM, "two", continues=first.run_id, history=[Message(name="a", content="b")])
    with pytest.raises(UnknownName, match="There is no conversation 'tlak'; did you mean 'talk'"):
        await engine.conversations.read("tlak")


async def test_the_first_turn_may_begin_with_what_was_said_elsewhere(engine: Engine) -> None:
    said = [Message(name="user", content="Hello", role="user"), Message(name="clerk", content="Hi", role="assistant")]
    assert (await engine.run(TEAM, "one", conversation="talk", history=said)).output == "one after 2"
    assert (await engine.run(TEAM, "two", conversation="talk")).output == "two after 4"
    found = (await engine.conversations.read("talk")).messages
    assert [one.content for one in found][:3] == ["Hello", "Hi", "one"]


async def test_a_named_run_that_exists_is_returned_and_no_turn_is_added(engine: Engine) -> None:
    first = await engine.run(TEAM, "one", conversation="talk", run_id="a")
    assert (await engine.run(TEAM, "one", conversation="talk", run_id="a")).output == first.output
    assert len((await engine.conversations.read("talk")).turns) == 1


async def test_a_conversation_goes_on_without_turns_that_were_deleted(engine: Engine) -> None:
    first = await engine.run(TEAM, "one", conversation="talk")
    await engine.run(TEAM, "two", conversation="talk")
    await engine.runs.delete(first.run_id)
    assert [turn.task for turn in (await engine.conversations.read("talk")).turns] == ["two"]
    assert (await engine.run(TEAM, "three", conversation="talk")).output == "three after 4"


async def test_a_killed_turn_is_resumed_in_another_process_and_then_continued(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import anyio, os, signal, sys
        from teamwright import Engine, FunctionAgent, Team

        def die(task: str) -> str:
            os.kill(os.getpid(), signal.SIGKILL)

        async def main():
            async with Engine(sys.argv[1]) as engine:
                await engine.run(Team("desk", members=[FunctionAgent("clerk", die)]), "two", conversation="talk")

        anyio.run(main)
        """
    )
    path = tmp_path / "j.db"
    async with Engine(path) as engine:
        await engine.run(TEAM, "one", conversation="talk")
    killed = await anyio.run_process([sys.executable, "-c", program, str(path)], check=False, stderr=subprocess.PIPE)
    assert killed.returncode == -9, killed.stderr
    async with Engine(path) as engine:
        with pytest.raises(ConversationBusy) as refused:
            await engine.run(TEAM, "three", conversation="talk")
        assert refused.value.run_id is not None
        assert (await engine.resume(refused.value.run_id, team=TEAM)).output == "two after 2"
        assert (await engine.run(TEAM, "three", conversation="talk")).output == "three after 4"


async def test_reading_a_conversation_takes_work_in_proportion_to_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = 0

    async def bodies(hashes: Collection[str]) -> dict[str, str]:
        nonlocal texts
        texts += len(hashes)
        return await read_bodies(hashes)

    async with Engine("memory") as engine:
        read_bodies = engine.journal.bodies
        counts: dict[int, int] = {}
        for number in range(1, 41):
            await engine.run(TEAM, f"task {number}", conversation="talk")
            if number in (20, 40):
                texts = 0
                with monkeypatch.context() as counted:
                    counted.setattr(engine.journal, "bodies", bodies)
                    assert len((await engine.conversations.read("talk")).turns) == number
                counts[number] = texts
    assert_linear_count(counts.__getitem__, size=20)
