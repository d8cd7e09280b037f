"""Teams as models, in the format of OpenAI's chat completions: for chat programs, SDKs and evaluation harnesses.

A model is a team of this server. What members reply on the way comes as reasoning, and the answer of the team as
content. `metadata.conversation` names a conversation of the server; without it, the messages before the last one are
the history. The libraries of clients repeat what times out or has a status of 409, 429 or 500 and above: the same
request again finds its run, and a run that ends without an answer has a status that is not repeated.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio
from fastapi import APIRouter, Header, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from teamwright.errors import TeamwrightError, UnknownName, UsageError
from teamwright.runtime.run_request import RunRequest
from teamwright.server.client_connection import while_connected
from teamwright.server.driven_runs import AwaitedRun, identity_of, run_id_of
from teamwright.server.error_responses import NotAllowed, NotKnown, error_response, responses
from teamwright.server.event_feeds import TooSlow
from teamwright.server.frames import Frame
from teamwright.server.routes.sockets import HEARTBEAT, EventStream
from teamwright.server.security.audit import note_started
from teamwright.server.security.visitor import MAY_READ, Runner, Server, need
from teamwright.server.state import ServerState
from teamwright.strategies.protocol import Members
from teamwright.strategies.team_conversation import handoff_targets
from teamwright.values.text.secret_patterns import mask_text
from teamwright.values.turns.messages import Message
from teamwright.values.turns.results import FINAL

if TYPE_CHECKING:
    from teamwright.teams.team import Team
    from teamwright.values.turns.results import RunResult

router = APIRouter(prefix="/v1", tags=["openai"])
Json = dict[str, Any]
Piece = tuple[Literal["content", "reasoning_content"], str]
COMPLETED: dict[int | str, Json] = {
    200: {
        "description": "a completion, or with `stream` its chunks",
        "content": {
            "application/json": {"schema": {"type": "object", "required": ["id", "choices", "usage"]}},
            "text/event-stream": {},
        },
    }
}
FINISHED = frozenset(("completed", "degraded"))
NO_ANSWER = 422
STOPS = frozenset(("run.ended", "run.paused", "run.interrupted"))
"""The events after which there may be nothing more to stream."""
ENDED = frozenset(("agent.replied", "agent.failed"))


class TextPart(BaseModel):
    """A part of a message that is text."""

    type: Literal["text"]
    text: str


class AskedMessage(BaseModel):
    """A message of a conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]
    name: str | None = None

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "\n".join(part.text for part in self.content)


class StreamOptions(BaseModel):
    """What a stream contains besides the answer."""

    include_usage: bool = False


class AskedCompletion(BaseModel):
    """A request; fields that only a model has, such as `temperature`, are ignored."""

    model_config = ConfigDict(extra="ignore")
    model: str
    messages: list[AskedMessage] = Field(min_length=1)
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: Literal[1] | None = Field(default=None, description="a team gives one answer")
    metadata: dict[str, str] = Field(default_factory=dict[str, str])
    store: bool | None = Field(default=None, description="the run goes on when its client leaves")
    background: bool | None = Field(default=None, description="as `store`")

    @property
    def is_kept(self) -> bool:
        """Whether the run goes on without its client."""
        return bool(self.store or self.background)


@router.get("/models", responses=responses(), dependencies=[MAY_READ])
async def list_models(server: Server) -> Json:
    """Return the teams of this server as models."""
    ids = await anyio.to_thread.run_sync(server.catalogue.ids)
    return {"object": "list", "data": list(map(_model, ids))}


@router.get("/models/{model}", responses=responses(404), dependencies=[MAY_READ])
async def read_model(server: Server, model: str) -> Json:
    """Return a team of this server as a model."""
    ids = await anyio.to_thread.run_sync(server.catalogue.ids)
    if model not in ids:
        raise UnknownName("team", model, ids)
    return _model(model)


def _model(id_: str) -> Json:
    return {"id": id_, "object": "model", "created": 0, "owned_by": "teamwright"}


@router.post("/chat/completions", responses=COMPLETED | responses(404, 409), response_model=None)
async def complete(
    server: Server,
    request: Request,
    visitor: Runner,
    asked: AskedCompletion,
    idempotency_key: Annotated[str | None, Header(max_length=255)] = None,
    x_stainless_retry_count: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Response:
    """Let a team answer. The same request again finds its run; a client that leaves ends it, unless it has `store`.

    Requests are the same if they have the same `Idempotency-Key`, or without one the same body before any client has
    got the answer. A run that ends without an answer has the status 422.
    """
    team = await anyio.to_thread.run_sync(server.catalogue.load, asked.model)
    identity = identity_of(visitor.name, idempotency_key, await request.body())
    counted = None if x_stainless_retry_count is None else x_stainless_retry_count != "0"
    is_retry = idempotency_key is not None or counted
    run = server.awaited.enter(identity, is_kept=asked.is_kept, is_retry=is_retry)
    call = _Call(server, request, asked, team, run)
    try:
        await call.start(None if idempotency_key is None else run_id_of(visitor.name, idempotency_key))
        note_started(request, run.run_id)
        if asked.stream:
            return EventStream(call.chunks(), ended=call.leave)
        answer = await call.answer()
    except BaseException:
        call.leave()
        raise
    call.leave()
    return answer


class _Call:
    """One request for a completion, from its run to its answer."""

    def __init__(
        self, server: ServerState, request: Request, asked: AskedCompletion, team: Team, run: AwaitedRun
    ) -> None:
        self._server, self._request, self._asked, self._team, self._run = server, request, asked, team, run
        self._is_answered = False

    async def start(self, run_id: str | None) -> None:
        """Start the run, unless an earlier request has."""
        async with self._run.starting:
            if self._run.run_id:
                return
            *before, last = self._asked.messages
            if last.role == "assistant":
                raise UsageError("The last message has to be the user's.")
            conversation = self._asked.metadata.get("conversation")
            history = [] if conversation else [_message(one) for one in before]
            asked = RunRequest(
                self._team,
                last.text,
                run_id=run_id or self._run.new_id,
                history=history,
                conversation=conversation,
            )
            handle = await self._server.driven.start(asked)
            self._run.run_id = handle.run_id

    def leave(self) -> None:
        """Let the client go, with its answer or without; the run of a stream that was closed ends at once."""
        if self._server.feeds.is_closing:
            self._run.is_kept = True  # it is resumed after the restart, and found by the same request
        after = 0.0 if self._asked.stream else None
        self._server.awaited.leave(self._run, answered=self._is_answered, after=after)

    async def answer(self) -> Response:
        """Wait for the end of the run and return its answer; a client that leaves earlier gets none."""
        result = await while_connected(self._request, lambda: self._server.driven.wait(self._run.run_id))
        need(self._request, "run")  # the token may have been revoked meanwhile
        self._end(result)
        if result.status not in FINISHED:
            return _failed(result)
        message = {"role": "assistant", "content": mask_text(result.output or "")}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        head = _frame(self._run.run_id, self._asked.model, "chat.completion")
        return JSONResponse({**head, "choices": [choice], "usage": _usage(result)})

    def _end(self, result: RunResult) -> None:
        """Note that the client gets its answer; a run that waits for a person or a driver is found again."""
        self._is_answered = result.status in FINAL
        self._run.is_kept = self._run.is_kept or not self._is_answered

    async def chunks(self) -> AsyncGenerator[str]:
        """Yield the answer as it is written, and what members say on the way."""
        head = _frame(self._run.run_id, self._asked.model, "chat.completion.chunk")

        def chunk(delta: Json, finish: str | None = None) -> str:
            return _data({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

        yield chunk({"role": "assistant", "content": ""})
        text = CompletionText(self._team)
        try:
            async for piece in self._pieces(text):
                yield chunk({piece[0]: piece[1]}) if piece is not None else ": still here\n\n"
            result = await self._server.driven.wait(self._run.run_id)
            need(self._request, "run")
        except (NotKnown, NotAllowed):
            self._run.is_kept = True  # it goes on without its client
            yield _data({"error": {"code": "unauthorized", "message": "the session or token has ended"}})
            return
        except TeamwrightError as error:  # too late for a status
            yield _data({"error": {"code": "run_failed", "message": mask_text(str(error))}})
            return
        self._end(result)
        if result.status not in FINISHED:
            yield _data({"error": {"code": _code(result), "message": _failure(result)}})
            return
        if rest := text.rest(mask_text(result.output or "")):
            yield chunk({"content": rest})
        yield chunk({}, "stop")
        if self._asked.stream_options is not None and self._asked.stream_options.include_usage:
            yield _data({**head, "choices": [], "usage": _usage(result)})
        yield "data: [DONE]\n\n"

    async def _is_running(self) -> bool:
        """Whether the run goes on: its record may contain a pause or an interruption that is over."""
        found = await self._server.engine.runs.find(self._run.run_id)
        return found is not None and found.status == "running"

    async def _pieces(self, text: CompletionText) -> AsyncGenerator[Piece | None]:
        """Yield what members say until the run stops, and `None` in silence. Who is too slow misses the rest.

        Raises `NotKnown` or `NotAllowed` where the visitor has lost the right to read it.
        """
        checked = anyio.current_time()
        async with self._server.feeds.follow(self._run.run_id, form="events") as feed:
            try:
                while (frames := await feed.next(HEARTBEAT)) is not None:
                    if anyio.current_time() - checked >= HEARTBEAT:
                        need(self._request, "run")
                        checked = anyio.current_time()
                    if not frames:
                        yield None
                    for frame in frames:
                        for piece in text.pieces(frame):
                            yield piece
                    if any(frame.kind in STOPS for frame in frames) and not await self._is_running():
                        return
            except TooSlow:
                return


def _message(one: AskedMessage) -> Message:
    name = one.name or ("assistant" if one.role == "assistant" else "user")
    return Message(name=name, content=one.text, role="assistant" if one.role == "assistant" else "user")


def _frame(run_id: str, model: str, kind: str) -> Json:
    return {"id": run_id, "object": kind, "created": int(time.time()), "model": model}


def _usage(result: RunResult) -> Json:
    used = result.usage
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.input_tokens + used.output_tokens,
    }


def _failed(result: RunResult) -> Response:
    """Return the error of a run without an answer, with a status and a header after which no client asks again."""
    response = error_response(NO_ANSWER, _code(result), _failure(result))
    response.headers["X-Should-Retry"] = "false"
    return response


def _code(result: RunResult) -> str:
    return "run_failed" if result.status in FINAL else f"run_{result.status}"


def _failure(result: RunResult) -> str:
    reason = result.failure.message if result.failure is not None else result.stop_reason
    return mask_text(f"the run {result.run_id!r} is {result.status}: {reason}")


def _data(value: Json) -> str:
    return f"data: {json.dumps(value)}\n\n"


@dataclass(slots=True)
class _Turn:
    """A turn that is being written: what was passed on of it, and what waits for another speaker to end."""

    name: str
    is_answer: bool
    passed: list[str] = field(default_factory=list[str])
    waiting: list[str] = field(default_factory=list[str])


class CompletionText:
    """Folds the items of a run into pieces of text."""

    def __init__(self, team: Team) -> None:
        self._last = team.members[-1].name if _answers_last(team) else None
        self._root: str | None = None
        self._turns: dict[str, _Turn] = {}
        self._speaker: str | None = None
        self._content: list[str] = []

    def pieces(self, frame: Frame) -> Iterator[Piece]:
        if frame.kind == "delta.text":
            yield from self._write(json.loads(frame.text))
        elif frame.kind == "agent.asked":
            self._begin(json.loads(frame.text))
        elif frame.kind in ENDED:
            yield from self._end(json.loads(frame.text))

    def rest(self, output: str) -> str:
        """Return what is missing of the answer at the end of the run; all of it, where it is not what was passed on."""
        rest = _rest(output, self._content)
        return f"\n\n{output}" if rest is None else rest

    def _begin(self, item: Json) -> None:
        if item["member_kind"] == "team":
            self._root = item["key"] if self._root is None else self._root
            return
        is_answer = item["member"] == self._last and item["scope"] == self._root and not self._content
        self._turns[item["key"]] = _Turn(item["member"], is_answer)

    def _write(self, item: Json) -> Iterator[Piece]:
        turn = self._turns.get(item["key"])
        if turn is None or item["output"] is not None:
            return
        if item["offset"] == 0:
            turn.waiting = []
            if turn.passed:  # another attempt: what was passed on can't be taken back
                turn.is_answer, turn.passed = False, []
        turn.waiting.append(item["text"])
        self._speaker = self._speaker or item["key"]
        if self._speaker == item["key"]:
            yield from self._pass(turn)

    def _pass(self, turn: _Turn) -> Iterator[Piece]:
        text, head = "".join(turn.waiting), "" if turn.passed else f"{turn.name}: "
        turn.waiting = []
        turn.passed.append(text)
        if turn.is_answer:
            self._content.append(text)
            yield "content", text
        else:
            yield "reasoning_content", head + text

    def _end(self, item: Json) -> Iterator[Piece]:
        turn = self._turns.pop(item["key"], None)
        if turn is None:  # a team, which repeats what its members have said
            return
        said = "\n\n".join(one["content"] for one in item.get("texts", {}).get("messages", ()))
        if not turn.is_answer and said:
            rest = _rest(said, turn.passed) if turn.passed else None
            yield "reasoning_content", (f"{turn.name}: {said}" if rest is None else rest) + "\n\n"
        if self._speaker == item["key"]:
            self._speaker = next((key for key, one in self._turns.items() if one.waiting), None)
            if self._speaker is not None:
                yield from self._pass(self._turns[self._speaker])


def _rest(text: str, passed: list[str]) -> str | None:
    """Return what follows the pieces of a text that were passed on, but for blanks around it; `None` if it differs."""
    whole = "".join(passed)
    for told in (whole, whole.strip()):
        if text.startswith(told):
            return text[len(told) :]
    return None


def _answers_last(team: Team) -> bool:
    """Whether the reply of the last member, as it is written, is the answer of the team."""
    names = [member.name for member in team.members]
    if team.strategy.name != "sequential" or names.count(names[-1]) > 1 or handoff_targets(Members(team.members)):
        return False
    return team.members[-1].policy.confirm is None and team.policy.confirm is None
