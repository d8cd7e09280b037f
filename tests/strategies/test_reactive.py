"""Reactive: members react to events until nothing happens any more, and nothing runs away."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from teamwright.agents.agent import Agent
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.errors import ManifestError, Refused
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.strategies.protocol import Settings
from teamwright.strategies.reactive import Reactive
from teamwright.teams.team import Team
from teamwright.testing.trial import StrategyTrial, TrialScript
from teamwright.values.events.event import Fact
from teamwright.values.events.team import TeamBounded, TeamEmitted, TeamGoalReached, TeamReplyRejected
from teamwright.values.limits import Limits
from teamwright.values.turns.messages import Message
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Turn
from tests.kit.members import FakeMembers, numbered
from tests.strategies.test_sequential import TASK, names, run

WORDS = "the-words-of-an-error"
START = "workflow.started"


def on(member: str, type_: str, *emits: str, **more: Any) -> dict[str, Any]:
    return {"agent": member, "on": type_, "emits": [{"type": one} for one in emits], **more}


def network(members: list[Agent], *subscriptions: dict[str, Any], **more: Any) -> Team:
    options: dict[str, Any] = {"subscriptions": list(subscriptions), **more.pop("options", {})}
    return Team("t", members=members, strategy="reactive", options=options, **more)


def emitting(fakes: FakeMembers, name: str, *events: object, state: object = None) -> FunctionAgent:
    """A member that says each time that these events follow."""
    reaction = {"events": list(events)} | ({} if state is None else {"state": state})
    return fakes.member(name, json.dumps(reaction))


async def recorded(team: Team) -> tuple[RunResult, list[Fact]]:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(team, TASK, run_id="r")
        return result, [event.fact for event in await journal.read("r")]


def emitted(facts: list[Fact]) -> list[tuple[str, str, int]]:
    return [(fact.type, fact.by, fact.depth) for fact in facts if isinstance(fact, TeamEmitted)]


def event_in(turn: Turn) -> Any:
    return json.loads(turn.task)["event"]


async def test_events_trigger_members_until_none_is_left() -> None:  # P-07
    fakes = FakeMembers(numbered)
    members: list[Agent] = [
        emitting(fakes, "a", {"type": "found", "data": {"issues": 2}}, state={"seen": True}),
        fakes.member("b", "all repaired"),
    ]
    result, facts = await recorded(network(members, on("a", START), on("b", "found")))
    assert (result.status, result.stop_reason, result.output) == ("completed", "done", "all repaired")
    assert names(result) == ["a", "b"]
    assert result.data == {"seen": True}
    assert emitted(facts) == [(START, "", 0), ("found", "a", 1)]


async def test_a_member_receives_the_event_the_state_and_the_task_last() -> None:  # P-07 R-01
    fakes = FakeMembers(numbered)
    members: list[Agent] = [emitting(fakes, "a", {"type": "found", "data": [7]}, state={"n": 1}), fakes.member("b")]
    await run(network(members, on("a", START), on("b", "found"), options={"state": {"m": 0}}))
    first, second = (turn for _, turn in fakes.received)
    assert 'An event has come: {"type":"workflow.started"}' in first.task
    assert 'An event has come: {"type":"found","by":"a","data":[7]}' in second.task
    assert 'The shared state: {"m":0,"n":1}' in second.task
    assert [message.name for message in second.history] == ["a"]
    assert first.task.endswith(TASK)
    assert second.task.endswith(TASK)


async def test_with_the_output_a_member_receives_the_event_alone() -> None:  # P-03
    fakes = FakeMembers(numbered)
    members: list[Agent] = [emitting(fakes, "a", {"type": "found", "data": [7]}, state={"n": 1}), fakes.member("b")]
    await run(network(members, on("a", START), on("b", "found"), share="output"))
    first, second = (turn for _, turn in fakes.received)
    assert json.loads(first.prompt) == {"event": {"type": START, "data": TASK}, "state": {}}
    assert json.loads(second.prompt) == {"event": {"type": "found", "by": "a", "data": [7]}, "state": {"n": 1}}


async def test_a_condition_decides_over_event_and_state() -> None:  # P-07
    fakes = FakeMembers(numbered)
    issues = [{"severity": "low"}, {"severity": "auto-fixable"}]
    members: list[Agent] = [
        emitting(
            fakes, "a", {"type": "found", "issues": issues}, {"type": "found", "issues": []}, state={"open": True}
        ),
        fakes.member("fixer"),
        fakes.member("never"),
    ]
    fixable = "state.open and 'auto-fixable' in (data.issues | join(' ', 'severity'))"
    rows = (on("a", START), on("fixer", "found", when=fixable), on("never", "found", when="by != 'a'"))
    await run(network(members, *rows))
    assert fakes.calls == ["a", "fixer"]


async def test_a_member_reacts_to_an_event_once_by_the_first_subscription_that_fits() -> None:
    fakes = FakeMembers(numbered)
    rows = (on("a", START, "x", when="depth > 0"), on("a", START, "y"), on("a", START, "z"))
    _, facts = await recorded(network([fakes.member("a")], *rows))
    assert fakes.calls == ["a"]
    assert emitted(facts)[1:] == [("y", "a", 1)]


async def test_members_that_react_to_one_event_work_concurrently() -> None:  # P-07
    arrived: list[str] = []
    everybody = anyio.Event()

    def member(name: str) -> FunctionAgent:
        async def respond(turn: Turn) -> str:
            arrived.append(name)
            if len(arrived) == 3:
                everybody.set()
            await everybody.wait()
            return name

        return FunctionAgent(name, respond)

    result = await run(network([member(name) for name in "abc"], *(on(name, START) for name in "abc")))
    assert sorted(names(result)) == ["a", "b", "c"]


async def test_events_are_handled_first_come_first_served() -> None:  # P-07
    fakes = FakeMembers(numbered)
    members: list[Agent] = [
        emitting(fakes, "a", {"type": "x", "data": 1}, {"type": "y"}, {"type": "x", "data": 2}),
        fakes.member("b"),
        fakes.member("c"),
        fakes.member("d"),
    ]
    rows = (on("a", START), on("d", "y"), on("c", "x", "late"), on("b", "x"), on("d", "late"))
    await run(network(members, *rows, options={"max_parallel": 1}))
    assert fakes.calls == ["a", "c", "b", "d", "c", "b", "d", "d"]


async def test_state_is_merged_reply_by_reply_and_shown_as_it_is() -> None:  # P-07
    fakes = FakeMembers(numbered)
    members: list[Agent] = [
        emitting(fakes, "a", {"type": "x"}, state={"n": 1, "by": "a"}),
        emitting(fakes, "b", {"type": "y"}, state={"n": 2}),
        fakes.member("c"),
    ]
    result = await run(network(members, on("a", START), on("b", "x"), on("c", "y"), share="output"))
    assert json.loads(fakes.received[-1][1].task)["state"] == {"n": 2, "by": "a"}
    assert result.data == {"n": 2, "by": "a"}


async def test_declared_events_follow_from_replies_in_plain_words_and_from_data() -> None:  # P-07
    async def test_it(turn: Turn) -> object:
        return {"passed": False, "state": {"tried": True}}

    fakes = FakeMembers(numbered)
    rows = (
        {"agent": "a", "on": START, "emits": [{"type": "written"}, {"type": "cut", "when": "'…' in text"}]},
        {
            "agent": "tester",
            "on": "written",
            "emits": [
                {"type": "tests.passed", "when": "data.passed"},
                {"type": "tests.failed", "when": "not data.passed and state.tried"},
            ],
        },
        on("b", "tests.failed"),
    )
    members: list[Agent] = [fakes.member("a", "a page"), FunctionAgent("tester", test_it), fakes.member("b")]
    _, facts = await recorded(network(members, *rows, share="output"))
    assert [kind for kind, _, _ in emitted(facts)] == [START, "written", "tests.failed"]
    assert event_in(fakes.received[-1][1])["data"] == {"passed": False, "state": {"tried": True}}


async def test_a_reply_in_prose_may_contain_events() -> None:
    fakes = FakeMembers(numbered)
    said = 'I looked.\n\n```json\n{"events": [{"type": "found", "where": "a.py"}], "stateUpdate": {"n": 1}}\n```\nBye.'
    members: list[Agent] = [fakes.member("a", said), fakes.member("b")]
    result = await run(network(members, on("a", START), on("b", "found"), share="output"))
    assert event_in(fakes.received[-1][1])["data"] == {"where": "a.py"}
    assert result.data == {"n": 1}


@pytest.mark.parametrize(
    "reaction",
    [{"events": "found"}, {"events": [{"data": 1}]}, {"state": [1]}, {"events": [{"type": "no good name"}]}],
)
async def test_an_unreadable_reply_is_reported_back_once_and_is_then_an_error(reaction: object) -> None:
    fakes = FakeMembers(numbered)
    members: list[Agent] = [fakes.member("a", json.dumps(reaction)), fakes.member("b")]
    result, facts = await recorded(network(members, on("a", START), on("b", "agent.error")))
    assert fakes.calls == ["a", "a", "b"]
    assert "Your last answer could not be used" in fakes.received[1][1].task
    assert [fact.member for fact in facts if isinstance(fact, TeamReplyRejected)] == ["a"]
    assert '"error":"invalid_output"' in fakes.received[2][1].task
    assert result.status == "completed"
    assert names(result) == ["a", "a", "b"]


@pytest.mark.parametrize("kind", [START, "agent.error"])
async def test_the_events_of_the_team_itself_cannot_be_made_up(kind: str) -> None:
    fakes = FakeMembers(numbered)
    result = await run(network([emitting(fakes, "a", {"type": kind})], on("a", START)))
    assert result.status == "failed"
    assert result.failure is not None
    assert "comes from the team itself" in result.failure.message
    with pytest.raises(ManifestError, match="comes from the team itself"):
        network([fakes.member("a")], on("a", START, kind))


async def test_a_failure_is_an_event_that_others_may_handle_without_its_words() -> None:  # P-07 law 5
    fakes = FakeMembers(numbered)
    members: list[Agent] = [
        emitting(fakes, "s", {"type": "file.changed", "file": "a.py"}),
        fakes.member("a", Refused(WORDS)),
        fakes.member("b", "done without it"),
    ]
    rows = (on("s", START), on("a", "file.changed"), on("b", "agent.error"))
    result, facts = await recorded(network(members, *rows, share="output"))
    assert (result.status, result.output, result.warnings) == ("completed", "done without it", ())
    at = {"type": "file.changed", "by": "s", "data": {"file": "a.py"}}
    data = {"member": "a", "error": "refused", "event": at}
    assert event_in(fakes.received[2][1]) == {"type": "agent.error", "by": "a", "data": data}
    assert emitted(facts)[2:] == [("agent.error", "a", 2)]
    assert not any(WORDS in turn.prompt for _, turn in fakes.received)


async def test_a_failure_that_no_member_handles_fails_the_team_and_keeps_the_messages() -> None:  # P-07
    fakes = FakeMembers(numbered)
    members: list[Agent] = [fakes.member("a"), fakes.member("b", Refused(WORDS)), fakes.member("c")]
    rows = (on("a", START, "x"), on("b", "x"), on("c", "agent.error", when="data.error == 'timeout'"))
    result = await run(network(members, *rows))
    assert (result.status, result.stop_reason) == ("failed", "error")
    assert names(result) == ["a"]
    assert result.failure is not None
    assert "'b' failed" in result.failure.message


async def test_a_failure_that_no_member_handles_may_be_collected() -> None:
    fakes = FakeMembers(numbered)
    members: list[Agent] = [fakes.member("a", Refused(WORDS)), fakes.member("b")]
    result = await run(network(members, on("a", START), on("b", START), options={"on_failure": "collect"}))
    assert (result.status, names(result)) == ("degraded", ["b"])
    assert "'a' failed and was skipped" in result.warnings[0]


async def test_an_optional_member_may_fail() -> None:
    async def respond(turn: Turn) -> str:
        raise Refused(WORDS)

    members: list[Agent] = [FunctionAgent("a", respond, optional=True), FakeMembers(numbered).member("b")]
    result = await run(network(members, on("a", START), on("b", START)))
    assert (result.status, names(result)) == ("degraded", ["b"])


async def test_no_member_handles_its_own_failure() -> None:
    fakes = FakeMembers(numbered)
    members: list[Agent] = [fakes.member("a", Refused(WORDS)), fakes.member("b", Refused(WORDS))]
    result = await run(network(members, on("a", START), on("a", "agent.error"), on("b", "agent.error")))
    assert result.status == "failed"
    assert fakes.calls[:3] == ["a", "b", "a"]
    assert len(fakes.calls) <= 21


async def test_a_goal_ends_the_run_and_cancels_members_in_flight() -> None:  # P-07
    fakes = FakeMembers(numbered)

    async def for_ever(turn: Turn) -> str:
        await anyio.sleep_forever()
        return "never"

    members: list[Agent] = [
        emitting(fakes, "a", {"type": "x"}, {"type": "y"}, state={"score": 3}),
        emitting(fakes, "b", {"type": "x"}, {"type": "x"}, state={"score": 9}),
        FunctionAgent("slow", for_ever),
    ]
    rows = (on("a", START), on("b", "x"), on("slow", "y"))
    result, facts = await recorded(network(members, *rows, options={"goal": "state.score > 8 and 'x' in emitted"}))
    assert (result.status, result.stop_reason, result.data) == ("completed", "done", {"score": 9})
    assert names(result) == ["a", "b"]
    assert [fact for fact in facts if isinstance(fact, TeamGoalReached)] == [
        TeamGoalReached(by="b", waiting=2, at_work=1)
    ]


async def test_a_member_that_terminates_ends_it() -> None:
    fakes = FakeMembers(numbered)
    said = json.dumps({"events": "not even readable"})
    members: list[Agent] = [fakes.member("a"), fakes.member("b", said, signal="terminate"), fakes.member("c")]
    result = await run(
        network(members, on("a", START, "x", "x"), on("b", "x", "y"), on("c", "y"), options={"max_parallel": 1})
    )
    assert (result.status, result.stop_reason, result.output) == ("completed", "terminated", said)
    assert fakes.calls == ["a", "b"]


async def test_a_storm_of_events_ends_and_says_what_did_not_happen() -> None:  # P-07
    fakes = FakeMembers(numbered)
    members: list[Agent] = [emitting(fakes, "a", *[{"type": "drop"}] * 500), fakes.member("b")]
    result, facts = await recorded(network(members, on("a", START), on("b", "drop"), options={"max_events": 10}))
    assert (result.status, result.stop_reason) == ("completed", "max_turns")
    assert fakes.calls == ["a"] + ["b"] * 9
    (warning,) = result.warnings
    assert warning == (
        "t: stopped at its limit of 10 events (max_events: 10; 491 did not happen, the first 'drop' from 'a', in the"
        " chain workflow.started → drop)"
    )
    assert [fact for fact in facts if isinstance(fact, TeamBounded)] == [
        TeamBounded(limit="max_events", most=10, type="drop", by="a", chain=(START, "drop"))
    ]


async def test_a_storm_that_feeds_itself_ends() -> None:  # P-07
    fakes = FakeMembers(numbered)
    member = emitting(fakes, "a", *[{"type": "drop"}] * 3)
    options = {"max_events": 50, "max_depth": 1000}
    result = await run(network([member], on("a", START), on("a", "drop"), options=options))
    assert (result.stop_reason, len(fakes.calls)) == ("max_turns", 50)


async def test_a_loop_ends_and_is_reported_as_one() -> None:  # P-07
    fakes = FakeMembers(numbered)
    members: list[Agent] = [fakes.member("a"), fakes.member("b")]
    rows = (on("a", START, "ping"), on("b", "ping", "pong"), on("a", "pong", "ping"))
    result, facts = await recorded(network(members, *rows, options={"max_depth": 6}))
    assert (result.status, result.stop_reason) == ("completed", "max_turns")
    assert fakes.calls == ["a", "b", "a", "b", "a", "b", "a"]
    (warning,) = result.warnings
    assert warning == (
        "t: stopped at its limit of 6 events that follow from each other (max_depth: 6; 1 did not happen, the first"
        " 'ping' from 'a', in the loop ping → pong → ping)"
    )
    assert sum(isinstance(fact, TeamBounded) for fact in facts) == 1


async def test_a_chain_that_is_too_deep_ends_and_the_rest_continues() -> None:  # P-07
    fakes = FakeMembers(numbered)
    chain = [on("a", START, "e1", "other"), *(on("a", f"e{n}", f"e{n + 1}") for n in range(1, 9))]
    members: list[Agent] = [fakes.member("a"), fakes.member("b"), fakes.member("c")]
    rows = (*chain, on("b", "other", "more"), on("c", "more"))
    result = await run(network(members, *rows, options={"max_depth": 4}))
    assert result.stop_reason == "max_turns"
    assert "e1 → e2 → e3 → e4 → e5" in result.warnings[0]
    assert fakes.calls.count("a") == 5
    assert {"b", "c"} <= set(fakes.calls)


async def test_a_goal_that_is_reached_beside_a_limit_is_an_end_with_a_warning() -> None:
    fakes = FakeMembers(numbered)
    members: list[Agent] = [emitting(fakes, "a", *[{"type": "x"}] * 9), emitting(fakes, "b", state={"ok": True})]
    options = {"max_events": 3, "goal": "state.ok", "state": {"ok": False}}
    result = await run(network(members, on("a", START), on("b", "x"), options=options))
    assert (result.status, result.stop_reason) == ("degraded", "done")
    assert "max_events: 3" in result.warnings[0]


async def test_a_limit_may_be_a_failure_that_keeps_the_messages() -> None:
    fakes = FakeMembers(numbered)
    team = network([fakes.member("a")], on("a", START, "x"), on("a", "x", "x"), on_max_turns="fail")
    result = await run(team)
    assert (result.status, result.stop_reason) == ("failed", "max_turns")
    assert len(result.messages) == 21


async def test_a_deadline_ends_what_no_other_limit_ends() -> None:  # P-07
    async def slowly(turn: Turn) -> str:
        await anyio.sleep(0.001)
        return "tick"

    options = {"max_events": 1_000_000, "max_depth": 1_000_000}
    rows = (on("a", START, "x"), on("a", "x", "x"))
    result = await run(network([FunctionAgent("a", slowly)], *rows, options=options, limits=Limits(seconds=0.1)))
    assert (result.status, result.stop_reason) == ("timeout", "deadline")
    assert result.messages


async def test_a_condition_that_cannot_be_answered_fails_the_team_with_a_clear_message() -> None:
    fakes = FakeMembers(numbered)
    members: list[Agent] = [fakes.member("a", "kept"), fakes.member("b")]
    result = await run(network(members, on("a", START, "x"), on("b", "x", when="data.score > 3")))
    assert (result.status, names(result)) == ("failed", ["a"])
    assert result.failure is not None
    assert result.failure.error == "expression"
    assert "data.score > 3" in result.failure.message


async def test_a_team_may_react_and_speaks_under_its_own_name() -> None:
    fakes = FakeMembers(numbered)
    inner = Team("inner", members=[fakes.member("x"), emitting(fakes, "y", {"type": "made"})])
    result = await run(network([inner, fakes.member("b")], on("inner", START), on("b", "made")))
    assert names(result) == ["inner", "inner", "b"]


async def test_the_history_of_the_caller_is_passed_on() -> None:
    fakes = FakeMembers(numbered)
    earlier = [Message(name="user", content="before", role="user")]
    await run(network([fakes.member("a")], on("a", START, "x"), on("a", "x")), history=earlier)
    assert [[message.content for message in turn.history] for _, turn in fakes.received] == [
        ["before"],
        ["before", "a 1"],
    ]


def test_what_cannot_work_is_refused_before_anything_runs() -> None:
    fakes = FakeMembers(numbered)
    a, b = fakes.member("a"), fakes.member("b")
    for rows, more, words in (
        ([on("a", "x")], {}, "no member reacts to 'workflow.started'"),
        ([on("a", START, when="data.")], {}, "the condition 'data.'"),
        ([on("a", START, when="dta.x")], {}, "'dta' is not known here; did you mean 'data'"),
        ([on("a", START)], {"options": {"goal": "data.x"}}, "'data' is not known here"),
        ([{"agent": "a", "on": START, "emits": [{"type": "x", "when": "by"}]}], {}, "'by' is not known here"),
        ([on("c", START)], {}, "'c' is not a member"),
        ([on("a", "no good name")], {}, "on: 'no good name' is no name"),
        ([], {}, "subscriptions"),
        ([on("a", START)], {"max_turns": 3}, "set max_events and max_depth"),
    ):
        with pytest.raises(ManifestError, match=words):
            network([a], *rows, **more)
    with pytest.raises(ManifestError, match="the member 'b' reacts to nothing"):
        network([a, b], on("a", START))


KINDS = ["k1", "k2", "k3"]
ROWS = st.builds(
    on,
    st.sampled_from(["member-1", "member-2", "member-3"]),
    st.sampled_from([START, *KINDS, "agent.error"]),
    *[st.sampled_from(KINDS)] * 2,
    when=st.sampled_from([None, None, "depth < 2", "'member' in by"]),
)


@given(
    rows=st.lists(ROWS, max_size=6),
    limit=st.integers(1, 3),
    fails_at=st.integers(0, 4),
    policy=st.sampled_from(["fail", "collect"]),
    cut=st.floats(0, 1),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_network_ends_within_its_limits_and_a_resumed_one_has_the_same_result(
    rows: list[dict[str, Any]], limit: int, fails_at: int, policy: str, cut: float
) -> None:  # P-07
    starts = [on(f"member-{number}", START, "k1") for number in (1, 2, 3)]
    bounds: dict[str, Any] = {"max_parallel": limit, "max_events": 8, "max_depth": 4, "on_failure": policy}
    options: dict[str, Any] = {"subscriptions": [*starts, *rows], **bounds}
    trial = StrategyTrial(Reactive, Settings(options=options))

    async def play() -> None:
        script = TrialScript(fails_at=fails_at)
        result, log = await trial.run(script)
        assert len(script.asks) <= 8 * 3
        assert sum(event.kind == "team.emitted" for event in log.events) <= 8
        assert len(result.messages) == len(script.replies)
        number = 1 + int(cut * (len(log.events) - 2))
        if fails_at and any(event.kind == "agent.failed" for event in log.events[number:]):
            return  # failures are counted by asks, and a resumed run counts from the start
        again = TrialScript(return_order=log.returned_effects(), recorded=frozenset(log.returned_effects(number)))
        resumed = await trial.resume(again, log.truncated(number))
        assert (resumed.status, resumed.messages, resumed.data) == (result.status, result.messages, result.data)
        assert not set(again.calls) & set(log.returned_effects(number))

    anyio.run(play)
