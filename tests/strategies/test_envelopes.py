"""`share: a2a_lite`: members receive only envelopes of each other, pointers open, and results stay whole."""

from __future__ import annotations

import json

import pytest
from pydantic import JsonValue
from pydantic_core import to_json

from teamwright import Context, Engine, FunctionAgent, Message, ModelAgent, Reply, Team, Turn
from teamwright.agents.scripted import Rule, ScriptedAgent, ToolRule
from teamwright.errors import Refused
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.strategies import Envelope, EnvelopeLimits, Members, Outcome, Task, TeamConversation
from teamwright.strategies.envelopes import limits_of, shorten_texts
from teamwright.testing.model_server import CallTools, ChatAnswer, ChatRequest, ModelServer, Say, ToolCall
from teamwright.values.events.agent import AgentReplied, WorkspaceKept
from teamwright.values.limits import Degradation, Limits
from teamwright.values.people import Answer, Confirm
from teamwright.values.specs.members import Share
from teamwright.values.specs.models import ServerModel
from teamwright.values.turns.messages import EnvelopeNote, EnvelopeSettings, digest
from teamwright.values.usage_and_prices import Usage
from tests.kit.members import FakeMembers
from tests.kit.runs import RUN_ID, TASK, contents, run
from tests.kit.strategies import FunctionStrategy

MARK = "the-end-of-it"
LONG = f"The survey of the harbour. {'It goes on. ' * 60}{MARK}"
SUMMARY = "The harbour is surveyed; the north wall leans."
BY_AUTHOR = f"""{LONG}

```envelope
{json.dumps({"status": "done", "confidence": 80, "risk_level": "medium", "summary": SUMMARY, "needs": ["a crane"]})}
```"""
CHECK = EnvelopeLimits()


def lite(fakes: FakeMembers, names: str, answer: object = BY_AUTHOR, **more: object) -> Team:
    """A team whose first member says much, and whose others say little."""
    first, *others = names.split()
    members = [fakes.member(first, answer), *(fakes.member(name) for name in others)]
    return Team("t", members=members, share="a2a_lite", **more)  # pyright: ignore[reportArgumentType]


async def test_the_next_member_receives_what_the_author_handed_over() -> None:  # Z-03
    fakes = FakeMembers()
    result, events = await run(lite(fakes, "a b"))
    pointer = next(event.fact.artifact.pointer for event in events if isinstance(event.fact, WorkspaceKept))
    assert fakes.last_turn("b").prompt == (
        f'# a:\nstatus: done, confidence: 80, risk_level: medium\nsummary: "{SUMMARY}"\nartifacts: '
        f'"{pointer}"\nneeds: "a crane"\n\n{TASK}'
    )
    assert contents(result.messages) == [LONG, "b is done"]
    assert all(type(message) is Message for message in result.messages)


async def test_a_function_reads_envelopes_and_opens_their_pointers() -> None:  # Z-01, Z-03
    seen: list[Envelope] = []

    async def reader(turn: Turn, ctx: Context) -> str:
        seen.extend(turn.envelopes)
        return str(await ctx.workspace.open(turn.envelopes[0].artifacts[0]))

    fakes = FakeMembers()
    team = Team("t", members=[fakes.member("a", BY_AUTHOR), FunctionAgent("b", reader)], share="a2a_lite")
    result, _ = await run(team)
    assert result.output == LONG
    (envelope,) = seen
    assert envelope.model_dump(exclude={"artifacts"}) == {
        "run_id": RUN_ID, "task_id": "step-1", "sender": "a", "recipient": "team", "status": "done", "confidence": 80,
        "risk_level": "medium", "summary": SUMMARY, "needs": ("a crane",), "next_action": "continue",
    }  # fmt: skip
    assert CHECK.check(envelope) == []


async def test_who_hands_nothing_over_is_cut_and_kept() -> None:  # Z-03
    fakes = FakeMembers()
    await run(lite(fakes, "a b", LONG))
    (envelope,) = fakes.last_turn("b").envelopes
    assert envelope.summary == LONG[:319] + "…"
    assert (envelope.confidence, envelope.risk_level, len(envelope.artifacts)) == (50, "low", 1)


async def test_what_fits_its_summary_is_kept_nowhere() -> None:
    fakes = FakeMembers()
    _, events = await run(lite(fakes, "a b c", "All is well."))
    assert [envelope.summary for envelope in fakes.last_turn("c").envelopes] == [
        "The whole answer: All is well.", "The whole answer: b is done",
    ]  # fmt: skip
    assert not any(isinstance(event.fact, WorkspaceKept) for event in events)


async def test_a_function_hands_over_in_typed_form() -> None:
    fakes, given = FakeMembers(), EnvelopeNote(summary=SUMMARY, confidence=99, artifacts=("docs/wall.md",))
    await run(lite(fakes, "a b", Reply.of("a", LONG, envelope_note=given)))
    (envelope,) = fakes.last_turn("b").envelopes
    assert (envelope.summary, envelope.confidence, envelope.artifacts[1:]) == (SUMMARY, 99, ("docs/wall.md",))


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        (None, 320),
        (EnvelopeSettings(budget="low"), 320),
        (EnvelopeSettings(length=2000), 480),
        (EnvelopeSettings(length=2000, budget="high"), 720),
        (EnvelopeSettings(length=2000, budget="low"), 320),
        (EnvelopeSettings(length=40), 40),
    ],
)
async def test_a_summary_keeps_to_the_policy_and_to_the_budget_profile(
    settings: EnvelopeSettings | None, most: int
) -> None:
    fakes = FakeMembers()  # Z-03
    await run(lite(fakes, "a b", "x" * 999, envelope=settings))
    (envelope,) = fakes.last_turn("b").envelopes
    assert len(envelope.summary) == most == limits_of(settings).max_summary_chars


async def test_the_record_holds_what_was_handed_over_beside_the_whole_reply() -> None:
    fakes, journal = FakeMembers(), MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(lite(fakes, "a b"), TASK, run_id=RUN_ID)
        events = await journal.read(RUN_ID)
        history = await engine.runs.history(RUN_ID)
    replied = next(event.fact for event in events if isinstance(event.fact, AgentReplied))
    assert replied.envelope_note is not None
    assert (replied.envelope_note.summary, replied.envelope_note.own) == (SUMMARY, True)
    assert contents(history.record.bodies.messages(replied.messages)) == [LONG]


async def test_conditions_see_the_whole_reply_and_templates_only_its_envelope() -> None:  # Z-03
    fakes = FakeMembers()
    edges: list[JsonValue] = [
        {"from": "a", "to": "b", "when": f"'{MARK}' in text", "task": "On: {{ text }}"},
        {"from": "a", "to": "never"},
    ]
    team = lite(fakes, "a b never", strategy="graph", options={"edges": edges})
    await run(team)
    assert fakes.calls == ["a", "b"]
    assert fakes.last_turn("b").task.startswith("On: status: done")
    assert not fakes.any_received(MARK)


async def test_steps_receive_envelopes_of_their_needs_under_the_ids_of_steps() -> None:  # Z-03
    fakes = FakeMembers()
    steps: list[JsonValue] = [
        {"id": "survey", "agent": "a"},
        {"id": "build", "agent": "b", "needs": ["survey"], "when": f"'{MARK}' in outputs.survey"},
        {"id": "paint", "agent": "b", "needs": ["survey"], "task": "After this: {{ outputs.survey }}"},
    ]
    result, _ = await run(lite(fakes, "a b", strategy="dag", options={"steps": steps}))
    build, paint = sorted((turn for name, turn in fakes.received if name == "b"), key=lambda turn: turn.task == TASK)[
        ::-1
    ]
    assert [(message.name, message.content[:12]) for message in build.history] == [("survey", "status: done")]
    assert build.envelopes[0].task_id == "survey"
    assert paint.task.startswith("After this: status: done")
    assert not fakes.any_received(MARK)
    assert LONG in contents(result.messages)


async def test_results_and_data_stay_whole() -> None:  # Z-03
    fakes = FakeMembers()
    data = {"report": LONG, "n": 3}
    options: dict[str, JsonValue] = {"chunks": ["x", "y"], "answer": "z"}
    team = Team(
        "t", members=[fakes.member("a", data)], helpers=[fakes.member("z")], strategy="fan_out", share="a2a_lite",
        options=options,
    )  # fmt: skip
    await run(team)
    assert [envelope.task_id for envelope in fakes.last_turn("z").envelopes] == ["chunk-1", "chunk-2"]
    assert not fakes.any_received(MARK)
    alone = Team(
        "t", members=[fakes.member("a", data)], strategy="fan_out", share="a2a_lite", options={"chunks": ["x"]}
    )
    result, _ = await run(alone)
    assert result.data == [data]


async def test_events_and_state_are_shortened_in_turns_and_kept_whole() -> None:  # Z-03
    fakes = FakeMembers()
    reaction = {"events": [{"type": "found", "data": {"what": LONG}}], "state": {"log": LONG, "n": 1}}
    subscriptions: list[JsonValue] = [
        {"agent": "a", "on": "workflow.started"},
        {"agent": "b", "on": "found", "when": f"'{MARK}' in data.what"},
    ]
    team = lite(fakes, "a b", reaction, strategy="reactive", options={"subscriptions": subscriptions})
    result, _ = await run(team)
    assert fakes.calls == ["a", "b"]
    assert not fakes.any_received(MARK)
    assert result.data == {"log": LONG, "n": 1}


async def test_events_are_shorter_where_summaries_are_cut_back() -> None:  # Z-11
    fakes = FakeMembers()
    dear = Reply.of("dear", "That was dear.", usage=Usage(requests=1, input_tokens=600))
    subscriptions: list[JsonValue] = [
        {"agent": "a", "on": "workflow.started"},
        {"agent": "b", "on": "found"},
    ]
    reaction = {"events": [{"type": "found", "data": LONG}]}
    cuts: dict[Degradation, int] = {"none": 320, "aggressive": 208}
    for policy, most in cuts.items():
        members = [fakes.member("a", reaction), fakes.member("b")]
        options: dict[str, JsonValue] = {"subscriptions": subscriptions}
        inner = Team("inner", members=members, strategy="reactive", share="a2a_lite", options=options)
        limits, outer = Limits(tokens=1000), [fakes.member("dear", dear), inner]
        await run(Team("t", members=outer, share="a2a_lite", limits=limits, degradation=policy))
        task = fakes.last_turn("b").task
        assert len(json.JSONDecoder().raw_decode(task, task.index("{"))[0]["data"]) == most


async def test_a_selector_and_an_orchestrator_receive_envelopes_too() -> None:  # Z-03
    fakes = FakeMembers()
    chair = fakes.member("chair", lambda turn: turn.task.split(", ")[-1])
    options: dict[str, JsonValue] = {"agent": "chair", "prompt": "{{ history }} {{ participants }}"}
    members = [fakes.member(name, BY_AUTHOR) for name in "abc"]
    await run(
        Team("t", members=members, helpers=[chair], strategy="selector", max_turns=3, options=options, share="a2a_lite")
    )
    assert SUMMARY in fakes.last_turn("chair").task
    assert not fakes.any_received(MARK)

    def decide(turn: Turn) -> str:
        if turn.number > 1:
            return json.dumps({"action": "synthesize", "synthesis": f"from {len(turn.envelopes)} envelopes"})
        return json.dumps({"action": "delegate", "delegations": [{"specialist": name, "task": "go"} for name in "ab"]})

    team = Team(
        "t", members=members[:2], helpers=[fakes.member("lead", decide)], strategy="hierarchical", share="a2a_lite",
        options={"lead": "lead"},
    )  # fmt: skip
    result, _ = await run(team)
    assert result.output == "from 2 envelopes"
    assert [envelope.recipient for envelope in fakes.last_turn("lead").envelopes] == ["lead", "lead"]
    assert contents(result.messages)[:2] == [LONG, LONG]


async def test_nested_teams_hand_over_one_envelope_and_pass_on_what_they_received() -> None:  # Z-03
    fakes = FakeMembers()
    inner = Team("inner", members=[fakes.member("b"), fakes.member("c", BY_AUTHOR)], share="a2a_lite")
    talkers = Team("talkers", members=[fakes.member("d", LONG), fakes.member("e")])
    members = [fakes.member("a", BY_AUTHOR), inner, talkers, fakes.member("z")]
    result, _ = await run(Team("outer", members=members, share="a2a_lite"))
    assert [one.sender for one in fakes.last_turn("b").envelopes] == ["a"]
    assert [one.sender for one in fakes.last_turn("z").envelopes] == ["a", "inner", "talkers"]
    assert fakes.last_turn("z").envelopes[1].summary == SUMMARY
    assert LONG in fakes.last_turn("e").prompt  # they share their transcript among themselves
    assert MARK not in fakes.last_turn("z").prompt + fakes.last_turn("d").prompt
    assert [message.name for message in result.messages] == ["a", "inner", "inner", "talkers", "talkers", "z"]


async def test_what_others_said_before_comes_as_envelopes_and_what_people_said_as_it_is() -> None:  # Z-03
    fakes = FakeMembers()
    history = (Message(name="user", content="u" * 999, role="user"), Message(name="old", content=LONG))
    result, _ = await run(lite(fakes, "a b"), history)
    first = fakes.last_turn("a")
    assert first.history[0].content == "u" * 999
    assert [one.sender for one in first.envelopes] == ["old"]
    assert not fakes.any_received(MARK)
    assert contents(result.messages) == [LONG, "b is done"]
    outer = Team("outer", members=[fakes.member("talker", LONG), lite(fakes, "a b")])
    await run(outer)
    assert MARK not in fakes.last_turn("a").prompt


async def test_messages_before_a_failure_are_kept_whole() -> None:
    fakes = FakeMembers()
    team = Team("t", members=[fakes.member("a", BY_AUTHOR), fakes.member("b", Refused("no"))], share="a2a_lite")
    result, _ = await run(team)
    assert (result.status, contents(result.messages)) == ("failed", [LONG])


async def test_an_edited_reply_is_handed_over_as_it_was_edited() -> None:
    fakes = FakeMembers()
    members = [fakes.member("a", BY_AUTHOR, confirm=Confirm(after=True)), fakes.member("b")]
    async with Engine("memory") as engine:
        team = Team("t", members=members, share="a2a_lite")
        await engine.run(team, TASK, run_id=RUN_ID)
        await engine.runs.answer(RUN_ID, "t/step-1/confirm-after", Answer.edit("The north wall is fine."))
        await engine.resume(RUN_ID, team=team)
    assert [one.summary for one in fakes.last_turn("b").envelopes] == ["The north wall is fine."]


POINTER = "artifact://" + digest(to_json(LONG).decode())
OPENER = [
    Rule(match=r"# tool open_artifact:\n.*" + MARK, reply="opened"),
    Rule(match="# tool open_artifact failed", reply="refused"),
    Rule(tool=ToolRule(name="open_artifact", args={"hash": POINTER})),
]
"""A script that opens the pointer and tells how that went."""


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        (None, "opened"),
        (("open_artifact",), "opened"),
        (("workspace",), "opened"),
        ((), "refused"),
        (("x",), "refused"),
    ],
)
async def test_a_pointer_opens_by_a_tool_unless_an_allowlist_forbids_it(
    tools: tuple[str, ...] | None, said: str
) -> None:  # Z-03
    async def narrow(task: Task, members: Members, ctx: Context) -> Outcome:
        talk = TeamConversation(task)
        for number, member in enumerate(members, start=1):
            turn = talk.turn(number)
            reply = await ctx.ask(member, Turn(turn.task, turn.history, tools=tools), key=member.name)
            assert isinstance(reply, Reply)
            talk.add(reply)
        return talk.ended("done")

    fakes = FakeMembers()
    members = [fakes.member("a", BY_AUTHOR), ScriptedAgent("b", OPENER)]
    result, _ = await run(Team("t", members=members, share="a2a_lite", strategy=FunctionStrategy(narrow)))
    assert result.output == said


async def test_a_model_is_asked_for_a_note_and_opens_what_others_said() -> None:  # Z-03
    def answer(request: ChatRequest) -> ChatAnswer:
        told = json.dumps(request.body)
        if "tool_call_id" in told:
            note = json.dumps({"status": "done", "summary": "It was read to its end."})
            return Say(text=f"I read it up to {MARK if MARK in told else 'nowhere'}.\n```envelope\n{note}\n```")
        if "artifact://" in told:
            pointer = told[(at := told.index("artifact://")) : at + 51]
            return CallTools(calls=(ToolCall(name="open_artifact", args={"hash": pointer}),))
        return Say(text=BY_AUTHOR)

    with ModelServer(answer) as server:
        model = ServerModel(url=server.url, name="m")
        fakes = FakeMembers()
        members = [
            ModelAgent("a", model=model, instructions="Be kind."),
            ModelAgent("b", model=model),
            fakes.member("c"),
        ]
        result, events = await run(Team("t", members=members, share="a2a_lite"))
        first, second, third = (request.body for request in server.requests)
    assert result.status == "completed", result.failure
    assert contents(result.messages)[:2] == [LONG, f"I read it up to {MARK}."]
    assert "Be kind." in json.dumps(first)
    assert "at most 320 characters" in json.dumps(first)
    assert "tools" not in first
    assert '"name": "open_artifact"' in json.dumps(second["tools"])
    assert MARK not in json.dumps(second)
    assert MARK in json.dumps(third)
    assert [one.summary for one in fakes.last_turn("c").envelopes] == [SUMMARY, "It was read to its end."]
    tokens = [
        event.fact.envelope_note.tokens
        for event in events
        if isinstance(event.fact, AgentReplied) and event.fact.envelope_note
    ]
    assert tokens[0] > 0
    assert tokens[1] > tokens[0] / 2


async def test_a_model_with_its_own_form_is_asked_for_nothing_else() -> None:
    form = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    with ModelServer(lambda _: Say(text='{"n": 3}')) as server:
        fakes = FakeMembers()
        agent = ModelAgent("a", model=ServerModel(url=server.url, name="m"), output_schema=form)
        await run(Team("t", members=[agent, fakes.member("b")], share="a2a_lite"))
        assert "envelope" not in json.dumps(server.requests[0].body)
    assert [one.summary for one in fakes.last_turn("b").envelopes] == ['The whole answer: {"n": 3}']


async def test_a_model_whose_asker_wants_a_form_hands_over_within_it() -> None:  # Z-03
    said = {"events": [], "envelope": {"status": "done", "summary": SUMMARY}}
    subscriptions: list[JsonValue] = [
        {"agent": "a", "on": "workflow.started"}, {"agent": "b", "on": "workflow.started"},
    ]  # fmt: skip
    with ModelServer(lambda _: Say(text=json.dumps(said))) as server:
        agent = ModelAgent("a", model=ServerModel(url=server.url, name="m"))
        fakes = FakeMembers()
        team = Team("t", members=[agent, fakes.member("b")], strategy="reactive", share="a2a_lite",
                    options={"subscriptions": subscriptions, "max_parallel": 1})  # fmt: skip
        result, _ = await run(team)
        assert '"envelope"' in json.dumps(server.requests[0].body)
    assert [one.summary for one in fakes.last_turn("b").envelopes] == [SUMMARY]
    assert contents(result.messages)[0] == '{"events":[]}'


async def test_secrets_are_taken_out_of_what_a_function_hands_over() -> None:
    async def tell(turn: Turn, ctx: Context) -> Reply:
        return Reply.of("a", LONG, envelope_note=EnvelopeNote(summary="The key is s3cret-key-of-the-harbour, keep it."))

    team = Team("t", members=[FunctionAgent("a", tell)], share="a2a_lite")
    team.secrets = frozenset(("s3cret-key-of-the-harbour",))
    _, events = await run(team)
    assert "s3cret" not in json.dumps([event.to_json() for event in events])


def test_data_are_cut_text_by_text() -> None:
    assert shorten_texts({"a": ["xxxxx", 1, None, {"b": "yyyyy"}], "c": "z"}, 4) == {
        "a": ["xxx…", 1, None, {"b": "yyy…"}], "c": "z",
    }  # fmt: skip


async def test_a_transcript_and_an_output_are_shared_as_ever() -> None:
    shares: tuple[Share, ...] = ("transcript", "output")
    for share in shares:
        fakes = FakeMembers()
        team = Team("t", members=[fakes.member("a", LONG), fakes.member("b")], share=share)
        _, events = await run(team)
        assert LONG in fakes.last_turn("b").prompt
        assert fakes.last_turn("b").envelope_limits is None
        assert not any(isinstance(event.fact, AgentReplied) and event.fact.envelope_note for event in events)
