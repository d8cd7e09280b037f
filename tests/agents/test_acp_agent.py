"""A coding agent as a member: its answer, its files, its permissions, its budget, its end, and what bad ones do."""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from teamwright import Engine, Team
from teamwright.agents import AcpAgent, acp_session as session
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.values.events.agent import AgentCalled, AgentProgressed, AgentReturned
from teamwright.values.events.event import Delta, ThinkingDelta
from teamwright.values.limits import Limits, MessageLimits
from teamwright.values.people import Answer, Confirm, Question
from teamwright.values.specs.members import TeamWorkspace
from teamwright.values.turns.results import RunResult
from teamwright.values.usage_and_prices import Usage
from tests.kit.coders import LINES, branch, git, shown
from tests.kit.effects import is_gone, wait_until
from tests.kit.records import cut

Coder = Callable[..., AcpAgent]


def team_of(*members: Any, **more: Any) -> Team:
    return Team("team", members=members, **more)


async def run(team: Team, task: str, journal: MemoryJournal | None = None) -> RunResult:
    async with Engine(journal or MemoryJournal()) as engine:
        return await engine.run(team, task, run_id="r")


async def question_of(engine: Engine) -> tuple[str, Question]:
    (found,) = (await engine.runs.history("r")).questions().items()
    return found


def failure_of(result: RunResult) -> str:
    assert result.failure is not None
    return result.failure.message


async def test_its_answer_is_the_reply_and_is_streamed(coder: Coder) -> None:
    async with Engine(MemoryJournal()) as engine:
        handle = await engine.start(
            team_of(coder()), "say hel; say lo; call edit a.py; say done; tokens 7 3", run_id="r"
        )
        items = [item async for item in engine.runs.follow("r")]
        result = await handle.result()
    assert (result.status, result.output) == ("completed", "hello\n\ndone")
    assert "".join(item.text for item in items if isinstance(item, Delta)) == "hello\n\ndone"
    assert (result.usage.input_tokens, result.usage.output_tokens) == (7, 3)


async def test_its_plan_and_its_tool_calls_are_events(coder: Coder) -> None:
    journal = MemoryJournal()
    await run(team_of(coder()), "plan; call edit a.py; say done", journal)
    noted = [event.fact for event in await journal.read("r") if isinstance(event.fact, AgentProgressed)]
    assert [(one.name, one.text, one.done) for one in noted] == [
        ("plan", "plan: 1 of 2 done, write", 0.5),
        ("edit", "edit a.py", None),
    ]


async def test_what_it_writes_is_a_change_of_the_branch_of_its_team(coder: Coder, repository: Path) -> None:
    journal, workspace = MemoryJournal(), TeamWorkspace(git=str(repository))
    task = "read a.py; write new/c.py c; touch d.py; write ../out x; read /etc/passwd"
    result = await run(team_of(coder(), workspace=workspace), task, journal)
    assert str(result.output).startswith(LINES)
    assert str(result.output).count("refused:") == 2
    found = await branch(journal)
    assert [(one.member, one.files) for one in found.branch.chain()] == [("coder", ("d.py", "new/c.py"))]
    assert await shown(found, "d.py") == "made\n"
    assert git(repository, "status", "--porcelain") == ""


async def test_a_member_after_it_begins_with_its_changes(coder: Coder, repository: Path) -> None:
    workspace, journal = TeamWorkspace(git=str(repository)), MemoryJournal()
    team = team_of(coder("one"), coder("two"), workspace=workspace, strategy="sequential")
    result = await run(team, "touch c.py; read c.py", journal)
    assert result.output == "made"


async def test_a_person_decides_what_it_asks_permission_for(coder: Coder) -> None:
    team, journal = team_of(coder()), MemoryJournal()
    async with Engine(journal) as engine:
        assert (await engine.run(team, "say one; ask edit a.py; say two", run_id="r")).status == "paused"
        key, asked = await question_of(engine)
        assert (asked.reason, asked.text) == ("approval", "May 'coder' do this?")
        assert "edit a.py" in (asked.draft or "")
        await engine.runs.answer("r", key, Answer.approve())
        result = await engine.resume("r", team=team)
    assert result.status == "completed", failure_of(result)
    assert str(result.output).endswith("two")


@pytest.mark.parametrize(("loads", "output"), [("no", "oneallow_once"), ("yes", "one\n\nYour request was approved")])
async def test_a_decision_outlives_the_process_that_asked(
    coder: Coder, tmp_path: Path, loads: str, output: str
) -> None:
    """An agent that keeps its sessions goes on with the decision; another one gets the task again, and the decision."""
    team, journal = team_of(coder(env={"LOADS": loads})), MemoryJournal()
    async with Engine(journal) as engine:
        await (await engine.start(team, "count; say one; ask edit a.py", run_id="r")).result()
    async with Engine(journal) as engine:
        await engine.runs.answer("r", (await question_of(engine))[0], Answer.approve())
        result = await engine.resume("r", team=team)
    assert result.output == output
    assert len((tmp_path / "count").read_text().split()) == (1 if loads == "yes" else 2)


async def test_confirm_says_which_permissions_need_a_person(coder: Coder) -> None:
    agent = coder(confirm=Confirm(tools=("execute",)))
    async with Engine(MemoryJournal()) as engine:
        await engine.run(team_of(agent), "ask edit a.py; run rm -rf x", run_id="r")
        _, asked = await question_of(engine)
    assert asked.draft == 'rm -rf x\n{\n "rawInput": {\n  "what": "rm -rf x"\n }\n}'
    free = coder(confirm=Confirm(tools=False))
    assert (await run(team_of(free), "ask edit a.py; run rm x")).output == "allow_onceallow_once"


async def test_a_rejection_is_an_answer_like_another(coder: Coder) -> None:
    team = team_of(coder())
    async with Engine(MemoryJournal()) as engine:
        await engine.run(team, "ask edit a.py", run_id="r")
        await engine.runs.answer("r", (await question_of(engine))[0], Answer.reject("no"))
        assert (await engine.resume("r", team=team)).output == "reject_once"


@pytest.mark.parametrize(("tokens", "status"), [(80, "degraded"), (110, "completed")])
async def test_its_ceiling_is_reserved_before_a_turn_begins(
    coder: Coder, tmp_path: Path, tokens: int, status: str
) -> None:
    journal = MemoryJournal()
    team = team_of(coder(limits=Limits(message=MessageLimits(tokens=100))), limits=Limits(tokens=tokens))
    result = await run(team, "count; say done; tokens 30 10", journal)
    assert (result.status == "completed") is (status == "completed")
    assert (tmp_path / "count").exists() is (status == "completed"), "nothing is started that may exceed the budget"
    if status == "completed":
        (called,) = [event.fact for event in await journal.read("r") if isinstance(event.fact, AgentCalled)]
        assert called.reserved == 100
        assert result.usage.total_tokens == 40


async def test_what_it_says_that_it_has_cost_is_charged(coder: Coder) -> None:
    journal = MemoryJournal()
    team = team_of(coder(limits=Limits(message=MessageLimits(usd=1))), limits=Limits(usd=2))
    await run(team, "say done; cost 0.25", journal)
    (returned,) = [event.fact for event in await journal.read("r") if isinstance(event.fact, AgentReturned)]
    assert returned.usage == Usage(requests=1, usd=0.25)


async def test_killed_at_every_write_it_is_never_asked_again_for_what_is_recorded(coder: Coder, tmp_path: Path) -> None:
    def team() -> Team:
        return team_of(coder(), FunctionAgent("ours", ours), limits=Limits(tokens=1000))

    asked: list[str] = []

    def ours(text: str) -> str:
        asked.append(text)
        return "seen"

    journal, count = MemoryJournal(), tmp_path / "count"
    result = await run(team(), "count; plan; say done; tokens 5 5", journal)
    events = await journal.read("r")
    for at in range(2, len(events)):
        recorded = {one.key for one in events[:at] if isinstance(one.fact, AgentReturned)}
        count.write_text("")
        asked.clear()
        async with Engine(await cut(journal, at)) as engine:
            again = await engine.resume("r", team=team())
        assert (again.output, again.usage) == (result.output, result.usage), at
        assert len(count.read_text().split()) == ("team/step-1/call" not in recorded), at
        assert len(asked) == ("team/step-2/call" not in recorded), at


async def test_its_files_are_as_before_when_a_turn_is_taken_again(
    coder: Coder, tmp_path: Path, repository: Path
) -> None:
    def team() -> Team:
        return team_of(coder(), workspace=TeamWorkspace(git=str(repository)))

    journal, count = MemoryJournal(), tmp_path / "count"
    await run(team(), "count; touch c.py; say done", journal)
    events = await journal.read("r")
    tip = (await branch(journal)).branch.tip()
    called, returned = (
        next(number for number, one in enumerate(events, 1) if isinstance(one.fact, kind) and one.key.endswith("/call"))
        for kind in (AgentCalled, AgentReturned)
    )
    for at, prompts in ((called, 1), (returned, 0)):
        count.write_text("")
        async with Engine(copy := await cut(journal, at)) as engine:
            await engine.resume("r", team=team())
        assert len(count.read_text().split()) == prompts
        assert (await branch(copy)).branch.tip() == tip


async def test_a_turn_in_doubt_is_not_taken_again_where_that_is_not_wanted(coder: Coder, tmp_path: Path) -> None:
    team, journal = team_of(coder(idempotent=False)), MemoryJournal()
    await run(team, "count; say done", journal)
    begun = next(n for n, event in enumerate(await journal.read("r"), 1) if isinstance(event.fact, AgentCalled))
    async with Engine(await cut(journal, begun)) as engine:
        result = await engine.resume("r", team=team)
    assert "An earlier call of 'coder' failed or was interrupted" in failure_of(result)
    assert len((tmp_path / "count").read_text().split()) == 1


@pytest.mark.parametrize("how", ["wait", "ignore", "sleep 600"])
async def test_a_cancelled_run_ends_it_with_all_that_it_has_started(
    coder: Coder, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "CANCEL_SECONDS", 0.2)
    pids = tmp_path / "pids"

    async def is_there() -> bool:
        return pids.exists() and len(pids.read_text().split()) == 2

    async with Engine(MemoryJournal()) as engine:
        handle = await engine.start(team_of(coder()), f"child; {how}", run_id="r")
        await wait_until(is_there)
        began = time.monotonic()
        await engine.runs.cancel("r")
        result = await handle.result()
    assert time.monotonic() - began < 4
    assert (result.status, result.stop_reason) == ("cancelled", "cancelled")
    for pid in map(int, pids.read_text().split()):
        await wait_until(partial(is_gone, pid))


async def test_a_turn_that_takes_too_long_is_ended(
    coder: Coder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "CANCEL_SECONDS", 0.2)
    for seconds in (0.5, 4, 30):  # it may take long to start
        result = await run(team_of(coder(timeout=seconds)), "child; sleep 600")
        assert f"within {seconds} s" in failure_of(result)
        if (tmp_path / "pids").exists():
            break
    for pid in map(int, (tmp_path / "pids").read_text().split()):
        await wait_until(partial(is_gone, pid))


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ("die", "ended before it had answered (it hurts)"),
        ("say half; die", "ended before it had answered"),
        ("flood", "does not speak the Agent Client Protocol: it printed 'x'"),
        ("flood line", "on a line of more than"),
        ('raw [1]\\n{}\\n{"id": {}}\\n{"id": 1e999}\\n; say', "ended its turn without an answer"),
        ("error quota exceeded", "refused 'session/prompt': quota exceeded"),
        ("say no; stop refusal", "declined: no"),
        ("say no; stop cancelled", "gave up its turn by itself"),
    ],
)
async def test_one_that_fails_is_a_failure_of_the_member(coder: Coder, task: str, says: str) -> None:
    assert says in failure_of(await run(team_of(coder()), task))


async def test_json_that_nests_without_end_or_names_nothing_does_no_harm(coder: Coder) -> None:
    deep = "[" * 100_000
    odd = '{"method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":7,"content":[]}}}'
    task = f'raw {deep}\\n{odd}\\n{{"method": 7}}\\n{{"id": 99, "result": null}}\\n; tokens -5 3; say done'
    assert (await run(team_of(coder()), task)).output == "done"


async def test_a_long_answer_is_cut_and_said_so(coder: Coder) -> None:
    result = await run(team_of(coder(max_bytes=5_000)), "shout 3")
    assert len(str(result.output)) == 5_000
    assert any("5000" in one.replace(" ", "") for one in result.warnings), result.warnings


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("no-such-agent --acp", "there is no command 'no-such-agent'"),
        ("true", "ended without a word of the Agent Client Protocol"),
        ("echo hello", "ended without a word of the Agent Client Protocol (hello)"),
        ("yes", "does not speak the Agent Client Protocol: it printed 'y'"),
        ("cat", "refused 'initialize'"),
        ("sh -c 'echo broken >&2'", "ended without a word of the Agent Client Protocol (broken)"),
        (
            shlex.join(
                ["sh", "-c", """read x; echo '{"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 2}}'; cat"""]
            ),
            "speaks version 2",
        ),
    ],
)
async def test_a_program_that_is_no_agent_is_named_in_one_sentence(coder: Coder, command: str, says: str) -> None:
    agent = coder(command=command)
    if "no command" in says:
        assert says in str(list(await agent.preflight(None)))  # pyright: ignore[reportArgumentType]
    else:
        assert says in failure_of(await run(team_of(agent), "go"))


async def test_one_that_floods_holds_up_nobody_else(coder: Coder) -> None:
    steps = 0

    async def tick() -> None:
        nonlocal steps
        while True:
            await asyncio.sleep(0.01)
            steps += 1

    ticking = asyncio.create_task(tick())
    await run(team_of(coder()), "shout 2000")
    ticking.cancel()
    assert steps > 5


async def test_its_thoughts_are_streamed_apart(coder: Coder) -> None:
    thought = (
        '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":'
        '{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}}}'
    )
    async with Engine(MemoryJournal()) as engine:
        handle = await engine.start(team_of(coder()), f"raw {thought}\\n; say done", run_id="r")
        items = [item async for item in engine.runs.follow("r", parts=True)]
        await handle.result()
    assert [item.text for item in items if isinstance(item, ThinkingDelta)] == ["hm"]


SDK = shlex.join([sys.executable, str(Path(__file__).with_name("sdk_agent.py"))])


async def test_an_agent_of_the_library_of_the_protocol_is_a_member(coder: Coder, repository: Path) -> None:
    team, journal = team_of(coder(command=SDK), workspace=TeamWorkspace(git=str(repository))), MemoryJournal()
    async with Engine(journal) as engine:
        handle = await engine.start(team, "go", run_id="r")
        await wait_until(partial(is_asking, engine))
        await engine.runs.answer("r", (await question_of(engine))[0], Answer.approve())
        result = await handle.result()
        result = result if result.status == "completed" else await engine.resume("r", team=team)
    assert result.output == "It was yes."
    assert result.usage == Usage(requests=1, input_tokens=22, output_tokens=8, usd=0.01)
    assert await shown(await branch(journal), "a.py") == "A = 1\n# seen\n"


async def is_asking(engine: Engine) -> bool:
    return bool((await engine.runs.history("r")).questions())
