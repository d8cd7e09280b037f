"""A request is one effect: whole or streamed, in the first mode that its server accepts, cut at its caps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from pydantic import JsonValue
from typing_extensions import override

from teamwright.agents.clients.client_pool import Models
from teamwright.agents.model.agent import ModelAgent
from teamwright.cli.terminal.line_views import PlainLines
from teamwright.errors import AgentError, InvalidOutput
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Batch, Committed
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.testing.model_server import ChatAnswer, ChatRequest, Fail, ModelServer, Say, SayJson, ToolCall
from teamwright.values.events.agent import AgentModeRefused
from teamwright.values.events.event import AnyDelta, Delta, Event
from teamwright.values.limits import Limits
from teamwright.values.specs.models import ServerModel
from teamwright.values.turns.turn import Turn
from tests.agents.model.test_agent import NUMBER, answers, calls
from tests.agents.recording import Recording


def at(server: ModelServer) -> ServerModel:
    return ServerModel(url=server.url, name="tiny")


@pytest.mark.parametrize("followed", [False, True])
async def test_a_reply_is_streamed_only_while_the_run_is_followed(followed: bool) -> None:
    deltas: list[Delta] = []

    def listen(one: Event | AnyDelta) -> None:
        deltas.extend([one] if isinstance(one, Delta) else [])

    with ModelServer(answers(Say(text="All of it, in some chunks of a few words."))) as server:
        async with Engine(MemoryJournal()) as engine:
            with engine.bus.listening(listen) if followed else nullcontext():
                result = await engine.run(Team("t", members=[ModelAgent("a", model=at(server))]), "Go.")
        assert server.requests[0].stream is followed
    assert result.output == "All of it, in some chunks of a few words."
    assert bool(deltas) is followed


class CountingJournal(SqliteJournal):
    """Notes the kinds of events in each batch."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.batches: list[list[str]] = []

    @override
    def append(self, batch: Batch, done: Committed) -> None:
        self.batches.append([event.fact.kind for event in batch.events])
        super().append(batch, done)


async def test_the_end_of_a_turn_and_the_request_of_the_next_one_are_one_commit(tmp_path: Path) -> None:
    journal = CountingJournal(tmp_path / "runs.db")
    with ModelServer(answers(*[Say(text="Yes.")] * 4)) as server:
        async with Engine(journal) as engine:
            agent = ModelAgent("a", model=at(server), tools=["terminate"])
            await engine.run(Team("t", members=[agent] * 4), "Go.")
    turn = ["agent.returned", "agent.replied", "agent.asked", "agent.called"]
    assert journal.batches[-4:-1] == [turn] * 3


def refusing(*fields: str) -> Callable[[ChatRequest], ChatAnswer]:
    """A server that refuses requests with one of these fields, and answers a call of the tool for answers with one."""

    def answer(request: ChatRequest) -> ChatAnswer:
        if refused := [field for field in fields if field in request.body]:
            return Fail(status=400, message=f"{refused[0]} is not supported")
        if "final_result" in request.tools:
            return calls(ToolCall(name="final_result", args={"n": 3}))
        return SayJson(data={"n": 3})

    return answer


@pytest.mark.parametrize(
    ("refused", "mode", "requests"),
    [((), "native", 1), (("response_format",), "tool", 2), (("response_format", "tools"), "prompt", 4)],
)
async def test_a_mode_that_a_server_refuses_is_given_up_for_the_next_and_recorded(
    refused: tuple[str, ...], mode: str | None, requests: int
) -> None:
    record = Recording()
    with ModelServer(refusing(*refused)) as server:
        async with Models() as models:
            agent = ModelAgent("counter", model=at(server), output_schema=NUMBER, models=models)
            reply = await agent.respond(Turn("Count."), record.ctx)
            assert (reply.data, server.count) == ({"n": 3}, requests)
            await agent.respond(Turn("Count again."), Recording().ctx)
            assert server.count == requests + 1, "what was refused once is not tried again"
            replay = record.again()
            again = await agent.respond(Turn("Count."), replay.ctx)
    recorded = record.results["request-1"].value
    assert isinstance(recorded, dict)
    assert recorded.get("output_mode") == mode
    assert (again, replay.made) == (reply, [])


async def test_a_refused_mode_is_an_event_and_a_line_of_its_run() -> None:
    lines: list[str] = []
    with ModelServer(refusing("response_format")) as server:
        async with Engine(MemoryJournal()) as engine:
            team = Team("t", members=[ModelAgent("counter", model=at(server), output_schema=NUMBER)])
            view = PlainLines(engine.journal, lines.append)
            async for item in engine.stream(team, "Count.", run_id="r"):
                await view.show(item)
            facts = [event.fact for event in await engine.journal.read("r")]
    assert AgentModeRefused(model="tiny", refused=("native",), mode="tool") in facts
    said = " ".join(lines[1].split())
    assert said == "counter · tiny takes no answers in the mode native; asked in the mode tool instead"


async def test_a_request_that_is_refused_in_every_mode_fails_with_the_reason() -> None:
    with ModelServer(lambda _: Fail(status=400, message="no such model")) as server:
        agent = ModelAgent("counter", model=at(server), output_schema=NUMBER)
        with pytest.raises(AgentError, match="no such model"):
            await agent.respond(Turn("Count."), Recording().ctx)


@pytest.mark.parametrize("schema", [None, NUMBER])
async def test_a_reply_beyond_the_size_cap_is_cut_unless_it_is_json(schema: dict[str, JsonValue] | None) -> None:
    with ModelServer(lambda _: Say(text="word " * 1000)) as server:
        agent = ModelAgent("a", model=at(server), output_schema=schema, max_bytes=1024)
        if schema is not None:
            with pytest.raises(InvalidOutput, match="JSON of more than 1024 bytes"):
                await agent.respond(Turn("Go."), Recording().ctx)
            return
        reply = await agent.respond(Turn("Go."), Recording().ctx)
    assert reply.truncated
    assert len(reply.text) <= 1024
    assert "1024" in reply.warnings[0]


async def test_an_output_cap_of_the_budget_that_a_server_refuses_is_sent_smaller() -> None:
    """What remains may be more than a model can write; a refusal costs nothing."""

    def answer(request: ChatRequest) -> ChatAnswer:
        if (request.max_tokens or 0) > 16_384:
            return Fail(status=400, message="max_tokens is too large")
        return Say(text="Done.")

    with ModelServer(answer) as server:
        members = [ModelAgent(name, model=at(server)) for name in "ab"]
        async with Engine(MemoryJournal()) as engine:
            result = await engine.run(Team("t", members=members, limits=Limits(tokens=200_000)), "Go.")
        caps = [request.max_tokens for request in server.requests]
    assert (result.status, result.output) == ("completed", "Done.")
    assert [caps[0] > 90_000, *caps[1:]] == [True, 4096, 4096], "the second member does not try again"  # pyright: ignore[reportOptionalOperand]
