"""People steer a live run: what they send is accepted, takes effect at a recorded place, and survives a crash."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import cast

import anyio
import pytest
from pydantic import JsonValue

from teamwright import Engine, ModelAgent, Team, load_team
from teamwright.agents.agent import Agent, AppliedChange, Context
from teamwright.errors import InterventionRefused, NotResumable, UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.strategies.protocol import STEERABLE, Members, Strategy, Task
from teamwright.strategies.team_conversation import TeamConversation
from teamwright.teams.team_loader import build_new_member
from teamwright.values.events.budget import BudgetRaised
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunApplied, RunIntervened, RunRefused
from teamwright.values.limits import Limits
from teamwright.values.people import AddMember, Answer, Confirm, EditPlan, RemoveMember, Tell
from teamwright.values.turns.messages import Message
from teamwright.values.turns.results import Outcome, RunResult
from tests.kit.members import FakeMembers
from tests.kit.records import cut_and_resume, wait_for_question
from tests.kit.runs import contents
from tests.kit.steering import Act, Gate, run_steered


async def steered(
    members: FakeMembers, act: Act, *names: str, journal: MemoryJournal | None = None, **options: object
) -> tuple[RunResult, list[Event]]:
    """Run a team whose first member `a` waits until `act` has been done; returns the result and the events."""
    journal, gate = journal or MemoryJournal(), Gate()
    team = Team("t", members=[members.member("a", gate.answer), *map(members.member, names)], **options)  # type: ignore[arg-type]
    return await run_steered(team, gate, act, journal)


def facts(events: list[Event], kind: type[object]) -> list[Event]:
    return [event for event in events if isinstance(event.fact, kind)]


async def test_a_message_is_accepted_and_each_member_reads_it_where_it_was_said() -> None:
    members = FakeMembers()
    receipts = []

    async def act(engine: Engine) -> None:
        receipts.append(await engine.runs.say("r", "Be brief.", by="ann"))

    result, events = await steered(members, act, "b", "c")
    assert result.status == "completed"
    assert receipts[0].status == "accepted"
    assert contents(members.last_turn("a").history) == []
    assert contents(members.last_turn("b").history) == ["a is done", "Be brief."]
    assert contents(members.last_turn("c").history) == ["a is done", "Be brief.", "b is done"]
    [accepted], [applied] = facts(events, RunIntervened), facts(events, RunApplied)
    assert accepted.number == receipts[0].number
    assert (applied.key, applied.number > accepted.number) == ("t/step-2", True)


async def test_a_message_to_one_member_reaches_no_other() -> None:
    members = FakeMembers()
    await steered(members, lambda engine: engine.runs.say("r", "Be brief.", to="c"), "b", "c")
    assert "Be brief." not in members.last_turn("b").prompt
    assert "Be brief." in members.last_turn("c").prompt


@pytest.mark.parametrize("share", ["output", "a2a_lite"])
async def test_a_message_reaches_members_however_they_share(share: str) -> None:
    members = FakeMembers()
    await steered(members, lambda engine: engine.runs.say("r", "Be brief."), "b", "c", share=share)
    assert "Be brief." in members.last_turn("b").prompt
    assert "Be brief." in members.last_turn("c").prompt


async def test_a_message_reaches_a_nested_team_once() -> None:
    members, gate, journal = FakeMembers(), Gate(), MemoryJournal()
    inner = Team("inner", members=members.members("b c"))
    team = Team("t", members=[members.member("a", gate.answer), inner, members.member("d")])
    async with Engine(journal) as engine:
        handle = await engine.start(team, "go", run_id="r")
        await gate.entered.wait()
        await engine.runs.say("r", "Be brief.")
        gate.open.set()
        await handle.result()
    for name in ("b", "c", "d"):
        assert members.last_turn(name).prompt.count("Be brief.") == 1
    assert [event.key for event in facts(await journal.read("r"), RunApplied)] == ["t/step-2"]


async def test_a_steered_run_resumes_from_every_event_with_the_same_turns() -> None:
    journal, members = MemoryJournal(), FakeMembers()

    async def act(engine: Engine) -> None:
        await engine.runs.say("r", "Be brief.")
        await engine.runs.say("r", "Cite sources.", to="c")

    result, events = await steered(members, act, "b", "c", journal=journal)
    for at in range(1, len(events)):
        again = FakeMembers()
        resumed, _ = await cut_and_resume(Team("t", members=again.members("a b c")), at, journal)
        assert resumed.output == result.output, at
        for name in again.calls:
            told = [text for text in ("Be brief.", "Cite sources.") if text in again.last_turn(name).prompt]
            expected = {"b": ["Be brief."], "c": ["Be brief.", "Cite sources."]}.get(name)
            # The message waits in the inbox, so it reaches also the first member if that had not begun before.
            assert told == (expected if expected is not None else told), (at, name)


async def test_a_message_that_arrives_after_a_turn_began_does_not_change_it_on_resume() -> None:
    journal, members = MemoryJournal(), FakeMembers()
    _, events = await steered(members, lambda engine: engine.runs.say("r", "Be brief."), "b", journal=journal)
    accepted = next(event.number for event in events if event.kind == "run.intervened")
    again = FakeMembers()
    await cut_and_resume(Team("t", members=again.members("a b")), accepted, journal)
    assert "Be brief." not in again.last_turn("a").prompt
    assert "Be brief." in again.last_turn("b").prompt


async def test_an_approved_task_is_not_changed_by_a_message_that_came_after_the_question() -> None:
    journal, members = MemoryJournal(), FakeMembers()
    team = Team("t", members=[members.member("a"), members.member("b", confirm=Confirm(before=True))])
    async with Engine(journal) as engine:
        assert (await engine.run(team, "go", run_id="r")).stop_reason == "approval"
        assert (await engine.runs.say("r", "Be brief.")).status == "sent"
        await engine.runs.answer("r", "t/step-2/confirm-before", Answer.approve())
        assert (await engine.resume("r", team=team)).status == "completed"
    assert "Be brief." not in members.last_turn("b").prompt


async def test_a_message_to_a_run_without_a_driver_waits_until_it_is_resumed() -> None:
    members, journal = FakeMembers(), MemoryJournal()
    team = Team("t", members=members.members("a b"))
    async with Engine(journal) as engine:
        handle = await engine.start(team, "go", run_id="r")
        handle.interrupt()
        await handle.result()
        assert (await engine.runs.say("r", "Be brief.")).status == "sent"
        assert (await engine.resume("r", team=team)).status == "completed"
    assert "Be brief." in members.last_turn("b").prompt


async def test_a_paused_member_waits_and_the_others_continue() -> None:
    members, journal = FakeMembers(), MemoryJournal()
    result, events = await steered(
        members, lambda engine: engine.runs.pause_member("r", "b"), "b", "c", journal=journal
    )
    assert (result.status, result.stop_reason, members.calls) == ("paused", "pause", ["a"])
    assert [event.key for event in facts(events, RunApplied)] == ["t/step-2"]
    team = Team("t", members=[members.member("a"), *members.members("b c")])
    async with Engine(journal) as engine:
        assert (await engine.resume("r", team=team)).stop_reason == "pause"
        await engine.runs.say("r", "Take your time.", to="b")
        await engine.runs.resume_member("r", "b")
        assert (await engine.resume("r", team=team)).status == "completed"
    assert members.calls == ["a", "b", "c"]
    assert "Take your time." in members.last_turn("b").prompt


async def test_a_paused_member_is_resumed_in_a_live_run() -> None:
    members, gate, journal = FakeMembers(), Gate(), MemoryJournal()
    team = Team("t", members=[members.member("a", gate.answer), *members.members("b c")])
    async with Engine(journal) as engine:
        handle = await engine.start(team, "go", run_id="r")
        handle.set_interactive(True)
        await gate.entered.wait()
        await engine.runs.pause_member("r", "b")
        gate.open.set()
        assert await wait_for_question(engine) == "t/step-2/paused"
        assert (await engine.runs.resume_member("r", "b")).status == "accepted"
        assert (await handle.result()).status == "completed"
    events = await journal.read("r")
    for at in range(1, len(events)):
        again = FakeMembers()
        resumed, _ = await cut_and_resume(Team("t", members=again.members("a b c")), at, journal)
        assert (resumed.status, resumed.output) == ("completed", "c is done"), at


async def test_the_answer_to_a_pause_ends_it() -> None:
    members, journal = FakeMembers(), MemoryJournal()
    await steered(members, lambda engine: engine.runs.pause_member("r", "b"), "b", journal=journal)
    async with Engine(journal) as engine:
        await engine.runs.answer("r", "t/step-2/paused", "resume")
        assert (await engine.resume("r", team=Team("t", members=members.members("a b")))).status == "completed"


async def test_a_raised_budget_applies_at_once_and_to_later_drivers() -> None:
    members, journal = FakeMembers(), MemoryJournal()
    limits = Limits(calls=1)
    result, events = await steered(
        members, lambda engine: engine.runs.raise_budget("r", Limits(calls=9)), "b", "c", limits=limits, journal=journal
    )
    assert (result.status, members.calls) == ("completed", ["a", "b", "c"])
    assert [event.key for event in facts(events, BudgetRaised)] == ["t"]
    for at in range(next(e.number for e in events if e.kind == "run.intervened"), len(events)):
        again = FakeMembers()
        resumed, kinds = await cut_and_resume(Team("t", members=again.members("a b c"), limits=limits), at, journal)
        assert resumed.status == "completed", at
        assert kinds.count("run.applied") == 1


async def test_raised_seconds_give_a_running_team_more_time() -> None:
    members = FakeMembers()

    async def act(engine: Engine) -> None:
        await engine.runs.raise_budget("r", Limits(seconds=30))
        await anyio.sleep(0.4)

    result, _ = await steered(members, act, "b", limits=Limits(seconds=0.3))
    assert result.status == "completed"


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (lambda engine: engine.runs.say("r", "Hi", to="d"), "there is no member 'd'; known are a, b"),
        (lambda engine: engine.runs.pause_member("r", "bb"), "there is no member 'bb'; did you mean 'b'"),
        (lambda engine: engine.runs.resume_member("r", "b"), "'b' is not paused"),
        (lambda engine: engine.runs.raise_budget("r", Limits(tokens=5)), "has a limit on tokens, so there is none"),
        (lambda engine: engine.runs.raise_budget("r", Limits(calls=5)), "the limit on calls is 9 already"),
    ],
)
async def test_what_a_run_cannot_take_is_refused_with_the_reason(act: Act, why: str) -> None:
    async def refused(engine: Engine) -> None:
        with pytest.raises(InterventionRefused, match=why):
            await act(engine)

    result, events = await steered(FakeMembers(), refused, "b", limits=Limits(calls=9))
    assert result.status == "completed"
    assert [event.kind for event in events].count("run.refused") == 1


class Stubborn(Strategy):
    """A strategy that takes no messages."""

    name, version, interventions = "stubborn", 1, ("pause",)

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        talk = TeamConversation(task)
        talk.receive(await ctx.ask(members[0], talk.turn(1), key="only"))
        return talk.ended("done")


async def test_a_strategy_says_which_interventions_it_takes() -> None:
    async def refused(engine: Engine) -> None:
        with pytest.raises(InterventionRefused, match="'stubborn' takes no messages while it runs; it takes: pause"):
            await engine.runs.say("r", "Hi")

    await steered(FakeMembers(), refused, strategy=Stubborn())


async def test_a_run_that_has_ended_takes_nothing() -> None:
    async with Engine("memory") as engine:
        await engine.run(FakeMembers().chain(1), "go", run_id="r")
        with pytest.raises(NotResumable, match="ended already"):
            await engine.runs.say("r", "Hi")
        with pytest.raises(UsageError, match="must be a text"):
            await engine.runs.say("r", " ")
        with pytest.raises(UsageError, match="needs a limit: tokens"):
            await engine.runs.raise_budget("r", Limits())


async def test_a_message_is_read_that_says_what_the_conversation_had_before() -> None:
    members, gate, journal = FakeMembers(), Gate(), MemoryJournal()
    inner = Team("inner", members=members.members("b c"))
    team = Team("t", members=[members.member("a", gate.answer), inner])
    async with Engine(journal) as engine:
        earlier = [Message(name="user", content="Go on.", role="user")]
        handle = await engine.start(team, "go", run_id="r", history=earlier)
        await gate.entered.wait()
        await engine.runs.say("r", "Go on.")
        gate.open.set()
        with anyio.fail_after(10):
            await handle.result()
    assert contents(members.last_turn("b").history) == ["Go on.", "a is done", "Go on."]
    assert contents(members.last_turn("c").history) == ["Go on.", "a is done", "Go on.", "b is done"]


@pytest.mark.parametrize(
    "act",
    [
        lambda engine: engine.runs.say("r", "Hi", by=5),
        lambda engine: engine.runs.say("r", "Hi", to=5),
        lambda engine: engine.runs.pause_member("r", 5),
        lambda engine: engine.runs.resume_member("r", None),
        lambda engine: engine.runs.remove_member("r", ["b"]),
        lambda engine: engine.runs.edit_plan("r", {"steps": object()}),
        lambda engine: engine.runs.add_member("r", "b", {"function": "own:run", "description": object()}),
    ],
    ids=["by", "to", "pause", "resume", "remove", "plan", "spec"],
)
async def test_what_could_not_be_read_back_is_never_sent(act: Act) -> None:
    async def refused(engine: Engine) -> None:
        with pytest.raises(UsageError):
            await act(engine)
        assert await engine.journal.inbox("r") == []

    result, _ = await steered(FakeMembers(), refused, "b")
    assert result.status == "completed"


@pytest.mark.lab
async def test_a_plan_is_sent_as_json_or_refused() -> None:
    async with Engine("memory") as engine:
        team = Team("t", members=FakeMembers().members("a"), strategy="dag", options={"steps": [{"id": "a"}]})
        await engine.run(team, "go", run_id="r", confirm=True)
        with pytest.raises(UsageError, match="NaN"):
            await engine.runs.edit_plan("r", {"steps": [{"id": "a", "priority": float("nan")}]})
        await engine.runs.edit_plan("r", {"steps": ({"id": "a", "priority": 2},)})  # type: ignore[dict-item]
        (sent,) = await engine.journal.inbox("r")
        assert isinstance(sent.intervention, EditPlan)
        assert sent.intervention.plan == {"steps": [{"id": "a", "priority": 2}]}


async def test_a_fork_keeps_what_members_were_told() -> None:
    journal, members = MemoryJournal(), FakeMembers()
    _, events = await steered(members, lambda engine: engine.runs.say("r", "Be brief."), "b", "c", journal=journal)
    at = next(event.number for event in events if event.kind == "agent.replied" and event.key == "t/step-2")
    again = FakeMembers()
    async with Engine(journal) as engine:
        await engine.fork("r", at=at, team=Team("t", members=again.members("a b c")), new_id="f")
    assert again.calls == ["c"]
    assert contents(again.last_turn("c").history) == ["a is done", "Be brief.", "b is done"]


class Panel(Strategy):
    """Asks its members in order; people may add and remove members between the asks."""

    name, version = "panel", 1
    interventions = (*STEERABLE, "add_member", "remove_member")

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        talk, waiting, messages = TeamConversation(task), list(members), list[str]()

        def apply(applied: AppliedChange) -> str | None:
            match applied.change:
                case AddMember():
                    waiting.append(cast("Agent", applied.agent))
                case RemoveMember(member=name) if name not in [one.name for one in waiting]:
                    return f"{name!r} has had its turn"
                case RemoveMember(member=name):
                    waiting[:] = [one for one in waiting if one.name != name]
                case Tell(text=text):
                    messages.append(text)
                case _:
                    return "there is no plan"
            return None

        for number in count(1):
            await ctx.changes(before=f"turn-{number}", apply=apply, messages=True)
            if not waiting:
                return talk.ended("done", *messages)
            if ended := talk.receive(await ctx.ask(waiting.pop(0), talk.turn(number), key=f"turn-{number}")):
                return ended
        raise AssertionError("counting never ends")


SPEC: dict[str, JsonValue] = {"function": "tests.runtime.people.test_applied_interventions:joined"}


def joined(task: str) -> str:
    return "d is done"


async def test_a_strategy_carries_out_changes_of_its_team_at_recorded_places() -> None:
    journal, members = MemoryJournal(), FakeMembers()

    async def act(engine: Engine) -> None:
        await engine.runs.add_member("r", "d", SPEC, by="ann")
        await engine.runs.remove_member("r", "b")
        await engine.runs.remove_member("r", "a")
        await engine.runs.say("r", "Hurry.")

    result, events = await steered(members, act, "b", "c", journal=journal, strategy=Panel())
    assert (result.output, members.calls, result.warnings) == ("d is done", ["a", "c"], ("t: Hurry.",))
    applied = [(event.key, event.fact.intervention.kind) for event in facts(events, RunApplied)]  # type: ignore[attr-defined]
    assert applied == [
        ("t/turn-2", "add_member"),
        ("t/turn-2", "remove_member"),
        ("t/turn-2", "say"),
        ("t/turn-2", "say"),
    ]
    [refused] = [event for event in events if event.kind == "run.refused"]
    assert (refused.key, refused.fact.reason) == ("t/turn-2", "'a' has had its turn")  # type: ignore[union-attr]
    for at in range(next(e.number for e in events if e.kind == "run.intervened"), len(events)):
        again = Team("t", members=FakeMembers().members("a b c"), strategy=Panel())
        resumed, kinds = await cut_and_resume(again, at, journal)
        assert (resumed.output, resumed.warnings) == (result.output, result.warnings), at
        assert "run.refused" in kinds, at


async def test_a_member_that_joined_can_be_addressed_and_removed() -> None:
    async def act(engine: Engine) -> None:
        await engine.runs.add_member("r", "d", SPEC)
        await engine.runs.say("r", "Welcome.", to="d")
        await engine.runs.remove_member("r", "d")

    result, events = await steered(FakeMembers(), act, "b", strategy=Panel())
    assert result.output == "b is done"
    assert [event.fact.intervention.kind for event in events if isinstance(event.fact, RunRefused)] == ["say"]


async def test_no_intervention_records_a_secret_of_the_team(monkeypatch: pytest.MonkeyPatch) -> None:
    journal, gate, members = MemoryJournal(), Gate(), FakeMembers()
    team = Team("t", members=[members.member("a", gate.answer), members.member("b")])
    team.secrets, team.declared = frozenset({"s3cr3t-of-the-team"}), team.source
    async with Engine(journal) as engine:
        handle = await engine.start(team, "go", run_id="r")
        await gate.entered.wait()
        await engine.runs.say("r", "Use s3cr3t-of-the-team.", by="s3cr3t-of-the-team")
        gate.open.set()
        await handle.result()
    stored = str(await journal.read("r")) + str(await journal.inbox("r"))
    assert "s3cr3t" not in stored
    assert "s3cr3t" not in members.last_turn("b").prompt


async def test_a_member_that_can_not_be_built_is_refused_with_the_reason() -> None:
    async def act(engine: Engine) -> None:
        with pytest.raises(InterventionRefused, match="nowhere"):
            await engine.runs.add_member("r", "d", {"function": "tests.nowhere:f"})
        with pytest.raises(UsageError, match="declaration of 'd' does not fit: functon"):
            await engine.runs.add_member("r", "d", {"functon": "x:y"})

    await steered(FakeMembers(), act, "b", strategy=Panel())


async def test_what_never_takes_effect_is_refused_when_the_run_ends() -> None:
    result, events = await steered(FakeMembers(), lambda engine: engine.runs.pause_member("r", "a"), "b")
    assert result.status == "completed"
    [refused] = [event for event in events if event.kind == "run.refused"]
    assert refused.fact.reason == "the run ended before it took effect"  # type: ignore[union-attr]
    assert events[-1].kind == "run.ended"


def test_a_new_member_without_a_model_has_that_of_its_team(tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text("rules: [{reply: one}]")
    manifest = tmp_path / "team.yaml"
    agents = "agents:\n  other: {model: 'openai:last'}\n  a: {model: scripted:replies.yaml}\n  b: {model: main}\n"
    manifest.write_text(f"models: {{main: 'openai:first'}}\n{agents}teams: {{t: {{members: [a, b]}}}}\n")
    declared: JsonValue = {"instructions": "Count.", "description": "counts"}
    built = build_new_member(load_team(manifest), "c", declared)
    assert isinstance(built, ModelAgent)
    assert "openai:first" in str(built.model)
    manifest.write_text("agents: {a: {model: scripted:replies.yaml}}\nteams: {t: {members: [a]}}\n")
    with pytest.raises(UsageError, match="'c' needs a model, and its team has none to share: name one"):
        build_new_member(load_team(manifest), "c", declared)
