"""The work on a step: the failure table, a line a cell, and the ladder, each rung with its event."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from teamwright import Answer, Engine
from teamwright.agents.agent import Agent, Context, Policy
from teamwright.agents.evaluators import EVALUATOR, Evaluator
from teamwright.errors import InvalidRequest, Refused
from teamwright.experts.rubric import Rubric
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.strategies.plan.steps.step_work import states_nothing_found
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.events.team import TeamHandoff, TeamStepCompleted, TeamStepFailed
from teamwright.values.specs.evaluation import Criterion, Evaluate
from teamwright.values.turns.turn import Reply, Turn
from tests.kit.ladders import ladder
from tests.kit.members import FakeMembers
from tests.kit.runs import run

ERROR = Refused("the words of an error")
WRONG = InvalidRequest("the words of an error")


class CrashingEvaluator(Evaluator):
    """Raises."""

    kind, name = EVALUATOR, "crashing"

    def __init__(self, declaration: Evaluate, *, judge: Sequence[Agent] = ()) -> None:
        self.declaration = declaration

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        raise ZeroDivisionError


CRASH = {"evaluator": "tests.strategies.plan.steps.test_step_work:CrashingEvaluator"}
NEVER = {"criteria": [{"id": "never", "contains": "no such text"}]}
STEPS: list[dict[str, Any]] = [{"id": "a"}, {"id": "b"}, {"id": "c", "needs": ["a", "b"]}]


async def never(turn: Turn) -> str:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


@dataclass(frozen=True)
class Cell:
    """What goes wrong under which options, and how the team ends."""

    phase: str
    wrong: dict[str, object]
    options: dict[str, Any]
    ending: tuple[str, str]
    output: str | None
    rungs: tuple[str, ...] = ()
    handoffs: int = 0


COMPLETED, DEGRADED, TIMEOUT = ("completed", "done"), ("degraded", "done"), ("timeout", "deadline")
FAILED, EXCEEDED, UNPLANNED = ("failed", "error"), ("failed", "review_exceeded"), ("failed", "planning")
RETRY, UPGRADE, DOWNGRADE = "retry", "upgrade_model", "downgrade_model"
SKIP, ABORT_TEAM = "skip_step", "abort_team"
ONE: dict[str, Any] = {"steps": [{"id": "a"}]}
CHAIN: dict[str, Any] = {"steps": [{"id": "a"}, {"id": "b", "needs": ["a"]}, {"id": "c", "needs": ["b"]}]}
BESIDE: dict[str, Any] = {"steps": [{"id": "a"}, {"id": "b", "needs": ["a"]}, {"id": "c"}]}
CHEAP: dict[str, Any] = {"steps": [{"id": "e"}]}
STRONG: dict[str, Any] = {"steps": [{"id": "s"}]}
REQUIRED: dict[str, Any] = {"steps": [{"id": "a", "required": True}, *STEPS[1:]]}
KEPT: dict[str, Any] = {"on_failure": ladder(upgrade_model=False)}
ABORT: dict[str, Any] = {"on_failure": ladder(skip_step=False)}
FALLBACK = {"on_planner_failure": "single_step_fallback"}
LOW = {"risk": "low"}
AUTO_PASS = {"risk": "low", "on_failure": "pass"}

TABLE = [
    Cell("planner: fail fast", {"p": "no plan"}, {"lead": "p"}, UNPLANNED, None),
    Cell("planner: single step", {"p": "no plan"}, {"lead": "p", **FALLBACK}, DEGRADED, "a"),
    Cell("generator: retry", {"a": [ERROR]}, {}, COMPLETED, "c", (RETRY,)),
    Cell("generator: retry twice", {"a": [ERROR, ERROR]}, {"on_failure": ladder(2)}, COMPLETED, "c", (RETRY, RETRY)),
    Cell("generator: downgrade", {"e": [ERROR, ERROR]}, {**CHEAP}, DEGRADED, "e", (RETRY, DOWNGRADE)),
    Cell("generator: upgrade", {"s": [ERROR, ERROR]}, {**STRONG}, COMPLETED, "s", (RETRY, UPGRADE)),
    Cell("generator: upgrade, downgrade", {"s": [ERROR] * 3}, {**STRONG}, DEGRADED, "s", (RETRY, UPGRADE, DOWNGRADE)),
    Cell("generator: no upgrade", {"s": [ERROR] * 2}, {**STRONG, **KEPT}, DEGRADED, "s", (RETRY, DOWNGRADE)),
    Cell("generator: a wrong setting of both", {"s": WRONG}, {**STRONG}, FAILED, None, (SKIP,)),
    Cell("generator: a wrong setting", {"e": WRONG}, {**CHEAP}, FAILED, None, (SKIP,)),
    Cell("generator: a wrong setting, skip", {"a": WRONG}, {}, DEGRADED, "c", (SKIP,)),
    Cell("generator: a wrong setting, abort", {"a": WRONG}, {**ABORT}, FAILED, None, (ABORT_TEAM,)),
    Cell("generator: skip", {"a": ERROR}, {}, DEGRADED, "c", (RETRY, SKIP)),
    Cell("generator: skip the last step", {"c": ERROR}, {}, DEGRADED, "b", (RETRY, SKIP)),
    Cell("generator: skip all that a chain begins with", {"a": ERROR}, {**CHAIN}, FAILED, None, (RETRY, SKIP)),
    Cell("generator: skip a chain beside a step", {"a": ERROR}, {**BESIDE}, DEGRADED, "c", (RETRY, SKIP)),
    Cell("generator: skip the only step", {"a": ERROR}, {**ONE}, FAILED, None, (RETRY, SKIP)),
    Cell("generator: abort", {"a": ERROR}, {**ABORT}, FAILED, "b", (RETRY, ABORT_TEAM)),
    Cell("generator: abort a required step", {"a": ERROR}, {**REQUIRED}, FAILED, "b", (RETRY, ABORT_TEAM)),
    Cell("generator: the whole ladder", {"e": ERROR}, {**CHEAP, **ABORT}, FAILED, None, (RETRY, DOWNGRADE, ABORT_TEAM)),
    Cell("evaluator crash: low", {}, {"risk": "low", "evaluate": CRASH}, DEGRADED, "c"),
    Cell("evaluator crash: low, auto pass", {}, {"evaluate": {**CRASH, **AUTO_PASS}}, DEGRADED, "c"),
    Cell("evaluator crash: medium", {}, {**ONE, "evaluate": CRASH}, EXCEEDED, "a", (), 1),
    Cell("evaluator crash: high", {}, {**ONE, "risk": "high", "evaluate": CRASH}, EXCEEDED, "a", (), 1),
    Cell("timeout", {"b": never}, {"timeout": 0.3}, TIMEOUT, "a"),
    Cell("timeout while planning", {"p": never}, {"lead": "p", "timeout": 0.05}, TIMEOUT, None),
    Cell("review overrun: low", {}, {"risk": "low", "evaluate": NEVER}, DEGRADED, "c"),
    Cell("review overrun: medium", {}, {**ONE, "evaluate": NEVER}, EXCEEDED, "a", (), 1),
    Cell("review overrun: upgrade", {}, {**STRONG, "evaluate": NEVER}, EXCEEDED, "s", (UPGRADE,), 1),
    Cell("review overrun: upgrade, low", {}, {**STRONG, **LOW, "evaluate": NEVER}, DEGRADED, "s", (UPGRADE,)),
    Cell("review overrun: high", {}, {**ONE, "risk": "high", "evaluate": NEVER}, EXCEEDED, "a", (), 1),
]  # fmt: skip
"""The failure table: planner, generator, evaluator, timeout, review loop."""


def answers(given: object) -> object:
    """An exception each time, or one for each of the first asks."""
    if not isinstance(given, list):
        return given
    left = list[Any](given)
    return lambda _: left.pop(0) if left else None


def expert(fakes: FakeMembers, wrong: dict[str, object], **options: Any) -> Team:
    made = {name: fakes.member(name, answers(wrong.get(name))) for name in "abcesp"}
    made["e"].policy = Policy(economy="server/cheap")
    made["s"].policy = Policy(economy="server/cheap", stronger="server/strong")
    given: dict[str, Any] = {} if "lead" in options else {"steps": STEPS}
    members = [made[name] for name in "abces"]
    return Team("t", members=members, helpers=[made["p"]], strategy="expert", options={**given, **options})


def rungs(events: list[Event]) -> tuple[str, ...]:
    return tuple(event.fact.rung for event in events if isinstance(event.fact, TeamStepFailed))


def completed(events: list[Event]) -> dict[str, TeamStepCompleted]:
    return {event.fact.step: event.fact for event in events if isinstance(event.fact, TeamStepCompleted)}


@pytest.mark.parametrize("cell", TABLE, ids=lambda cell: cell.phase)
async def test_the_team_ends_as_the_failure_table_says(cell: Cell) -> None:  # K-05, K-06, K-08, K-09, K-12
    fakes = FakeMembers()
    result, events = await run(expert(fakes, cell.wrong, **cell.options))
    assert (result.status, result.stop_reason) == cell.ending
    assert result.output == (None if cell.output is None else f"{cell.output} is done")
    assert rungs(events) == cell.rungs
    assert sum(isinstance(event.fact, TeamHandoff) for event in events) == cell.handoffs
    (ending,) = [event.fact.to_json() for event in events if event.kind == "team.ended"]
    assert (ending["status"], ending["stop_reason"]) == cell.ending
    assert not fakes.any_received("the words of an error")


async def test_a_cheaper_model_answers_after_the_rung_that_downgrades() -> None:  # K-06
    fakes = FakeMembers()
    _, events = await run(expert(fakes, {"e": [ERROR, ERROR]}, steps=[{"id": "e"}]))
    assert [turn.tier for _, turn in fakes.received] == ["primary", "primary", "economy"]
    asked = [event.fact.to_json() for event in events if event.kind == "agent.asked" and event.key.endswith("work")]
    assert [one["tier"] for one in asked if one["member"] == "e"] == ["primary", "primary", "economy"]


async def test_work_of_a_cheaper_model_is_a_warning_that_names_what_failed_before() -> None:
    result, events = await run(expert(FakeMembers(), {"e": [ERROR, ERROR]}, steps=[{"id": "e"}]))
    (warning,) = result.warnings
    assert warning == "t: 'e' failed at the step 'e' (refused: the words of an error); its economy model took over"
    assert completed(events)["e"].state == "degraded"


async def test_where_the_cheaper_model_fails_too_the_failure_names_both() -> None:
    errors = [Refused("the regular one fails"), Refused("the regular one fails"), Refused("the cheap one fails")]
    result, _ = await run(expert(FakeMembers(), {"e": errors}, steps=[{"id": "e"}]))
    assert result.failure is not None
    assert "the regular one fails; its economy model failed too: the cheap one fails" in result.failure.message


async def test_a_stronger_model_answers_after_the_rung_that_upgrades() -> None:
    fakes = FakeMembers()
    result, events = await run(expert(fakes, {"s": [ERROR, ERROR]}, steps=[{"id": "s"}]))
    assert [turn.tier for _, turn in fakes.received] == ["primary", "primary", "stronger"]
    asked = [event.fact.to_json() for event in events if event.kind == "agent.asked" and event.key.endswith("work")]
    assert [one["tier"] for one in asked if one["member"] == "s"] == ["primary", "primary", "stronger"]
    assert (result.status, result.warnings) == ("completed", ())
    assert (completed(events)["s"].state, completed(events)["s"].attempts) == ("completed", 3)


async def test_a_stronger_model_revises_work_that_did_not_pass_in_any_round_and_reads_the_reviews() -> None:
    fakes = FakeMembers()
    good = {"criteria": [{"id": "says_it", "contains": "strong words"}]}

    def write(turn: Turn) -> str:
        return "strong words" if turn.tier == "stronger" else "weak words"

    options: dict[str, Any] = {"evaluate": good, "revisions": 1}
    result, events = await run(expert(fakes, {"s": write}, steps=[{"id": "s"}], **options))
    assert (result.status, result.output) == ("completed", "strong words")
    assert [turn.tier for _, turn in fakes.received] == ["primary", "primary", "stronger"]
    last = fakes.received[-1][1]
    assert "Review 2: score 0.00" in last.task
    assert [message.content for message in last.history][-2:] == ["weak words", "weak words"]
    assert rungs(events) == ("upgrade_model",)
    assert (completed(events)["s"].verdict, completed(events)["s"].attempts) == ("pass", 3)


async def test_a_stronger_model_tries_work_that_failed_the_own_evaluation_of_its_member() -> None:
    fakes = FakeMembers()
    picky = Rubric(Evaluate(criteria=(Criterion(id="says_it", contains="strong words"),)))
    write = fakes.member("s", lambda turn: "strong words" if turn.tier == "stronger" else "weak", evaluate=picky)
    write.policy = write.policy.changed(stronger="server/strong")
    result, events = await run(Team("t", members=[write], strategy="expert", options={"steps": [{"id": "s"}]}))
    assert (result.status, result.output, rungs(events)) == ("completed", "strong words", ("upgrade_model",))


@pytest.mark.parametrize("strategy", ["expert", "dag"])
async def test_work_that_passed_the_own_evaluation_of_its_member_is_reviewed_by_the_step_too(strategy: str) -> None:
    fakes = FakeMembers()
    done = Evaluate(criteria=(Criterion(id="done", contains="done"),), revisions=1)
    texts = iter(["not yet", "done, and now", "done and good"])
    member = fakes.member("a", lambda _: next(texts), evaluate=Rubric(done))
    good = {"criteria": [{"id": "good", "contains": "good"}], "revisions": 1}
    options: dict[str, Any] = {"steps": [{"id": "a", "evaluate": good}]}
    result, _ = await run(Team("t", members=[member], strategy=strategy, options=options))
    assert (result.status, result.output) == ("completed", "done and good")


async def test_where_every_model_fails_the_failure_names_them() -> None:
    result, events = await run(expert(FakeMembers(), {"s": ERROR}, steps=[{"id": "s"}]))
    assert result.failure is not None
    assert "; its stronger and economy models failed too: the words of an error" in result.failure.message
    assert rungs(events) == ("retry", "upgrade_model", "downgrade_model", "skip_step")


@pytest.mark.parametrize("preset", ["plan", "dag", "expert", "dispatch", "collaborate", "live"])
async def test_a_ladder_of_every_preset_tries_the_stronger_model(preset: str) -> None:
    fakes = FakeMembers()
    weak = fakes.member("s", lambda turn: None if turn.tier == "stronger" else ERROR)
    weak.policy = Policy(stronger="server/strong")
    options: dict[str, Any] = {"steps": [{"id": "one", "agent": "s"}], "answer": "one", "on_failure": ladder(0)}
    result, events = await run(Team("t", members=[weak, fakes.member("b")], strategy=preset, options=options))
    assert (result.status, rungs(events)) == ("completed", ("upgrade_model",))


async def test_rungs_that_can_not_help_a_wrong_setting_are_passed_over_visibly() -> None:
    _, events = await run(expert(FakeMembers(), {"e": WRONG}, steps=[{"id": "e"}]))
    (only,) = [event.fact for event in events if isinstance(event.fact, TeamStepFailed)]
    assert (only.passed_over, only.error) == (("retry", "upgrade_model", "downgrade_model"), "invalid_request")


async def test_a_rung_that_does_not_apply_is_passed_over_visibly() -> None:  # K-06
    _, events = await run(expert(FakeMembers(), {"a": ERROR}))
    last = [event.fact for event in events if isinstance(event.fact, TeamStepFailed)][-1]
    assert (last.rung, last.passed_over) == ("skip_step", ("upgrade_model", "downgrade_model"))
    assert (last.attempt, last.error) == (2, "refused")


async def test_a_step_that_uses_up_its_own_time_is_skipped_and_the_others_go_on() -> None:  # K-06
    steps = [{"id": "a", "limits": {"seconds": 0.05}}, *STEPS[1:]]
    result, events = await run(expert(FakeMembers(), {"a": never}, steps=steps))
    assert (result.status, result.output) == ("degraded", "c is done")
    assert rungs(events) == ("skip_step",)
    assert completed(events)["a"].state == "degraded"


async def test_the_retries_of_a_step_are_counted_over_all_of_its_rounds() -> None:
    replies = ["bad", ERROR, "bad", ERROR]
    result, events = await run(expert(FakeMembers(), {"a": replies}, steps=[{"id": "a"}], evaluate=NEVER))
    assert rungs(events) == ("retry", "skip_step")
    assert result.status == "failed"


async def test_an_optional_member_is_skipped_even_where_the_ladder_would_abort() -> None:
    fakes = FakeMembers()
    members = [fakes.member("a", ERROR, optional=True), *fakes.members("b c")]
    options: dict[str, Any] = {"steps": STEPS, "on_failure": ladder(skip_step=False)}
    result, events = await run(Team("t", members=members, strategy="expert", options=options))
    assert (result.status, result.output) == ("degraded", "c is done")
    assert rungs(events) == ("retry", "skip_step")


@pytest.mark.parametrize("text", ["NOTHING FOUND", "nothing found.", ' **"Nothing found"** '])
async def test_nothing_found_is_an_answer_where_the_step_declares_it(text: str) -> None:
    steps = [{"id": "a", "nothing_found": True, "evaluate": NEVER}, {"id": "b", "needs": ["a"]}]
    fakes = FakeMembers()
    result, events = await run(expert(fakes, {"a": text}, steps=steps))
    assert (result.status, result.output) == ("completed", "b is done")
    assert completed(events)["a"].nothing_found
    assert "answer with exactly: NOTHING FOUND" in fakes.received[0][1].task
    assert fakes.received[0][1].task.endswith("Bring the harbour into order.")


async def test_nothing_found_is_evaluated_like_any_text_where_no_step_declares_it() -> None:
    result, _ = await run(expert(FakeMembers(), {"a": "NOTHING FOUND"}, steps=[{"id": "a", "evaluate": NEVER}]))
    assert (result.status, result.stop_reason) == ("failed", "review_exceeded")


def test_a_text_about_more_than_nothing_is_not_nothing() -> None:
    assert not states_nothing_found(Reply.of("a", "NOTHING FOUND, except one bug"))
    assert not states_nothing_found(Reply.of("a", ""))


async def test_work_that_a_member_lets_evaluate_itself_is_treated_by_the_risk_too() -> None:
    for risk, ending in (("low", ("degraded", "done")), ("medium", ("failed", "review_exceeded"))):
        fakes = FakeMembers()
        picky = Rubric(Evaluate(criteria=(Criterion(id="never", contains="no such text"),)))
        members = [fakes.member("a", evaluate=picky), fakes.member("b")]
        options: dict[str, Any] = {"risk": risk, "steps": [{"id": "a"}, {"id": "b", "needs": ["a"]}]}
        result, _ = await run(Team("t", members=members, strategy="expert", options=options))
        assert (result.status, result.stop_reason) == ending


@pytest.mark.parametrize("nested", [False, True])
async def test_what_a_person_stopped_does_not_count_at_low_risk_either(nested: bool) -> None:
    fakes, journal = FakeMembers(), MemoryJournal()
    asks = Rubric(Evaluate(criteria=(Criterion(id="never", contains="no such text"),), on_failure="ask"))
    writer = fakes.member("a", evaluate=asks)
    member = Team("a_team", members=[writer]) if nested else writer
    team = Team("t", members=[member, *fakes.members("b")], strategy="expert", options={"risk": "low"})
    async with Engine(journal) as engine:
        paused = await engine.run(team, "Write.", run_id="r")
        (key,) = (await engine.runs.history("r")).questions()
        await engine.runs.answer("r", key, Answer(text="stop"))
        result = await engine.resume("r", team=team)
    assert (paused.status, result.status, result.stop_reason) == ("paused", "failed", "review_exceeded")


async def test_an_author_that_terminates_does_not_escape_the_review() -> None:
    fakes = FakeMembers()

    def hurried(turn: Turn) -> Reply:
        return Reply.of("a", "I am done.").changed(signal="terminate")

    options: dict[str, Any] = {"steps": [{"id": "a"}], "risk": "high", "evaluate": NEVER, "revisions": 0}
    result, events = await run(Team("t", members=[fakes.member("a", hurried)], strategy="expert", options=options))
    assert (result.status, result.stop_reason) == ("failed", "review_exceeded")
    assert [one.fact.verdict for one in events if isinstance(one.fact, TeamStepCompleted)] == ["review_exceeded"]
