"""Hierarchical: an orchestrator delegates, asks a person, and puts the answer together."""

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
from teamwright.strategies.hierarchical import HierarchicalOptions
from teamwright.teams.team import Team
from teamwright.values.events.event import Fact
from teamwright.values.events.team import TeamDecided, TeamReplyRejected
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Reply, Turn
from tests.kit.members import FakeMembers, numbered
from tests.strategies.test_sequential import TASK, names, run

WORDS = "the-words-of-an-error"


def delegate(*who: str, task: str = "look") -> dict[str, Any]:
    return {"action": "delegate", "delegations": [{"specialist": one, "task": f"{task} {one}"} for one in who]}


def synthesize(text: str = "all in all") -> dict[str, Any]:
    return {"action": "synthesize", "synthesis": text}


def clarify(question: str) -> dict[str, Any]:
    return {"action": "clarify", "question": question}


class Lead:
    """An orchestrator that makes these decisions in order, and records the turns it receives."""

    def __init__(self, *decisions: object) -> None:
        self.decisions = decisions
        self.told: list[Turn] = []

    @property
    def agent(self) -> FunctionAgent:
        async def respond(turn: Turn) -> object:
            self.told.append(turn)
            decision = self.decisions[min(len(self.told), len(self.decisions)) - 1]
            return decision if isinstance(decision, Reply | str) else json.dumps(decision)

        return FunctionAgent("lead", respond)

    def team(self, *members: Agent, **more: Any) -> Team:
        options = {"lead": "lead", **more.pop("options", {})}
        return Team("t", members=members, helpers=[self.agent], strategy="hierarchical", options=options, **more)


async def facts(team: Team, kind: type[Fact]) -> list[Any]:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(team, TASK, run_id="r")
        return [event.fact for event in await journal.read("r") if isinstance(event.fact, kind)]


def seen(turn: Turn) -> list[tuple[str, str]]:
    return [(message.name, message.content) for message in turn.history]


async def test_specialists_work_and_the_orchestrator_answers() -> None:  # P-06
    fakes, lead = FakeMembers(numbered), Lead(delegate("a"), delegate("b"), synthesize("It is good."))
    result = await run(lead.team(fakes.member("a", "fast"), fakes.member("b", "cheap")))
    assert (result.status, result.stop_reason, result.output) == ("completed", "done", "It is good.")
    assert names(result) == ["a", "b", "lead"]
    assert [turn.task for _, turn in fakes.received] == ["look a", "look b"]
    assert all(turn.purpose == "coordinate" for turn in lead.told)
    assert [turn.purpose for _, turn in fakes.received] == ["work", "work"]


async def test_several_work_at_once_and_their_results_are_in_the_order_of_delegation() -> None:  # P-06
    arrived: list[str] = []
    everybody = anyio.Event()

    def specialist(name: str) -> FunctionAgent:
        async def respond(turn: Turn) -> str:
            arrived.append(name)
            if len(arrived) == 3:
                everybody.set()
            await everybody.wait()
            await anyio.sleep({"a": 0.03, "b": 0.0, "c": 0.01}[name])
            return f"{name} is done"

        return FunctionAgent(name, respond)

    lead = Lead(delegate("a", "b", "c"), synthesize())
    result = await run(lead.team(*map(specialist, "abc")))
    assert names(result) == ["a", "b", "c", "lead"]
    assert [name for name, _ in seen(lead.told[1])] == ["lead", "a", "b", "c"]


async def test_the_limit_bounds_how_many_work_at_once() -> None:
    at_work = most = 0

    async def respond(turn: Turn) -> str:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await anyio.sleep(0.002)
        at_work -= 1
        return "done"

    lead = Lead({"action": "delegate", "delegations": [{"specialist": "a", "task": str(n)} for n in range(6)]})
    await run(lead.team(FunctionAgent("a", respond), options={"max_parallel": 2, "max_iterations": 1}))
    assert most == 2


async def test_one_specialist_may_get_several_tasks_in_one_decision() -> None:
    fakes, lead = FakeMembers(numbered), Lead(delegate("a", "a"), synthesize())
    result = await run(lead.team(fakes.member("a", "hm")))
    assert names(result) == ["a", "a", "lead"]


async def test_the_answer_may_be_data() -> None:
    lead = Lead({"action": "synthesize", "synthesis": {"approved": True}})
    result = await run(lead.team(FakeMembers(numbered).member("a")))
    assert (result.data, result.output) == ({"approved": True}, '{"approved":true}')


async def test_a_clarification_waits_for_a_person_across_processes_and_is_sent_to_all() -> None:  # P-06 P-12
    journal, fakes = MemoryJournal(), FakeMembers(numbered)
    lead = Lead(clarify("Which release?"), delegate("a"), synthesize())
    team = lead.team(fakes.member("a"))
    async with Engine(journal) as engine:
        paused = await engine.run(team, TASK, run_id="r")
    assert (paused.status, paused.stop_reason) == ("paused", "person")
    async with Engine(journal) as engine:
        (key,) = (await engine.runs.history("r")).questions()
        await engine.runs.answer("r", key, "The one of May.")
        result = await engine.resume("r", team=team)
    assert (result.status, result.output) == ("completed", "all in all")
    assert len(lead.told) == 3
    assert seen(lead.told[1])[-1] == ("user", "The one of May.")
    assert seen(fakes.received[0][1]) == [("user", TASK), ("lead", "Which release?"), ("user", "The one of May.")]
    assert names(result) == ["a", "lead"]


async def test_an_unknown_specialist_is_reported_back_once() -> None:  # P-06
    fakes, lead = FakeMembers(numbered), Lead(delegate("zoe"), delegate("a"), synthesize())
    result = await run(lead.team(fakes.member("a"), options={"max_iterations": 2}))
    assert (result.status, result.output) == ("completed", "all in all")
    assert "Your last answer could not be used: there is no specialist 'zoe'; known are a." in lead.told[1].task
    assert json.loads(seen(lead.told[1])[-1][1]) == delegate("zoe")
    assert "could not be used" not in lead.told[2].task


@pytest.mark.parametrize(
    ("decision", "words"), [(delegate("zoe"), "no specialist 'zoe'"), ("I would ask a.", "holds no JSON")]
)
async def test_a_decision_that_stays_unusable_fails_clearly(decision: object, words: str) -> None:  # P-06
    fakes, lead = FakeMembers(numbered), Lead(delegate("a"), decision)
    result = await run(lead.team(fakes.member("a", "kept")))
    assert (result.status, result.stop_reason) == ("failed", "error")
    assert result.failure is not None
    assert result.failure.error == "invalid_output"
    assert "'lead' failed" in result.failure.message
    assert words in result.failure.message
    assert len(lead.told) == 3
    assert [message.content for message in result.messages] == ["kept"]


async def test_decisions_and_rejected_decisions_are_recorded() -> None:
    lead = Lead(delegate("a", "b"), "hm", synthesize())
    made = await facts(lead.team(FakeMembers(numbered).member("a"), FakeMembers(numbered).member("b")), TeamDecided)
    assert made == [
        TeamDecided(by="lead", action="delegate", iteration=1, to=("a", "b")),
        TeamDecided(by="lead", action="synthesize", iteration=2),
    ]
    lead = Lead("hm", synthesize())
    told = await facts(lead.team(FakeMembers(numbered).member("a")), TeamReplyRejected)
    assert told == [TeamReplyRejected(member="lead", problem="it holds no JSON")]


async def test_running_out_of_decisions_keeps_every_result_and_says_so() -> None:  # P-06 R-07
    fakes, lead = FakeMembers(numbered), Lead(delegate("a", "b"))
    result = await run(lead.team(fakes.member("a"), fakes.member("b"), options={"max_iterations": 3}))
    assert (result.status, result.stop_reason) == ("completed", "max_turns")
    assert names(result) == ["a", "b"] * 3
    assert result.warnings == ("t: stopped at its limit of 3 decisions (max_iterations: 3)",)
    assert ["synthesize now" in turn.task for turn in lead.told] == [False, False, True]


async def test_running_out_of_decisions_may_be_a_failure_that_keeps_every_result() -> None:  # P-06 R-07
    lead = Lead(delegate("a"))
    team = lead.team(FakeMembers(numbered).member("a"), options={"max_iterations": 2}, on_max_turns="fail")
    result = await run(team)
    assert (result.status, result.stop_reason) == ("failed", "max_turns")
    assert names(result) == ["a", "a"]


def test_ten_decisions_are_the_default() -> None:  # P-06
    assert HierarchicalOptions(lead="lead").max_iterations == 10


async def test_a_failed_specialist_fails_the_team_when_the_others_are_done() -> None:  # P-06
    fakes, lead = FakeMembers(numbered), Lead(delegate("a", "b", "c"), synthesize())
    result = await run(lead.team(fakes.member("a"), fakes.member("b", Refused(WORDS)), fakes.member("c")))
    assert (result.status, result.stop_reason) == ("failed", "error")
    assert names(result) == ["a", "c"]
    assert len(lead.told) == 1


@pytest.mark.parametrize("policy", ["skip", "collect"])
async def test_a_failure_may_be_left_to_the_orchestrator_which_receives_no_text_of_it(
    policy: str,
) -> None:  # P-06 law 5
    fakes, lead = FakeMembers(numbered), Lead(delegate("b"), delegate("a", "b"), synthesize())
    team = lead.team(fakes.member("a", "fine"), fakes.member("b", Refused(WORDS)), options={"on_failure": policy})
    result = await run(team)
    assert (result.status, result.stop_reason, result.output) == ("degraded", "done", "all in all")
    assert seen(lead.told[1])[-1] == ("b", "There is no answer from 'b'.")
    assert seen(lead.told[2])[-2:] == [("a", "fine"), ("b", "There is no answer from 'b'.")]
    assert not [turn for _, turn in fakes.received if WORDS in turn.prompt]
    assert not [turn for turn in lead.told if WORDS in turn.prompt]
    assert len(result.warnings) == 2


async def test_an_optional_specialist_may_fail() -> None:
    async def respond(turn: Turn) -> str:
        raise Refused(WORDS)

    lead = Lead(delegate("a", "b"), synthesize())
    result = await run(lead.team(FakeMembers(numbered).member("a"), FunctionAgent("b", respond, optional=True)))
    assert (result.status, result.output) == ("degraded", "all in all")
    assert WORDS not in lead.told[1].prompt


async def test_an_orchestrator_that_fails_ends_the_team_and_keeps_the_messages() -> None:
    fakes = FakeMembers(numbered)
    decisions = iter([json.dumps(delegate("a"))])

    async def respond(turn: Turn) -> str:
        for decision in decisions:
            return decision
        raise Refused(WORDS)

    lead = FunctionAgent("lead", respond)
    options = {"lead": "lead", "on_failure": "collect"}
    team = Team("t", members=[fakes.member("a"), lead], strategy="hierarchical", options=options)
    result = await run(team)
    assert result.status == "failed"
    assert names(result) == ["a"]


async def test_with_the_transcript_all_members_receive_everything_before() -> None:
    fakes, lead = FakeMembers(numbered), Lead(delegate("a"), delegate("b"), synthesize())
    earlier = [Message(name="user", content="before", role="user")]
    await run(lead.team(fakes.member("a", "one", "two"), fakes.member("b", "three")), history=earlier)
    assert seen(lead.told[0]) == [("user", "before")]
    assert [name for name, _ in seen(lead.told[2])] == ["user", "lead", "a", "lead", "b"]
    assert seen(lead.told[2])[2] == ("a", "two")
    assert seen(fakes.received[1][1]) == [("user", "before"), ("user", TASK), ("a", "one"), ("a", "two")]
    assert all(turn.prompt.endswith(TASK) for turn in lead.told)


async def test_with_the_output_the_orchestrator_is_shown_one_round_and_a_specialist_its_task() -> None:  # P-03
    fakes, lead = FakeMembers(numbered), Lead(delegate("a"), delegate("b"), synthesize())
    team = lead.team(fakes.member("a"), fakes.member("b", "three"), share="output")
    await run(team, history=[Message(name="user", content="before", role="user")])
    assert [name for name, _ in seen(lead.told[2])] == ["lead", "b"]
    assert [turn.prompt for _, turn in fakes.received] == ["look a", "look b"]
    assert all(turn.prompt.endswith(TASK) for turn in lead.told)


async def test_what_the_orchestrator_is_shown_of_a_result_is_bounded() -> None:  # P-06
    lead = Lead(delegate("a"), synthesize())
    team = lead.team(FakeMembers(numbered).member("a", "x" * 9000))
    result = await run(team)
    assert seen(lead.told[1])[-1] == ("a", "x" * 8000 + "… (cut here; it has 9000 characters)")
    assert len(result.messages[0].content) == 9000


async def test_a_team_may_be_a_specialist_and_a_team_may_lead() -> None:
    fakes, lead = FakeMembers(numbered), Lead(delegate("inner"), synthesize())
    inner = Team("inner", members=[fakes.member("x"), fakes.member("y", "agreed")])
    board = Team("board", members=[fakes.member("chair"), lead.agent])
    options = {"lead": "board"}
    result = await run(Team("t", members=[inner], helpers=[board], strategy="hierarchical", options=options))
    assert names(result) == ["inner", "inner", "board"]
    assert seen(lead.told[1])[-2:] == [("inner", "agreed"), ("chair", "chair 1")]


async def test_a_specialist_that_terminates_ends_the_team_and_has_the_last_word() -> None:
    fakes, lead = FakeMembers(numbered), Lead(delegate("a", "b", "c"), synthesize())
    members = [fakes.member("a", "stop", signal="terminate"), fakes.member("b"), fakes.member("c")]
    result = await run(lead.team(*members, options={"max_parallel": 1}))
    assert (result.status, result.stop_reason, result.output) == ("completed", "terminated", "stop")
    assert fakes.calls == ["a"]
    assert len(lead.told) == 1


async def test_an_orchestrator_that_terminates_ends_the_team_with_its_words() -> None:
    lead = Lead(delegate("a"), Reply.of("lead", "enough", signal="terminate"))
    result = await run(lead.team(FakeMembers(numbered).member("a")))
    assert (result.stop_reason, result.output) == ("terminated", "enough")


def test_what_cannot_work_is_refused_before_anything_runs() -> None:
    fakes = FakeMembers(numbered)
    lead = fakes.member("lead")
    for options, max_turns, words in (
        ({"lead": "led"}, None, "'led' is neither a member nor a helper"),
        ({}, None, "lead: is missing"),
        ({"lead": "lead"}, None, "needs a specialist besides 'lead'"),
        ({"lead": "lead", "max_iterations": 0}, None, "max_iterations"),
        ({"lead": "lead"}, 2, "set max_iterations"),
    ):
        with pytest.raises(ManifestError, match=words):
            Team("t", members=[lead], strategy="hierarchical", options=options, max_turns=max_turns)
    twice = fakes.member("a")
    with pytest.raises(ManifestError, match="listed twice"):
        Team("t", members=[twice, twice, lead], strategy="hierarchical", options={"lead": "lead"})


DECISIONS = st.one_of(
    st.builds(lambda who: delegate(*who), st.lists(st.sampled_from(["a", "b", "trouble", "zoe"]), max_size=4)),
    st.sampled_from([synthesize(), {"action": "dance"}, "hm", "", None, [], {"action": "delegate"}]),
)


@given(decisions=st.lists(DECISIONS, min_size=1, max_size=6), policy=st.sampled_from(["fail", "collect"]))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_is_decided_it_ends_within_its_bounds_and_loses_nothing(
    decisions: list[object], policy: str
) -> None:  # P-06
    async def play() -> None:
        fakes, lead = FakeMembers(numbered), Lead(*decisions)
        members = [fakes.member("a"), fakes.member("b"), fakes.member("trouble", Refused(WORDS))]
        result = await run(lead.team(*members, options={"max_iterations": 4, "on_failure": policy}))
        assert len(lead.told) <= 8
        said = [message for message in result.messages if message.name != "lead"]
        assert len(said) == len([name for name in fakes.calls if name != "trouble"])
        assert not any(WORDS in turn.prompt for turn in lead.told)

    anyio.run(play)
