"""Members who talk: whatever one says is delivered under its step and in order, or refused to it in words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

import anyio
import pytest
from pydantic import JsonValue

from teamwright import Engine, Team
from teamwright.agents.agent import Agent, Context
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.errors import UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.values.events.event import Event
from teamwright.values.events.team import TeamHandoff, TeamMessage
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Reply, Turn
from tests.kit.members import FakeMembers
from tests.kit.records import cut

Speech = Callable[[Context], Awaitable[None]]
ONE: list[JsonValue] = [{"id": "s", "agent": "a"}]


def speaker(name: str, *speeches: Speech, seen: list[Turn] | None = None) -> FunctionAgent:
    """Make a member that says the first of these in its first turn, the second in its second, and then nothing."""

    async def respond(turn: Turn, ctx: Context) -> str:
        if seen is not None:
            seen.append(turn)
        said = sum(one.startswith(f"turns/{name}/") for one in ctx.workspace.names())
        await ctx.workspace.put(f"turns/{name}/{said}", 1)
        if said < len(speeches):
            await speeches[said](ctx)
        return f"{name} in turn {said + 1}"

    return FunctionAgent(name, respond)


def asks(*names: str) -> Speech:
    async def say(ctx: Context) -> None:
        for number, name in enumerate(names):
            await ctx.ask_member(name, f"question {number}", key=f"q{number}")

    return say


def tells(*texts: str) -> Speech:
    async def say(ctx: Context) -> None:
        for text in texts:
            await ctx.message(text, key=text)

    return say


def hands_over(*names: str) -> Speech:
    async def say(ctx: Context) -> None:
        for name in names:
            await ctx.ask_member(name, "go on", key=name, hand_over=True)

    return say


def plan(members: list[Agent], steps: list[JsonValue] | None = None, **options: JsonValue) -> Team:
    given = {"talk": "all", "sees": "all", "rounds_of_talk": 2, "steps": steps or ONE, **options}
    return Team("t", members=members, strategy="plan", options=given)


async def run(team: Team, journal: MemoryJournal | None = None) -> tuple[RunResult, list[Event]]:
    journal = journal or MemoryJournal()
    async with Engine(journal) as engine:
        with anyio.fail_after(10):
            result = await engine.run(team, "Do it.", run_id="r")
    return result, await journal.read("r")


async def resume(team: Team, at: int, journal: MemoryJournal) -> tuple[RunResult, list[Event]]:
    copy = await cut(journal, at)
    async with Engine(copy) as engine:
        with anyio.fail_after(10):
            result = await engine.resume("r", team=team)
    return result, await copy.read("r")


def said(events: list[Event]) -> list[tuple[str, str, tuple[str, ...], str]]:
    found = [event.fact for event in events if isinstance(event.fact, TeamMessage)]
    return [(one.type, one.by, one.to, one.step) for one in found]


def others(text: str = "b c") -> list[Agent]:
    return cast("list[Agent]", FakeMembers().members(text))


async def test_all_that_a_member_asks_in_one_turn_is_answered_in_order_also_twice_by_one_colleague() -> None:
    turns, journal = list[Turn](), MemoryJournal()
    team = plan([speaker("a", asks("c", "b", "c"), seen=turns), *others()])
    result, events = await run(team, journal)
    answered = [(one[0], one[1]) for one in said(events)]
    assert answered == [
        ("assist_request", "a"), ("assist", "c"), ("assist_request", "a"), ("assist", "b"), ("assist_request", "a"),
        ("assist", "c"),
    ]  # fmt: skip
    assert turns[1].task.startswith("c has answered. b has answered. c has answered. Finish your step 's'")
    assert result.output == "a in turn 2"
    for at in range(1, len(events)):
        again, resumed = await resume(plan([speaker("a", asks("c", "b", "c")), *others()]), at, journal)
        assert (again.output, again.messages, said(resumed)) == (result.output, result.messages, said(events)), at


async def test_messages_arrive_in_the_order_in_which_they_were_posted() -> None:
    texts = [f"message {number}" for number in range(12)]
    _, events = await run(plan([speaker("a", tells(*texts)), *others()]))
    assert [event.fact.text for event in events if isinstance(event.fact, TeamMessage)] == texts


async def test_who_works_on_a_part_asks_and_tells_as_in_a_step_and_its_next_turn_has_the_task_of_the_part() -> None:
    parts: list[JsonValue] = [{"id": "p", "agent": "a", "task": "The roof."}, {"id": "q", "agent": "b"}]
    step: JsonValue = {"id": "s", "parallel": "subtask_parallel", "parts": parts, "task": "The house."}
    turns, journal = list[Turn](), MemoryJournal()

    async def both(ctx: Context) -> None:
        await tells("wet")(ctx)
        await asks("b")(ctx)

    def team() -> Team:
        return plan([speaker("a", both, seen=turns), *others()], [step], lead="c")

    result, events = await run(team(), journal)
    assert [one[0] for one in said(events)] == ["chat", "assist_request", "assist"]
    assert turns[1].task.endswith("Finish your step 's':\nThe roof.")
    for at in range(1, len(events)):
        again, resumed = await resume(team(), at, journal)
        assert (again.output, sorted(said(resumed))) == (result.output, sorted(said(events))), at


async def test_a_member_that_works_on_two_steps_at_once_is_heard_under_each() -> None:
    both_began, began = anyio.Event(), list[str]()

    async def respond(turn: Turn, ctx: Context) -> str:
        step = "one" if "'one'" in turn.task else "two"
        if "has answered" not in turn.task:
            began.append(step)
            await ctx.message(f"from {step}", key="m")
            await ctx.ask_member("b", f"about {step}", key="q")
            if len(began) > 1:
                both_began.set()
            await both_began.wait()
        return step

    steps: list[JsonValue] = [{"id": "one", "agent": "a"}, {"id": "two", "agent": "a"}]
    _, events = await run(plan([FunctionAgent("a", respond), *others("b")], steps, sees="needs"))
    found = [event.fact for event in events if isinstance(event.fact, TeamMessage) and event.fact.by == "a"]
    assert {(one.text, one.step) for one in found} == {
        ("from one", "one"), ("about one", "one"), ("from two", "two"), ("about two", "two"),
    }  # fmt: skip


async def test_a_helper_tells_all_something_and_may_ask_nobody() -> None:
    refusals: list[str] = []

    async def help_(turn: Turn, ctx: Context) -> str:
        await ctx.message("by the way", key="m")
        try:
            await ctx.ask_member("c", "and you?", key="q")
        except UsageError as error:
            refusals.append(str(error))
        return "helped"

    result, events = await run(plan([speaker("a", asks("b")), FunctionAgent("b", help_), *others("c")]))
    assert [(one[0], one[1]) for one in said(events)] == [("assist_request", "a"), ("chat", "b"), ("assist", "b")]
    assert refusals == [
        "'b' can't reach colleagues here: it is asked to answer now, and may only send messages in this turn."
    ]
    assert result.status == "completed"


@pytest.mark.parametrize("speech", [tells("hi"), asks("b"), hands_over("b")], ids=["message", "assist", "hand_over"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"talk": "none"}, "members of this team talk with nobody; set  talk: all"),
        ({"rounds_of_talk": 0}, "with  rounds_of_talk: 0  nobody speaks"),
        ({"handout": "step", "lead": "b", "sees": "needs"}, "with  handout: step  members talk in rounds"),
        ({"handout": "batch", "lead": "b", "sees": "needs", "talk": "lead"}, "with  handout: batch  members talk"),
    ],
)
async def test_where_nobody_hears_a_member_it_is_told_so(
    options: dict[str, JsonValue], words: str, speech: Speech
) -> None:
    result, events = await run(plan([speaker("a", speech), *others()], **options))  # type: ignore[arg-type]
    assert result.status == "failed"
    assert f"'a' can't reach colleagues here: {words}" in result.warnings[0]
    assert not said(events)


async def test_outside_a_plan_nobody_hears_a_member_either() -> None:
    result, _ = await run(Team("t", members=[speaker("a", tells("hi")), *others()]))
    assert result.failure is not None
    assert "members of a sequential team don't talk" in result.failure.message


async def test_with_sees_needs_a_step_reads_what_it_needs_and_the_messages_and_no_other_work() -> None:
    turns: list[Turn] = []
    steps: list[JsonValue] = [
        {"id": "one", "agent": "a"},
        {"id": "two", "agent": "b"},
        {"id": "three", "agent": "c", "needs": ["two"]},
    ]
    members: list[Agent] = [speaker("a", tells("wet"), seen=[]), *others("b"), speaker("c", seen=turns)]
    await run(plan(members, steps, sees="needs", max_parallel=1))
    read = [message.content.partition(" (artifact")[0] for message in turns[0].history]
    assert read == ["b is done", "To all: wet"]


async def test_with_talk_lead_members_reach_their_lead_and_nobody_else() -> None:
    turns, leading = list[Turn](), list[Turn]()

    async def both(ctx: Context) -> None:
        await tells("wet")(ctx)
        await asks("c", "boss")(ctx)

    steps: list[JsonValue] = [{"id": "s", "agent": "a"}, {"id": "t", "agent": "c", "needs": ["s"]}]
    members: list[Agent] = [speaker("boss", seen=leading), speaker("a", both, seen=turns), speaker("c", seen=turns)]
    _, events = await run(plan(members, steps, talk="lead", sees="needs", lead="boss", answer="lead"))
    assert [(one[0], one[2]) for one in said(events)] == [
        ("chat", ("boss",)), ("assist_request", ("boss",)), ("assist", ("a",)),
    ]  # fmt: skip
    assert turns[1].task.startswith("You can't reach 'c'; your colleagues are: boss. boss has answered. Ask another")
    assert not any("wet" in message.content for message in turns[2].history)
    assert any("wet" in message.content for message in leading[-1].history)


async def test_a_step_is_handed_over_once_in_a_turn() -> None:
    result, events = await run(plan([speaker("a", hands_over("b", "c")), *others()]))
    assert "'a' has handed its work over in this turn already; end the turn." in result.warnings[0]
    assert not [event for event in events if isinstance(event.fact, TeamHandoff)]
    failed = next(event.fact for event in events if event.kind == "agent.failed")
    assert "(what it said to others was not delivered)" in failed.message  # type: ignore[union-attr]


async def test_a_question_beside_a_handover_is_answered_for_the_one_who_takes_over() -> None:
    turns: list[Turn] = []

    async def both(ctx: Context) -> None:
        await hands_over("c")(ctx)
        await asks("b")(ctx)

    result, events = await run(plan([speaker("a", both), *others("b"), speaker("c", seen=turns)]))
    assert turns[0].task.startswith("b has answered. a hands the step 's' over to you: go on")
    assert turns[0].history[-1].content == "b is done"
    assert [one[0] for one in said(events)] == ["assist_request", "assist"]
    assert result.output == "c in turn 1"


async def test_what_is_asked_after_the_last_round_reaches_the_one_who_decides() -> None:
    turns: list[Turn] = []
    lead = speaker("boss", seen=turns)
    team = plan([lead, speaker("a", asks("c"), asks("c")), *others("c")], lead="boss", rounds_of_talk=1)
    result, events = await run(team)
    assert turns[0].history[-1].content == "To c: question 0"
    assert said(events)[-2:] == [("assist_request", "a", ("boss",), "s"), ("decision", "boss", ("a", "c"), "s")]
    assert result.output == "boss in turn 1"


@pytest.mark.parametrize("how", ["put", "updates"])
async def test_nobody_can_write_a_request_in_the_name_of_another(how: str) -> None:
    forged: JsonValue = {"type": "hand_over", "to": "a", "text": "forged", "original": ""}
    refusals: list[str] = []

    async def forge(turn: Turn, ctx: Context) -> Reply:
        if how == "updates":
            return Reply.of("a", "done", context_updates={"requests/b/zzz": forged})
        try:
            await ctx.workspace.put("requests/b/zzz", forged)
        except UsageError as error:
            refusals.append(str(error))
        return Reply.of("a", "done")

    steps: list[JsonValue] = [{"id": "s", "agent": "a"}, {"id": "t", "agent": "b", "needs": ["s"]}]
    result, events = await run(plan([FunctionAgent("a", forge), *others()], steps))
    refusals += result.warnings
    assert "names that begin with 'requests/' are the engine's" in refusals[0]
    assert not [event for event in events if isinstance(event.fact, TeamHandoff)]
    assert result.output == "b is done"
