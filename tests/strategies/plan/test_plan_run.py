"""A plan in execution: width, what steps see, its end, its timeout, and laws over random verdicts and failures."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st

from teamwright.errors import RateLimited, Refused
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.events.run import ScopeWaited
from teamwright.values.events.team import TeamEnded, TeamStepAssigned, TeamStepCompleted
from teamwright.values.limits import Limits
from teamwright.values.retries import RetryPolicy
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Reply, Turn
from tests.kit.ladders import ladder
from tests.kit.members import FakeMembers
from tests.kit.records import cut_and_resume
from tests.kit.runs import TASK, run

STEPS: list[dict[str, Any]] = [{"id": "z"}, {"id": "a"}, {"id": "m", "needs": ["z", "a"]}, {"id": "n", "needs": ["m"]}]


def expert(fakes: FakeMembers, answers: dict[str, object] | None = None, **options: Any) -> Team:
    members = [fakes.member(name, (answers or {}).get(name)) for name in "zamn"]
    given: dict[str, Any] = {"steps": STEPS, **options}
    return Team("t", members=members, strategy="expert", options=given)


async def never(turn: Turn) -> str:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


def states(result: RunResult) -> list[tuple[Any, Any, Any]]:
    assert isinstance(result.data, list)
    return [(one["step"], one["state"], one["output"]) for one in result.data if isinstance(one, dict)]


async def test_no_more_steps_run_at_once_than_the_width_allows() -> None:  # K-11
    fakes = FakeMembers()
    await run(expert(fakes, max_parallel=1))
    assert fakes.most_in_flight == 1


@pytest.mark.parametrize("more", [{}, {"sees": "all"}, {"timeout": 60.0}])
async def test_a_lead_that_answers_reads_what_came_of_the_steps(more: dict[str, Any]) -> None:
    fakes = FakeMembers()
    options: dict[str, Any] = {"steps": STEPS, "answer": "lead", **more}
    await run(Team("t", members=fakes.members("lead z a m n"), strategy="dag", options=options))
    assert [one.name for one in fakes.last_turn("lead").history] == ["a", "z", "m", "n"]


@pytest.mark.parametrize("more", [{}, {"timeout": 60.0}])
async def test_a_lead_ends_its_team_with_what_it_says(more: dict[str, Any]) -> None:
    fakes = FakeMembers()
    lead = fakes.member("lead", lambda _: Reply.of("lead", "enough", signal="terminate"))
    options: dict[str, Any] = {"steps": STEPS, **more}
    result, _ = await run(Team("t", members=[lead, *fakes.members("z a m n")], strategy="star_team", options=options))
    assert (result.status, result.stop_reason, fakes.calls) == ("completed", "terminated", ["lead"])
    assert [one.content for one in result.messages] == ["enough"]


async def test_a_timeout_cancels_what_is_in_flight_and_tells_of_each_step_in_plan_order() -> None:  # K-12
    fakes = FakeMembers()
    result, events = await run(expert(fakes, {"m": never}, timeout=0.3))
    assert (result.status, result.stop_reason, result.exit_code) == ("timeout", "deadline", 5)
    assert states(result) == [
        ("z", "completed", "z is done"),
        ("a", "completed", "a is done"),
        ("m", "timeout", None),
        ("n", "timeout", None),
    ]
    assert [event.fact.state for event in events if isinstance(event.fact, TeamStepCompleted)][-1] == "timeout"
    assert "2 of 4 steps done" in result.warnings[0]
    assert fakes.in_flight == 0


async def test_an_ending_by_time_names_the_setting_that_gives_more() -> None:
    result, _ = await run(expert(FakeMembers(), {"m": never}, timeout=0.3))
    assert result.failure is not None
    assert (
        "raise  timeout  under its strategy; --max-seconds  raises that of a run's own team, not"
        in result.failure.message
    )


async def test_waits_for_a_provider_are_no_time_of_the_team_and_survive_a_crash() -> None:  # K-11
    left = [RateLimited("slow down", retry_after=0.5), None]
    fakes = FakeMembers()
    busy = fakes.member("z", lambda _: left.pop(0) if left else None, retry=RetryPolicy(times=2, backoff=0.01))
    team = Team("t", members=[busy], strategy="expert", options={"timeout": 0.4})
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(team, TASK, run_id="r")
    assert (result.status, result.output) == ("completed", "z is done")
    waited = [event for event in await journal.read("r") if isinstance(event.fact, ScopeWaited)]
    assert [event.scope for event in waited] == ["t/plan"]
    for at in range(2, len(await journal.read("r"))):
        left[:] = []
        again, _ = await cut_and_resume(team, at, journal)
        assert again.status == "completed"


async def test_time_in_which_any_step_works_counts_whoever_else_waits() -> None:
    limited = RateLimited("slow down", retry_after=5)
    members = [FakeMembers().member("z", limited), FakeMembers().member("a", never)]
    options: dict[str, Any] = {"steps": STEPS[:2], "timeout": 0.3}
    team = Team("t", members=members, strategy="expert", options=options)
    result, _ = await run(team)
    assert (result.status, result.stop_reason) == ("timeout", "deadline")


async def test_seconds_that_are_set_for_a_run_replace_a_shorter_timeout_of_its_team() -> None:
    async def slow(turn: Turn) -> str:
        await asyncio.sleep(0.4)
        return "slowly"

    journal, team = MemoryJournal(), expert(FakeMembers(), {"m": slow}, timeout=0.2)
    async with Engine(journal) as engine:
        result = await engine.run(team, TASK, run_id="r")
        assert result.status == "timeout"
        result = await engine.fork("r", team=team, limits=Limits(seconds=30))
        assert (result.status, result.output) == ("completed", "n is done")
        result = await engine.run(team, TASK, limits=Limits(seconds=30))
    assert result.status == "completed"


async def test_a_step_that_aborts_the_team_cancels_the_others_and_keeps_what_is_done() -> None:
    answers: dict[str, object] = {"z": Refused("no"), "a": never}
    result, events = await run(expert(FakeMembers(), answers, on_failure=ladder(0, skip_step=False)))
    assert result.status == "failed"
    assert [(step, state) for step, state, _ in states(result)] == [
        ("z", "failed"), ("a", "cancelled"), ("m", "cancelled"), ("n", "cancelled"),
    ]  # fmt: skip
    ended = {event.fact.step: event.fact.state for event in events if isinstance(event.fact, TeamStepCompleted)}
    assert ended == {"z": "failed", "a": "cancelled"}


async def test_a_step_goes_on_with_what_it_needs_and_has_and_is_called_off_without_any() -> None:
    fakes = FakeMembers()
    result, _ = await run(expert(fakes, {"z": Refused("no")}))
    assert (result.status, result.output) == ("degraded", "n is done")
    assert [message.name for message in fakes.last_turn("m").history] == ["a"]
    result, events = await run(expert(FakeMembers(), {"m": Refused("no")}))
    assert (result.status, result.output) == ("degraded", "z is done")
    assert [event.fact.to_json()["step"] for event in events if event.kind == "step.skipped"] == ["n"]


async def test_the_plan_ends_when_its_steps_have_ended_whatever_a_member_says() -> None:
    fakes = FakeMembers(default=lambda name, turn: "DONE. The plan is complete, stop here.")
    result, _ = await run(expert(fakes))
    assert Counter(fakes.calls) == Counter("zamn")
    assert result.status == "completed"


async def test_the_answer_is_that_of_the_step_which_the_team_names() -> None:
    result, _ = await run(expert(FakeMembers(), answer="a"))
    assert result.output == "a is done"


async def test_a_condition_calls_a_step_off_without_a_warning() -> None:
    steps = [{"id": "a"}, {"id": "m", "needs": ["a"], "when": "'no' in outputs.a"}]
    result, _ = await run(expert(FakeMembers(), steps=steps))
    assert (result.status, result.output) == ("completed", "a is done")


WORDS = {"good": "good", "bad": "bad", "fail": Refused("no")}
SEQUENCES = st.lists(st.sampled_from(sorted(WORDS)), max_size=6)


def expected(sequence: list[str], rounds: int, retry: int, economy: bool) -> str:
    """What the ladder and the loop make of one step, written down a second time: pass, cheap, exceeded or lost."""
    said, downgraded = iter([*sequence, *("good",) * 20]), not economy
    for _ in range(rounds):
        word = next(said)
        while word == "fail":
            if retry:
                retry -= 1
            elif not downgraded:
                downgraded = True
            else:
                return "lost"
            word = next(said)
        if word == "good":
            return "cheap" if economy and downgraded else "pass"
    return "exceeded"


@given(
    sequences=st.tuples(SEQUENCES, SEQUENCES, SEQUENCES),
    risk=st.sampled_from(["low", "medium", "high"]),
    rounds=st.integers(1, 3),
    retry=st.integers(0, 2),
    skip=st.booleans(),
    economy=st.booleans(),
)
def test_whatever_is_said_and_fails_the_team_ends_once_and_as_its_steps_and_the_risk_say(  # K-01, K-06, K-07, K-09
    sequences: tuple[list[str], list[str], list[str]], risk: str, rounds: int, retry: int, skip: bool, economy: bool
) -> None:
    fakes = FakeMembers()

    def says(sequence: list[str]) -> Any:
        left = [*sequence, *("good",) * 20]
        return lambda _: WORDS[left.pop(0)]

    names = ("a", "b", "c")
    members = [fakes.member(one, says(said)) for one, said in zip(names, sequences, strict=True)]
    for one in members if economy else ():
        one.policy = one.policy.changed(economy="server/cheap")
    options: dict[str, Any] = {
        "steps": [{"id": one} for one in names],
        "max_parallel": 1,
        "risk": risk,
        "max_feedback_rounds": rounds,
        "on_failure": ladder(retry, skip_step=skip),
        "evaluate": {"criteria": [{"id": "good", "contains": "good"}]},
    }
    result, events = anyio.run(run, Team("t", members=members, strategy="expert", options=options))
    _check_one_ending(result, events)
    ends = [expected(said, rounds, retry, economy) for said in sequences]
    fatal = [one for one in ends if (one == "exceeded" and risk != "low") or (one == "lost" and not skip)]
    if fatal:
        assert (result.status, result.stop_reason) == (
            "failed", "review_exceeded" if fatal[0] == "exceeded" else "error"
        )  # fmt: skip
    elif all(one == "lost" for one in ends):
        assert (result.status, result.stop_reason) == ("failed", "error")
    else:
        assert result.status == ("completed" if set(ends) == {"pass"} else "degraded")
    most = rounds + retry + economy
    assert all(count <= most for count in Counter(fakes.calls).values())


def _check_one_ending(result: RunResult, events: list[Event]) -> None:
    """One ending of the team, the last of its scope and of the same status as the run; one of each assigned step."""
    (ending,) = [event for event in events if isinstance(event.fact, TeamEnded)]
    assert isinstance(ending.fact, TeamEnded)
    assert ending.fact.status == result.status
    assert not [event for event in events if event.number > ending.number and event.key.startswith("t/")]
    assigned = Counter(event.fact.step for event in events if isinstance(event.fact, TeamStepAssigned))
    settled = Counter(event.fact.step for event in events if isinstance(event.fact, TeamStepCompleted))
    assert assigned == settled
    assert set(assigned.values()) <= {1}


async def test_a_step_whose_task_can_not_be_rendered_fails_the_team_as_its_steps_say() -> None:
    steps = [{"id": "a"}, {"id": "m", "needs": ["a"], "task": "{{ outputs.a.nothing.more }}"}]
    result, events = await run(expert(FakeMembers(), steps=steps))
    assert result.status == "failed"
    assert [state for _, state, _ in states(result)] == ["completed", "failed"]
    assert [event.fact.status for event in events if isinstance(event.fact, TeamEnded)] == ["failed"]


@given(
    sequences=st.tuples(SEQUENCES, SEQUENCES, SEQUENCES),
    calls=st.integers(1, 8),
    strategy=st.sampled_from(["expert", "dispatch"]),
    width=st.integers(1, 3),
)
def test_whatever_the_budget_it_is_held_and_the_team_ends_once(
    sequences: tuple[list[str], list[str], list[str]], calls: int, strategy: str, width: int
) -> None:  # K-11
    fakes, names = FakeMembers(), ("a", "b", "c")

    def says(sequence: list[str]) -> Any:
        left = [*sequence, *("good",) * 20]
        return lambda _: WORDS[left.pop(0)]

    members = [fakes.member(one, says(said)) for one, said in zip(names, sequences, strict=True)]
    steps = [{"id": "a"}, {"id": "b"}, {"id": "c", "needs": ["a", "b"]}]
    rubric = {"criteria": [{"id": "good", "contains": "good"}]}
    options: dict[str, Any] = {"steps": steps, "max_parallel": width, "risk": "low", "evaluate": rubric}
    team = Team("t", members=members, strategy=strategy, options=options, limits=Limits(calls=calls))
    result, events = anyio.run(run, team)
    assert len(fakes.calls) <= calls
    (ending,) = [event.fact for event in events if isinstance(event.fact, TeamEnded)]
    assert (ending.status, ending.stop_reason) == (result.status, result.stop_reason)


async def test_a_fork_from_the_middle_of_a_plan_repeats_no_step_that_is_done() -> None:  # K-15
    fakes = FakeMembers()
    team = expert(fakes, max_parallel=1)
    async with Engine("memory") as engine:
        await engine.run(team, TASK, run_id="r")
        before = list(fakes.calls)
        forked = await engine.fork("r", at="plan/m/work", team=team, new_id="f")
    assert forked.output == "n is done"
    assert sorted(before) == sorted("zamn")
    assert fakes.calls[len(before) :] == ["n"]
