"""Risk that escalates: to the lead, to a person, to the team around; what they may rule, also after a crash.

The form of a ruling is read however it is spelt, and its schema offers just the words that are known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal

import pytest
from pydantic import JsonValue, TypeAdapter, ValidationError

from teamwright import Engine, Reply, RunResult, Team, Turn
from teamwright.agents.agent import Agent
from teamwright.errors import Refused
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.strategies.envelopes import Ruling, ruling_schema
from teamwright.values.events.event import Event
from teamwright.values.events.run import PersonAsked
from teamwright.values.events.team import TeamEscalated
from teamwright.values.people import Answer
from teamwright.values.turns.messages import EnvelopeNote, EnvelopeSettings, Escalate, RiskLevel
from tests.kit.members import FakeMembers
from tests.kit.records import cut_and_resume
from tests.kit.runs import RUN_ID, TASK, contents, run

LONG = f"The plan. {'It goes on. ' * 60}"
SUMMARY = "The plan may flood the lower town."
LEAD: dict[str, JsonValue] = {"lead": "lead"}
ESCALATED = "reports"


def risky(level: RiskLevel = "high") -> str:
    return f"{LONG}\n```envelope\n{json.dumps({'status': 'done', 'risk_level': level, 'summary': SUMMARY})}\n```"


def leading(ruling: object) -> object:
    """A lead that delegates to a, gives this ruling on escalations, and then returns what it received."""

    def decide(turn: Turn) -> object:
        if ESCALATED in turn.task:
            return ruling(turn) if callable(ruling) else ruling
        if turn.number == 1:
            work = [{"specialist": name, "task": f"look at {name}"} for name in ("a", "b")]
            return json.dumps({"action": "delegate", "delegations": work})
        return json.dumps({"action": "synthesize", "synthesis": " | ".join(one.next_action for one in turn.envelopes)})

    return decide


def office(fakes: FakeMembers, ruling: object, answer: object = None, envelope: EnvelopeSettings | None = None) -> Team:
    members = [fakes.member("a", risky() if answer is None else answer), fakes.member("b")]
    lead = fakes.member("lead", leading(ruling))
    options: dict[str, JsonValue] = {**LEAD, "on_failure": "collect"}
    return Team(
        "t", members=members, helpers=[lead], strategy="hierarchical", share="a2a_lite", options=options,
        envelope=envelope,
    )  # fmt: skip


def line(fakes: FakeMembers, escalate: Escalate = "lead", answer: object = None, *, optional: bool = False) -> Team:
    members: list[Agent] = [
        fakes.member("a", risky() if answer is None else answer, optional=optional),
        fakes.member("b"),
    ]
    return Team("t", members=members, share="a2a_lite", envelope=EnvelopeSettings(escalate=escalate))


def escalations(events: list[Event]) -> list[TeamEscalated]:
    return [event.fact for event in events if isinstance(event.fact, TeamEscalated)]


async def through(
    team: Team, answers: Mapping[str, Answer], journal: MemoryJournal | None = None
) -> tuple[RunResult, list[Event]]:
    """Run a team, in another engine each time that it waits for a person."""
    kept = journal or MemoryJournal()
    async with Engine(kept) as engine:
        result = await engine.run(team, TASK, run_id=RUN_ID)
    while result.status == "paused":
        async with Engine(kept) as engine:
            for key in (await engine.runs.history(RUN_ID)).questions():
                await engine.runs.answer(RUN_ID, key, next(one for end, one in answers.items() if key.endswith(end)))
            result = await engine.resume(RUN_ID, team=team)
    return result, list(await kept.read(RUN_ID))


@pytest.mark.parametrize("level", ["high", "critical"])
async def test_the_lead_rules_at_once_and_its_note_travels(level: RiskLevel) -> None:  # Z-03
    fakes = FakeMembers()
    ruling = {"decision": "Approve", "note": "raise the wall first"}
    result, events = await run(office(fakes, ruling, risky(level)))
    assert escalations(events) == [TeamEscalated(member="a", task_id="decision-1/1-a", risk_level=level, to="lead")]
    asked = [turn for name, turn in fakes.received if name == "lead" and ESCALATED in turn.task]
    assert [turn.purpose for turn in asked] == ["coordinate"]
    assert [one.summary for turn in asked for one in turn.envelopes] == [SUMMARY]
    assert all(TASK in turn.task and turn.has_pointers for turn in asked)
    assert result.output == "lead: raise the wall first | continue"
    assert LONG.strip() in contents(result.messages)


async def test_a_lead_that_approves_without_a_note_leaves_what_is_next_as_it_was() -> None:  # Z-03
    result, _ = await run(office(FakeMembers(), {"decision": "approve"}))
    assert result.output == "continue | continue"


async def test_a_rejection_without_a_note_names_the_lead() -> None:  # Z-03
    result, _ = await run(office(FakeMembers(), {"decision": "reject"}))
    assert [warning for warning in result.warnings if "too risky to go on with: lead said no" in warning]


async def test_what_the_lead_rejects_reaches_no_member() -> None:  # Z-03, law 5
    fakes = FakeMembers()
    result, _ = await run(office(fakes, {"decision": "reject", "note": "too dangerous"}))
    told = fakes.last_turn("lead")
    assert [message.content for message in told.history if message.name == "a"] == ["There is no answer from 'a'."]
    assert not fakes.any_received("too dangerous")
    assert [warning for warning in result.warnings if "too dangerous" in warning]
    assert LONG.strip() not in contents(result.messages)


@pytest.mark.parametrize("level", ["low", "medium"])
async def test_a_reply_without_risk_is_not_escalated(level: RiskLevel) -> None:
    fakes = FakeMembers()
    result, events = await run(line(fakes, answer=risky(level)))
    assert (result.status, escalations(events)) == ("completed", [])


async def test_without_a_lead_a_person_is_asked_and_the_run_waits() -> None:  # Z-03
    fakes, journal = FakeMembers(), MemoryJournal()
    team = line(fakes, answer=risky("critical"))
    async with Engine(journal) as engine:
        result = await engine.run(team, TASK, run_id=RUN_ID)
        questions = (await engine.runs.history(RUN_ID)).questions()
    assert (result.status, result.stop_reason, result.exit_code) == ("paused", "approval", 7)
    ((key, question),) = questions.items()
    assert key == "t/step-1/confirm-risk"
    assert question.text == "'a' reports critical risk. May its reply stand?"
    assert question.draft == LONG.strip()
    assert fakes.calls == ["a"]
    async with Engine(journal) as engine:
        await engine.runs.answer(RUN_ID, key, Answer.approve(by="Ada"))
        result = await engine.resume(RUN_ID, team=team)
    assert (result.status, fakes.calls) == ("completed", ["a", "b"])
    assert [(one.summary, one.risk_level) for one in fakes.last_turn("b").envelopes] == [(SUMMARY, "critical")]


async def test_a_person_may_edit_what_is_risky_or_say_no() -> None:  # Z-03
    fakes = FakeMembers()
    result, _ = await through(line(fakes), {"confirm-risk": Answer.edit("The wall comes first, then the plan.")})
    assert contents(result.messages) == ["The wall comes first, then the plan.", "b is done"]
    assert [one.summary for one in fakes.last_turn("b").envelopes] == ["The wall comes first, then the plan."]
    fakes = FakeMembers()
    result, _ = await through(line(fakes), {"confirm-risk": Answer.reject("not like this", by="Ada")})
    assert result.status == "failed"
    assert result.failure is not None
    assert (result.failure.error, "Ada said no: not like this" in result.failure.message) == ("rejected", True)
    assert fakes.calls == ["a"]
    fakes = FakeMembers()
    result, _ = await through(line(fakes, optional=True), {"confirm-risk": Answer.reject("no")})
    assert (result.status, fakes.calls) == ("degraded", ["a", "b"])


async def test_an_edit_of_what_is_risky_must_fit_the_schema_and_its_data_are_read_again() -> None:  # Z-03
    schema: dict[str, JsonValue] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    reply = Reply.of("a", '{"n": 1}', data={"n": 1}, envelope_note=EnvelopeNote(summary=SUMMARY, risk_level="high"))
    fakes = FakeMembers()
    team = Team("t", members=[fakes.member("a", reply, output_schema=schema)], share="a2a_lite")
    answers = {"confirm-risk": Answer.edit('{"n": "two"}'), "confirm-risk-2": Answer.edit('{"n": 2}')}
    result, events = await through(team, answers)
    assert (result.output, result.data, fakes.calls) == ('{"n": 2}', {"n": 2}, ["a"])
    questions = [event.fact.question.text for event in events if isinstance(event.fact, PersonAsked)]
    assert "The edited reply does not fit its schema" in questions[1]


async def test_an_edit_of_what_is_risky_has_the_data_that_its_text_holds() -> None:
    reply = Reply.of("a", '{"n": 1}', data={"n": 1}, envelope_note=EnvelopeNote(summary=SUMMARY, risk_level="high"))
    for edit, data in (('{"n": 2}', {"n": 2}), ("Two.", None)):
        team = Team("t", members=[FakeMembers().member("a", reply)], share="a2a_lite")
        result, _ = await through(team, {"confirm-risk": Answer.edit(edit)})
        assert (result.output, result.data) == (edit, data)


@pytest.mark.parametrize(
    ("ruling", "why"),
    [
        ("Hm, who knows.", "is no ruling: it holds no JSON"),
        (Refused("no"), "'lead' failed (refused)"),
        ({"decision": "perhaps"}, "is no ruling"),
    ],
)
async def test_a_lead_that_does_not_rule_leaves_it_to_a_person(ruling: object, why: str) -> None:
    fakes = FakeMembers()
    result, events = await through(office(fakes, ruling), {"confirm-risk": Answer.approve()})
    assert result.status == "completed"
    first, second = escalations(events)
    assert (first.to, second.to) == ("lead", "")
    assert why in second.reason


async def test_a_policy_escalates_to_a_person_or_not_at_all() -> None:  # Z-03
    fakes = FakeMembers()
    result, events = await through(
        office(fakes, {"decision": "approve"}, envelope=EnvelopeSettings(escalate="person")),
        {"confirm-risk": Answer.approve()},
    )
    assert result.status == "completed"
    assert [one.to for one in escalations(events)] == [""]
    fakes = FakeMembers()
    result, events = await run(line(fakes, "off"))
    assert (result.status, escalations(events)) == ("completed", [])
    assert [one.risk_level for one in fakes.last_turn("b").envelopes] == ["high"]


async def test_a_lead_does_not_rule_on_itself() -> None:
    fakes = FakeMembers()

    def speak(turn: Turn) -> str:
        return turn.task.split(", ")[-1] if turn.purpose == "coordinate" else risky()

    members = [fakes.member("a"), fakes.member("chair", speak)]
    options: dict[str, JsonValue] = {"agent": "chair", "prompt": "{{ participants }}"}
    team = Team("t", members=members, strategy="selector", max_turns=1, options=options, share="a2a_lite")
    result, events = await through(team, {"confirm-risk": Answer.approve()})
    assert result.status == "completed"
    assert [one.to for one in escalations(events)] == [""]


async def test_the_selector_leads_a_team_whose_next_speaker_it_chooses() -> None:  # Z-03
    fakes = FakeMembers()

    def choose(turn: Turn) -> object:
        return {"decision": "approve"} if ESCALATED in turn.task else "a"

    options: dict[str, JsonValue] = {"agent": "chair"}
    team = Team(
        "t", members=[fakes.member("a", risky()), fakes.member("b")], helpers=[fakes.member("chair", choose)],
        strategy="selector", max_turns=1, options=options, share="a2a_lite",
    )  # fmt: skip
    result, events = await run(team)
    assert result.status == "completed"
    assert [one.to for one in escalations(events)] == ["chair"]


async def test_a_team_without_a_lead_hands_its_risk_up_to_the_team_around_it() -> None:  # Z-03
    fakes = FakeMembers()
    inner = Team("a", members=[fakes.member("x", risky("critical")), fakes.member("y")], share="a2a_lite")
    lead = fakes.member("lead", leading({"decision": "approve"}))
    team = Team(
        "t", members=[inner, fakes.member("b")], helpers=[lead], strategy="hierarchical", share="a2a_lite", options=LEAD
    )
    result, events = await run(team)
    assert result.status == "completed"
    assert [(one.member, one.risk_level, one.to) for one in escalations(events)] == [("a", "critical", "lead")]


async def test_what_was_ruled_on_within_a_team_is_not_ruled_on_again() -> None:
    fakes = FakeMembers()
    inner = Team(
        "inner", members=[fakes.member("a", risky()), fakes.member("b")], strategy="selector", max_turns=1,
        share="a2a_lite",
        helpers=[fakes.member("boss", lambda turn: {"decision": "approve"} if ESCALATED in turn.task else "a")],
        options={"agent": "boss"},
    )  # fmt: skip
    result, events = await run(Team("t", members=[inner, fakes.member("z")], share="a2a_lite"))
    assert result.status == "completed"
    assert [one.to for one in escalations(events)] == ["boss"]
    assert [one.risk_level for one in fakes.last_turn("z").envelopes] == ["medium"]


@pytest.mark.parametrize("kind", ["lead", "person"])
async def test_concurrent_escalations_resume_to_the_same_result_from_every_point(kind: Escalate) -> None:  # law 2
    def team(fakes: FakeMembers) -> Team:
        members = [fakes.member(name, risky()) for name in ("a", "b")]
        lead = fakes.member("lead", leading({"decision": "approve", "note": "mind the wall"}))
        return Team(
            "t", members=members, helpers=[lead], strategy="hierarchical", share="a2a_lite", options=LEAD,
            envelope=EnvelopeSettings(escalate=kind),
        )  # fmt: skip

    journal = MemoryJournal()
    expected, events = await through(team(FakeMembers()), {"confirm-risk": Answer.edit(LONG + "Mended.")}, journal)
    assert expected.status == "completed"
    assert len(escalations(events)) == 2
    for at in range(1, len(events)):
        result, kinds = await cut_and_resume(team(FakeMembers()), at, journal, RUN_ID)
        assert (result.output, contents(result.messages)) == (expected.output, contents(expected.messages)), at
        assert kinds.count("team.escalated") == 2


RULING = TypeAdapter(Ruling[Literal["yes", "no"]])


@pytest.mark.parametrize("said", ["yes", " Yes ", "YES\n"])
def test_a_word_counts_however_it_is_spelt(said: str):
    assert RULING.validate_python({"decision": said}) == Ruling[Literal["yes", "no"]](decision="yes")


def test_what_else_is_said_is_left_aside_and_the_note_is_kept():
    ruling = RULING.validate_python({"decision": "no", "note": "too dear", "mood": "grim"})
    assert (ruling.decision, ruling.note) == ("no", "too dear")


@pytest.mark.parametrize("said", ["perhaps", "", None, 1])
def test_another_word_is_no_ruling(said: object):
    with pytest.raises(ValidationError):
        RULING.validate_python({"decision": said})


def test_the_form_offers_the_words_in_their_order_and_asks_for_no_note():
    form = ruling_schema(("yes", "no"), "why")
    assert form["required"] == ["decision"]
    assert form["properties"] == {
        "decision": {"type": "string", "enum": ["yes", "no"]},
        "note": {"type": "string", "description": "why"},
    }
