"""A response as server-sent events: while its run works, or again from the journal, also after any of its events.

The number of an event counts the characters of texts, not the pieces in which they were written, so that a stream
which begins again has the same numbers, and a client continues after the last event that it has.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Any

from fastapi import Request

from teamwright.errors import TeamwrightError
from teamwright.server.error_responses import NotAllowed, NotKnown, openai_type
from teamwright.server.error_statuses import refusal_of
from teamwright.server.frames import EventProjection, Frame
from teamwright.server.model_call import DONE, SILENCE, sse
from teamwright.server.responses.output import OutputMessages
from teamwright.server.responses.record import StoredResponse, read_response
from teamwright.server.state import ServerState, need
from teamwright.values.text.secret_patterns import mask_text

Json = dict[str, Any]
DELTA = "response.output_text.delta"
ENDINGS = {"completed": "response.completed", "incomplete": "response.incomplete"}
"""The last event of a response by its status; without an answer it has failed."""
OPEN = frozenset(("queued", "in_progress"))
"""Statuses of a response that goes on, and so has no last event."""


class ResponseStream:
    """The events of one response for one client, after the event with the number `after`."""

    def __init__(
        self, server: ServerState, request: Request, stored: StoredResponse, echo: Json, *, after: int = -1
    ) -> None:
        self._server, self._request, self._stored, self._echo, self._after = server, request, stored, echo, after
        self._number = self._read = 0
        self.final: StoredResponse | None = None
        """The response at the end of the stream."""

    async def texts(
        self, frames: AsyncGenerator[Sequence[Frame]], answering: str | None, role: str
    ) -> AsyncGenerator[str]:
        """Yield the events as texts, ending with `[DONE]`, without those that the client has."""
        async with aclosing(self._texts(frames, answering, role)) as texts:
            async for text in texts:
                if text:
                    yield text

    async def _texts(
        self, frames: AsyncGenerator[Sequence[Frame]], answering: str | None, role: str
    ) -> AsyncGenerator[str]:
        part = self._stored.part
        output = OutputMessages(part.id.run_id, part.start, answering)
        head = {**self._stored.to_json([]), "status": "in_progress", "incomplete_details": None, "error": None}
        head |= {"completed_at": None, "usage": None, **self._echo}
        for kind in ("response.created", "response.in_progress"):
            yield self._text({"type": kind, "response": head})
        try:
            async with aclosing(self._frames(frames)) as own:
                async for some in own:
                    if not some:
                        yield SILENCE
                    for event in self._taken(output, some):
                        yield self._text(event)
            self.final = final = await self._settled(role)
            for event in self._taken(output, await self._unread(final)):
                yield self._text(event)
            for text in self._ending(final, output):
                yield text
        except (NotKnown, NotAllowed):
            yield self._error(401, "unauthorized", "the session or token has ended")
        except TeamwrightError as error:  # too late for a status
            refusal = refusal_of(error)
            yield self._error(refusal.status, refusal.code, str(refusal))
        yield DONE

    def _ending(self, final: StoredResponse, output: OutputMessages) -> Iterator[str]:
        if final.status in OPEN:
            why = f"the run {final.part.id.run_id!r} has no driver now: once it is resumed, stream the response again"
            yield self._error(503, f"run_{final.result.status}", why)
            return
        for event in final.ending(output):
            yield self._text(event)
        ended = {**final.to_json(output.items), **self._echo}
        yield self._text({"type": ENDINGS.get(ended["status"], "response.failed"), "response": ended}, is_last=True)

    def _taken(self, output: OutputMessages, frames: Sequence[Frame]) -> Iterator[Json]:
        """Yield what follows from frames; each event of the run is taken once."""
        for frame in frames:
            self._read = max(self._read, frame.number or 0)
            yield from output.take(frame)

    async def _unread(self, final: StoredResponse) -> Sequence[Frame]:
        """Return what the stream has missed of the record, because its feed has ended before the run."""
        rest = [one for one in final.history.events if one.number > self._read]
        return await EventProjection(self._server.engine.journal, final.part.id.run_id).project(rest)

    async def _settled(self, role: str) -> StoredResponse:
        part = self._stored.part
        if part.end is None:
            await self._server.driven.wait(part.id.run_id)
        need(self._request, "run" if role == "run" else "read")
        return await read_response(self._server, part.id)

    async def _frames(self, frames: AsyncGenerator[Sequence[Frame]]) -> AsyncGenerator[Sequence[Frame]]:
        """Yield the frames of this part of the run: up to its end, or to the answer that begins another part."""
        end = self._stored.part.end
        async with aclosing(frames):
            async for some in frames:
                if end is not None and any(frame.number is not None and frame.number > end for frame in some):
                    yield [frame for frame in some if frame.number is not None and frame.number <= end]
                    return
                yield some

    def _error(self, status: int, code: str, message: str) -> str:
        error = {"type": openai_type(status), "code": code, "message": mask_text(message), "param": None}
        return self._text({**error, "type": "error", "error": error}, is_last=True)

    def _text(self, event: Json, *, is_last: bool = False) -> str:
        """Number an event; what its client has already is an empty text, and a piece of text may be cut."""
        width = len(event["delta"]) if event["type"] == DELTA else 1
        self._number += width
        number = self._number - 1
        if is_last:
            number = max(number, self._after + 1)
        elif number <= self._after:
            return ""
        elif event["type"] == DELTA and (new := number - self._after) < width:
            event = {**event, "delta": event["delta"][-new:]}
        return sse({**event, "sequence_number": number}, event["type"])
