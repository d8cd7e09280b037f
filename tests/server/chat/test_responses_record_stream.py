"""Streams of a response: the events in their order, as members write, and again after any event that a client has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest

from teamwright import Engine, FunctionAgent, Team, load_team
from teamwright.errors import JournalError
from teamwright.journal import MemoryJournal
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.server import event_feeds
from teamwright.server.chat import model_call
from teamwright.server.driven_runs import DrivenRuns
from teamwright.server.frames import Frame
from teamwright.values.turns.results import RunSummary
from tests.kit.server import serving
from tests.server.chat.responses_doors import Doors, opened, said
from tests.server.routes.test_sockets import Writer

MESSAGE = [
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
]


async def events_of(lines: AsyncIterator[str]) -> list[dict[str, Any]]:
    """The events of a stream, each of which has a name that is its type."""
    found: list[dict[str, Any]] = []
    name = None
    async for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: {"):
            found.append(json.loads(line.removeprefix("data: ")))
            assert name in (found[-1]["type"], None)
    return found


@asynccontextmanager
async def lines_of(answer: httpx2.Response) -> AsyncGenerator[AsyncIterator[str]]:
    """The lines of an answer that is not read to its end."""
    lines = answer.aiter_lines()
    async with aclosing(cast("AsyncGenerator[str]", lines)):
        yield lines


async def next_event(lines: AsyncIterator[str]) -> dict[str, Any]:
    async for line in lines:
        if line.startswith("data: {"):
            return json.loads(line.removeprefix("data: "))
    raise AssertionError("the stream has ended")


async def test_a_stream_has_the_events_of_each_message_and_ends_with_the_response(doors: Doors) -> None:
    client = doors.client()
    events = [one async for one in await client.responses.create(model="talk", input="Go", stream=True)]
    kinds = [one.type for one in events]
    assert kinds == ["response.created", "response.in_progress", *MESSAGE, *MESSAGE, "response.completed"]
    numbers = [one.sequence_number for one in events]
    assert numbers == sorted(set(numbers))
    last: Any = events[-1]
    assert last.response == await client.responses.retrieve(last.response.id)
    places = [(one.output_index, one.item_id) for one in events if one.type == "response.output_text.done"]
    assert places == [(at, one.id) for at, one in enumerate(last.response.output)]


async def test_a_stream_ends_with_done(doors: Doors) -> None:
    asked = {"model": "pair", "input": "Go", "stream": True}
    answer = await doors.server.client("run").post("/v1/responses", json=asked)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.endswith("\n\ndata: [DONE]\n\n")


@pytest.mark.parametrize("team", ["talk", "asking"])
async def test_a_client_continues_after_any_event_that_it_has(doors: Doors, team: str) -> None:
    client = doors.client()
    made = [one async for one in await client.responses.create(model=team, input="Go", stream=True)]
    whole: Any = made[-1]
    again = client.responses.retrieve
    for have in (-1, *(one.sequence_number for one in made), 5):
        rest = [one async for one in await again(whole.response.id, stream=True, starting_after=have)]
        expected = [one for one in made if one.sequence_number > have] or [whole]
        assert [one.type for one in rest] == [one.type for one in expected]
        assert rest[-1].sequence_number > have
        pieces = "".join(one.delta for one in rest if one.type == "response.output_text.delta")
        total = "".join(one.delta for one in made if one.type == "response.output_text.delta")
        assert total.endswith(pieces)
        last: Any = rest[-1]
        assert last.response.output == whole.response.output


async def test_pieces_are_sent_as_they_are_written_and_continued_in_the_middle(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        writer = Writer("b")
        team = Team("t", members=[FunctionAgent("a", lambda text: "one"), writer])
        server.state.catalogue.load = lambda id_: team  # pyright: ignore[reportAttributeAccessIssue]
        asked = {"model": "t", "input": "Go", "stream": True, "store": True}
        async with (
            server.client("run").stream("POST", "/v1/responses", json=asked) as answer,
            lines_of(answer) as lines,
        ):
            first = await next_event(lines)
            for word in ("The", " sea"):
                writer.write(f"{word.strip()} ")
                while (event := await next_event(lines)).get("delta") != word:  # before the next word is written
                    pass
        writer.write("is ")
        path = f"/v1/responses/{first['response']['id']}?stream=true&starting_after={event['sequence_number'] - 2}"
        async with server.client("read").stream("GET", path) as answer:
            writer.write("wide.", None)
            rest = await events_of(answer.aiter_lines())
    assert "".join(one["delta"] for one in rest if "delta" in one) == "ea is wide."
    assert rest[-1]["response"]["output"][-1]["content"][0]["text"] == "The sea is wide."


async def test_members_that_work_at_once_have_messages_in_the_order_in_which_they_were_asked(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        one, other = Writer("one"), Writer("other")
        team = Team("t", members=[one, other], strategy="dag", options={"steps": [{"id": "one"}, {"id": "other"}]})
        server.state.catalogue.load = lambda id_: team  # pyright: ignore[reportAttributeAccessIssue]
        asked = {"model": "t", "input": "Go", "stream": True}
        async with server.client("run").stream("POST", "/v1/responses", json=asked) as answer:
            other.write("B", "B", None)
            await asyncio.sleep(0.1)
            one.write("A", "A", None)
            events = await events_of(answer.aiter_lines())
        done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        again = await server.client("read").get(f"/v1/responses/{events[0]['response']['id']}")
    assert [item["content"][0]["text"] for item in done[:2]] == ["AA", "BB"]
    assert done == events[-1]["response"]["output"] == again.json()["output"]


async def test_a_stream_ends_when_its_token_is_revoked_and_the_run_goes_on(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_feeds, "HEARTBEAT", 0.01)
    asked = {"model": "slow", "input": "Go", "stream": True}
    async with doors.server.client("run").stream("POST", "/v1/responses", json=asked) as answer:
        lines = answer.aiter_lines()
        assert (await anext(lines)) == "event: response.created"
        assert doors.server.state.tokens.delete("run-0")
        events = await events_of(lines)
    assert (events[-1]["type"], events[-1]["error"]["code"]) == ("error", "unauthorized")
    (run_id,) = await doors.runs()
    assert (await doors.server.state.engine.runs.wait(run_id)).status == "completed"


async def test_a_failure_in_a_stream_is_an_event_of_it(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise JournalError("token=abcdef123456 can't be read")

    monkeypatch.setattr(type(doors.server.state.driven), "wait", broken)
    asked = {"model": "pair", "input": "Go", "stream": True}
    text = (await doors.server.client("run").post("/v1/responses", json=asked)).text
    assert '"type": "error"' in text
    assert '"message": "token=[redacted] can' in text


async def test_a_closed_stream_ends_its_run_unless_it_is_kept(doors: Doors) -> None:
    client = doors.client()
    for kept in (False, True):
        stream: Any = await client.responses.create(
            model="slow" if kept else "held", input="Go", stream=True, background=kept
        )
        response = (await anext(aiter(stream))).response.id
        await stream.close()
        found = await doors.settled(response)
        assert found.status == ("completed" if kept else "cancelled")


async def test_the_events_of_an_answered_part_are_its_own(doors: Doors) -> None:
    client = doors.client()
    first = await client.responses.create(model="asking", input="Go")
    second = await client.responses.create(model="asking", input="red", previous_response_id=first.id)
    await client.responses.create(model="asking", input="So.", previous_response_id=second.id)
    for made, text in ((first, "Which colour?\n\nAnswer with one of: red, blue."), (second, "Why?")):
        events = [one async for one in await client.responses.retrieve(made.id, stream=True)]
        last: Any = events[-1]
        assert last.type == "response.incomplete"
        assert (said(last.response), last.response) == ([("final_answer", text)], made)


async def test_a_stream_of_a_run_that_is_about_to_be_resumed_has_all_of_it(
    tmp_path: Path, response_teams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, resume_all = tmp_path / "journal.db", DrivenRuns._resume_all
    async with opened(tmp_path, response_teams, SqliteJournal(journal)) as doors:
        made = await doors.client().responses.create(model="slow", input="Go", background=True)
    is_read = asyncio.Event()

    async def resume_later(self: DrivenRuns, left: Sequence[RunSummary]) -> None:
        await is_read.wait()
        await resume_all(self, left)

    monkeypatch.setattr(DrivenRuns, "_resume_all", resume_later)
    async with opened(tmp_path, response_teams, SqliteJournal(journal)) as doors:
        client = doors.client("read")
        events: list[Any] = []
        async for event in await client.responses.retrieve(made.id, stream=True):
            events.append(event)
            is_read.set()
        assert said(events[-1].response) == [("commentary", "one"), ("final_answer", "word word word")]
        assert events[-1].response == await client.responses.retrieve(made.id)


async def test_a_stream_whose_feed_ends_early_has_the_rest_from_the_record(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object) -> AsyncGenerator[Sequence[Frame]]:
        yield []

    monkeypatch.setattr(model_call, "followed", nothing)
    client = doors.client()
    events: list[Any] = [one async for one in await client.responses.create(model="talk", input="Go", stream=True)]
    assert said(events[-1].response) == [("commentary", "one"), ("final_answer", "two")]
    assert events[-1].response.output == (await client.responses.retrieve(events[-1].response.id)).output


async def test_a_stream_of_a_run_without_a_driver_ends_with_an_error(tmp_path: Path, response_teams: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    team = load_team(response_teams / "held" / "team.yaml")
    async with Engine(journal) as engine:  # another program, which stops
        run = (await engine.start(team, "Go")).run_id
    async with opened(tmp_path, response_teams, SqliteJournal(tmp_path / "journal.db")) as doors:
        assert (await doors.client().responses.retrieve(f"resp_{run}")).status == "in_progress"
        answer = await doors.server.client("read").get(f"/v1/responses/resp_{run}?stream=true")
        assert '"type": "error"' in answer.text
        assert '"code": "run_interrupted"' in answer.text
