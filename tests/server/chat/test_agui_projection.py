"""Page events as those of AG-UI: parallel members, what is written and then recorded, tools, plans and segments."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teamwright.journal.protocol import Journal
from teamwright.server.chat.agui_projection import RunProjection
from teamwright.server.frames import Frame, PageEventProjection
from teamwright.values.events.agent import AgentCalled, AgentCallFailed, AgentReplied, AgentReturned
from teamwright.values.events.event import Delta, Event, ThinkingDelta
from tests.histories.history import RUN_ID, History
from tests.histories.teams import TEAMS
from tests.server.chat.agui_door import kinds, said

Json = dict[str, Any]


async def frames_of(history: History, journal: Journal | None = None) -> list[Frame]:
    projection = PageEventProjection(journal or history.journal(len(history.events)), RUN_ID)
    return [one for event in history.events for one in await projection.project([event])]


async def events_of(history: History, last: str | None = None) -> list[Json]:
    projection = RunProjection(RUN_ID, last)
    return [event for frame in await frames_of(history) for event in projection.apply(frame)]


@pytest.mark.parametrize("name", TEAMS)
async def test_what_a_run_of_each_strategy_opens_it_closes(name: str) -> None:
    events = await events_of(History.load(name))
    for begin, end, field in (
        ("SUBAGENT_STARTED", "SUBAGENT_", "subagentRunId"),
        ("TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "messageId"),
        ("TOOL_CALL_START", "TOOL_CALL_END", "toolCallId"),
    ):
        begun = [one[field] for one in events if one["type"] == begin]
        ended = [one[field] for one in events if one["type"].startswith(end) and one["type"] != begin]
        assert sorted(begun) == sorted(ended)
        assert len(set(begun)) == len(begun)
    result = History.load(name).result
    if result["status"] == "completed":
        assert list(said(events).values())[-1] == result["output"]


async def test_members_of_a_nested_team_are_subagents_of_it() -> None:
    events = await events_of(History.load("nested"))
    started = {one["subagentRunId"]: one for one in events if one["type"] == "SUBAGENT_STARTED"}
    parents = {one["parentSubagentRunId"] for one in started.values() if "parentSubagentRunId" in one}
    assert parents
    assert parents <= set(started)


async def test_a_plan_is_an_activity_that_changes_with_its_steps() -> None:
    events = await events_of(History.load("dag"))
    (snapshot, *_) = [one for one in events if one["type"] == "ACTIVITY_SNAPSHOT"]
    assert snapshot["activityType"] == "PLAN"
    assert {one["state"] for one in snapshot["content"]["steps"]} == {"pending"}
    patches = [one["patch"][0] for one in events if one["type"] == "ACTIVITY_DELTA"]
    assert {one["value"] for one in patches} >= {"running", "completed"}
    assert all(int(one["path"].split("/")[2]) < len(snapshot["content"]["steps"]) for one in patches)


class Writer:
    """A run of `sequential` whose first member has been asked, and goes on as a test says."""

    def __init__(self, last: str | None = None) -> None:
        self.history = History.load("sequential")
        self.events = self.history.events
        asked = [place for place, one in enumerate(self.events) if one.kind == "agent.asked"]
        self.place, self.key = asked[1] + 1, self.events[asked[1]].key
        self.pages = PageEventProjection(self.history.journal(len(self.events)), RUN_ID)
        self.projection = RunProjection(RUN_ID, last)

    async def begin(self) -> Writer:
        await self.record(*self.events[: self.place])
        return self

    async def record(self, *events: Event) -> list[Json]:
        return [one for frame in await self.pages.project(events) for one in self.projection.apply(frame)]

    async def write(self, *pieces: str, thinking: bool = False, attempt: int = 1) -> list[Json]:
        kind, offset, found = ThinkingDelta if thinking else Delta, 0, list[Json]()
        for text in pieces:
            piece = kind(run_id=RUN_ID, key=self.key, member="a", attempt=attempt, offset=offset, text=text)
            offset += len(text)
            for frame in await self.pages.project([piece]):
                found += self.projection.apply(frame)
        return found

    async def reply(self) -> list[Json]:
        """Record what the member said."""
        ending = next(one for one in self.events if one.kind == "agent.replied" and one.key == self.key)
        return await self.record(ending)

    @property
    def text(self) -> str:
        """What the record says that the member said."""
        facts = (one.fact for one in self.events if one.key == self.key)
        replied = next(one for one in facts if isinstance(one, AgentReplied))
        return str(json.loads(self.history.bodies[replied.messages[0].body]))


async def test_the_record_completes_what_was_written() -> None:
    writer = await Writer().begin()
    half = writer.text[:8]
    written = await writer.write(half[:4], half[4:], " ")
    assert kinds(written)[0] == "TEXT_MESSAGE_START"
    done = await writer.reply()
    (text,) = said([*written, *done]).values()
    assert text == writer.text


async def test_what_may_be_an_envelope_is_held_back_until_the_record_says() -> None:
    writer = await Writer().begin()
    envelope = '\n\n```envelope\n{"summary": "x"}\n```'
    pieces = list(writer.text + envelope)
    events = [*await writer.write(*pieces), *await writer.reply()]
    assert list(said(events).values()) == [writer.text]


async def test_a_repeated_attempt_is_another_message() -> None:
    writer = await Writer().begin()
    first = await writer.write("Something quite different ", "and ")
    second = await writer.write(writer.text, " ", attempt=2)
    done = await writer.reply()
    texts = said([*first, *second, *done])
    assert list(texts.values())[-1] == writer.text
    assert len(texts) == 2
    assert kinds(done).count("TEXT_MESSAGE_END") == 1


async def test_a_record_that_says_something_else_is_another_message() -> None:
    writer = await Writer().begin()
    events = [*await writer.write("Something quite different ", "and "), *await writer.reply()]
    assert list(said(events).values())[-1] == writer.text
    assert len(said(events)) == 2


async def test_thoughts_are_reasoning_and_close_with_their_member() -> None:
    writer = await Writer().begin()
    events = [*await writer.write("I ", "wonder ", thinking=True), *await writer.reply()]
    found = [one for one in events if one["type"].startswith("REASONING")]
    assert kinds(found)[:2] == ["REASONING_START", "REASONING_MESSAGE_START"]
    assert kinds(found)[-2:] == ["REASONING_MESSAGE_END", "REASONING_END"]
    assert found[0]["subagentRunId"] == f"{RUN_ID}:{writer.key}"


async def test_the_reply_of_the_last_member_is_the_answer_as_it_is_written() -> None:
    history = History.load("sequential")
    last = [one for one in await events_of(history) if one["type"] == "SUBAGENT_STARTED"][-1]["name"]
    events = await events_of(history, last)
    (answer,) = [one for one in events if one["type"] == "TEXT_MESSAGE_START" and "subagentRunId" not in one]
    assert answer["messageId"] == f"{RUN_ID}:answer"
    assert said(events)[answer["messageId"]] == history.result["output"]


async def test_a_call_that_is_made_again_is_one_call_with_one_result() -> None:
    writer = await Writer().begin()
    place = f"{writer.key.rpartition('/')[2]}/tool-1"
    scope = writer.key.rpartition("/")[0]
    number = writer.events[writer.place - 1].number

    def event(offset: int, fact: Any) -> Event:
        return Event(run_id=RUN_ID, number=number + offset, time=0.0, scope=scope, place=place, fact=fact)

    call = AgentCalled(effect="tool", name="look", request="r")
    body = next(iter(writer.history.bodies))
    events = await writer.record(
        event(1, call),
        event(2, AgentCallFailed(error="x", message="no", retry_in=1.0)),
        event(3, call.changed(attempt=2)),
        event(4, AgentReturned(body=body, attempt=2)),
    )
    assert kinds(events) == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"]
    assert len({one["toolCallId"] for one in events}) == 1
