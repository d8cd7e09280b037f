"""Fan-out: workers process chunks concurrently, and results keep the order of the chunks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st

from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.errors import ManifestError, Refused
from teamwright.runtime.engine import Engine
from teamwright.strategies.fan_out import FanOutOptions
from teamwright.teams.team import Team
from teamwright.teams.team_loader import load_team
from teamwright.values.limits import Limits
from teamwright.values.turns.messages import Message
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Reply, Turn
from tests.kit.effects import yield_to_loop
from tests.kit.members import FakeMembers
from tests.kit.runs import TASK, contents, run, speakers

TROUBLE = "the paint has dried up"


def chunk_of(turn: Turn) -> str:
    """The chunk in the turn of a worker."""
    return turn.history[-1].content if turn.history else turn.task


def fan(fakes: FakeMembers, said: object = None, **more: Any) -> Team:
    """A team whose one worker says this."""
    fields = {name: more.pop(name) for name in ("helpers", "share", "limits") if name in more}
    return Team("harbour", members=[fakes.member("worker", said)], strategy="fan_out", options=more, **fields)


async def outcome(team: Team) -> RunResult:
    result, _ = await run(team)
    return result


def failing_at(*chunks: str) -> Callable[[Turn], object]:
    return lambda turn: Refused(TROUBLE) if chunk_of(turn) in chunks else f"{chunk_of(turn)} is painted"


async def test_each_chunk_is_worked_on_and_the_results_are_in_their_order() -> None:  # P-04
    """Each waits for the one after it, so they finish backwards."""
    fakes, chunks = FakeMembers(), ["bow", "deck", "mast", "stern"]
    done = {chunk: asyncio.Event() for chunk in chunks}

    async def paint(turn: Turn) -> str:
        place = chunks.index(chunk_of(turn))
        if place + 1 < len(chunks):
            await done[chunks[place + 1]].wait()
        done[chunks[place]].set()
        return f"{chunks[place]} is painted"

    with anyio.fail_after(10):
        result, events = await run(fan(fakes, paint, chunks=chunks))
    assert contents(result.messages) == [f"{chunk} is painted" for chunk in chunks]
    assert result.data == contents(result.messages)
    finished = [event.key for event in events if event.kind == "agent.replied" and "chunk-" in event.key]
    assert finished == [f"harbour/chunk-{number}/work" for number in (4, 3, 2, 1)]
    assert (result.status, result.stop_reason) == ("completed", "done")


@pytest.mark.parametrize(("options", "most"), [({}, 10), ({"max_parallel": 3}, 3), ({"max_parallel": 100}, 25)])
async def test_no_more_than_the_limit_are_worked_on_at_once(options: dict[str, int], most: int) -> None:  # P-04
    fakes = FakeMembers()
    result = await outcome(
        fan(fakes, lambda _: yield_to_loop(200), chunks=[str(number) for number in range(25)], **options)
    )
    assert len(result.messages) == 25
    assert fakes.most_in_flight == most


async def test_a_worker_receives_its_chunk_and_then_the_task() -> None:  # P-04, R-01
    fakes = FakeMembers()
    team = fan(fakes, chunks=["bow", {"part": "deck", "metres": 12}])
    history = [Message(name="user", content="before", role="user")]
    await run(team, history)
    for turn in fakes.turns:
        assert turn.task == TASK
        assert turn.history[0].content == "before"
    told = [(turn.history[-1].name, turn.history[-1].content) for turn in fakes.turns]
    assert told == [("chunk-1", "bow"), ("chunk-2", '{"part":"deck","metres":12}')]


async def test_in_a_pipeline_the_chunk_is_the_task() -> None:  # P-04, P-03
    fakes = FakeMembers()
    helper = fakes.member("foreman")
    await run(fan(fakes, helpers=[helper], chunks=["bow", {"part": "deck"}], answer="foreman", share="output"))
    assert [turn.task for turn in fakes.turns[:2]] == ["bow", '{"part":"deck"}']
    assert not any(turn.history for _, turn in fakes.received)
    assert json.loads(fakes.last_turn("foreman").task) == [
        {"chunk": "bow", "result": "worker is done"},
        {"chunk": {"part": "deck"}, "result": "worker is done"},
    ]


async def test_a_worker_may_have_its_own_task() -> None:
    fakes = FakeMembers()
    task = "Paint the {{ chunk.part }}, {{ number }} of {{ count }}."
    await run(fan(fakes, chunks=[{"part": "bow"}, {"part": "deck"}], task=task))
    assert [turn.task for turn in fakes.turns] == ["Paint the bow, 1 of 2.", "Paint the deck, 2 of 2."]
    assert contents(fakes.turns[0].history) == [TASK, '{"part":"bow"}']


async def test_a_chunk_that_the_template_does_not_fit_is_a_failed_chunk() -> None:
    fakes = FakeMembers()
    chunks = [{"part": "bow"}, "deck"]
    result = await outcome(fan(fakes, chunks=chunks, task="Paint the {{ chunk.part }}.", on_failure="skip"))
    assert fakes.calls == ["worker"]
    assert result.status == "degraded"
    assert "chunk-2" in result.warnings[0]


async def test_the_aggregator_gets_chunks_and_results_in_order_and_gives_the_answer() -> None:  # P-04
    fakes = FakeMembers()
    foreman = fakes.member("foreman", {"parts": 2})
    team = fan(fakes, failing_at(), helpers=[foreman], chunks=["bow", "deck"], answer="foreman")
    result, events = await run(team)
    turn = fakes.last_turn("foreman")
    told = [(message.name, message.content) for message in turn.history]
    assert told == [
        ("chunk-1", "bow"),
        ("worker", "bow is painted"),
        ("chunk-2", "deck"),
        ("worker", "deck is painted"),
    ]
    assert turn.task == TASK
    assert speakers(result) == ["worker", "worker", "foreman"]
    assert (result.output, result.data) == ('{"parts":2}', {"parts": 2})
    purposes = {event.key: event.fact.purpose for event in events if event.kind == "agent.asked"}  # pyright: ignore[reportAttributeAccessIssue]
    assert purposes["harbour/aggregate"] == "coordinate"
    assert purposes["harbour/chunk-1/work"] == "work"


ANSWERS: dict[str, object] = {
    "a list": ["bow", "deck"],
    "chunks": {"chunks": ["bow", "deck"]},
    "chunks and more": {"chunks": ["bow", "deck"], "why": "two parts"},
    "a text": '{"chunks": ["bow", "deck"]}',
    "a fenced block": 'Here you are:\n```json\n["bow", "deck"]\n```\nGood luck!',
    "a reply with data": Reply(messages=(Message(name="splitter", content="two"),), data=["bow", "deck"]),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_a_splitter_makes_the_chunks(answer: object) -> None:  # P-04
    fakes = FakeMembers()
    result = await outcome(fan(fakes, helpers=[fakes.member("splitter", answer)], splitter="splitter", max_parallel=1))
    assert fakes.calls == ["splitter", "worker", "worker"]
    assert [chunk_of(turn) for _, turn in fakes.received[1:]] == ["bow", "deck"]
    assert speakers(result) == ["worker", "worker"]


async def test_a_splitter_is_asked_for_its_form_and_does_not_speak_in_the_team() -> None:
    fakes = FakeMembers()
    _, events = await run(fan(fakes, helpers=[fakes.member("splitter", ["bow"])], splitter="splitter"))
    turn = fakes.last_turn("splitter")
    assert (turn.task, turn.purpose) == (TASK, "coordinate")
    assert turn.output_schema is not None
    assert "chunks" in turn.output_schema["properties"]  # pyright: ignore[reportOperatorIssue]
    assert "harbour/split" in {event.key for event in events}


@pytest.mark.parametrize(
    "answer",
    ["", "I would start with the bow.", "{}", '{"parts": ["bow"]}', {"chunks": "bow"}, 7, None, "[1, 2", {"chunks": 1}],
)
async def test_a_splitter_that_answers_nonsense_fails_the_team_with_a_clear_message(answer: object) -> None:
    fakes = FakeMembers()
    splitter = fakes.member("splitter", lambda _: Reply.of("splitter", "") if answer == "" else answer)
    result = await outcome(fan(fakes, helpers=[splitter], splitter="splitter"))
    assert fakes.calls == ["splitter"]
    assert (result.status, result.stop_reason) == ("failed", "error")
    assert result.failure is not None
    assert "'splitter' failed: its answer is no list of chunks" in result.failure.message
    assert '{"chunks": […]}' in result.failure.message


async def test_a_splitter_that_fails_fails_the_team() -> None:
    fakes = FakeMembers()
    result = await outcome(fan(fakes, helpers=[fakes.member("splitter", Refused(TROUBLE))], splitter="splitter"))
    assert fakes.calls == ["splitter"]
    assert result.failure is not None
    assert result.failure.error == "refused"


@pytest.mark.parametrize("share", ["transcript", "output"])
async def test_without_chunks_no_worker_is_asked_and_the_aggregator_learns_it(share: str) -> None:
    fakes = FakeMembers()
    helpers = [fakes.member("splitter", []), fakes.member("foreman", "Nothing to do.")]
    result = await outcome(fan(fakes, helpers=helpers, splitter="splitter", answer="foreman", share=share))
    assert fakes.calls == ["splitter", "foreman"]
    assert result.output == "Nothing to do."
    assert result.status == "degraded"
    assert "'splitter' made no chunks" in result.warnings[0]
    assert "no chunks" in fakes.last_turn("foreman").prompt or fakes.last_turn("foreman").task == "[]"


async def test_without_chunks_and_aggregator_the_result_is_empty() -> None:
    fakes = FakeMembers()
    result = await outcome(fan(fakes, helpers=[fakes.member("splitter", {"chunks": []})], splitter="splitter"))
    assert (result.messages, result.data, result.status) == ((), [], "degraded")


@pytest.mark.parametrize("chunks", [["bow"], ["bow", "bow", "bow"], [1, None, True, 1.5], [{"a": [1]}, {"a": [1]}, []]])
async def test_one_chunk_equal_ones_and_any_json_are_chunks(chunks: list[Any]) -> None:
    fakes = FakeMembers()
    result = await outcome(fan(fakes, chunk_of, chunks=chunks))
    told = [chunk if isinstance(chunk, str) else json.dumps(chunk, separators=(",", ":")) for chunk in chunks]
    assert contents(result.messages) == told


async def test_a_splitter_that_makes_too_many_chunks_fails_the_team_before_any_work() -> None:
    fakes = FakeMembers()
    splitter = fakes.member("splitter", [str(number) for number in range(10_001)])
    result = await outcome(fan(fakes, helpers=[splitter], splitter="splitter"))
    assert fakes.calls == ["splitter"]
    assert result.failure is not None
    assert "it made 10001 chunks, more than 10000" in result.failure.message


async def test_by_default_a_failed_chunk_fails_the_team_when_all_others_are_done() -> None:  # P-04
    """Also those that had not begun: nothing is cancelled unless the option says so."""
    fakes = FakeMembers()
    helper = fakes.member("foreman")
    chunks = ["bow", "deck", "mast", "stern"]
    team = fan(fakes, failing_at("bow", "mast"), helpers=[helper], chunks=chunks, answer="foreman", max_parallel=1)
    result = await outcome(team)
    assert fakes.calls == ["worker"] * 4
    assert (result.status, result.stop_reason) == ("failed", "error")
    assert contents(result.messages) == ["deck is painted", "stern is painted"]
    assert result.failure is not None
    assert f"'worker' failed: {TROUBLE} (chunk-1; 1 more failed: chunk-3)" in result.failure.message


async def test_a_failure_may_cancel_the_others() -> None:  # P-04
    fakes, stopped = FakeMembers(), list[str]()

    async def paint(turn: Turn) -> str:
        chunk = chunk_of(turn)
        if chunk == "bow":
            return "bow is painted"
        if chunk == "deck":
            raise Refused(TROUBLE)
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(chunk)
        return "never"

    with anyio.fail_after(10):
        result, events = await run(
            fan(fakes, paint, chunks=["bow", "mast", "deck", "stern"], max_parallel=2, on_failure="cancel")
        )
    assert [chunk_of(turn) for turn in fakes.turns] == ["bow", "mast", "deck"]
    assert stopped == ["mast"]
    assert (result.status, contents(result.messages)) == ("failed", ["bow is painted"])
    asks = [event.key for event in events if event.kind == "agent.asked"]
    endings = [event.key for event in events if event.kind in ("agent.replied", "agent.failed")]
    assert sorted(asks) == sorted(endings)


async def test_a_failed_chunk_may_be_skipped() -> None:  # P-04
    fakes = FakeMembers()
    helper = fakes.member("foreman")
    options: dict[str, Any] = {"chunks": ["bow", "deck", "mast"], "on_failure": "skip"}
    result = await outcome(fan(fakes, failing_at("deck"), helpers=[helper], answer="foreman", **options))
    told = contents(fakes.last_turn("foreman").history)
    assert told == ["bow", "bow is painted", "mast", "mast is painted"]
    assert (result.status, result.stop_reason) == ("degraded", "done")
    assert result.warnings == (f"harbour: chunk-2: 'worker' failed and was skipped (refused: {TROUBLE})",)
    alone = await outcome(fan(FakeMembers(), failing_at("deck"), **options))
    assert alone.data == ["bow is painted", "mast is painted"]


@pytest.mark.parametrize("share", ["transcript", "output"])
async def test_the_aggregator_may_learn_that_a_chunk_failed_and_never_why(share: str) -> None:  # P-04, law 5
    fakes = FakeMembers()
    helper = fakes.member("foreman")
    options: dict[str, Any] = {"chunks": ["bow", "deck"], "on_failure": "collect"}
    team = fan(fakes, failing_at("deck"), helpers=[helper], answer="foreman", share=share, **options)
    result = await outcome(team)
    turn = fakes.last_turn("foreman")
    if share == "output":
        told = [{"chunk": "bow", "result": "bow is painted"}, {"chunk": "deck", "failed": True}]
        assert json.loads(turn.task) == told
    else:
        failed = "This chunk failed: there is no result for it."
        assert contents(turn.history) == ["bow", "bow is painted", "deck", failed]
    assert not fakes.any_received(TROUBLE)
    assert result.status == "degraded"
    alone = await outcome(fan(FakeMembers(), failing_at("deck"), **options))
    assert alone.data == ["bow is painted", None]


@pytest.mark.parametrize("policy", ["skip", "collect"])
async def test_when_every_chunk_failed_the_team_fails(policy: str) -> None:
    fakes = FakeMembers()
    helper = fakes.member("foreman")
    team = fan(fakes, Refused(TROUBLE), helpers=[helper], answer="foreman", chunks=["a", "b"], on_failure=policy)
    result = await outcome(team)
    assert fakes.calls == ["worker", "worker"]
    assert result.status == "failed"


async def test_the_failure_of_an_optional_worker_is_skipped() -> None:
    fakes = FakeMembers()
    members = [fakes.member("painter"), fakes.member("apprentice", Refused(TROUBLE), optional=True)]
    result = await outcome(Team("harbour", members=members, strategy="fan_out", options={"chunks": ["a", "b", "c"]}))
    assert speakers(result) == ["painter", "painter"]
    assert result.status == "degraded"


async def test_several_workers_take_the_chunks_in_turn() -> None:
    fakes = FakeMembers()
    options = FanOutOptions(chunks=tuple("abcde"))
    result = await outcome(Team("harbour", members=fakes.members("ann ben"), strategy="fan_out", options=options))
    assert speakers(result) == ["ann", "ben", "ann", "ben", "ann"]


async def test_a_splitter_and_an_aggregator_among_the_members_take_no_chunk() -> None:
    fakes = FakeMembers()
    members = [fakes.member("splitter", ["a", "b"]), *fakes.members("ann foreman")]
    options = FanOutOptions(splitter="splitter", answer="foreman")
    await run(Team("harbour", members=members, strategy="fan_out", options=options))
    assert fakes.calls == ["splitter", "ann", "ann", "foreman"]


async def test_one_agent_may_do_it_all() -> None:
    fakes = FakeMembers()
    options = FanOutOptions(splitter="ann", answer="ann")
    team = Team("harbour", members=[fakes.member("ann", ["a", "b"])], strategy="fan_out", options=options)
    await run(team)
    assert fakes.calls == ["ann"] * 4


async def test_a_worker_that_terminates_ends_the_team_with_its_answer() -> None:
    fakes = FakeMembers()

    def paint(turn: Turn) -> object:
        if chunk_of(turn) == "bow":
            return Reply.of("worker", "It sinks.", signal="terminate")
        return f"{chunk_of(turn)} is painted"

    helper = fakes.member("foreman")
    team = fan(fakes, paint, helpers=[helper], chunks=["keel", "bow", "deck"], max_parallel=1, answer="foreman")
    result = await outcome(team)
    assert fakes.calls == ["worker"] * 2
    assert (result.status, result.stop_reason, result.output) == ("completed", "terminated", "It sinks.")


async def test_a_splitter_that_terminates_ends_the_team() -> None:
    fakes = FakeMembers()
    splitter = fakes.member("splitter", Reply.of("splitter", "All is well.", signal="terminate"))
    result = await outcome(fan(fakes, helpers=[splitter], splitter="splitter"))
    assert (result.stop_reason, result.output, fakes.calls) == ("terminated", "All is well.", ["splitter"])


async def test_a_team_may_work_on_the_chunks_and_teams_may_split_them() -> None:
    fakes = FakeMembers()
    crew = Team("crew", members=fakes.members("scraper painter"))
    splitters = Team("splitters", members=[fakes.member("surveyor"), fakes.member("clerk", '["bow", "deck"]')])
    options = FanOutOptions(splitter="splitters")
    result = await outcome(Team("harbour", members=[crew], helpers=[splitters], strategy="fan_out", options=options))
    assert speakers(result) == ["crew"] * 4
    assert sorted(fakes.calls) == ["clerk", "painter", "painter", "scraper", "scraper", "surveyor"]


async def test_what_the_budget_does_not_pay_for_is_reported_and_the_rest_is_kept() -> None:
    team = fan(FakeMembers(), chunks=[str(number) for number in range(6)], limits=Limits(calls=4), max_parallel=6)
    result = await outcome(team)
    assert (result.status, result.stop_reason) == ("degraded", "budget")
    assert len(result.messages) == 4


async def test_a_scripted_splitter_and_worker_run_offline() -> None:
    rules = [
        Rule(agent="splitter", reply='{"chunks": ["bow", "deck"]}'),
        Rule(agent="worker", match="bow", reply="The bow is blue."),
        Rule(agent="worker", match="deck", reply="The deck is brown."),
    ]
    worker, splitter = ScriptedAgent("worker", rules), ScriptedAgent("splitter", rules)
    team = Team("harbour", members=[worker], helpers=[splitter], strategy="fan_out", options={"splitter": "splitter"})
    assert contents((await outcome(team)).messages) == ["The bow is blue.", "The deck is brown."]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs either a splitter or a list of chunks"),
        ({"chunks": ["a"], "splitter": "worker"}, "needs either a splitter or a list of chunks"),
        ({"chunks": []}, "chunks: is empty"),
        ({"splitter": "nobody"}, "'nobody' is neither a member nor a helper"),
        ({"chunks": ["a"], "answer": "nobody"}, "'nobody' is neither a member nor a helper"),
        ({"chunks": ["a"], "max_parallel": 0}, "max_parallel: must be at least 1, and 0 is not"),
        ({"chunks": ["a"], "on_failure": "ignore"}, "on_failure: "),
        ({"chunks": ["a"], "task": "{{ chunk"}, "the template can't be used"),
        ({"chunks": ["a"], "task": "{{ chunks }}"}, "'chunks' is not known here; did you mean 'chunk'"),
        ({"chunk": ["a"]}, "chunk: "),
    ],
)
def test_each_mistake_is_reported_before_anything_runs(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ManifestError, match=words):
        fan(FakeMembers(), **options)


def test_the_same_team_as_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text("- {reply: done}\n")
    text = """
agents:
  painter: {model: scripted:replies.yaml}
  surveyor: {model: scripted:replies.yaml}
  foreman: {model: scripted:replies.yaml}
teams:
  harbour:
    strategy: fan-out
    members: [painter]
    fan_out: {splitter: surveyor, answer: foreman, max_parallel: 5, on_failure: collect}
"""
    (tmp_path / "team.yaml").write_text(text)
    team = load_team(tmp_path / "team.yaml")
    assert [helper.name for helper in team.helpers] == ["surveyor", "foreman"]
    assert team.settings.read(FanOutOptions).max_parallel == 5
    (tmp_path / "team.yaml").write_text(text.replace("surveyor, a", "surveyer, a"))
    with pytest.raises(ManifestError, match=r"team\.yaml:10:25: .*'surveyer'"):
        load_team(tmp_path / "team.yaml")


@given(
    fails=st.lists(st.booleans(), min_size=1, max_size=12),
    limit=st.integers(1, 4),
    policy=st.sampled_from(["fail", "skip", "collect"]),
    backwards=st.booleans(),
)
async def test_every_chunk_is_accounted_for_whichever_fail(
    fails: list[bool], limit: int, policy: str, backwards: bool
) -> None:
    fakes = FakeMembers()

    async def paint(turn: Turn) -> str:
        number = int(chunk_of(turn))
        for _ in range(len(fails) - number if backwards else number):
            await asyncio.sleep(0)
        if fails[number]:
            raise Refused(TROUBLE)
        return f"{number} is painted"

    result = await outcome(fan(fakes, paint, chunks=list(range(len(fails))), max_parallel=limit, on_failure=policy))
    assert len(fakes.received) == len(fails)
    assert fakes.most_in_flight <= limit
    assert contents(result.messages) == [f"{number} is painted" for number, fail in enumerate(fails) if not fail]
    if all(fails) or (policy == "fail" and any(fails)):
        assert result.status == "failed"
        return
    assert len(result.warnings) == sum(fails)
    assert result.status == ("degraded" if any(fails) else "completed")


async def test_a_thousand_chunks() -> None:
    result = await outcome(fan(FakeMembers(), chunk_of, chunks=list(range(1000)), max_parallel=50))
    assert contents(result.messages) == [str(number) for number in range(1000)]


async def test_a_fan_out_resumes_on_disk(tmp_path: Path) -> None:
    fakes = FakeMembers()
    team = fan(fakes, chunk_of, chunks=["a", "b", "c"])
    async with Engine(tmp_path / "journal.db") as engine:
        result = await engine.run(team, TASK)
        fork = await engine.fork(result.run_id, team=team)
    assert contents(fork.messages) == ["a", "b", "c"]
    assert len(fakes.received) == 3
