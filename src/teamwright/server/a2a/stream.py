"""The updates of a task while it is worked on: who works, the answer as it is written, and how the task stands.

A stream begins with the task as it is, so that a client which comes later misses nothing. A run never waits for a
client; one that is too slow loses its stream, and subscribes again.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Sequence, Set as AbstractSet

from teamwright.server.a2a.agent import TeamAgent
from teamwright.server.a2a.tasks import ANSWER, SETTLED, TERMINAL, context_of, status_event, text_part
from teamwright.server.a2a.wire import Json, TaskState
from teamwright.server.event_feeds import Feed, TooSlow
from teamwright.server.frames import Frame
from teamwright.server.routes.chat_completions import CompletionText
from teamwright.server.routes.sockets import HEARTBEAT
from teamwright.server.state import need
from teamwright.values.turns.results import RunSummary, iso

STOPS = frozenset(("run.ended", "run.paused", "run.interrupted", "run.resumed"))
"""The events after which a task may have another state."""


class TaskStream:
    """The updates of one task for one client; `None` stands for silence that has lasted."""

    def __init__(self, agent: TeamAgent, found: RunSummary, until: AbstractSet[TaskState]) -> None:
        self._agent, self._found, self._until = agent, found, until
        self._text = CompletionText(agent.team)
        self._sent: list[str] = []
        self._shown: tuple[TaskState, float] | None = None
        self._number = 0

    @classmethod
    def of_message(cls, agent: TeamAgent, found: RunSummary) -> TaskStream:
        """Follow a task until it has ended or waits for an answer."""
        return cls(agent, found, SETTLED)

    @classmethod
    def of_subscription(cls, agent: TeamAgent, found: RunSummary) -> TaskStream:
        """Follow a task until it has ended."""
        return cls(agent, found, TERMINAL)

    async def updates(self, history_length: int | None = None) -> AsyncGenerator[Json | None]:
        """Yield the task, then its updates."""
        server, run_id = self._agent.server, self._found.id
        self._number = (await server.engine.runs.history(run_id)).number
        found = await self._agent.settled(run_id) or await self._agent.tasks.find(run_id)
        state = await self._agent.tasks.state(found)
        self._shown = state, found.since
        yield {"task": await self._agent.tasks.task(found, history_length)}
        if state in self._until:
            return
        async with server.feeds.follow(run_id, form="events") as feed:
            try:
                async for update in self._follow(feed):
                    yield update
            except TooSlow:
                return

    async def _follow(self, feed: Feed) -> AsyncGenerator[Json | None]:
        while (frames := await feed.next(HEARTBEAT)) is not None:
            need(self._agent.request, "read")  # the token may have been revoked meanwhile
            if not frames:
                yield None
            for update in self._progress(frames):
                yield update
            if any(frame.kind in STOPS for frame in frames):
                for update in await self._changes():
                    yield update
            if self._shown is not None and self._shown[0] in self._until:
                return

    def _progress(self, frames: Sequence[Frame]) -> Iterator[Json]:
        """Yield the pieces of the answer, and who begins to work."""
        asked = ""
        for frame in frames:
            for kind, piece in self._text.pieces(frame):
                if kind == "content" and piece:
                    yield self._artifact([{"text": piece}], append=bool(self._sent))
                    self._sent.append(piece)
            if frame.kind == "agent.asked" and (frame.number or 0) > self._number:
                item = json.loads(frame.text)
                asked = asked if item["member_kind"] == "team" else item["member"]
        if asked and self._shown is not None and self._shown[0] == "TASK_STATE_WORKING":
            message = {
                "messageId": f"{self._found.id}-work-{frames[-1].number or 0}",
                "role": "ROLE_AGENT",
                "parts": [text_part(f"{asked} at work.")],
            }
            status = {"state": "TASK_STATE_WORKING", "timestamp": iso(self._shown[1]), "message": message}
            yield status_event(self._found, status)

    async def _changes(self) -> list[Json]:
        """Return the new state of the task, if it has one, after the artifacts of a task that has ended."""
        found = await self._agent.settled(self._found.id) or await self._agent.tasks.find(self._found.id)
        state = await self._agent.tasks.state(found)
        if self._shown == (state, found.since):
            return []
        self._shown = state, found.since
        update = await self._agent.tasks.status_update(found)
        return [*await self._artifacts(found), update] if state in TERMINAL else [update]

    async def _artifacts(self, found: RunSummary) -> list[Json]:
        history = await self._agent.server.engine.runs.history(found.id)
        updates: list[Json] = []
        for one in await self._agent.tasks.artifacts(history, history.result(found.status)):
            parts, sent = one["parts"], "".join(self._sent)
            if one["artifactId"] == ANSWER and sent and len(parts) == 1:
                text: str = parts[0]["text"]
                if text.startswith(sent) and text != sent:
                    updates.append(self._artifact([{"text": text[len(sent) :]}], append=True, last=True))
                    continue
            updates.append(self._artifact(parts, of=one, last=True))
        return updates

    def _artifact(self, parts: list[Json], *, of: Json | None = None, append: bool = False, last: bool = False) -> Json:
        artifact: Json = {"artifactId": ANSWER, "name": ANSWER, **(of or {}), "parts": parts}
        ids = {"taskId": self._found.id, "contextId": context_of(self._found)}
        return {"artifactUpdate": {**ids, "artifact": artifact, "append": append, "lastChunk": last}}
