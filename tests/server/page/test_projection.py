"""The projection of journal events to page events, for runs of every strategy."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest
from pydantic import JsonValue

from teamwright import Engine, FunctionAgent, Team, Turn, load_team
from teamwright.agents.scripted import Rule, Script, ScriptedAgent
from teamwright.history.recorded_asks import RecordedBodies
from teamwright.server.page.page_events import (
    PageAnswer,
    PageBudget,
    PageDelta,
    PageEvent,
    PageExpertJoined,
    PageExpertLeft,
    PageExpertResult,
    PageExpertStep,
    PageIntervention,
    PageMessage,
    PagePlanUpdate,
    PageQuestion,
    PageRun,
    PageStep,
    PageTeamDissolved,
    PageTeamFormed,
    PageTeamLife,
    PageTeamSynthesis,
    PageToolCall,
    PageToolResult,
    PageVerdict,
    PageVote,
    PageWait,
    PageWarning,
    encode,
)
from teamwright.server.page.projection import PageProjection, read_page_events
from teamwright.testing.trial import a_fact_of_each_kind
from teamwright.values.events.agent import AgentAsked, AgentFailed, AgentReplied, AgentReturned
from teamwright.values.events.event import ArgumentsDelta, Delta, Event, Fact, ThinkingDelta
from teamwright.values.events.run import PersonAnswered, PersonAsked
from teamwright.values.events.team import TeamLife, TeamStarted, TeamStepAssigned, TeamStepCompleted
from teamwright.values.limits import Limits
from teamwright.values.people import Answer, Question
from tests.histories.history import FOLDER, RUN_ID, History
from tests.paths import EXAMPLES

NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


async def of_history(name: str) -> list[PageEvent]:
    return await read_page_events(History.load(name).journal(), RUN_ID)


async def of_example(name: str) -> list[PageEvent]:
    folder = EXAMPLES / name
    async with Engine("memory") as engine:
        await engine.run(load_team(folder), (folder / "task.txt").read_text(encoding="utf-8"), run_id="r")
        return await read_page_events(engine.journal, "r")


@pytest.mark.parametrize("name", NAMES)
async def test_page_events_are_in_order_and_have_unique_positions(name: str) -> None:
    events = await of_history(name)
    for _, group in groupby(events, lambda one: one.number):
        indexes = [one.index for one in group]
        assert indexes == list(range(len(indexes)))
    positions = [(one.number, one.index) for one in events]
    assert positions == sorted(set(positions))


@pytest.mark.parametrize("name", NAMES)
async def test_every_strategy_shows_who_is_asked_and_what_it_said(name: str) -> None:
    events = await of_history(name)
    asked = [one.key for one in events if isinstance(one, PageExpertStep)]
    ended = [one.key for one in events if isinstance(one, PageExpertResult)]
    assert asked
    assert set(ended) <= set(asked)
    assert all(one.expert is not None for one in events if isinstance(one, PageExpertStep | PageExpertResult))
    known = {one.id for event in events if isinstance(event, PageTeamFormed) for one in event.members}
    known |= {event.expert.id for event in events if isinstance(event, PageExpertJoined) and event.expert is not None}
    assert {one.expert.id for one in events if isinstance(one, PageExpertStep) and one.expert is not None} <= known
    assert isinstance(events[0], PageRun)
    assert events[0].state == "started"
    assert len([one for one in events if isinstance(one, PageTeamFormed)]) >= 1


@pytest.mark.parametrize("name", NAMES)
async def test_a_wait_ends_once_with_its_key(name: str) -> None:
    open_: set[str] = set()
    for wait in (one for one in await of_history(name) if isinstance(one, PageWait)):
        assert wait.ended == (wait.key in open_)
        (open_.discard if wait.ended else open_.add)(wait.key)
    assert not open_


async def test_experts_of_a_nested_team_have_ids_of_their_own() -> None:
    events = await of_history("nested")
    inner = [one for one in events if isinstance(one, PageTeamFormed) and "/" in one.scope]
    assert inner
    assert all(expert.id == f"{inner[0].team}/{expert.name}" for expert in inner[0].members)
    ended = [one.team for one in events if isinstance(one, PageTeamDissolved)]
    assert set(ended) == {one.team for one in events if isinstance(one, PageTeamFormed)}


async def test_the_states_of_steps_follow_from_the_asks_where_a_strategy_records_none() -> None:
    events = await of_example("dag")
    plan = next(one for one in events if isinstance(one, PagePlanUpdate))
    assert [(step.id, step.needs, step.state) for step in plan.steps][:3] == [
        ("forecast", (), "pending"),
        ("ground", (), "pending"),
        ("tents", ("forecast",), "pending"),
    ]
    last = {one.step: one.state for one in events if isinstance(one, PageStep)}
    assert sorted(last.values()) == ["completed"] * 4 + ["skipped"]
    assert [one.status for one in events if isinstance(one, PagePlanUpdate)] == ["executing", "completed"]


CONFIRMED = """
agents:
  planner: {model: scripted:replies.yaml}
  writer: {model: scripted:replies.yaml}
teams:
  planned: {strategy: expert, members: [writer], expert: {lead: planner, confirm: true}}
"""
SCRIPT = """
- {agent: planner, json: {steps: [{id: writing, role: writer, task: Write it.}]}}
- {agent: writer, reply: It is written.}
"""
EDITED: JsonValue = {"steps": [{"id": "writing", "role": "writer", "task": "Write it in Latin."}]}


@pytest.mark.experts
@pytest.mark.parametrize(
    ("answer", "task", "statuses"),
    [
        (Answer(text="approve"), "Write it.", ["draft", "confirmed", "executing", "completed"]),
        (
            Answer(text="edit", data=EDITED),
            "Write it in Latin.",
            ["draft", "draft", "confirmed", "executing", "completed"],
        ),
        (Answer(text="reject", data="No."), "Write it.", ["draft", "failed"]),
    ],
)
async def test_a_plan_is_a_draft_until_a_person_has_confirmed_it(
    tmp_path: Path, answer: Answer, task: str, statuses: list[str]
) -> None:
    (tmp_path / "team.yaml").write_text(CONFIRMED, encoding="utf-8")
    (tmp_path / "replies.yaml").write_text(SCRIPT, encoding="utf-8")
    async with Engine("memory") as engine:
        await engine.run(load_team(tmp_path / "team.yaml"), "Write.", run_id="r")
        question = next(one for one in await read_page_events(engine.journal, "r") if isinstance(one, PageQuestion))
        await engine.runs.answer("r", question.key, answer)
        await engine.resume("r")
        events = await read_page_events(engine.journal, "r")
        plans = [one for one in events if isinstance(one, PagePlanUpdate)]
        assert [one.status for one in plans] == statuses
        assert plans[-1].steps[0].task == task
        for after in range(events[-1].number):  # also for a reader who has the events before
            assert await read_page_events(engine.journal, "r", after) == [one for one in events if one.number > after]


@pytest.mark.parametrize(
    ("answer", "task", "statuses"),
    [
        (Answer(text="approve"), "Write it.", ["executing", "draft", "confirmed", "completed"]),
        (Answer(text="reject", data="No."), "Write it.", ["executing", "draft", "failed"]),
    ],
)
async def test_a_fixed_plan_is_a_draft_until_a_person_has_confirmed_it(
    answer: Answer, task: str, statuses: list[str]
) -> None:
    options: dict[str, JsonValue] = {"steps": [{"id": "writer", "task": task}], "confirm": True}
    team = Team("t", members=[FunctionAgent("writer", lambda _: "done")], strategy="dag", options=options)
    async with Engine("memory") as engine:
        await engine.run(team, "Write.", run_id="r")
        question = next(one for one in await read_page_events(engine.journal, "r") if isinstance(one, PageQuestion))
        await engine.runs.answer("r", question.key, answer)
        await engine.resume("r", team=team)
        plans = [one for one in await read_page_events(engine.journal, "r") if isinstance(one, PagePlanUpdate)]
    assert [one.status for one in plans] == statuses
    assert plans[-1].steps[0].task == task


@pytest.mark.experts
async def test_the_plan_of_a_planner_is_shown_also_without_a_confirmation(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(CONFIRMED.replace(", confirm: true", ""), encoding="utf-8")
    (tmp_path / "replies.yaml").write_text(SCRIPT, encoding="utf-8")
    async with Engine("memory") as engine:
        await engine.run(load_team(tmp_path / "team.yaml"), "Write.", run_id="r")
        events = await read_page_events(engine.journal, "r")
    plans = [one for one in events if isinstance(one, PagePlanUpdate)]
    assert [(one.status, one.steps[0].state) for one in plans] == [
        ("draft", "pending"),
        ("executing", "pending"),
        ("completed", "completed"),
    ]
    assert plans[0].steps[0].assignees == ("writer",)


@pytest.mark.experts
async def test_a_review_by_experts_shows_its_plan_verdicts_votes_and_milestones() -> None:
    events = await of_example("expert_review")
    assert [one.outcome for one in events if isinstance(one, PageVerdict)] == ["revise", "pass", "pass"]
    vote = next(one for one in events if isinstance(one, PageVote))
    assert (vote.winner, vote.tied, vote.by) == ("answer-1", ("answer-1", "answer-2"), "chief")
    milestones = [one.text for one in events if isinstance(one, PageMessage) and one.type == "milestone"]
    assert milestones == ["What the design says", "What to change"]
    steps = [(one.step, one.state) for one in events if isinstance(one, PageStep)]
    assert steps[:2] == [("reading", "running"), ("reading", "completed")]
    joined = [one.expert.name for one in events if isinstance(one, PageExpertJoined) and one.expert is not None]
    assert joined == ["chief"], "a check is no expert"
    assert not [one for one in events if one.expert is not None and one.expert.name == "rubric"]
    architect = next(one for one in events if isinstance(one, PageExpertStep)).expert
    assert architect is not None
    assert (architect.name, architect.colour) == ("architect", "#6d28d9")
    answer = next(one for one in events if isinstance(one, PageTeamSynthesis))
    assert answer.text.startswith("# Review")
    assert not answer.failed


async def test_a_question_makes_the_expert_wait_for_a_person() -> None:  # P-12
    events = await of_example("approvals")
    question = next(one for one in events if isinstance(one, PageQuestion))
    wait = next(one for one in events if isinstance(one, PageWait))
    assert (question.key, wait.what, wait.ended) == (wait.key, "person", False)
    assert question.draft
    assert isinstance(events[-1], PageRun)
    assert (events[-1].state, events[-1].waiting_for) == ("paused", (question.key,))


async def test_a_budget_shows_what_is_spent_and_what_was_refused() -> None:
    events = await of_example("budget")
    levels = [one for one in events if isinstance(one, PageBudget) and one.level == "post_office"]
    assert levels[-1].limits is not None
    assert levels[-1].limits.usd == 0.0044
    spent = [one.spent.usd or 0.0 for one in levels]
    assert spent == sorted(spent)
    assert 0 < spent[-1] <= 0.0044
    assert any(one.code == "budget.refused" for one in events if isinstance(one, PageWarning))


async def test_what_calls_without_a_price_cost_is_not_known_and_not_zero() -> None:
    member = ScriptedAgent("clerk", Script(rules=(Rule(reply="done"),)))
    async with Engine(journal="memory") as engine:
        await engine.run(Team("office", members=[member]), "Go", run_id="r", limits=Limits(tokens=1000))
        shown = [one for one in await read_page_events(engine.journal, "r") if isinstance(one, PageBudget)]
    assert shown[-1].spent.tokens
    assert shown[-1].spent.usd is None


async def test_a_tool_call_shows_its_arguments_and_its_result() -> None:
    events = await of_example("a2a_lite")
    call = next(one for one in events if isinstance(one, PageToolCall))
    result = next(one for one in events if isinstance(one, PageToolResult))
    assert call.arguments
    assert result.result
    assert (call.key, call.turn, call.tool) == (result.key, result.turn, result.tool)


async def test_a_message_shows_when_it_was_accepted_and_when_it_took_effect() -> None:
    async with Engine("memory") as engine:
        started: list[str] = []

        async def answer(turn: Turn) -> str:
            if not started:
                started.append(turn.task)
                await engine.runs.say("r", "Be brief.", by="ann")
            return "done"

        team = Team("t", members=[FunctionAgent(name, answer) for name in ("a", "b", "c")], strategy="sequential")
        await engine.run(team, "x", run_id="r")
        events = await read_page_events(engine.journal, "r")
    said = [one for one in events if isinstance(one, PageIntervention)]
    assert [(one.what, one.by, one.text) for one in said[:2]] == [("say", "ann", "Be brief.")] * 2
    assert [one.state for one in said[:2]] == ["accepted", "applied"]
    assert said[0].id == said[1].id


async def test_what_looks_like_a_secret_never_reaches_a_page() -> None:
    secret = "sk-" + "a1b2c3d4" * 4
    async with Engine("memory") as engine:
        team = Team("t", members=[FunctionAgent("a", lambda turn: f"the key is {secret}")], strategy="sequential")
        await engine.run(team, f"use {secret}", run_id="r")
        written = encode(await read_page_events(engine.journal, "r")).decode()
    assert "the key is" in written
    assert secret not in written


def test_every_kind_of_fact_can_be_projected_wherever_it_occurs() -> None:
    class Everything(dict[str, str]):
        def __contains__(self, key: object) -> bool:
            return True

        def __missing__(self, key: str) -> str:
            return '{"manifest": {"agents": {"x": 3}, "teams": []}}'

    projection = PageProjection()
    made: list[PageEvent] = []
    for number, sample in enumerate(a_fact_of_each_kind(), start=1):
        fact = sample.changed(texts=()) if isinstance(sample, AgentReturned) else sample  # their places fit no value
        for scope in ("", "team", "team/step/work"):
            event = Event("r", number, 1.0, scope, "request-1", fact)
            made += projection.apply(event, RecordedBodies(Everything()))
    assert encode(made)


@pytest.mark.experts
async def test_a_live_team_shows_its_milestones() -> None:
    evaluate: JsonValue = {"criteria": [{"id": "done", "contains": "done"}]}
    steps: list[JsonValue] = [
        {"id": "walls", "name": "The walls", "agent": "a", "evaluate": evaluate},
        {"id": "roof", "agent": "b"},
    ]
    members = [FunctionAgent(name, lambda _: "done") for name in ("a", "b")]
    team = Team("t", members=members, strategy="live", options={"steps": steps})
    async with Engine("memory") as engine:
        await engine.run(team, "Build.", run_id="r")
        events = await read_page_events(engine.journal, "r")
    plan = next(one for one in events if isinstance(one, PagePlanUpdate))
    assert [(one.id, one.milestone) for one in plan.steps] == [("walls", True), ("roof", False)]
    reached = [(one.text, one.step) for one in events if isinstance(one, PageMessage) and one.type == "milestone"]
    assert reached == [("The walls", "walls")]
    assert not [one for one in events if isinstance(one, PageExpertJoined)]
    ended = [(one.step, one.state) for one in events if isinstance(one, PageStep) and one.state != "running"]
    assert ended == [("walls", "completed"), ("roof", "completed"), ("answer", "completed")]


def test_a_step_of_several_keeps_those_who_worked_on_it() -> None:
    events = projected(
        ("", "t", asked("t", "team")),
        ("t", "1", STARTED),
        ("t", "2", TeamStepAssigned(step="walls", member="a", members=("a", "b"))),
        ("t", "3", TeamStepCompleted(step="walls", member="lead", state="completed")),
    )
    assert [(one.state, one.assignees) for one in events if isinstance(one, PageStep)] == [
        ("running", ("a", "b")),
        ("completed", ()),
    ]


def test_a_check_that_fails_is_a_warning() -> None:
    events = projected(
        ("", "t", asked("t", "team")),
        ("t", "1", STARTED),
        ("t", "walls/evaluation-1/work", asked("rubric", "evaluator")),
        ("t", "walls/evaluation-1/work", AgentFailed(member="rubric", error="crash", message="no such file")),
    )
    assert isinstance(events[-1], PageWarning)
    assert events[-1].text == "no such file"


def asked(member: str, kind: str = "function") -> AgentAsked:
    return AgentAsked(member=member, member_kind=kind, turn=1, task="", length=0, digest="")


def projected(*facts: tuple[str, str, Fact]) -> list[PageEvent]:
    """The page events of facts, each with its scope and place."""
    texts = RecordedBodies({"": '"x"'})
    projection = PageProjection()
    return [
        one
        for number, (scope, place, fact) in enumerate(facts, start=1)
        for one in projection.apply(Event("r", number, 1.0, scope, place, fact), texts)
    ]


STARTED = TeamStarted(strategy="live", strategy_version=1, members=("a", "b"))


def test_a_live_team_shows_who_joined_and_who_left() -> None:
    events = projected(
        ("", "t", asked("t", "team")),
        ("t", "1", STARTED),
        ("t", "2", TeamLife(state="executing", lead="a", members=("a", "b", "c"), reason="c joined")),
        ("t", "3", TeamLife(state="executing", lead="a", members=("a", "c"), left=("b",), reason="b left")),
    )
    changes = [one for one in events if isinstance(one, PageExpertJoined | PageExpertLeft)]
    assert [(type(one), one.expert and one.expert.id, one.reason) for one in changes] == [
        (PageExpertJoined, "c", "c joined"),
        (PageExpertLeft, "b", "b left"),
    ]
    assert len([one for one in events if isinstance(one, PageTeamLife)]) == 2


def test_a_turn_belongs_to_the_step_that_its_member_works_on() -> None:
    events = projected(
        ("", "t", asked("t", "team")),
        ("t", "1", STARTED),
        ("t", "2", TeamStepAssigned(step="walls", member="a")),
        ("t", "turn-1", asked("a")),
        ("t", "turn-1", AgentReplied()),
        ("t", "3", TeamStepCompleted(step="walls", member="a", state="completed")),
        ("t", "turn-2", asked("a")),
    )
    assert [one.step for one in events if isinstance(one, PageExpertStep)] == ["walls", ""]


def test_what_a_team_leaves_unfinished_is_cancelled_with_it() -> None:
    events = projected(
        ("", "t", asked("t", "team")),
        ("t", "1", STARTED),
        ("t", "2", TeamStepAssigned(step="walls", member="a")),
        ("", "t", AgentFailed(member="t", error="budget", message="nothing is left")),
    )
    assert [(one.step, one.state) for one in events if isinstance(one, PageStep)] == [
        ("walls", "running"),
        ("walls", "cancelled"),
    ]
    assert isinstance(events[-1], PageTeamDissolved)
    assert events[-1].reason == "budget"


async def test_pieces_of_a_reply_are_masked_and_count_what_is_shown() -> None:
    projection = PageProjection()
    journal = History.load("round_robin").journal()
    events = await journal.read(RUN_ID)
    asked = next(one for one in events if one.kind == "agent.asked" and "/" in one.key)
    bodies = RecordedBodies(await journal.bodies({getattr(events[0].fact, "manifest", "")}))
    for event in events[: asked.number]:
        projection.catch_up(event, bodies)

    def piece(kind: type[Delta | ThinkingDelta], offset: int, text: str) -> PageDelta | None:
        return projection.delta(kind(run_id=RUN_ID, key=asked.key, member="x", attempt=1, offset=offset, text=text))

    first, second = piece(Delta, 0, "the key sk-a1b2c3d4"), piece(Delta, 19, "a1b2c3d4a1b2c3d4 is here ")
    assert first is not None
    assert second is not None
    assert "a1b2c3d4" not in first.text + second.text
    assert (first.offset, second.offset, first.part) == (0, len(first.text), "text")
    thought = piece(ThinkingDelta, 0, "so ")
    assert thought is not None
    assert (thought.part, thought.offset, thought.expert) == ("thinking", 0, first.expert)
    call = projection.delta(
        ArgumentsDelta(run_id=RUN_ID, key=asked.key, member="x", attempt=1, offset=0, text="{ ", tool="t", call=1)
    )
    assert call is not None
    assert (call.part, call.tool, call.call) == ("arguments", "t", 1)
    late = Delta(run_id=RUN_ID, key="nobody", member="x", attempt=1, offset=0, text="late ")
    assert projection.delta(late) is None


def test_a_question_about_a_reply_is_that_of_its_author() -> None:  # P-12
    question = PersonAsked(question=Question(text="May it count?", reason="approval"))
    events = projected(
        ("", "t", asked("t", "team")),
        ("t", "1", STARTED),
        ("t", "turn-1", asked("a")),
        ("t", "turn-1/confirm-after", question),
        ("t", "turn-1/confirm-after", PersonAnswered(answer=Answer(text="approve", by="ann"))),
    )
    about = [one for one in events if isinstance(one, PageQuestion | PageAnswer | PageWait)]
    assert [one.expert and one.expert.id for one in about] == ["a"] * 4
