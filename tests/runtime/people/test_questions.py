"""Approval points: a person approves, edits or rejects before a step and after it, across processes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import JsonValue

from teamwright import Context, Engine, FunctionAgent, Reply, RunResult, ScriptedAgent, Team, Turn
from teamwright.agents.scripted import Rule
from teamwright.errors import NonDeterminism, Refused, UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.strategies import Task
from teamwright.strategies.protocol import Members
from teamwright.values.events.agent import AgentAsked, AgentFailed
from teamwright.values.events.event import Event
from teamwright.values.events.run import PersonAnswered, PersonAsked, RunPaused
from teamwright.values.limits import Limits
from teamwright.values.people import Answer, Confirm
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Failure
from tests.kit.members import FakeMembers
from tests.kit.records import cut
from tests.kit.strategies import FunctionStrategy, outcome

BEFORE, AFTER = Confirm(before=True), Confirm(after=True)
YES = Answer.approve()


class PromptLog:
    """Members that answer with their name and task, and record every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def member(self, name: str, confirm: Confirm | None = None, **more: object) -> FunctionAgent:
        async def respond(turn: Turn) -> str:
            self.calls.append((name, turn.prompt))
            return f"{name}: {turn.task}"

        return FunctionAgent(name, respond, confirm=confirm, **more)  # pyright: ignore[reportArgumentType]


async def through(
    team: Team, answers: Mapping[str, Answer], journal: MemoryJournal | Path | None = None
) -> tuple[RunResult, list[Event]]:
    """Run a team, each time in a new engine, until it no longer waits; answers are chosen by the end of the key."""
    kept = journal or MemoryJournal()
    async with Engine(kept) as engine:
        result = await engine.run(team, "go", run_id="r")
    while result.status == "paused":
        async with Engine(kept) as engine:
            for key in (await engine.runs.history("r")).questions():
                ending = next(one for one in answers if key.endswith(one))
                await engine.runs.answer("r", key, answers[ending])
            result = await engine.resume("r", team=team)
    async with Engine(kept) as engine:
        return result, await engine.journal.read("r")


def asked(events: list[Event]) -> list[str]:
    return [event.key for event in events if isinstance(event.fact, PersonAsked)]


async def test_no_member_is_called_before_approval() -> None:  # P-12
    prompt_log, journal = PromptLog(), MemoryJournal()
    team = Team("t", members=[prompt_log.member("a"), prompt_log.member("b", BEFORE)])
    async with Engine(journal) as engine:
        paused = await engine.run(team, "go", run_id="r")
        assert (paused.status, paused.stop_reason, paused.exit_code) == ("paused", "approval", 7)
        assert [name for name, _ in prompt_log.calls] == ["a"]
        ((key, question),) = (await engine.runs.history("r")).questions().items()
        assert (key, question.draft, question.choices) == (
            "t/step-2/confirm-before",
            "go",
            ("approve", "edit", "reject"),
        )
        await engine.runs.answer("r", key, "approve")
        result = await engine.resume("r", team=team)
    assert [message.content for message in result.messages] == ["a: go", "b: go"]


async def test_an_edited_task_replaces_the_task_of_the_member() -> None:  # P-12
    prompt_log = PromptLog()
    team = Team("t", members=[prompt_log.member("a", BEFORE), prompt_log.member("b")])
    result, events = await through(team, {"confirm-before": Answer.edit("go slowly")})
    assert [message.content for message in result.messages] == ["a: go slowly", "b: go"]
    assert asked(events) == ["t/step-1/confirm-before"]


async def test_an_edited_reply_is_the_only_one_that_members_see() -> None:  # P-12
    prompt_log = PromptLog()
    team = Team("t", members=[prompt_log.member("a", AFTER), prompt_log.member("b")], share="output")
    result, events = await through(team, {"confirm-after": Answer.edit("the better text")})
    assert [message.content for message in result.messages] == ["the better text", "b: the better text"]
    assert [prompt for _, prompt in prompt_log.calls] == ["go", "the better text"]
    assert len(prompt_log.calls) == 2
    assert next(event.key for event in events if event.kind == "agent.replied") == "t/step-1"


@pytest.mark.parametrize(("points", "ending"), [(BEFORE, "confirm-before"), (AFTER, "confirm-after")])
async def test_a_rejection_is_a_failure_whose_reason_reaches_no_member(points: Confirm, ending: str) -> None:  # P-12
    prompt_log = PromptLog()

    async def ask_all(task: Task, members: Members, ctx: Context) -> Outcome:
        first = await ctx.ask(members[0], Turn("one"), key="one")
        assert isinstance(first, Failure)
        second = await ctx.ask(members[1], Turn(f"after {type(first).__name__}"), key="two")
        assert isinstance(second, Reply)
        return outcome(f"{first.error}; {second.text}")

    team = Team(
        "t", members=[prompt_log.member("a", points), prompt_log.member("b")], strategy=FunctionStrategy(ask_all)
    )
    result, events = await through(team, {ending: Answer.reject("SECRET REASON", by="Ada")})
    assert result.output == "rejected; b: after Failure"
    (failed,) = [event.fact for event in events if isinstance(event.fact, AgentFailed)]
    assert failed.error == "rejected"
    assert "Ada said no: SECRET REASON" in failed.message
    assert failed.messages == ()
    assert not [prompt for _, prompt in prompt_log.calls if "SECRET" in prompt]
    assert ("a" in [name for name, _ in prompt_log.calls]) == (points is AFTER)


async def test_nothing_is_tried_after_a_persons_no() -> None:  # law 5, P-10
    prompt_log = PromptLog()
    member = prompt_log.member("a", BEFORE, critical=True, fallback=prompt_log.member("b"))
    result, events = await through(Team("t", members=[member]), {"confirm-before": Answer.reject("no")})
    assert (result.status, result.failure.error if result.failure else "") == ("failed", "rejected")
    assert prompt_log.calls == []
    assert asked(events) == ["t/step-1/confirm-before"]


async def test_a_rejected_member_that_is_optional_is_skipped() -> None:
    prompt_log = PromptLog()
    team = Team("t", members=[prompt_log.member("a", BEFORE, optional=True), prompt_log.member("b")])
    result, _ = await through(team, {"confirm-before": Answer.reject("no need")})
    assert (result.status, [message.name for message in result.messages]) == ("degraded", ["b"])


def failing(name: str, **more: object) -> FunctionAgent:
    async def respond(turn: Turn) -> str:
        raise Refused("no")

    return FunctionAgent(name, respond, **more)  # pyright: ignore[reportArgumentType]


async def test_a_fallback_is_approved_like_the_member_it_replaces() -> None:
    prompt_log = PromptLog()
    member = failing("a", confirm=Confirm(before=True, after=True), fallback=prompt_log.member("b"))
    answers = {"confirm-before": Answer.edit("gently"), "confirm-after": Answer.edit("edited")}
    result, events = await through(Team("t", members=[member]), answers)
    assert result.output == "edited"
    assert prompt_log.calls == [("b", "gently")]
    assert asked(events) == ["t/step-1/confirm-before", "t/step-1#2/confirm-after"]


async def test_a_fallback_that_needs_its_own_approval_gets_it() -> None:
    prompt_log = PromptLog()
    member = failing("a", fallback=prompt_log.member("b", BEFORE))
    result, events = await through(Team("t", members=[member]), {"confirm-before": Answer.reject("not that one")})
    assert result.status == "failed"
    assert prompt_log.calls == []
    assert asked(events) == ["t/step-1#2/confirm-before"]


async def test_a_retry_by_a_person_needs_no_second_approval() -> None:
    prompt_log, trouble = PromptLog(), [Refused("no")]

    async def respond(turn: Turn) -> str:
        prompt_log.calls.append(("a", turn.task))
        if trouble:
            raise trouble.pop()
        return "done"

    member = FunctionAgent("a", respond, critical=True, confirm=BEFORE)
    answers = {"confirm-before": Answer.edit("gently"), "failure-1": Answer(text="retry")}
    result, events = await through(Team("t", members=[member]), answers)
    assert result.output == "done"
    assert prompt_log.calls == [("a", "gently"), ("a", "gently")]
    assert asked(events) == ["t/step-1/confirm-before", "t/step-1/failure-1"]
    assert [e.fact.stop_reason for e in events if isinstance(e.fact, RunPaused)] == ["approval", "retries_exhausted"]


async def test_a_whole_team_is_approved_as_a_member_is() -> None:  # P-12
    prompt_log = PromptLog()
    inner = Team(
        "inner", members=[prompt_log.member("a"), prompt_log.member("b")], confirm=Confirm(before=True, after=True)
    )
    outer = Team("outer", members=[inner, prompt_log.member("c")], share="output")
    answers = {"confirm-before": Answer.edit("first"), "confirm-after": Answer.edit("last")}
    result, events = await through(outer, answers)
    assert [(message.name, message.content) for message in result.messages] == [
        ("inner", "a: first"),
        ("inner", "last"),
        ("c", "c: last"),
    ]
    assert asked(events) == ["outer/step-1/confirm-before", "outer/step-1/confirm-after"]


async def test_what_was_said_on_the_way_to_a_rejected_answer_is_kept() -> None:
    prompt_log = PromptLog()
    team = Team("t", members=[prompt_log.member("a"), prompt_log.member("b")], confirm=AFTER)
    result, _ = await through(team, {"confirm-after": Answer.reject("wrong")})
    assert (result.status, [message.name for message in result.messages]) == ("failed", ["a"])


async def test_an_edit_that_does_not_fit_the_schema_is_reported_and_asked_again() -> None:
    schema: dict[str, JsonValue] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    agent = ScriptedAgent("a", [Rule.model_validate({"json": {"n": 1}})], output_schema=schema, confirm=AFTER)
    answers = {"confirm-after": Answer.edit('{"n": "two"}'), "confirm-after-2": Answer.edit('{"n": 2}')}
    result, events = await through(Team("t", members=[agent]), answers)
    assert (result.output, result.data) == ('{"n": 2}', {"n": 2})
    assert asked(events) == ["t/step-1/confirm-after", "t/step-1/confirm-after-2"]
    questions = [event.fact.question.text for event in events if isinstance(event.fact, PersonAsked)]
    assert "does not fit its schema" in questions[1]


@pytest.mark.parametrize("points", [BEFORE, AFTER, Confirm(before=True, after=True)])
async def test_approvals_resume_to_the_same_result_from_every_point(points: Confirm) -> None:  # law 2
    def team(prompt_log: PromptLog) -> Team:
        inner = Team("inner", members=[prompt_log.member("b", points)], confirm=points)
        return Team("t", members=[prompt_log.member("a", points), inner, prompt_log.member("c")], confirm=points)

    answers = {"confirm-before": Answer.edit("told"), "confirm-after": Answer.edit("said")}
    journal = MemoryJournal()
    expected, events = await through(team(PromptLog()), answers, journal)
    for at in range(1, len(events)):
        copy, prompt_log = await cut(journal, at), PromptLog()
        async with Engine(copy) as engine:
            result = await engine.resume("r", team=team(prompt_log))
            log = await copy.read("r")
        assert result.messages == expected.messages, f"cut after {at}"
        assert sorted(asked(log)) == sorted(set(asked(log))) == sorted(asked(events))
        ended = {e.key for e in events[:at] if e.kind in ("agent.replied", "agent.returned")}
        again = {name for name, _ in prompt_log.calls}
        assert not again & {e.fact.member for e in events[:at] if isinstance(e.fact, AgentAsked) and e.key in ended}


async def test_an_approval_holds_for_what_was_approved_and_for_nothing_else() -> None:
    prompt_log, journal = PromptLog(), MemoryJournal()

    def team(first: str) -> Team:
        return Team("t", members=[FakeMembers().member("a", first), prompt_log.member("b", BEFORE)])

    _, events = await through(team("one"), {"confirm-before": YES}, journal)
    begun = next(event.number for event in events if event.key == "t/step-1") - 1
    async with Engine(journal) as engine:
        for at, task, key in ((begun, None, "t/step-2/confirm-before"), (None, "else", "t#2/step-2/confirm-before")):
            other = await engine.fork("r", at=at, task=task, team=team("two"))
            assert (other.status, other.stop_reason) == ("paused", "approval")
            ((asked_at, question),) = (await engine.runs.history(other.run_id)).questions().items()
            assert (asked_at, question.draft) == (key, task or "go")
        same = await engine.fork("r", team=team("one"))
        assert same.output == "b: go"


async def test_on_a_fork_a_question_about_another_draft_is_asked_again() -> None:
    words, journal = ["one", "two"], MemoryJournal()

    async def fickle(turn: Turn, ctx: Context) -> str:
        return words[0]

    team = Team("t", members=[FunctionAgent("a", fickle, confirm=AFTER)])
    async with Engine(journal) as engine:
        await engine.run(team, "go", run_id="r")
        await engine.runs.answer("r", "t/step-1/confirm-after", YES)
        words.pop(0)
        forked = await engine.fork("r", team=team, new_id="f")
        assert forked.status == "paused"
        ((key, question),) = (await engine.runs.history("f")).questions().items()
        assert (key, question.draft) == ("t/step-1/confirm-after#2", "two")
        await engine.runs.answer("f", key, YES)
        assert (await engine.resume("f", team=team)).output == "two"


async def test_a_reply_that_a_resumed_agent_gives_otherwise_is_not_the_one_that_was_approved() -> None:
    words = iter(["one", "other"])

    async def fickle(turn: Turn, ctx: Context) -> str:
        return next(words)

    team = Team("t", members=[FunctionAgent("a", fickle, confirm=AFTER)])
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="r")
        await engine.runs.answer("r", "t/step-1/confirm-after", YES)
        with pytest.raises(NonDeterminism, match="a person was asked something else"):
            await engine.resume("r", team=team)


@pytest.mark.parametrize(("points", "calls"), [(BEFORE, 1), (AFTER, 1)])
async def test_a_fork_that_retries_goes_back_to_before_the_rejection(points: Confirm, calls: int) -> None:
    prompt_log, journal = PromptLog(), MemoryJournal()
    team = Team("t", members=[prompt_log.member("a", points)])
    await through(team, {"": Answer.reject("by mistake")}, journal)
    async with Engine(journal) as engine:
        again = await engine.fork("r", retry=True, team=team, new_id="f")
        assert (again.status, again.stop_reason) == ("paused", "approval")
        (key,) = (await engine.runs.history("f")).questions()
        await engine.runs.answer("f", key, YES)
        assert (await engine.resume("f", team=team)).output == "a: go"
    assert len(prompt_log.calls) == calls


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("maybe", "choose one of approve, edit, reject"),
        ("edit", "needs the new text"),
        (Answer.edit(["a list"]), "needs the new text"),
        (Answer(text="reject", data={"why": "no"}), "must be a text"),
    ],
)
async def test_an_answer_that_is_no_decision_is_refused(answer: Answer | str, words: str) -> None:
    team = Team("t", members=[PromptLog().member("a", BEFORE)])
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="r")
        with pytest.raises(UsageError, match=words):
            await engine.runs.answer("r", "t/step-1/confirm-before", answer)


async def test_the_last_answer_before_the_resume_counts() -> None:
    team = Team("t", members=[PromptLog().member("a", BEFORE)])
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="r")
        for answer in (Answer.reject("no"), Answer.edit("on second thoughts")):
            await engine.runs.answer("r", "t/step-1/confirm-before", answer)
        assert (await engine.runs.answers("r"))["t/step-1/confirm-before"].data == "on second thoughts"
        result = await engine.resume("r", team=team)
        events = await engine.journal.read("r")
        assert await engine.runs.answers("r") == {}
    assert result.output == "a: on second thoughts"
    assert len([event for event in events if isinstance(event.fact, PersonAnswered)]) == 1


async def test_known_secrets_in_a_draft_are_neither_recorded_nor_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    key, look_alike = "hush-7f3a-very-secret", "sk-abcdefghijklmnopqrstuv"
    monkeypatch.setenv("SHOP_API_KEY", key)
    prompt_log = PromptLog()

    async def tell(task: Task, members: Members, ctx: Context) -> Outcome:
        reply = await ctx.ask(members[0], Turn(f"use {key} or {look_alike}"), key="k")
        return outcome("failed" if isinstance(reply, Failure) else "done")

    team = Team("t", members=[prompt_log.member("a", BEFORE)], strategy=FunctionStrategy(tell))
    journal = MemoryJournal()
    await through(team, {"confirm-before": YES}, journal)
    assert prompt_log.calls == [("a", f"use [redacted] or {look_alike}")]
    asked_about = [body for body in journal._bodies.values() if "use " in body]
    assert any("[redacted]" in body for body in asked_about)
    assert not any(key in body for body in journal._bodies.values())


async def test_waiting_for_an_approval_holds_no_reservation() -> None:
    counting = FakeMembers()
    guarded = FunctionAgent("a", lambda turn: "done", confirm=BEFORE, limits=Limits(calls=1))

    async def both(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(2) as branches:
            for member in members:
                branches.start(member.name, lambda inner, member=member: inner.ask(member, Turn("x"), key="k"))
        return outcome("done")

    team = Team("t", members=[guarded, counting.member("b")], strategy=FunctionStrategy(both), limits=Limits(calls=2))
    result, _ = await through(team, {"confirm-before": YES})
    assert result.status == "completed"
    assert counting.calls == ["b"]


def test_a_team_has_no_tools_to_approve() -> None:
    with pytest.raises(UsageError, match="on its members"):
        Team("t", members=[PromptLog().member("a")], confirm=Confirm(tools=True))
    with pytest.raises(UsageError, match="no tools"):
        FunctionAgent("a", lambda turn: "x", confirm=Confirm(tools=["x"]))  # pyright: ignore[reportArgumentType]
