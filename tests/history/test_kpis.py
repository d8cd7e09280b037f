"""The figures of a run, against sums made by hand; and that they hold together for whatever a run did."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import JsonValue

from teamwright import Context, Engine, FunctionAgent, Reply, Team, Turn
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.errors import AgentError, ContextTooLong, RunNotFound
from teamwright.history.kpis import (
    FIGURES,
    Kpis,
    TurnFigures,
    check_gates,
    kpis_of,
    read_gates,
    read_kpis,
    side_by_side,
    turns_of,
)
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from teamwright.values.events.agent import (
    AgentAsked,
    AgentCalled,
    AgentCallFailed,
    AgentFailed,
    AgentRecovered,
    AgentReplied,
    AgentReturned,
    Tally,
)
from teamwright.values.events.event import Event, Fact
from teamwright.values.events.run import (
    Origin,
    PersonAnswered,
    PersonAsked,
    RunEnded,
    RunPaused,
    RunResumed,
    RunStarted,
)
from teamwright.values.events.team import StepSkipped
from teamwright.values.people import Answer, Question
from teamwright.values.turns.messages import EnvelopeNote
from teamwright.values.turns.turn import Purpose
from teamwright.values.usage_and_prices import Usage
from tests.kit.evaluators import WordEvaluator, words
from tests.kit.members import FakeMembers
from tests.kit.records import cut
from tests.kit.runs import run
from tests.kit.strategies import FirstWins, FunctionStrategy, outcome


class Record:
    """A record written by hand: each line is a time, a key and a fact."""

    def __init__(self, origin: Origin | None = None) -> None:
        self.events: list[Event] = []
        self.add(0, "", RunStarted(team="t", task="b", manifest="b", seed=1, origin=origin))

    def add(self, time: float, key: str, fact: Fact) -> None:
        scope, _, place = key.rpartition("/")
        self.events.append(Event("r", len(self.events) + 1, float(time), scope, place, fact))

    def ask(self, time: float, key: str, purpose: Purpose = "work", *, kind: str = "model", digest: str = "d") -> None:
        member = key.rpartition("/")[2].partition("#")[0]
        self.add(
            time,
            key,
            AgentAsked(member=member, member_kind=kind, turn=1, task="b", length=0, digest=digest, purpose=purpose),
        )

    def call(self, time: float, key: str, tokens: int) -> None:
        """A request with two thirds of its tokens in the prompt."""
        used = Usage(requests=1, input_tokens=tokens * 2 // 3, output_tokens=tokens - tokens * 2 // 3)
        self.add(time, key, AgentReturned(body="b", usage=used))

    def turn(self, begin: float, end: float, key: str, tokens: int, purpose: Purpose = "work", error: str = "") -> None:
        """A whole turn of a leaf member."""
        self.ask(begin, key, purpose)
        self.call(end, f"{key}/request-1", tokens)
        self.end(end, key, error)

    def end(self, time: float, key: str, error: str = "") -> None:
        self.add(time, key, AgentFailed(member="m", error=error, message="") if error else AgentReplied())

    @property
    def kpis(self) -> Kpis:
        return kpis_of(self.events)


def ended(seconds: float) -> RunEnded:
    return RunEnded(status="completed", stop_reason="done", seconds=seconds)


def test_figures_are_the_sums_of_what_the_record_says() -> None:  # Z-12
    record = Record()
    record.ask(0, "t", kind="team")
    record.turn(0, 2, "t/select-1", 30, "coordinate")
    record.turn(2, 12, "t/turn-1", 100)
    record.turn(12, 16, "t/turn-2", 150, error="refused")
    record.turn(16, 17, "t/check", 20, "judge")
    record.turn(17, 37.125, "t/turn-3", 50)
    record.turn(37.125, 40, "t/turn-4", 50)
    record.end(40, "t")
    record.add(40, "", ended(40))
    found = record.kpis
    assert (found.run_id, found.team, found.status, found.stop_reason) == ("r", "t", "completed", "done")
    assert (found.total_tokens, found.work_tokens) == (400, 350)
    assert (found.coordination_tokens, found.judge_tokens, found.coordination_ratio) == (30, 20, 0.075)
    assert (found.steps, found.passed, found.failed, found.assumed, found.asks) == (4, 3, 1, 3, 6)
    assert (found.pass_rate, found.defect_escape) == (0.75, 0.25)
    assert found.throughput == 6480.0  # 3 steps in 40 seconds, and 86 400 seconds a day
    assert (found.p95_latency_s, found.seconds) == (20.12, 40.0)  # of 1, 2, 2.875, 4, 10 and 20.125 the last one


def test_ratios_have_four_decimals_and_times_two() -> None:  # Z-12
    record = Record()
    record.ask(0, "t", kind="team")
    record.turn(0, 1.23456, "t/a", 2)
    record.turn(0, 1, "t/b", 1, "coordinate")
    record.turn(0, 1, "t/c", 0, error="crash")
    record.turn(0, 1, "t/d", 0)
    record.add(7, "", ended(7))
    found = record.kpis
    assert (found.coordination_ratio, found.pass_rate, found.defect_escape) == (0.3333, 0.6667, 0.3333)
    assert (found.p95_latency_s, found.throughput) == (1.23, 24685.71)


def test_calls_of_a_member_that_coordinates_or_judges_are_no_work() -> None:  # Z-12
    record = Record()
    record.ask(0, "t", kind="team")
    record.ask(0, "t/plan", "coordinate", kind="team")
    record.turn(0, 1, "t/plan/a", 10)
    record.turn(1, 2, "t/plan/b", 5, "judge")
    record.end(2, "t/plan")
    record.ask(2, "t/jury", "judge", kind="team")
    record.turn(2, 3, "t/jury/select", 7, "coordinate")
    record.end(3, "t/jury")
    record.turn(3, 4, "t/work", 8)
    found = record.kpis
    assert (found.work_tokens, found.coordination_tokens, found.judge_tokens, found.total_tokens) == (8, 15, 7, 30)
    assert (found.steps, found.asks) == (1, 4)


def test_further_attempts_at_a_place_are_one_step_which_the_last_one_decides() -> None:  # Z-12
    record = Record()
    record.ask(0, "t", kind="team")
    record.turn(0, 1, "t/a", 10, error="timeout")
    record.turn(1, 2, "t/a#2", 10)
    record.turn(2, 3, "t/b", 10)
    record.ask(3, "t/inner", kind="team")
    record.turn(3, 4, "t/inner/c", 10, error="refused")
    record.end(4, "t/inner", "refused")
    record.ask(4, "t/inner#2", kind="team")
    record.turn(4, 5, "t/inner#2/c", 10)
    found = record.kpis
    assert (found.steps, found.passed, found.asks, found.total_tokens) == (3, 3, 5, 50)


def test_what_agents_ask_each_other_is_no_step_and_its_tokens_count() -> None:
    record = Record()
    record.ask(0, "t", kind="team")
    record.ask(0, "t/a")
    record.turn(1, 2, "t/a/friend", 40)
    record.end(4, "t/a")
    found = record.kpis
    assert (found.steps, found.asks, found.total_tokens, found.p95_latency_s) == (1, 1, 40, 4.0)


def test_steps_that_were_cut_short_are_open_or_stand_on_a_failure_have_not_passed() -> None:  # Z-12
    record = Record()
    record.ask(0, "t", kind="team")
    record.turn(0, 1, "t/done", 1)
    record.turn(0, 90, "t/stopped", 1, error="cancelled")
    record.ask(0, "t/open")
    record.add(2, "t/event-1", StepSkipped(step="behind", reason="failure", because=("x",)))
    record.add(2, "t/event-2", StepSkipped(step="unwanted", reason="condition"))
    record.add(2, "t/event-3", StepSkipped(step="after-that", reason="needs", because=("unwanted",)))
    found = record.kpis
    assert (found.steps, found.passed, found.stopped, found.open, found.skipped) == (4, 1, 1, 1, 1)
    assert (found.pass_rate, found.status, found.p95_latency_s) == (0.25, "interrupted", 1.0)
    assert kpis_of(record.events, driven=True).status == "running"


def test_a_run_in_which_nothing_happened_has_no_rates() -> None:
    found = Record().kpis
    assert (found.steps, found.pass_rate, found.defect_escape, found.p95_latency_s, found.throughput) == (
        0, None, None, None, None,
    )  # fmt: skip
    assert (found.coordination_ratio, found.total_tokens, found.usd) == (None, 0, None)


def test_a_request_that_reports_no_usage_counts_as_what_was_charged_for_it() -> None:  # Z-12
    record = Record()
    record.ask(0, "t", kind="team")
    record.ask(0, "t/a")
    called = AgentCalled(effect="model", name="m", request="r", reserved=400, reserved_usd=0.25, max_output=100)
    record.add(1, "t/a/request-1", called)
    record.add(2, "t/a/request-1", AgentReturned(body="b", usage=Usage(requests=1)))
    record.add(3, "t/a/request-2", called)
    cut_off = Usage(requests=1, output_tokens=30)
    record.add(4, "t/a/request-2", AgentReturned(body="b", usage=cut_off, partial_usage="cut"))
    record.add(5, "t/a/request-3", called)
    record.add(6, "t/a/request-3", AgentCallFailed(error="server", message="broke off", charged=True, usage=cut_off))
    found = record.kpis
    assert (found.total_tokens, found.usd, found.unmetered) == (400 + 400 + 30, 0.5, 0)


def test_figures_of_requests_without_usage_and_charge_are_not_known() -> None:  # Z-12
    record = Record()
    record.ask(0, "t", kind="team")
    record.ask(0, "t/a")
    record.add(1, "t/a/request-1", AgentCalled(effect="model", name="m", request="r"))
    record.add(2, "t/a/request-1", AgentReturned(body="b", usage=Usage(requests=1)))
    found = record.kpis
    assert (found.unmetered, found.figure("total_tokens"), found.figure("coordination_ratio")) == (1, None, None)
    assert found.figure("asks") == 1
    results = check_gates(read_gates(["total_tokens<=1000", "coordination_ratio<=0.2", "asks<=1"]), found)
    assert [one.passed for one in results] == [False, False, True]
    assert "unknown, since the run has no data for it" in results[0].words


def test_time_without_a_driver_and_time_of_people_are_no_time_of_a_turn() -> None:  # Z-12
    record = Record()
    record.ask(0, "t", kind="team")
    record.ask(10, "t/a")
    record.add(12, "t/a/ask-1", PersonAsked(question=Question(text="?")))
    record.add(13, "t/a/ask-2", PersonAsked(question=Question(text="??")))
    record.add(15, "", RunPaused(stop_reason="person"))
    record.add(500, "", RunResumed())
    record.add(501, "t/a/ask-1", PersonAnswered(answer=Answer(text="!")))
    record.add(503, "t/a/ask-2", PersonAnswered(answer=Answer(text="!!")))
    record.add(507, "", RunResumed())  # after a crash: the time in between is unknown
    record.end(508, "t/a")
    assert record.kpis.p95_latency_s == 3.0  # 10 to 12, and 507 to 508; from 503 on nothing is recorded


def test_a_fork_counts_what_it_took_over_once_and_its_own_time_alone() -> None:  # Z-12
    record = Record(Origin(run_id="before", number=9, how="fork"))
    record.events[0] = Event("r", 1, 1000.0, "", "", record.events[0].fact)
    record.ask(0, "t", kind="team")
    record.turn(0, 4, "t/kept", 10)
    record.turn(4, 8, "t/changed", 20)
    record.turn(8, 9, "t/retried", 40, error="server")
    record.add(1000, "", RunResumed())
    record.ask(1001, "t/changed#2", digest="another")
    record.call(1003, "t/changed#2/request-1", 3)
    record.end(1003, "t/changed#2")
    record.turn(1003, 1004, "t/retried#2", 5)
    record.turn(1004, 1010, "t/new", 100)
    record.add(1010, "", ended(10))
    found = record.kpis
    assert found.total_tokens == 10 + 3 + 40 + 5 + 100
    assert (found.steps, found.passed, found.asks) == (4, 4, 5)
    assert (found.p95_latency_s, found.throughput) == (6.0, 3 * 8640.0)  # `kept` passed in the time of another run


def test_what_a_fork_tried_after_a_failure_takes_nothing_away() -> None:
    record = Record(Origin(run_id="before", number=9, how="fork"))
    record.ask(0, "t", kind="team")
    record.turn(0, 1, "t/a", 30, error="server")
    record.add(1000, "", RunResumed())
    record.add(1000, "t/event-1", AgentRecovered(member="a", error="server", how="summarised", to="a"))
    record.ask(1001, "t/a#2", digest="shorter")
    record.call(1002, "t/a#2/request-1", 7)
    record.end(1002, "t/a#2")
    found = record.kpis
    assert (found.total_tokens, found.steps, found.passed) == (37, 1, 1)


def test_a_call_that_a_fork_makes_again_takes_the_place_of_the_one_it_took_over() -> None:
    record = Record(Origin(run_id="before", number=9, how="fork"))
    record.ask(0, "t", kind="team")
    record.ask(0, "t/a")
    record.call(1, "t/a/request-1", 30)
    record.add(1000, "", RunResumed())
    record.call(1001, "t/a/request-1", 12)
    record.end(1001, "t/a")
    assert record.kpis.total_tokens == 12


def spender(name: str, tokens: int = 10, *texts: str, error: AgentError | None = None) -> FunctionAgent:
    """A member that pays for each answer, of which the last is given again and again."""
    said = list(texts) or [f"{name} says so"]

    async def respond(turn: Turn) -> Reply:
        if error is not None:
            raise error
        text = said.pop(0) if len(said) > 1 else said[0]
        return Reply.of(name, text, usage=Usage(requests=1, input_tokens=tokens - 4, output_tokens=4))

    return FunctionAgent(name, respond)


async def measured(team: Team, **changes: Any) -> Kpis:
    async with Engine("memory") as engine:
        result = await engine.run(team, "go", run_id="r", **changes)
        found = await read_kpis(engine.journal, "r")
    assert (found.total_tokens, found.status, found.stop_reason) == (
        result.usage.total_tokens, result.status, result.stop_reason,
    )  # fmt: skip
    assert found.seconds == round(result.seconds, 2)
    return found


async def test_a_sequential_team_only_works() -> None:  # Z-12
    found = await measured(Team("t", members=[spender("a"), spender("b", 30)]))
    assert (found.work_tokens, found.coordination_tokens, found.steps, found.passed) == (40, 0, 2, 2)


async def test_choosing_who_speaks_next_is_coordination() -> None:  # Z-12
    chooser = spender("chooser", 7, "a", "b")
    team = Team(
        "t", members=[spender("a"), spender("b"), spender("c")], helpers=[chooser], strategy="selector", max_turns=2,
        options={"agent": "chooser"},
    )  # fmt: skip
    found = await measured(team)
    assert (found.work_tokens, found.coordination_tokens, found.steps) == (20, 14, 2)


async def test_decisions_and_the_synthesis_of_an_orchestrator_are_coordination() -> None:  # Z-12
    lead = spender(
        "lead", 50, '{"action": "delegate", "delegations": [{"specialist": "a", "task": "x"}]}', "what?",
        '{"action": "synthesize", "synthesis": "done"}',
    )  # fmt: skip
    team = Team("t", members=[lead, spender("a")], strategy="hierarchical", options={"lead": "lead"})
    found = await measured(team)
    assert (found.work_tokens, found.coordination_tokens, found.steps, found.asks) == (10, 150, 1, 4)


async def test_splitting_and_putting_together_are_coordination() -> None:  # Z-12
    members = [spender("splitter", 20, '{"chunks": ["x", "y", "z"]}'), spender("worker"), spender("editor", 40)]
    options = {"splitter": "splitter", "answer": "editor"}
    found = await measured(Team("t", members=members, strategy="fan_out", options=options))
    assert (found.work_tokens, found.coordination_tokens, found.steps) == (30, 60, 3)


async def test_a_summary_of_a_conversation_that_is_too_long_is_coordination() -> None:  # Z-12
    async def respond(turn: Turn) -> Reply:
        if len(turn.history) > 2:
            raise ContextTooLong("too long")
        return Reply.of("short", "fine", usage=Usage(requests=1, input_tokens=5, output_tokens=5))

    members = [spender("a"), spender("b"), spender("c"), FunctionAgent("short", respond)]
    found = await measured(Team("t", members=members, too_long="summarise"))
    assert (found.work_tokens, found.coordination_tokens, found.steps, found.passed) == (40, 10, 4, 4)


async def test_a_nested_team_is_measured_by_its_members() -> None:  # Z-12
    inner = Team("inner", members=[spender("b"), spender("c")], strategy="round_robin", max_turns=2)
    found = await measured(Team("t", members=[spender("a"), inner]))
    assert (found.steps, found.asks, found.total_tokens) == (5, 5, 50)


async def test_a_plan_behind_a_failed_step_has_not_passed() -> None:  # Z-12
    members = [spender("a", error=AgentError("no")), spender("b"), spender("c")]
    steps: list[JsonValue] = [{"id": "a"}, {"id": "b", "needs": ["a"]}, {"id": "c"}]
    found = await measured(Team("t", members=members, strategy="dag", options={"steps": steps}))
    assert (found.steps, found.passed, found.failed, found.skipped) == (3, 1, 1, 1)


async def test_losers_of_a_race_count_as_stopped() -> None:
    async def never(turn: Turn) -> str:
        import anyio

        await anyio.sleep_forever()
        return ""

    members = [spender("a"), FunctionAgent("b", never)]
    found = await measured(Team("t", members=members, strategy=FirstWins()))
    assert (found.steps, found.passed, found.stopped) == (2, 1, 1)


async def test_a_run_measures_the_same_after_a_crash_anywhere() -> None:  # Z-12
    journal = MemoryJournal()
    chooser = spender("chooser", 7, "a")
    team = Team(
        "t", members=[spender("a"), spender("b"), spender("c")], helpers=[chooser], strategy="selector", max_turns=3,
        options={"agent": "chooser"},
    )  # fmt: skip
    async with Engine(journal) as engine:
        await engine.run(team, "go", run_id="r")
        whole = await read_kpis(journal, "r")
        last = len(await journal.read("r"))
    for at in range(1, last):
        copy = await cut(journal, at)
        async with Engine(copy) as engine:
            partly = await read_kpis(copy, "r")
            assert (partly.status, partly.stop_reason) == ("interrupted", None)
            assert partly.total_tokens <= whole.total_tokens
            await engine.resume("r", team=team)
            again = await read_kpis(copy, "r")
        for name in set(FIGURES) - {"throughput", "p95_latency_s", "seconds"}:
            assert (name, again.figure(name)) == (name, whole.figure(name))


async def test_a_fork_is_measured_as_its_result_says() -> None:  # Z-12
    team = Team("t", members=[spender("a"), spender("b", 20), spender("c", 40)])
    other = Team("t", members=[spender("a"), spender("x", 6), spender("c", 8)])
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="r")
        for at, made, task, expected in (
            ("step-2", team, None, (70, 3, 3)),
            ("step-2", other, None, (24, 3, 3)),
            (None, team, "stay", (70, 3, 3)),
        ):
            result = await engine.fork("r", at=at, team=made, task=task)
            found = await read_kpis(engine.journal, result.run_id)
            assert (found.total_tokens, found.steps, found.asks) == expected
            assert found.total_tokens == result.usage.total_tokens


async def test_a_fork_that_tries_again_counts_the_failed_attempt_and_one_step() -> None:
    broken = Team("t", members=[spender("a"), spender("b", error=AgentError("no"))])
    async with Engine("memory") as engine:
        await engine.run(broken, "go", run_id="r")
        assert (await read_kpis(engine.journal, "r")).pass_rate == 0.5
        mended = Team("t", members=[spender("a"), spender("b")])
        result = await engine.fork("r", retry=True, team=mended)
        found = await read_kpis(engine.journal, result.run_id)
    assert (found.pass_rate, found.steps, found.total_tokens) == (1.0, 2, 20)


async def test_a_run_that_is_not_there_is_reported_with_the_nearest() -> None:
    async with Engine("memory") as engine:
        await engine.run(FakeMembers().chain(1), "go", run_id="here")
        with pytest.raises(RunNotFound, match="here"):
            await read_kpis(engine.journal, "hera")


def test_rows_are_concurrently_in_the_order_of_the_runs() -> None:  # Z-12
    one, two = Record(), Record()
    for record, tokens in ((one, 5), (two, 8)):
        record.ask(0, "t", kind="team")
        record.turn(0, 1, "t/a", tokens)
    rows = {row.figure: row.values for row in side_by_side([one.kpis, two.kpis])}
    assert tuple(rows) == FIGURES
    assert (rows["total_tokens"], rows["usd"], rows["pass_rate"]) == ((5, 8), (None, None), (1.0, 1.0))


turns = st.tuples(
    st.sampled_from(["work", "coordinate", "judge"]),
    st.integers(0, 5000),
    st.sampled_from(["", "", "refused", "cancelled"]),
    st.integers(0, 400),
    st.integers(1, 3),
)


@given(st.lists(turns, max_size=30))
def test_figures_hold_together(drawn: Sequence[tuple[Purpose, int, str, int, int]]) -> None:  # Z-12
    record = Record()
    record.ask(0, "t", kind="team")
    for number, (purpose, tokens, error, quarters, attempts) in enumerate(drawn):
        for attempt in range(1, attempts + 1):
            mark = f"#{attempt}" if attempt > 1 else ""
            record.turn(0, quarters / 4, f"t/turn-{number}{mark}", tokens, purpose, error)
    found = record.kpis
    assert found.work_tokens + found.coordination_tokens + found.judge_tokens == found.total_tokens
    assert found.total_tokens == sum(tokens * attempts for _, tokens, _, _, attempts in drawn)
    assert 0 <= found.coordination_tokens <= found.total_tokens
    if found.total_tokens:
        assert found.coordination_ratio == round(found.coordination_tokens / found.total_tokens, 4)
    assert found.steps == found.passed + found.failed + found.stopped + found.open + found.skipped
    assert found.steps == sum(1 for purpose, *_ in drawn if purpose == "work")
    if found.pass_rate is not None:
        assert found.pass_rate == round(found.passed / found.steps, 4)
        assert found.defect_escape == round(1 - found.pass_rate, 4)
    times = sorted(quarters / 4 for _, _, error, quarters, many in drawn if error != "cancelled" for _ in range(many))
    assert found.p95_latency_s == (times[ceil(0.95 * len(times)) - 1] if times else None)


async def test_an_agent_of_many_requests_is_one_step() -> None:
    async def call(attempt: Attempt) -> Returned:
        return Returned("x", Usage(requests=1, input_tokens=2, output_tokens=1))

    async def respond(turn: Turn, ctx: Context) -> str:
        for number in range(5):
            await ctx.effect(f"request-{number}", Effect("model", "m", str(number), call))
        return "done"

    async def ask(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.scope("part") as inner:
            await inner.ask(members[0], Turn(task.text), key="a")
            await inner.ask(members[0], Turn(task.text, purpose="judge"), key="b")
        return outcome("end")

    found = await measured(Team("t", members=[FunctionAgent("a", respond)], strategy=FunctionStrategy(ask)))
    assert (found.steps, found.asks, found.total_tokens, found.judge_tokens) == (1, 2, 30, 15)


def test_turns_are_listed_one_by_one_with_their_results() -> None:
    usage = Usage(requests=1, input_tokens=7, output_tokens=3)
    facts: list[tuple[float, str, str, Fact]] = [
        (0.0, "", "", RunStarted(team="t", task="x", manifest="m", seed=1)),
        (0.0, "", "t", AgentAsked(member="t", member_kind="team", turn=1, task="x", length=0, digest="d")),
        (1.0, "t", "a", AgentAsked(member="one", member_kind="model", turn=1, task="x", length=0, digest="d")),
        (4.0, "t", "a", AgentReplied(usage=usage, tally=Tally(calls=1, marks=("right",)))),
        (4.0, "t", "b", AgentAsked(member="two", member_kind="model", turn=2, task="x", length=0, digest="d")),
    ]
    events = [Event("r", number, *told) for number, told in enumerate(facts, 1)]
    assert turns_of(events) == (
        TurnFigures(
            key="t/a",
            member="one",
            purpose="work",
            began=1.0,
            ended=4.0,
            status="passed",
            usage=usage,
            marks=("right",),
        ),
        TurnFigures(key="t/b", member="two", purpose="work", began=4.0, ended=None, status="open"),
    )


def test_cached_tokens_and_what_they_saved_are_figures() -> None:
    usage = Usage(requests=1, input_tokens=70, output_tokens=30, cached_tokens=50, usd=0.02, saved_usd=0.01)
    facts: list[tuple[float, str, str, Fact]] = [
        (0.0, "", "", RunStarted(team="t", task="x", manifest="m", seed=1)),
        (0.0, "", "t", AgentAsked(member="t", member_kind="team", turn=1, task="x", length=0, digest="d")),
        (1.0, "t", "a", AgentAsked(member="one", member_kind="model", turn=1, task="x", length=0, digest="d")),
        (2.0, "t/a", "request-1", AgentReturned(body="b", usage=usage)),
        (4.0, "t", "a", AgentReplied(usage=usage)),
    ]
    found = kpis_of([Event("r", number, *one) for number, one in enumerate(facts, 1)])
    assert (found.cached_tokens, found.saved_usd) == (50, 0.01)


def test_what_goes_into_envelopes_is_coordination_and_no_work() -> None:  # Z-12
    usage = Usage(requests=1, input_tokens=70, output_tokens=30)
    facts: list[tuple[float, str, str, Fact]] = [
        (0.0, "", "", RunStarted(team="t", task="x", manifest="m", seed=1)),
        (0.0, "", "t", AgentAsked(member="t", member_kind="team", turn=1, task="x", length=0, digest="d")),
        (1.0, "t", "a", AgentAsked(member="one", member_kind="model", turn=1, task="x", length=0, digest="d")),
        (2.0, "t/a", "request-1", AgentReturned(body="b", usage=usage)),
        (4.0, "t", "a", AgentReplied(usage=usage, envelope_note=EnvelopeNote(tokens=25))),
    ]
    found = kpis_of([Event("r", number, *told) for number, told in enumerate(facts, 1)])
    assert (found.total_tokens, found.work_tokens, found.coordination_tokens) == (100, 75, 25)
    assert found.coordination_ratio == 0.25


async def test_a_step_and_its_revisions_are_one_step_and_the_last_verdict_decides() -> None:
    texts = iter(("first", "a good second", "third"))
    one, other = WordEvaluator(words(revisions=1)), WordEvaluator(words(risk="low"))
    members = [
        FunctionAgent("a", lambda _: next(texts), evaluate=one),
        FunctionAgent("b", lambda _: next(texts), evaluate=other),
        FunctionAgent("c", lambda _: "unjudged"),
    ]
    _, events = await run(Team("t", members=members))
    found = kpis_of(events)
    assert (found.steps, found.passed, found.failed) == (3, 2, 1)
    assert (found.judged, found.assumed, found.pass_rate) == (1, 1, 0.6667)
