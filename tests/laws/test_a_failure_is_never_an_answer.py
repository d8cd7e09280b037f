"""Law 5: the text of an error can't become another member's input, nor the run's answer."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.errors import AgentError, ContextTooLong, Refused
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.retries import RetryPolicy
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Turn
from tests.kit.effects import ReturnSchedule, effect_member
from tests.laws.random_programs import RUN_ID, TASK, RandomProgram, cut, log_of, random_programs, run_to_end

TROUBLE = "the trouble with"


def check(result: RunResult, schedule: ReturnSchedule) -> None:
    assert not [told for told in schedule.prompts if TROUBLE in told]
    assert not [message for message in result.messages if TROUBLE in message.content]
    assert TROUBLE not in (result.output or "")


@given(random_program=random_programs(failures=True), cut_at=st.floats(0, 1, exclude_max=True, width=16))
async def test_no_member_ever_receives_the_text_of_a_failure(random_program: RandomProgram, cut_at: float) -> None:
    whole, schedule = MemoryJournal(), ReturnSchedule([3, 0, 7])
    check(await run_to_end(random_program.team, schedule, whole), schedule)
    resumed = cut(whole, 1 + int(cut_at * (len(log_of(whole)) - 1)))
    check(await run_to_end(random_program.team, schedule, resumed, resume=True), schedule)


@given(
    fails=st.lists(st.booleans(), min_size=1, max_size=4),
    strategy=st.sampled_from(["sequential", "round_robin"]),
    share=st.sampled_from(["transcript", "output"]),
    nested=st.booleans(),
)
async def test_a_failing_member_ends_the_team_with_earlier_messages(
    fails: list[bool], strategy: str, share: str, nested: bool
) -> None:  # R-10, P-03
    schedule = ReturnSchedule()
    members = [effect_member(f"m{n}", schedule, 1, f"{TROUBLE} m{n}" if bad else None) for n, bad in enumerate(fails)]
    team = Team("t", members=members, strategy=strategy, share=share, max_turns=1)  # pyright: ignore[reportArgumentType]
    async with Engine("memory") as engine:
        result = await engine.run(
            Team("outer", members=[team, effect_member("last", schedule)]) if nested else team, TASK
        )
    check(result, schedule)
    before = fails.index(True) if any(fails) else len(fails)
    spoken = [f"m{n}" for n in range(before)]
    if not any(fails):
        assert result.status == "completed"
        return
    assert (result.status, result.stop_reason) == ("failed", "error")
    assert result.failure is not None
    assert f"'m{before}'" in result.failure.message
    assert [message.name for message in result.messages] == (["t"] * len(spoken) if nested else spoken)
    assert not any("last" in told for told in schedule.prompts)


@pytest.mark.parametrize("error", [Refused(f"{TROUBLE} x"), ContextTooLong(f"{TROUBLE} x"), AgentError(f"{TROUBLE} x")])
async def test_every_kind_of_error_stays_a_failure(error: AgentError) -> None:
    async def fail(turn: Turn) -> str:
        raise error

    async with Engine("memory") as engine:
        result = await engine.run(Team("t", members=[FunctionAgent("x", fail, retry=RetryPolicy(times=0))]), TASK)
    assert result.status == "failed"
    assert result.output is None
    assert result.failure is not None
    assert result.failure.error == error.kind
    assert TROUBLE in result.failure.message


async def test_a_bug_in_a_member_is_a_failure_too() -> None:
    async def crash(turn: Turn) -> str:
        raise ZeroDivisionError(f"{TROUBLE} zero")

    async with Engine("memory") as engine:
        result = await engine.run(
            Team("t", members=[FunctionAgent("x", crash), effect_member("y", ReturnSchedule())]), TASK
        )
    assert result.status == "failed"
    assert not result.messages
    assert result.failure is not None
    assert "ZeroDivisionError" in result.failure.message


async def test_what_a_script_says_about_a_missing_rule_reaches_no_member() -> None:
    schedule = ReturnSchedule()
    rules = [Rule(agent="x", match="never", reply="no")]
    async with Engine("memory") as engine:
        result = await engine.run(Team("t", members=[ScriptedAgent("x", rules), effect_member("y", schedule)]), TASK)
    assert result.status == "failed"
    assert not schedule.prompts
    assert not result.messages


async def test_a_failure_reads_the_same_after_a_resume() -> None:
    schedule, whole = ReturnSchedule(), MemoryJournal()

    def team(_: ReturnSchedule = schedule) -> Team:
        return Team("t", members=[effect_member("a", schedule), effect_member("b", schedule, 1, f"{TROUBLE} b")])

    expected = await run_to_end(team, schedule, whole)
    assert expected.failure is not None
    for at in range(1, len(log_of(whole))):
        result = await run_to_end(team, schedule, cut(whole, at), resume=True)
        assert result.failure == expected.failure
        assert result.messages == expected.messages
    async with Engine(whole) as engine:
        recorded = await engine.runs.result(RUN_ID)
    assert recorded.failure is not None
    assert recorded.failure.message == expected.failure.message
