"""Teams as models, in the format of OpenAI's chat completions: for chat programs, SDKs and evaluation harnesses.

A model is a team of this server. What members reply on the way comes as reasoning, and the answer of the team as
content. `metadata.conversation` names a conversation of the server; without it, the messages before the last one are
the history. A run that ends without an answer has a status after which no client repeats its request.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Any, Literal

import anyio
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from teamwright.errors import TeamwrightError, UnknownName
from teamwright.runtime.run_request import RunRequest
from teamwright.server.chat.model_call import DONE, ModelCall, Retry, key_run, last_from_user, spoken
from teamwright.server.error_responses import NotAllowed, NotKnown, error_response, responses
from teamwright.server.frames import Frame, WithheldEnding
from teamwright.server.routes.sockets import SILENCE, EventStream, sse
from teamwright.server.state import MAY_READ, Runner, Server, ServerState, need
from teamwright.strategies.protocol import Members
from teamwright.strategies.team_conversation import handoff_targets
from teamwright.values.text.secrets import mask_text
from teamwright.values.turns.results import FINAL, seconds_until

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
async def complete(server: Server, request: Request, visitor: Runner, asked: AskedCompletion, retry: Retry) -> Response:
    """Let a team answer. The same request again finds its run; a client that leaves ends it, unless it has `store`.

    Requests are the same if they have the same `Idempotency-Key`, or without one the same body before any client has
    got the answer. A run that ends without an answer has the status 422.
    """
    team = await anyio.to_thread.run_sync(server.catalogue.load, asked.model)
    call = await ModelCall.enter(server, request, visitor, retry, kept=asked.is_kept, stream=asked.stream)
    completion = _Completion(server, request, asked, team, call)
    try:
        await call.start(key_run(visitor, retry), completion.run_request)
        if asked.stream:
            return EventStream(completion.chunks(), ended=call.leave)
        answer = await completion.answer()
    except BaseException:
        call.leave()
        raise
    call.leave()
    return answer


class _Completion:
    """One request for a completion, and the answer of its call."""

    def __init__(
        self, server: ServerState, request: Request, asked: AskedCompletion, team: Team, call: ModelCall
    ) -> None:
        self._server, self._request, self._asked, self._team, self._call = server, request, asked, team, call

    async def run_request(self, run_id: str) -> RunRequest:
        """Return what the run is asked for."""
        *before, last = self._asked.messages
        conversation = self._asked.metadata.get("conversation")
        history = [] if conversation else [spoken(one.role, one.text, one.name) for one in before]
        task = last_from_user(last.role, last.text)
        return RunRequest(self._team, task, run_id=run_id, history=history, conversation=conversation)

    async def answer(self) -> Response:
        """Wait for the end of the run and return its answer."""
        result = await self._call.result()
        self._end(result)
        if result.status not in FINISHED:
            return _failed(self._request, result)
        message = {"role": "assistant", "content": mask_text(result.output or "")}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        head = _frame(self._call.run_id, self._asked.model, "chat.completion")
        return JSONResponse({**head, "choices": [choice], "usage": _usage(result)})

    def _end(self, result: RunResult) -> None:
        """Note that the client gets its answer; a run that waits for a person or a driver is found again."""
        if result.status in FINAL:
            self._call.answered()
        else:
            self._call.keep()

    async def chunks(self) -> AsyncGenerator[str]:
        """Yield the answer as it is written, and what members say on the way."""
        head = _frame(self._call.run_id, self._asked.model, "chat.completion.chunk")

        def chunk(delta: Json, finish: str | None = None) -> str:
            return sse({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

        yield chunk({"role": "assistant", "content": ""})
        text = CompletionText(self._team)
        try:
            async with aclosing(self._call.frames()) as followed:
                async for frames in followed:
                    if not frames:
                        yield SILENCE
                    for kind, piece in (one for frame in frames for one in text.pieces(frame)):
                        yield chunk({kind: piece})
            result = await self._server.driven.wait(self._call.run_id)
            need(self._request, "run")
        except (NotKnown, NotAllowed):
            self._call.keep()
            yield sse({"error": {"code": "unauthorized", "message": "the session or token has ended"}})
            return
        except TeamwrightError as error:  # too late for a status
            yield sse({"error": {"code": "run_failed", "message": mask_text(str(error))}})
            return
        self._end(result)
        if result.status not in FINISHED:
            yield sse({"error": {"code": failure_code(result), "message": failure_text(result)}})
            return
        if rest := text.rest(mask_text(result.output or "")):
            yield chunk({"content": rest})
        yield chunk({}, "stop")
        if self._asked.stream_options is not None and self._asked.stream_options.include_usage:
            yield sse({**head, "choices": [], "usage": _usage(result)})
        yield DONE


def _frame(run_id: str, model: str, kind: str) -> Json:
    return {"id": run_id, "object": kind, "created": int(time.time()), "model": model}


def _usage(result: RunResult) -> Json:
    used = result.usage
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.input_tokens + used.output_tokens,
    }


def _failed(request: Request, result: RunResult) -> Response:
    """Return the error of a run without an answer, with a status and a header after which no client asks again."""
    response = error_response(NO_ANSWER, failure_code(result), failure_text(result), path=request.url.path)
    response.headers["X-Should-Retry"] = "false"
    if result.resume_at:
        response.headers["Retry-After"] = str(ceil(seconds_until(result.resume_at, time.time())))
    return response


def failure_code(result: RunResult) -> str:
    """Return the code of a run without an answer."""
    return "run_failed" if result.status in FINAL else f"run_{result.status}"


def failure_text(result: RunResult) -> str:
    """Say why a run has no answer."""
    reason = result.failure.message if result.failure is not None else result.stop_reason
    if result.resume_at:
        reason = f"{reason}, until {result.resume_at}; the same request then gets the answer"
    return mask_text(f"the run {result.run_id!r} is {result.status}: {reason}")


@dataclass(slots=True)
class _Turn:
    """A turn that is being written: what was passed on of it, and what waits for another speaker to end."""

    name: str
    is_answer: bool
    passed: list[str] = field(default_factory=list[str])
    waiting: list[str] = field(default_factory=list[str])
    ending: WithheldEnding = field(default_factory=WithheldEnding)


class CompletionText:
    """Folds the items of a run into pieces of text."""

    def __init__(self, team: Team) -> None:
        self._last = answering_member(team)
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
        rest = rest_of(output, self._content)
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
            turn.waiting, turn.ending = [], WithheldEnding()
            if turn.passed:  # another attempt: what was passed on can't be taken back
                turn.is_answer, turn.passed = False, []
        turn.waiting.append(turn.ending.pass_on(item["text"]))
        self._speaker = self._speaker or item["key"]
        if self._speaker == item["key"]:
            yield from self._pass(turn)

    def _pass(self, turn: _Turn) -> Iterator[Piece]:
        text, head = "".join(turn.waiting), "" if turn.passed else f"{turn.name}: "
        turn.waiting = []
        if not text:
            return
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
            rest = rest_of(said, turn.passed) if turn.passed else None
            yield "reasoning_content", (f"{turn.name}: {said}" if rest is None else rest) + "\n\n"
        if self._speaker == item["key"]:
            self._speaker = next((key for key, one in self._turns.items() if one.waiting), None)
            if self._speaker is not None:
                yield from self._pass(self._turns[self._speaker])


def rest_of(text: str, passed: list[str]) -> str | None:
    """Return what follows the pieces of a text that were passed on, but for blanks around it; `None` if it differs."""
    whole = "".join(passed)
    for told in (whole, whole.strip()):
        if text.startswith(told):
            return text[len(told) :]
    return None


def answering_member(team: Team) -> str | None:
    """Return the member whose reply, as it is written, is the answer of the team, where that is known before."""
    names = [member.name for member in team.members]
    if team.strategy.name != "sequential" or names.count(names[-1]) > 1 or handoff_targets(Members(team.members)):
        return None
    return names[-1] if team.members[-1].policy.confirm is None and team.policy.confirm is None else None
