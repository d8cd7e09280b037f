"""The address of a team for clients of AG-UI: the input of a run comes in, and its events go out.

A request that is refused has an HTTP status and starts nothing, as the protocol has it; what fails later is the last
event of the stream. A question ends the stream, and the next request answers it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import anyio
from fastapi import APIRouter, Request
from fastapi.responses import Response

from teamwright.errors import TeamwrightError
from teamwright.server.agui.call import AguiCall, RunPart
from teamwright.server.agui.projection import RunProjection, SegmentEnding
from teamwright.server.agui.wire import VERSION, Json, RunAgentInput, read_input, sse
from teamwright.server.error_responses import NotAllowed, NotKnown, responses
from teamwright.server.event_feeds import TooSlow
from teamwright.server.page.page_events import PageRun
from teamwright.server.routes.chat_completions import answers_last
from teamwright.server.routes.sockets import HEARTBEAT, CutOff, EventStream
from teamwright.server.state import MAY_ANSWER, Server, ServerState, need
from teamwright.values.text.secret_patterns import mask_text

if TYPE_CHECKING:
    from teamwright.teams.team import Team

router = APIRouter(prefix="/agui", tags=["agui"])
STREAMED: dict[int | str, dict[str, Any]] = {
    **responses(404, 409),
    200: {"content": {"text/event-stream": {}}, "description": "the events of the run"},
}
RELEASE_SECONDS = 2.0
"""How long the end of a part waits for the driver to let go of a run that waits, so that an answer resumes it."""
SILENCE = ": still here\n\n"


@router.post("/{team}", responses=STREAMED, response_model=None, dependencies=[MAY_ANSWER])
async def run_agent(server: Server, request: Request, team: str) -> Response:
    """Run a team, or let its run go on, and follow it by server-sent events; a new run needs the role `run`.

    The same `runId` of the same token is the same run: it is read again, and nothing is started.
    """
    loaded = await anyio.to_thread.run_sync(server.catalogue.load, team)
    asked, sent = read_input(await request.body())
    call = AguiCall(server, request, team, loaded, asked)
    try:
        part = await call.enter()
        return EventStream(AguiStream(server, request, loaded, asked, sent).events(call, part), ended=call.leave)
    except BaseException:
        call.leave()
        raise


class AguiStream:
    """The events of one part of a run, for one client."""

    def __init__(
        self, server: ServerState, request: Request, team: Team, asked: RunAgentInput, sent: list[Json]
    ) -> None:
        self._server, self._request, self._team, self._asked, self._sent = server, request, team, asked, sent

    async def events(self, call: AguiCall, part: RunPart) -> AsyncGenerator[str]:
        """Yield the events of the part as server-sent events."""
        yield sse(self._started(part))
        for event in call.notes():
            yield sse(event)
        if part.interrupts:
            yield sse(self._finished(part, {"type": "interrupt", "interrupts": [*part.interrupts]}, status="paused"))
            return
        try:
            async for event in self._part(part):
                yield SILENCE if event is None else sse(event)
                call.is_answered = event is not None and event["type"] in {"RUN_FINISHED", "RUN_ERROR"}
            if not call.is_answered:  # the server stops; a client takes a stream without a last event for a whole one
                raise CutOff
        except (NotKnown, NotAllowed):
            call.keep()  # it goes on without its client
            yield sse({"type": "RUN_ERROR", "message": "the session or token has ended", "code": "unauthorized"})
        except TooSlow as error:
            raise CutOff from error
        except TeamwrightError as error:
            yield sse({"type": "RUN_ERROR", "message": mask_text(str(error)), "code": "internal"})

    async def _part(self, part: RunPart) -> AsyncGenerator[Json | None]:
        """Yield the events of the part; `None` stands for silence that has lasted."""
        own = f"{part.run_id}.{part.start}:" if part.start else f"{part.run_id}:"
        kept = [one for one in self._sent if not str(one["id"]).startswith(own)]
        again = len(self._sent) - len(kept)
        if again:  # the client has a part of what follows, to which it would add
            yield {"type": "MESSAGES_SNAPSHOT", "messages": kept}
        last = self._team.members[-1].name if answers_last(self._team) else None
        projection = RunProjection(part.run_id, last, again)
        checked = anyio.current_time()
        async with self._server.feeds.follow(part.run_id) as feed:
            while (frames := await feed.next(HEARTBEAT)) is not None:
                if anyio.current_time() - checked >= HEARTBEAT:
                    need(self._request, "answer")
                    checked = anyio.current_time()
                if not frames:
                    yield None
                for frame in frames:
                    is_here = projection.start == part.start
                    events = projection.apply(frame)
                    for event in events if is_here else ():
                        yield event
                    if is_here and projection.ending is not None:
                        yield await self._ending(part, projection.ending)
                        return
                    if not is_here and projection.start == part.start:
                        for event in projection.opening():
                            yield event
        if not self._server.feeds.is_closing:
            yield {"type": "RUN_ERROR", "message": f"the run {part.run_id!r} was deleted", "code": "deleted"}

    async def _ending(self, part: RunPart, ending: SegmentEnding) -> Json:
        if ending.run is not None:
            return self._ended(part, ending.run)
        with anyio.move_on_after(RELEASE_SECONDS):
            await self._server.driven.wait(part.run_id)
        return self._finished(part, {"type": "interrupt", "interrupts": [*ending.interrupts]}, status="paused")

    def _ended(self, part: RunPart, run: PageRun) -> Json:
        about = {"status": run.status, "stopReason": run.reason, "warnings": [*run.warnings]}
        if run.usage is not None:
            about |= {"totalTokens": run.usage.total_tokens, "usd": run.usage.usd}
        usage = self._usage(part, run)
        if run.status in {"failed", "timeout"}:
            why = run.failure.message if run.failure is not None else run.reason
            text = f"the run {part.run_id!r} has ended without an answer ({run.status}): {why}"
            code = run.failure.error if run.failure is not None else run.status
            return {"type": "RUN_ERROR", "message": text, "code": code, **usage, **_about(part, **about)}
        if run.status == "completed" or (run.status == "degraded" and run.reason == "done"):
            result = run.output if run.data is None else run.data
            return {**self._finished(part, {"type": "success"}, **about), "result": result, **usage}
        return {**self._finished(part, {"type": "cancelled"}, **about), **usage}

    def _usage(self, part: RunPart, run: PageRun) -> Json:
        """Return the tokens of a run that one part is all of; a part counts its own alone, which no record has."""
        if part.start or run.usage is None or not run.usage.total_tokens:
            return {}
        used = run.usage
        return {
            "usage": [
                {
                    "inputTokens": used.input_tokens,
                    "outputTokens": used.output_tokens,
                    "totalTokens": used.input_tokens + used.output_tokens,
                }
            ]
        }

    def _started(self, part: RunPart) -> Json:
        event: Json = {"type": "RUN_STARTED", **self._ids(), "protocolVersion": VERSION, **_about(part)}
        parent = self._asked.parent_run_id
        return event if parent is None else {**event, "parentRunId": parent}

    def _finished(self, part: RunPart, outcome: Json, **about: Any) -> Json:
        return {"type": "RUN_FINISHED", **self._ids(), "outcome": outcome, **_about(part, **about)}

    def _ids(self) -> Json:
        return {"threadId": self._asked.thread_id, "runId": self._asked.run_id}


def _about(part: RunPart, **about: Any) -> Json:
    return {"metadata": {"teamwright": {"run": part.run_id, **about}}}
