"""Teams as models, in the format of OpenAI's chat completions: for chat programs, SDKs and evaluation harnesses.

A model is a team of this server. What members reply on the way comes as reasoning, and the answer of the team as
content. `metadata.conversation` names a conversation of the server; without it, the messages before the last one are
the history.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Literal

import anyio
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from teamwright.errors import TeamwrightError, UsageError
from teamwright.server.errors import NotAllowed, NotKnown, error_response, responses
from teamwright.server.feeds.event_stream import EventStream
from teamwright.server.feeds.feed import TooSlow
from teamwright.server.routes.sockets import HEARTBEAT
from teamwright.server.security.access import MAY_READ, MAY_RUN, Server, need, state_of
from teamwright.server.security.audit import note_started
from teamwright.server.state import ServerState
from teamwright.values.secrets.patterns import mask_text
from teamwright.values.turns.messages import Message

if TYPE_CHECKING:
    from teamwright.runtime.handle import Handle
    from teamwright.values.results import RunResult

router = APIRouter(prefix="/v1", tags=["openai"])
Json = dict[str, Any]
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
STOPS = frozenset(("run.ended", "run.paused", "run.interrupted"))
"""The events after which there is nothing more to stream."""


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
        """The text of the message."""
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


@router.get("/models", responses=responses(), dependencies=[MAY_READ])
async def list_models(server: Server) -> Json:
    """Return the teams of this server as models."""
    ids = await anyio.to_thread.run_sync(server.catalogue.ids)
    models = [{"id": one, "object": "model", "owned_by": "teamwright"} for one in ids]
    return {"object": "list", "data": models}


@router.post(
    "/chat/completions", responses=COMPLETED | responses(404, 409, 502), response_model=None, dependencies=[MAY_RUN]
)
async def complete(server: Server, request: Request, asked: AskedCompletion) -> JSONResponse | EventStream:
    """Let a team answer."""
    handle = await _start(server, asked)
    note_started(request, handle.run_id)
    if asked.stream:
        with_usage = asked.stream_options is not None and asked.stream_options.include_usage
        return EventStream(_chunks(request, handle, asked.model, with_usage=with_usage))
    result = await server.engine.runs.wait(handle.run_id)  # unlike the handle's, it goes on without the client
    need(request, "run")  # the token may have been revoked meanwhile
    if result.status not in FINISHED:
        return error_response(502, "run_failed", _failure(result))
    message = {"role": "assistant", "content": mask_text(result.output or "")}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return JSONResponse(
        {**_frame(handle.run_id, asked.model, "chat.completion"), "choices": [choice], "usage": _usage(result)}
    )


async def _start(server: ServerState, asked: AskedCompletion) -> Handle:
    team = await anyio.to_thread.run_sync(server.catalogue.load, asked.model)
    *before, last = asked.messages
    if last.role == "assistant":
        raise UsageError("The last message has to be the user's.")
    conversation = asked.metadata.get("conversation")
    history = [] if conversation else [_message(one) for one in before]
    return await server.driven.start(team, last.text, history=history, conversation=conversation)


def _message(one: AskedMessage) -> Message:
    name = one.name or ("assistant" if one.role == "assistant" else "user")
    return Message(name=name, content=one.text, role="assistant" if one.role == "assistant" else "user")


async def _chunks(request: Request, handle: Handle, model: str, *, with_usage: bool) -> AsyncGenerator[str]:
    server = state_of(request)
    head = _frame(handle.run_id, model, "chat.completion.chunk")

    def chunk(delta: Json, finish: str | None = None) -> str:
        return _data({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield chunk({"role": "assistant", "content": ""})
    try:
        async for said in _replies(request, handle.run_id):
            yield chunk({"reasoning_content": said}) if said else ": still here\n\n"
        result = await server.engine.runs.wait(handle.run_id)
        need(request, "run")
    except (NotKnown, NotAllowed):  # the run goes on without its client
        yield _data({"error": {"code": "unauthorized", "message": "the session or token has ended"}})
        return
    except TeamwrightError as error:  # too late for a status
        yield _data({"error": {"code": "run_failed", "message": mask_text(str(error))}})
        return
    if result.status not in FINISHED:
        yield _data({"error": {"code": "run_failed", "message": _failure(result)}})
        return
    yield chunk({"content": mask_text(result.output or "")})
    yield chunk({}, "stop")
    if with_usage:
        yield _data({**head, "choices": [], "usage": _usage(result)})
    yield "data: [DONE]\n\n"


async def _replies(request: Request, run_id: str) -> AsyncGenerator[str]:
    """Yield what members say until the run stops, and an empty text in silence. Who is too slow misses the rest.

    Raises `NotKnown` or `NotAllowed` where the visitor has lost the right to read it.
    """
    checked = anyio.current_time()
    async with state_of(request).feeds.follow(run_id, form="events") as feed:
        stopped = False
        try:
            while not stopped and (frames := await feed.next(HEARTBEAT)) is not None:
                if anyio.current_time() - checked >= HEARTBEAT:
                    need(request, "run")
                    checked = anyio.current_time()
                if not frames:
                    yield ""
                for frame in frames:
                    if frame.kind == "agent.replied" and (said := _said(json.loads(frame.text))):
                        yield said
                    stopped = stopped or frame.kind in STOPS
        except TooSlow:
            return


def _said(item: Json) -> str:
    """What a member said, under its name."""
    messages = item.get("texts", {}).get("messages", ())
    return "".join(f"{one['name']}: {one['content']}\n\n" for one in messages)


def _frame(run_id: str, model: str, kind: str) -> Json:
    return {"id": run_id, "object": kind, "created": int(time.time()), "model": model}


def _usage(result: RunResult) -> Json:
    used = result.usage
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.input_tokens + used.output_tokens,
    }


def _failure(result: RunResult) -> str:
    reason = result.failure.message if result.failure is not None else result.stop_reason
    return mask_text(f"the run {result.run_id!r} is {result.status}: {reason}")


def _data(value: Json) -> str:
    return f"data: {json.dumps(value)}\n\n"
