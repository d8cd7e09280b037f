"""A response as it is in the journal, which is its only store: by its id, from every process and after a crash.

A run is one response, until a request answers one of its questions: the part after that is a response of its own. The
part before stays as its client got it, incomplete with what was asked. Answers that come another way, as from the
page, let the same response go on.

A response is streamed as server-sent events while its run works, or again from the journal, also after any of its
events. The number of an event counts the characters of texts, not the pieces in which they were written, so that a
stream which begins again has the same numbers, and a client continues after the last event that it has.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
from fastapi import Request

from teamwright.errors import RunNotFound, TeamwrightError
from teamwright.history.run_history import RunHistory
from teamwright.runtime.recorded.reader import deleted_is_not_found
from teamwright.server.chat.chat_completions import failure_text
from teamwright.server.chat.model_call import DONE
from teamwright.server.chat.responses_output import OutputMessages
from teamwright.server.error_responses import NotAllowed, NotKnown, openai_type, require_run
from teamwright.server.error_statuses import refusal_of
from teamwright.server.frames import EventProjection, Frame
from teamwright.server.routes.sockets import SILENCE, sse
from teamwright.server.state import ServerState, need
from teamwright.values.events.run import PersonAnswered
from teamwright.values.people import Answered, Question
from teamwright.values.text.secrets import mask_text, mask_value
from teamwright.values.turns.results import FINAL, FOR_PEOPLE

if TYPE_CHECKING:
    from teamwright.server.overview import WaitingQuestion
    from teamwright.values.turns.results import RunResult, RunSummary
    from teamwright.values.usage_and_prices import Usage


Json = dict[str, Any]
PREFIX, AFTER = "resp_", "~"
"""What the id of a response begins with, and what stands in it before the answer that it follows."""
OWN_ANSWER = "resp-"
"""What the ids of answers begin with that a request for a response has given."""
INPUT_REQUIRED = "input_required"
"""Why a response is incomplete whose run waits for a person."""
DEFAULTS: Json = {
    "instructions": None, "tools": [], "tool_choice": "auto", "parallel_tool_calls": True, "truncation": "disabled",
    "text": {"format": {"type": "text"}}, "top_p": 1, "temperature": 1, "presence_penalty": 0, "frequency_penalty": 0,
    "top_logprobs": 0, "reasoning": {"effort": None, "summary": None}, "max_output_tokens": None,
    "max_tool_calls": None, "store": True, "background": False, "service_tier": "default", "metadata": {},
    "safety_identifier": None, "prompt_cache_key": None,
}  # fmt: skip
"""What every response says that is not about its run; the journal keeps all of them."""


@dataclass(frozen=True, slots=True)
class ResponseId:
    """The id of a response: its run, and the answer that it follows, if it begins with one."""

    run_id: str
    answer: str = ""

    @classmethod
    def read(cls, text: str) -> ResponseId | None:
        """Return the id in a text; `None` for any other text."""
        if not text.startswith(PREFIX):
            return None
        run_id, _, answer = text.removeprefix(PREFIX).partition(AFTER)
        return cls(run_id, answer and OWN_ANSWER + answer)

    def __str__(self) -> str:
        answer = self.answer.removeprefix(OWN_ANSWER)
        return f"{PREFIX}{self.run_id}" + (f"{AFTER}{answer}" if answer else "")


@dataclass(frozen=True, slots=True)
class ResponsePart:
    """The part of a run that a response is about: after the event `start`, and up to `end`, if another one follows."""

    id: ResponseId
    before: ResponseId | None
    start: int
    end: int | None


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A part of a run with all that is recorded of it. `number` is the last event that was read."""

    part: ResponsePart
    summary: RunSummary
    history: RunHistory
    questions: Mapping[str, Question | WaitingQuestion]
    """What the run waits for, by key."""
    previous: ResponseId | None
    tokens_before: Usage | None
    model: str
    """The id of the team, or its own name where no team of the server has that now."""

    @property
    def result(self) -> RunResult:
        return self.history.result("paused" if self.part.end is not None else self.summary.status)

    @property
    def status(self) -> str:
        """The status of the response."""
        if self.part.end is not None:
            return "incomplete"
        result = self.result
        match result.status:
            case "queued":
                return "queued"
            case "running" | "interrupted":
                return "in_progress"
            case "paused":
                is_answered = result.stop_reason in FOR_PEOPLE and not self.questions
                return "in_progress" if is_answered else "incomplete"
            case "completed":
                return "completed"
            case "degraded":
                return "completed" if result.stop_reason == "done" else "incomplete"
            case "failed" | "timeout":
                return "failed"
            case "cancelled":
                return "cancelled"

    @property
    def answer(self) -> str | None:
        """The answer, masked, of a run that has one."""
        result = self.result
        has_answer = self.part.end is None and result.status in ("completed", "degraded")
        return mask_text(result.output) if has_answer and result.output is not None else None

    def to_json(self, items: list[Json]) -> Json:
        """The response with these items as its output; those of a run that has just stopped came in a stream."""
        result, status = self.result, self.status
        first = self.history.events[0].time if not self.part.start else self._time_of(self.part.start)
        ended = result.status in FINAL and self.part.end is None
        return {
            **DEFAULTS,
            "id": str(self.part.id),
            "object": "response",
            "created_at": int(first),
            "completed_at": int(self.history.events[-1].time) if status == "completed" else None,
            "status": status,
            "incomplete_details": {"reason": self._reason()} if status == "incomplete" else None,
            "error": {"code": "run_failed", "message": failure_text(result)} if status == "failed" else None,
            "model": self.model,
            "previous_response_id": None if self.previous is None else str(self.previous),
            "conversation": {"id": self.summary.conversation} if self.summary.conversation else None,
            "output": items,
            "usage": self._usage(result) if ended or status == "incomplete" else None,
        }

    def _reason(self) -> str:
        return INPUT_REQUIRED if self.questions else self.result.stop_reason or self.result.status

    def _time_of(self, number: int) -> float:
        return next((one.time for one in self.history.events if one.number >= number), self.history.events[-1].time)

    def _usage(self, result: RunResult) -> Json:
        used, before = result.usage, self.tokens_before

        def since(name: str) -> int:
            return max(0, getattr(used, name) - (getattr(before, name) if before is not None else 0))

        sent, written = since("input_tokens"), since("output_tokens")
        return {
            "input_tokens": sent,
            "input_tokens_details": {"cached_tokens": since("cached_tokens")},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": since("reasoning_tokens")},
            "total_tokens": sent + written,
        }

    def ending(self, output: OutputMessages) -> Iterator[Json]:
        """Yield how the output ends: with the answer, or with the questions that are open."""
        yield from output.finish(self.answer, is_whole=self.status == "completed")
        for key, one in self.questions.items():
            yield from output.say(f"{key} is asked", question_text(one), "final_answer", question=_question(key, one))


def question_text(one: Question | WaitingQuestion) -> str:
    """Return a question as a message: with the draft that it is about, and the answers that are possible."""
    parts = [one.text, one.draft or "", f"Answer with one of: {', '.join(one.choices)}." if one.choices else ""]
    return mask_text("\n\n".join(part for part in parts if part))


def _question(key: str, one: Question | WaitingQuestion) -> Json:
    found: Json = {"key": key, "text": one.text, "choices": [*one.choices], "reason": one.reason}
    if one.to:
        found["to"] = one.to
    if one.draft is not None:
        found |= {"draft": one.draft, "form": one.form}
    shown = mask_value(found)
    assert isinstance(shown, dict)
    return shown


async def find_response(server: ServerState, text: str) -> tuple[RunSummary, ResponseId]:
    """Return the run and the id of a response; raises `RunNotFound`."""
    id_ = ResponseId.read(text)
    if id_ is None:
        raise RunNotFound(text[:100])
    found = await require_run(server.engine, id_.run_id)
    if id_ not in [one.id for one in await parts_of(server, id_.run_id)]:
        raise RunNotFound(text[:100])
    return found, id_


async def parts_of(server: ServerState, run_id: str) -> list[ResponsePart]:
    """Return the responses that a run is, in order."""
    events = (await server.engine.runs.history(run_id)).events
    starts: dict[str, int] = {}
    for event in events:
        if isinstance(event.fact, PersonAnswered) and event.fact.answer.id.startswith(OWN_ANSWER):
            starts.setdefault(event.fact.answer.id, event.number)
    for item in await server.engine.journal.inbox(run_id):
        if isinstance(item.intervention, Answered) and item.intervention.answer.id.startswith(OWN_ANSWER):
            starts.setdefault(item.intervention.answer.id, events[-1].number + 1)  # it is read when the run goes on
    ids = [ResponseId(run_id), *(ResponseId(run_id, one) for one in starts)]
    numbers = [0, *starts.values()]
    return [
        ResponsePart(id_, ids[at - 1] if at else None, numbers[at], numbers[at + 1] - 1 if at + 1 < len(ids) else None)
        for at, id_ in enumerate(ids)
    ]


async def read_response(server: ServerState, id_: ResponseId) -> StoredResponse:
    """Read a response; raises `RunNotFound`."""
    engine = server.engine
    summary = await require_run(engine, id_.run_id)
    part = next((one for one in await parts_of(server, id_.run_id) if one.id == id_), None)
    if part is None:
        raise RunNotFound(str(id_))
    history = await engine.runs.history(id_.run_id)
    if part.end is not None:
        history = await _history_up_to(server, history, part.end)
        questions: Mapping[str, Question | WaitingQuestion] = history.questions()
    elif summary.status == "paused":
        questions = {one.key: one for one in await server.inbox.open_questions(summary)}
    else:
        questions = {}
    tokens_before = None
    if part.start:
        tokens_before = (await _history_up_to(server, history, part.start)).usage()
    previous = await _previous(server, part, history)
    model = await anyio.to_thread.run_sync(server.catalogue.id_of, summary.team)
    return StoredResponse(part, summary, history, questions, previous, tokens_before, model or summary.team)


async def _history_up_to(server: ServerState, history: RunHistory, number: int) -> RunHistory:
    events = [one for one in history.events if one.number <= number]
    async with deleted_is_not_found(server.engine.journal, history.events[0].run_id):
        return await RunHistory.load(server.engine.journal, events)


async def _previous(server: ServerState, part: ResponsePart, history: RunHistory) -> ResponseId | None:
    """Return the response that another one continues: an earlier part of its run, or the end of the run before."""
    origin = history.started.origin
    if part.before is not None or origin is None or origin.how != "continue":
        return part.before
    try:
        return (await parts_of(server, origin.run_id))[-1].id
    except RunNotFound:  # it was deleted
        return ResponseId(origin.run_id)


async def response_json(server: ServerState, id_: ResponseId) -> Json:
    """Return a response with its output, all of it from the journal."""
    stored = await read_response(server, id_)
    output = OutputMessages(id_.run_id, stored.part.start)
    for frame in await EventProjection(server.engine.journal, id_.run_id).project(stored.history.events):
        for _ in output.take(frame):
            pass
    for _ in stored.ending(output):
        pass
    return stored.to_json(output.items)


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
