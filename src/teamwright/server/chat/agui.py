"""The address of a team for clients of AG-UI: the input of a run comes in, and its events go out.

A request that is refused has an HTTP status and starts nothing, as the protocol has it; what fails later is the last
event of the stream. A question ends the stream, and the next request answers it.

The id of a run follows from who asks and from the request's own run id, and an answer keeps the id of the request that
it came with: the same request again, in whichever process, reads the same part again and starts nothing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from fastapi import APIRouter, Request
from fastapi.responses import Response

from teamwright.agents.attachments import Attachment
from teamwright.errors import ConversationBusy, RunNotFound, TeamwrightError, UsageError
from teamwright.runtime.run_request import RunRequest, check_task, read_files
from teamwright.server.chat.agui_projection import RunProjection, SegmentEnding
from teamwright.server.chat.agui_wire import (
    SPOKEN,
    VERSION,
    InputMessage,
    Json,
    ResumeEntry,
    RunAgentInput,
    read_input,
    warning,
)
from teamwright.server.chat.chat_completions import answering_member
from teamwright.server.chat.model_call import spoken
from teamwright.server.driven_runs import AwaitedRun, digest_of_parts
from teamwright.server.error_responses import NotAllowed, NotKnown, require_run, responses
from teamwright.server.error_statuses import RefusedRequest
from teamwright.server.event_feeds import TooSlow
from teamwright.server.guard import note_run
from teamwright.server.overview import WaitingQuestion
from teamwright.server.page.page_events import PageRun
from teamwright.server.questions import interrupt_id, interrupt_of, resumed_answer, run_of
from teamwright.server.routes.interventions import answered_alone, place_of_answer
from teamwright.server.routes.runs import begin_run
from teamwright.server.routes.sockets import SILENCE, CutOff, EventStream, sse
from teamwright.server.state import MAY_ANSWER, Server, ServerState, need
from teamwright.values.events.run import PersonAnswered, RunPaused
from teamwright.values.people import Answer
from teamwright.values.text.secrets import mask_text
from teamwright.values.turns.messages import Message
from teamwright.values.turns.results import FINAL, FOR_PEOPLE, RunSummary

if TYPE_CHECKING:
    from teamwright.history.run_history import RunHistory
    from teamwright.server.credentials import Visitor
    from teamwright.teams.team import Team


PREFIX = "agui-"
"""What the ids begin with of runs that were started here, and of answers that were given here."""


@dataclass(slots=True)
class RunPart:
    """The part of a run that a client gets: from the event `start` on, until the run waits for people or ends.

    With `interrupts`, nothing is started: the run of the thread waits for these.
    """

    run_id: str
    start: int = 0
    interrupts: Sequence[Json] = ()


class AguiCall:
    """A request for a run of a team, by the client of one request."""

    def __init__(self, server: ServerState, request: Request, id_: str, team: Team, asked: RunAgentInput) -> None:
        self._server, self._request, self._id, self._team, self._asked = server, request, id_, team, asked
        self._awaited: AwaitedRun | None = None
        self.warnings: list[str] = []
        self.is_answered = False

    async def enter(self) -> RunPart:
        """Start the run, or let it go on; raises what is wrong with the request, of which nothing was done then."""
        return await self._resume(self._asked.resume) if self._asked.resume else await self._start()

    def leave(self) -> None:
        """Let the client go. Without the end of its part, the run ends in a minute, unless the client comes back."""
        if self._awaited is not None:
            self._server.awaited.leave(self._awaited, answered=self.is_answered)
            self._awaited = None

    def keep(self) -> None:
        """Let the run go on without its client."""
        if self._awaited is not None:
            self._awaited.is_kept = True

    def notes(self) -> list[Json]:
        """What the client should know about its request, as events."""
        return [warning(mask_text(one)) for one in self.warnings]

    def _await(self, part: RunPart) -> RunPart:
        """Let the client wait for this part from now on. A run that it may not end goes on when it leaves."""
        identity = f"{part.run_id}.{part.start}"
        self._awaited = self._server.awaited.enter(identity, is_kept=False, is_retry=True)
        self._awaited.run_id = part.run_id
        may_end = part.run_id.startswith(PREFIX) and need(self._request, "answer").may("run")
        if self._asked.settings.store or not may_end:
            self.keep()
        note_run(self._request, part.run_id)
        return part

    # A run that begins

    async def _start(self) -> RunPart:
        visitor = need(self._request, "run")
        run_id = f"{PREFIX}{digest_of_parts(visitor.name, self._id, self._asked.run_id)}"
        async with answered_alone(run_id):  # the same request may be sent again at once
            return await self._started(visitor, run_id)

    async def _started(self, visitor: Visitor, run_id: str) -> RunPart:
        asked, known = self._asked, await self._server.engine.runs.find(run_id)
        own = [one for one in asked.messages if not one.id.startswith((f"{run_id}:", f"{run_id}."))]
        if not own or own[-1].role != "user":
            raise UsageError("The last message has to be the user's.")
        *before, last = own
        history: list[Message] = []
        if known is None:
            previous = await self._previous()
            if previous is not None and (waiting := await self._waiting(previous)):
                self.warnings.append("the thread waits for answers, so the message was not read; resume it first")
                return RunPart(previous.id, interrupts=[interrupt_of(previous.id, one) for one in waiting])
            history = (
                []
                if previous is not None
                else [spoken(one.role, one.text, one.name) for one in before if _is_said(one)]
            )
        files = await self._files(last, is_new=known is None)
        task = check_task(asked.grounded(last.text))
        settings = asked.settings
        started = RunRequest(
            self._team,
            task,
            run_id=run_id,
            conversation=asked.thread_id,
            history=history,
            attachments=files,
            limits=settings.limits,
            budget=settings.budget,
        )
        await begin_run(self._server, started, visitor)
        return self._await(RunPart(run_id))

    async def _previous(self) -> RunSummary | None:
        """Return the last run of the thread; raises where another team has it, or a run is at work."""
        thread = self._asked.thread_id
        last = await self._server.engine.conversations.last(thread)
        if last is not None and last.team != self._team.name:
            raise RefusedRequest(409, "conversation_busy", f"the thread {thread[:100]!r} is that of another team")
        if last is not None and last.status not in FINAL and not await self._waiting(last):
            raise ConversationBusy(thread, last.id, last.status)
        return last

    async def _waiting(self, found: RunSummary) -> list[WaitingQuestion]:
        """Return what a run that has paused waits for."""
        if found.status != "paused" or found.stop_reason not in FOR_PEOPLE:
            return []
        return await self._server.inbox.open_questions(found)

    async def _files(self, message: InputMessage, *, is_new: bool) -> list[Attachment]:
        """Return the files of a message that the team can read; what it can't is left out, and said."""
        files, left = message.files()
        usable: list[Attachment] = []
        for one in files:
            try:
                await read_files(self._team, [one])
                usable.append(one)
            except TeamwrightError as error:
                left.append(f"a file is left out: {error}")
        self.warnings += left
        return usable if is_new else []

    # A run that goes on

    async def _resume(self, entries: Sequence[ResumeEntry]) -> RunPart:
        visitor = need(self._request, "answer")
        found = await self._target(entries)
        prefix = interrupt_id(found.id, "")
        given: dict[str, ResumeEntry] = {}
        for one in entries:
            if one.interrupt_id.startswith(prefix):
                key = one.interrupt_id.removeprefix(prefix)
                if key in given:
                    raise UsageError(f"{key[:100]!r} is answered twice; send one answer to each question.")
                given[key] = one
        identity = f"{PREFIX}{digest_of_parts(visitor.name, found.id, self._asked.run_id)}"
        async with answered_alone(found.id):
            found = await require_run(self._server.engine, found.id)
            history = await self._server.engine.runs.history(found.id)
            place = await place_of_answer(self._server, history, identity)
            if place is None:
                start = _last_wait(history, given)
                await self._answer(found, history, given, visitor.name, identity)
            else:  # the part that this request began before
                start = _wait_before(history, place)
        ignored = len(entries) - len(given)
        if ignored:
            self.warnings.append(
                f"{ignored} of {len(entries)} answers are to no question of this run, and are left out"
            )
        return self._await(RunPart(found.id, start))

    async def _target(self, entries: Sequence[ResumeEntry]) -> RunSummary:
        """Return the run that the entries answer: the last of the thread that they name."""
        last = await self._server.engine.conversations.last(self._asked.thread_id)
        named = list(dict.fromkeys(run_of(one.interrupt_id) for one in entries))
        for run_id in [one for one in named if last is not None and one == last.id] or named:
            try:
                found = await require_run(self._server.engine, run_id)
            except RunNotFound:
                continue
            if found.team == self._team.name and found.conversation == self._asked.thread_id:
                return found
        thread = self._asked.thread_id[:100]
        raise RefusedRequest(
            409, "no_such_interrupt", f"no entry of resume names an interrupt of the thread {thread!r}"
        )

    async def _answer(
        self, found: RunSummary, history: RunHistory, given: dict[str, ResumeEntry], by: str, identity: str
    ) -> None:
        """Send all answers, or none where one of them is wrong; one that comes too late is left out, and said."""
        if found.status in FINAL:
            self.warnings.append(f"the run has ended ({found.status}); the answers are left out")
            return
        open_ = {one.key: one for one in await self._server.inbox.open_questions(found)}
        questions = history.questions()
        answers: list[tuple[str, Answer]] = []
        for key, entry in given.items():
            if key not in open_ or key not in questions:
                self.warnings.append(f"the question {key[:100]!r} is not open; its answer is left out")
                continue
            answer = resumed_answer(open_[key], questions[key], entry, by)
            if answer is None:
                name = need(self._request, "run").name
                await self._server.engine.runs.cancel(found.id, f"by {name}: {key} was abandoned", by=name)
                return
            answers.append((key, answer.changed(id=identity)))
        for key, answer in answers:
            await self._server.engine.runs.answer(found.id, key, answer)
        if answers or not open_:
            await self._server.driven.resume_if_paused(found.id)


def _is_said(one: InputMessage) -> bool:
    return one.role in SPOKEN and bool(one.text.strip())


def _waits(history: RunHistory) -> Iterable[int]:
    """The events with which the run began to wait for people."""
    for event in history.events:
        if isinstance(event.fact, RunPaused) and event.fact.stop_reason in FOR_PEOPLE:
            yield event.number


def _wait_before(history: RunHistory, number: int) -> int:
    return max((one for one in _waits(history) if one < number), default=0)


def _last_wait(history: RunHistory, keys: Iterable[str]) -> int:
    """Return where the run waited for these questions: before the first answer to them, or for the last time."""
    answered = [
        event.number for event in history.events if isinstance(event.fact, PersonAnswered) and event.key in keys
    ]
    return _wait_before(history, min(answered, default=history.number + 1))


router = APIRouter(prefix="/agui", tags=["agui"])
STREAMED: dict[int | str, dict[str, Any]] = {
    **responses(404, 409),
    200: {"content": {"text/event-stream": {}}, "description": "the events of the run"},
}
RELEASE_SECONDS = 2.0
"""How long the end of a part waits for the driver to let go of a run that waits, so that an answer resumes it."""


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
        projection = RunProjection(part.run_id, answering_member(self._team), again)
        async with self._server.feeds.follow(part.run_id, check=partial(need, self._request, "answer")) as feed:
            while (frames := await feed.next()) is not None:
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
