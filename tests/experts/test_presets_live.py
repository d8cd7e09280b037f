"""Live teams: members who talk to each other, and people who change the team while it works."""

from __future__ import annotations

import json
from typing import cast

import anyio
import pytest
from pydantic import JsonValue

from teamwright import Engine, Team
from teamwright.agents.agent import Context
from teamwright.agents.attachments import Attachment
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.errors import InterventionRefused, ManifestError
from teamwright.experts.presets import Live
from teamwright.experts.rubric import Rubric
from teamwright.history.run_history import RunHistory
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.recorded.reader import read_texts
from teamwright.server.page.page_events import PageMessage
from teamwright.server.page.projection import read_page_events
from teamwright.strategies.protocol import Settings, Strategy
from teamwright.testing.strategy import StrategyConformance
from teamwright.values.events.event import Event
from teamwright.values.events.team import (
    TeamEvaluationStarted,
    TeamHandoff,
    TeamLife,
    TeamMessage,
    TeamPlanChanged,
    TeamStepCompleted,
)
from teamwright.values.limits import Limits
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Reply, RequestKind, Turn
from tests.kit.ladders import ladder
from tests.kit.members import FakeMembers
from tests.kit.records import cut_and_resume
from tests.kit.steering import Gate, run_steered

TASK = "Build a shed."
STEPS: list[JsonValue] = [
    {"id": "look", "agent": "a", "task": "Look around."},
    {"id": "draw", "agent": "b", "task": "Draw it.", "needs": ["look"]},
    {"id": "check", "agent": "c", "task": "Check it.", "needs": ["draw"]},
]
LIFE = ["forming", "planning", "executing", "synthesizing", "completed", "dissolved"]


def facts(events: list[Event], kind: type[object]) -> list[object]:
    return [event.fact for event in events if isinstance(event.fact, kind)]


def asks(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.key.partition("/")[2], event.fact.member) for event in events if event.kind == "agent.asked"][1:]  # type: ignore[union-attr]


def asker(name: str, *requests: tuple[RequestKind, str, str]) -> FunctionAgent:
    """Make a member that posts one of these requests in each of its turns, as long as there are some."""

    async def respond(turn: Turn, ctx: Context) -> str:
        posted = sum(one.startswith(f"requests/{name}/") for one in ctx.workspace.names())
        if posted < len(requests):
            kind, to, text = requests[posted]
            if kind == "message":
                await ctx.message(text, key="call")
            else:
                await ctx.ask_member(to, text, key="call", hand_over=kind == "hand_over")
        return f"{name} in turn {turn.number}"

    return FunctionAgent(name, respond)


async def run(team: Team, journal: MemoryJournal | None = None) -> tuple[RunResult, list[Event]]:
    journal = journal or MemoryJournal()
    async with Engine(journal) as engine:
        with anyio.fail_after(10):
            result = await engine.run(team, TASK, run_id="r")
    return result, await journal.read("r")


def live(members: list[FunctionAgent], steps: list[JsonValue] | None = None, **options: JsonValue) -> Team:
    return Team("t", members=members, strategy="live", options={"steps": steps or STEPS, **options})


class TestLive(StrategyConformance):
    def make(self) -> Strategy:
        return Live()


class TestLiveWithAPlan(StrategyConformance):
    settings = Settings(options={"steps": [{"id": "one", "agent": "member-2"}, {"id": "member-3", "needs": ["one"]}]})

    def make(self) -> Strategy:
        return Live()


async def test_a_team_lives_from_forming_to_dissolution_and_its_outputs_stay() -> None:
    journal = MemoryJournal()
    members = FakeMembers()
    result, events = await run(live(members.members("a b c")), journal)
    assert (result.status, result.output) == ("completed", "a is done")
    assert [one.state for one in cast("list[TeamLife]", facts(events, TeamLife))] == LIFE
    assert asks(events) == [("look/work", "a"), ("draw/work", "b"), ("check/work", "c"), ("answer/work", "a")]
    history = await RunHistory.load(journal, events)
    store = history.record.workspace.store(history.record.bodies)
    assert {name: held.value for name in store.names(10**9) if (held := store.get(name, 10**9))} == {
        "outputs/look": "a is done",
        "outputs/draw": "b is done",
        "outputs/check": "c is done",
    }


async def test_a_team_whose_lead_fails_at_the_plan_fails_and_says_nothing_of_going_on() -> None:
    members = FakeMembers()

    def lead(turn: Turn) -> str:
        raise ValueError("no plan today")

    result, _ = await run(Team("t", members=[members.member("a", lead), members.member("b")], strategy="live"))
    assert result.status == "failed"
    assert not any("works on the task in turn" in text for text in result.warnings)


@pytest.mark.parametrize(
    "request_", [("assist", "b", "What now?"), ("hand_over", "b", "Yours."), ("assist", "x", "Who?")]
)
async def test_the_tools_of_a_role_hold_in_every_turn_for_its_step(request_: tuple[RequestKind, str, str]) -> None:
    turns: list[tuple[str, Turn]] = []

    def noting(name: str, *requests: tuple[RequestKind, str, str]) -> FunctionAgent:
        posting = asker(name, *requests)

        async def respond(turn: Turn, ctx: Context) -> Reply:
            turns.append((name, turn))
            return await posting.respond(turn, ctx)

        return FunctionAgent(name, respond)

    role: JsonValue = {"agent": "a", "tools": ["look"]}
    team = live([noting("lead"), noting("a", request_), noting("b")], [{"id": "one", "role": "r"}], roles={"r": role})
    await run(team)
    of_step = [turn for name, turn in turns if name != "lead" and "asks for your help" not in turn.task]
    assert [turn.tools for turn in of_step] == [("look",), ("look",)]


async def test_the_files_of_a_task_go_where_the_task_goes() -> None:  # L-A-3
    turns: list[Turn] = []

    def noting(name: str, *requests: tuple[RequestKind, str, str]) -> FunctionAgent:
        posting = asker(name, *requests)

        async def respond(turn: Turn, ctx: Context) -> Reply:
            turns.append(turn)
            return await posting.respond(turn, ctx)

        return FunctionAgent(name, respond)

    photo = Attachment(b"\x89PNG\r\n\x1a\n", "photo.png")
    members = [noting("a"), noting("b", ("assist", "c", "How high?"), ("hand_over", "c", "Go on.")), noting("c")]
    async with Engine("memory") as engine:
        await engine.run(Team("t", members=members, strategy="live"), TASK, attachments=[photo])
    assert len(turns) == 8
    assert [bool(turn.attachments) for turn in turns] == [TASK in turn.task for turn in turns]


async def test_the_lead_plans_and_is_sent_its_mistakes_once() -> None:
    members = FakeMembers()
    answers = iter(({"steps": [{"id": "x", "agent": "z", "task": "?"}]}, {"steps": [STEPS[1]]}, "The shed."))

    def lead(turn: Turn) -> Reply | str:
        answer = next(answers)
        if isinstance(answer, str):
            return answer
        step = cast("dict[str, JsonValue]", cast("list[JsonValue]", answer["steps"])[0])
        return Reply.of("a", "a plan", data={"steps": [{key: step[key] for key in ("id", "agent", "task")}]})

    team = Team("t", members=[members.member("a", lead), members.member("b")], strategy="live")
    result, events = await run(team)
    assert (result.status, result.output) == ("completed", "The shed.")
    assert [event.kind for event in events].count("team.reply_rejected") == 1
    assert asks(events) == [("lead/plan", "a"), ("lead/plan-again", "a"), ("draw/work", "b"), ("answer/work", "a")]


async def test_a_lead_without_a_usable_plan_lets_each_member_work_in_turn() -> None:
    result, events = await run(Team("t", members=FakeMembers().members("a b c"), strategy="live"))
    assert "'a' gave no plan that can be used" in result.warnings[0]
    assert [one.step for one in cast("list[TeamStepCompleted]", facts(events, TeamStepCompleted))] == [
        "b",
        "c",
        "answer",
    ]


async def test_a_member_asks_a_colleague_and_finishes_with_the_answer() -> None:
    members = [asker("a"), asker("b", ("assist", "c", "Which wood?")), asker("c")]
    journal = MemoryJournal()
    result, events = await run(live(members), journal)
    assert asks(events)[1:4] == [("draw/work", "b"), ("draw/help-1", "c"), ("draw/round-1", "b")]
    messages = cast("list[TeamMessage]", facts(events, TeamMessage))
    assert [(one.type, one.by, one.to) for one in messages] == [
        ("assist_request", "b", ("c",)),
        ("assist", "c", ("b",)),
    ]
    for at in range(1, len(events)):
        again, _ = await cut_and_resume(live(members), at, journal)
        assert (again.output, again.messages) == (result.output, result.messages), at


async def test_a_message_to_all_travels_as_its_summary() -> None:
    members = FakeMembers()
    team = live([asker("a", ("message", "", "The site is wet.")), *members.members("b c")])  # type: ignore[list-item]
    _, events = await run(team)
    [message] = cast("list[TeamMessage]", facts(events, TeamMessage))
    assert (message.type, message.to, message.text) == ("chat", ("b", "c"), "The site is wet.")
    assert "To all: The site is wet." in members.last_turn("c").prompt


async def test_a_member_hands_its_phase_over() -> None:
    members = [asker("a"), asker("b", ("hand_over", "c", "The walls remain.")), asker("c")]
    journal = MemoryJournal()
    result, events = await run(live(members), journal)
    assert asks(events)[1:3] == [("draw/work", "b"), ("draw/round-1", "c")]
    assert facts(events, TeamHandoff) == [TeamHandoff(source="b", to="c", reason="The walls remain.")]
    shown = [one for one in await read_page_events(journal, result.run_id) if isinstance(one, PageMessage)]
    assert [(one.text, one.to) for one in shown if one.type == "handoff"] == [("The walls remain.", ("c",))]


async def test_a_discussion_without_an_end_is_decided_by_the_lead() -> None:
    endless = [("assist", "c", f"And {number}?") for number in range(9)]
    members = [asker("a"), asker("b", *cast("list[tuple[RequestKind, str, str]]", endless)), asker("c")]
    _, events = await run(live(members, rounds_of_talk=2))
    assert asks(events)[1:7] == [
        ("draw/work", "b"), ("draw/help-1", "c"), ("draw/round-1", "b"), ("draw/help-2", "c"),
        ("draw/round-2", "b"), ("draw/decision", "a"),
    ]  # fmt: skip
    assert cast("list[TeamMessage]", facts(events, TeamMessage))[-1].type == "decision"


@pytest.mark.parametrize("parallel", ["competitive_parallel", "subtask_parallel"])
async def test_members_who_share_a_step_talk_while_they_work_on_it(parallel: str) -> None:  # A-04 A-08
    members = [asker("a"), asker("b", ("assist", "c", "Which wood?"), ("message", "", "Boots!")), asker("c")]
    step: dict[str, JsonValue] = {"id": "draw", "parallel": parallel, "agents": ["b", "c"]}
    _, events = await run(live(members, [step, {"id": "more", "agent": "b", "needs": ["draw"]}]))
    said = [(one.type, one.step) for one in cast("list[TeamMessage]", facts(events, TeamMessage))]
    assert said == [("assist_request", "draw"), ("assist", "draw"), ("chat", "draw")]


async def test_who_asks_a_stranger_or_itself_is_told_who_is_there() -> None:
    fakes = FakeMembers()
    for to in ("z", "b"):
        journal = MemoryJournal()
        members = [fakes.member("a"), asker("b", ("assist", to, "?")), fakes.member("c")]
        result, events = await run(live(members), journal)  # type: ignore[arg-type]
        told = next(event for event in events if event.key == "t/draw/round-1" and event.kind == "agent.asked")
        prompts = await read_texts(journal, told)
        assert f"You can't reach {to!r}; your colleagues are: a, c." in str(prompts)
        assert [asked for asked in asks(events) if asked[0].startswith("draw")] == [
            ("draw/work", "b"), ("draw/round-1", "b"),
        ]  # fmt: skip
        assert result.status == "completed"


SPEC: dict[str, JsonValue] = {"function": "tests.experts.test_presets_live:joined"}


def joined(task: str) -> str:
    return "d is done"


async def test_members_are_added_and_removed_and_the_work_of_those_who_left_is_kept() -> None:
    journal, gate, members = MemoryJournal(), Gate(), FakeMembers()

    async def act(engine: Engine) -> None:
        await engine.runs.add_member("r", "d", SPEC)
        plan = cast("dict[str, JsonValue]", (await engine.runs.history("r")).plan())
        painting: JsonValue = {"id": "paint", "agent": "d", "task": "Paint it."}
        steps: JsonValue = [*cast("list[JsonValue]", plan["steps"]), painting]
        await engine.runs.edit_plan("r", {**plan, "steps": steps})
        await engine.runs.remove_member("r", "a")

    team = live([members.member("a", gate.answer), *members.members("b c")])  # type: ignore[list-item]
    result, events = await run_steered(team, gate, act, journal, TASK)
    assert result.status == "completed"
    assert asks(events) == [
        ("look/work", "a"),
        ("draw/work", "b"),
        ("check/work", "c"),
        ("paint/work", "d"),
        ("answer/work", "b"),
    ]
    changed = next(one for one in cast("list[TeamLife]", facts(events, TeamLife)) if one.reason)
    assert (changed.lead, changed.members, changed.left) == ("b", ("b", "c", "d"), ("a",))
    assert changed.reason == "b leads now"
    assert "a (has left)" in members.last_turn("c").prompt
    assert "a is done" in [message.content for message in result.messages]
    accepted = next(event.number for event in events if event.kind == "run.intervened")
    batch = {event.number for event in events if event.kind == "run.applied"}
    for at in range(accepted + 2, len(events)):
        if at in batch:  # a crash never splits what was written at once
            continue
        again, _ = await cut_and_resume(live(FakeMembers().members("a b c")), at, journal)
        assert again.output == result.output, at


async def test_a_person_edits_the_plan_and_what_is_done_stays_done() -> None:
    journal, gate, members = MemoryJournal(), Gate(), FakeMembers()

    async def act(engine: Engine) -> None:
        with pytest.raises(InterventionRefused, match="'look' is in progress; what is done stays done"):
            await engine.runs.edit_plan("r", {"steps": [{**STEPS[0], "task": "Look again."}, *STEPS[1:]]})  # type: ignore[dict-item]
        await engine.runs.edit_plan("r", {"steps": [STEPS[0], STEPS[1]]})

    team = live([members.member("a", gate.answer), *members.members("b c")])  # type: ignore[list-item]
    _, events = await run_steered(team, gate, act, journal, TASK)
    assert asks(events) == [("look/work", "a"), ("draw/work", "b"), ("answer/work", "a")]
    last = cast("list[TeamPlanChanged]", facts(events, TeamPlanChanged))[-1]
    assert (last.plan_version, last.by, last.difference) == (2, "", ("- check (c, after draw): Check it.",))


async def test_edits_of_two_people_who_saw_the_same_version_are_merged() -> None:
    journal, gate, members = MemoryJournal(), Gate(), FakeMembers()
    paint: JsonValue = {"id": "paint", "agent": "c", "needs": ["look"]}
    door: JsonValue = {"id": "door", "agent": "b", "needs": ["look"]}

    async def act(engine: Engine) -> None:
        await engine.runs.edit_plan("r", {"steps": [*STEPS[:2], paint], "version": 1}, by="ann")
        await engine.runs.edit_plan("r", {"steps": [*STEPS[:2], door], "version": 1}, by="ben")

    team = live([members.member("a", gate.answer), *members.members("b c")])  # type: ignore[list-item]
    _, events = await run_steered(team, gate, act, journal, TASK)
    assert not [event for event in events if event.kind == "run.refused"]
    done = [one.step for one in cast("list[TeamStepCompleted]", facts(events, TeamStepCompleted))]
    assert done == ["look", "draw", "paint", "door", "answer"]


async def test_a_change_of_direction_lets_the_lead_plan_again() -> None:
    journal, gate = MemoryJournal(), Gate()
    plans = iter(("look", "paint"))

    async def lead(turn: Turn) -> Reply | str:
        if turn.output_schema is None:
            return "done" if "Put the answer together" in turn.task else await gate.answer(turn)
        name = next(plans)
        step: JsonValue = {"id": name, "agent": "a" if name == "look" else "b", "task": name}
        return Reply.of("a", "plan", data={"steps" if name == "look" else "put": [step]})

    members = FakeMembers()
    team = Team("t", members=[members.member("a", lead), members.member("b")], strategy="live")
    result, events = await run_steered(team, gate, lambda engine: engine.runs.say("r", "Paint it blue."), journal, TASK)
    assert result.status == "completed"
    assert [place for place, _ in asks(events)] == [
        "lead/plan",
        "look/work",
        "lead/redirect-1/redirect",
        "paint/work",
        "answer/work",
    ]
    assert "Paint it blue." in members.last_turn("b").prompt
    assert [one.plan_version for one in cast("list[TeamPlanChanged]", facts(events, TeamPlanChanged))] == [1, 2]


async def test_a_team_that_is_gone_takes_no_more_members() -> None:
    journal, gate, members = MemoryJournal(), Gate(), FakeMembers()
    team = live([members.member("b"), members.member("a", gate.answer)], [STEPS[0]], lead="a")  # type: ignore[list-item]

    async def act(engine: Engine) -> None:
        with pytest.raises(InterventionRefused, match="there is no member 'z'"):
            await engine.runs.remove_member("r", "z")
        await engine.runs.remove_member("r", "b")

    result, events = await run_steered(team, gate, act, journal, TASK)
    assert result.status == "completed"
    assert cast("list[TeamLife]", facts(events, TeamLife))[-1].left == ("b",)


async def test_a_team_that_is_short_of_budget_closes_with_the_answer_of_its_lead() -> None:
    team = Team(
        "t", members=FakeMembers().members("a b c"), strategy="live", options={"steps": STEPS}, limits=Limits(calls=2)
    )
    result, events = await run(team)
    assert (result.status, result.stop_reason) == ("degraded", "budget")
    assert asks(events)[-1][1] == "a"


@pytest.mark.parametrize(
    ("options", "share", "why"),
    [
        ({"lead": "z"}, None, "'z' is neither a member nor a helper"),
        ({"steps": [{"id": "x", "agent": "z"}]}, None, "'z' is not a member"),
        ({}, "output", "needs  share: transcript"),
    ],
)
def test_mistakes_in_a_live_team_are_found_before_it_runs(options: dict[str, JsonValue], share: str, why: str) -> None:
    with pytest.raises(ManifestError, match=why):
        Team("t", members=FakeMembers().members("a b"), strategy="live", options=options, share=share)  # type: ignore[arg-type]


async def test_a_failed_step_and_a_failed_answer_are_recovered_as_the_ladder_says() -> None:
    members = FakeMembers()

    def lead(turn: Turn) -> str:
        if "Put the answer together" in turn.task:
            raise ValueError("no answer today")
        return "{}"

    rungs = ladder(attempt="adjust", finish="c")
    team = live([members.member("a", lead), *members.members("b c")], on_failure=rungs)  # type: ignore[list-item]
    result, _ = await run(team)
    assert (result.status, result.output) == ("degraded", "c is done")


async def test_a_step_of_a_team_that_talks_has_to_pass_its_milestone() -> None:
    steps: list[JsonValue] = [
        {"id": "b", "evaluate": {"criteria": [{"id": "never", "contains": "no such text"}]}},
        {"id": "c", "needs": ["b"]},
    ]
    members = FakeMembers()
    result, _ = await run(live(members.members("a b c"), steps, on_failure="fail"))  # type: ignore[arg-type]
    assert (result.status, result.stop_reason) == ("failed", "review_exceeded")
    assert "c" not in members.calls


async def speak_in_revision(turn: Turn, ctx: Context) -> str:
    if "has answered" in turn.task:
        assert "Review 1" in turn.task  # what was wrong stays known
        return "GOOD"
    if "Review 1" in turn.task:
        await ctx.message("said in a revision", key="m")
        await ctx.ask_member("c", "asked in a revision?", key="q")
        return "GOOD, once c has answered"
    return "a first draft"


async def test_what_a_member_says_in_a_revision_is_delivered_under_its_step_and_before_the_review() -> None:
    reviewed: JsonValue = {"id": "one", "agent": "b", "evaluate": {"criteria": [{"id": "good", "regex": "^GOOD$"}]}}
    steps: list[JsonValue] = [reviewed, {"id": "two", "agent": "b", "needs": ["one"]}]
    fakes = FakeMembers()

    def team() -> Team:
        return live([fakes.member("a"), FunctionAgent("b", speak_in_revision), fakes.member("c")], steps)  # type: ignore[list-item]

    journal = MemoryJournal()
    result, events = await run(team(), journal)
    messages = cast("list[TeamMessage]", facts(events, TeamMessage))
    assert [(one.type, one.step) for one in messages] == [("chat", "one"), ("assist_request", "one"), ("assist", "one")]
    evaluated = [one.work for one in cast("list[TeamEvaluationStarted]", facts(events, TeamEvaluationStarted))]
    assert evaluated == ["work", "revision-2/round-1"]
    for at in range(1, len(events)):
        again, kinds = await cut_and_resume(team(), at, journal)
        assert (again.output, kinds.count("team.message")) == (result.output, 3), at


async def test_what_competitors_say_is_delivered() -> None:
    members = [asker("a"), asker("b", ("assist", "c", "Which wood?")), asker("c", ("message", "", "Wet."))]
    step: JsonValue = {"id": "s", "parallel": "competitive_parallel", "agents": ["b", "c"], "merge": "fusion"}
    _, events = await run(live(members, [step]))
    messages = cast("list[TeamMessage]", facts(events, TeamMessage))
    assert sorted((one.type, one.by, one.step) for one in messages) == [
        ("assist", "c", "s"), ("assist_request", "b", "s"), ("chat", "c", "s"),
    ]  # fmt: skip


JUDGED: dict[str, JsonValue] = {"criteria": [{"id": "good", "judge": "Is it good?"}]}
PASSED = json.dumps({"criteria": [{"id": "good", "passed": True, "score": 1, "reason": "x"}]})


def judge_or_worker(name: str) -> FunctionAgent:
    return FunctionAgent(name, lambda turn: PASSED if "Is it good?" in turn.prompt else f"{name} is done")


async def test_a_step_is_not_handed_over_to_its_judge() -> None:
    steps: list[JsonValue] = [{"id": "s", "agent": "b", "evaluate": {**JUDGED, "judge": "c"}}]
    members = [judge_or_worker("a"), asker("b", ("hand_over", "c", "?")), judge_or_worker("c")]
    journal = MemoryJournal()
    result, events = await run(live(members, steps), journal)
    told = next(event for event in events if event.key == "t/s/round-1" and event.kind == "agent.asked")
    assert "'c' reviews this step, so it can't take it over." in str(await read_texts(journal, told))
    assert not facts(events, TeamHandoff)
    assert result.status == "completed"


async def test_a_lead_who_judges_a_step_does_not_decide_its_discussion() -> None:
    steps: list[JsonValue] = [{"id": "s", "agent": "b", "evaluate": {**JUDGED, "judge": "a"}}]
    endless = asker("b", *[cast("tuple[RequestKind, str, str]", ("assist", "c", "?"))] * 9)
    result, events = await run(live([judge_or_worker("a"), endless, judge_or_worker("c")], steps, rounds_of_talk=1))
    assert ("s/decision", "c") in asks(events)
    assert result.status == "completed"


async def test_a_judge_and_who_finishes_are_refused_since_nobody_would_hear_them() -> None:
    async def speak(turn: Turn, ctx: Context) -> str:
        await ctx.message("hear me", key="m")
        return PASSED

    steps: list[JsonValue] = [{"id": "s", "agent": "b", "evaluate": {**JUDGED, "judge": "c"}}]
    fakes = FakeMembers()
    members = [fakes.member("a"), fakes.member("b"), FunctionAgent("c", speak)]
    result, events = await run(live(members, steps, on_failure=ladder(0, finish="c")))  # type: ignore[arg-type]
    refused = [event.fact for event in events if event.kind == "agent.failed" and event.fact.member == "c"]  # type: ignore[union-attr]
    assert len(refused) == 2  # as a judge, and when it finishes
    assert all("'c' can't reach colleagues here: no one hears it in this turn" in one.message for one in refused)  # type: ignore[union-attr]
    assert result.status != "completed"


async def test_a_member_with_an_evaluation_of_its_own_is_heard_in_each_of_its_rounds() -> None:
    async def respond(turn: Turn, ctx: Context) -> str:
        if "has answered" in turn.task and "Review" not in turn.task:
            await ctx.message("second", key="m")
            return "bad"  # this is what the evaluation is about, not the question before it
        if "Review" in turn.task:
            await ctx.message("third", key="m")
            return "GOOD"
        await ctx.message("first", key="m")
        await ctx.ask_member("c", "?", key="q")
        return "I wait"

    own = Rubric(Evaluate.model_validate({"revisions": 1, "criteria": [{"id": "good", "contains": "GOOD"}]}))
    fakes = FakeMembers()
    members = [fakes.member("a"), FunctionAgent("b", respond, evaluate=own), fakes.member("c")]
    _, events = await run(live(members, [{"id": "s", "agent": "b"}]))  # type: ignore[arg-type]
    chats = [one.text for one in cast("list[TeamMessage]", facts(events, TeamMessage)) if one.type == "chat"]
    assert chats == ["first", "second", "third"]
