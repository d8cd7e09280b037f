"""Sockets and server-sent events: one run from any event number, or all runs at once."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import Annotated, cast

import anyio
from fastapi import APIRouter, Header, Query, Request, WebSocket
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect
from typing_extensions import override

from teamwright.errors import TeamwrightError
from teamwright.server.error_responses import NotAllowed, NotKnown, require_run, responses
from teamwright.server.event_feeds import HEARTBEAT, Feed, TooSlow
from teamwright.server.frames import Form, Item, encode
from teamwright.server.state import (
    MAY_READ,
    SUBPROTOCOL,
    FoundRun,
    ServerState,
    need,
    offers_subprotocol,
    state_of,
)
from teamwright.values.text.secrets import mask_text

router = APIRouter(tags=["live"])
SILENCE = ": still here\n\n"
"""What a stream of server-sent events has where nothing happened for a while."""
SEND_SECONDS = 10.0
"""How long a client may take for one item of a stream, or a few items of a socket, before it is dropped."""
AT_ONCE = 20
"""How many items a client has to take within `SEND_SECONDS`."""
REFUSED, NO_SUCH_RUN, TRY_AGAIN, GOING_AWAY, BAD_COMMAND, BROKEN = 1008, 4404, 1013, 1012, 4400, 4500
MOST_FOLLOWED = 50
"""How many runs one socket may follow."""
LARGEST_NUMBER = 2**53 - 1
After = Annotated[int, Query(ge=0, le=LARGEST_NUMBER, description="the number of the last event that the client has")]


class CutOff(Exception):
    """A stream ends before what it is about does. Its connection is closed in the middle, which the client sees."""


class EventStream(StreamingResponse):
    """Sends texts as they come; a client that does not take one in time loses its connection."""

    media_type = "text/event-stream"

    def __init__(self, texts: AsyncGenerator[str], ended: Callable[[], None] | None = None) -> None:
        """Send these texts; `ended` is called once the client has all of them, or has left."""
        super().__init__(texts)
        self._texts, self._ended = texts, ended

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            if self._ended is not None:
                self._ended()

    @override
    async def stream_response(self, send: Send) -> None:
        """Send all texts, unless the client is too slow."""

        async def sending(message: Message) -> None:
            with anyio.fail_after(SEND_SECONDS):
                await send(message)

        async with aclosing(self._texts):
            with suppress(TimeoutError, CutOff):  # an end without the end of the body closes the connection
                await super().stream_response(sending)


def sse(value: Mapping[str, object], event: str = "") -> str:
    """Return a server-sent event with an object as its data."""
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(value)}\n\n"


class SocketCommand(BaseModel):
    """What a client of the socket for all runs may send: follow a run after an event, or no longer."""

    model_config = ConfigDict(extra="forbid")
    follow: str | None = Field(default=None, max_length=64)
    after: int = Field(default=0, ge=0, le=LARGEST_NUMBER)
    unfollow: str | None = Field(default=None, max_length=64)
    form: Form = "page"


@router.get(
    "/api/runs/{run_id}/stream",
    responses={**responses(404), 200: {"content": {"text/event-stream": {}}}},
    response_class=StreamingResponse,  # its errors are JSON
    dependencies=[MAY_READ],
)
async def stream_run(
    request: Request,
    run: FoundRun,
    after: After = 0,
    form: Form = "page",
    last_event_id: Annotated[str | None, Header()] = None,
) -> EventStream:
    """Follow a run by server-sent events; `Last-Event-ID` continues after an event."""
    known = last_event_id is not None and last_event_id.isdecimal() and len(last_event_id) < 16
    start = int(last_event_id) if known and last_event_id is not None else after
    return EventStream(_sse(request, run.id, start, form))


async def _sse(request: Request, run_id: str, after: int, form: Form) -> AsyncGenerator[str]:
    server = state_of(request)
    async with server.feeds.follow(run_id, after, form=form, check=partial(need, request, "read")) as feed:
        ending = "end"
        try:
            while (frames := await feed.next()) is not None:
                if not frames:
                    yield SILENCE
                for frame in frames:
                    # A client comes back after the last event that it has whole.
                    number = f"id: {frame.number}\n" if frame.number is not None and frame.is_last else ""
                    yield f"{number}event: {frame.kind}\ndata: {frame.text}\n\n"
        except TooSlow:
            ending = "slow"
        except (NotKnown, NotAllowed):
            ending = "refused"
        except TeamwrightError as error:
            yield f"event: error\ndata: {encode({'kind': 'error', 'message': str(error)})}\n\n"
            return
        if server.feeds.is_closing:
            return
        yield sse({"kind": ending, "after": feed.number}, ending)


@router.websocket("/api/runs/{run_id}/socket")
async def follow_run(socket: WebSocket, run_id: str, after: After = 0, form: Form = "page") -> None:
    """Follow a run by a socket: an item is one JSON text; the last one has the kind `end` or `slow`."""
    server = await _accepted(socket)
    if server is None:
        return
    try:
        await require_run(server.engine, run_id)
    except TeamwrightError:
        await socket.close(NO_SUCH_RUN, "there is no such run")
        return
    client = _Client(socket)

    async def send() -> None:
        async with server.feeds.follow(run_id, after, form=form) as feed:
            await _send_feed(client, feed)
            if not server.feeds.is_closing:
                await client.send({"kind": "end", "after": feed.number})

    await client.serve(send, _ignore)


@router.websocket("/api/socket")
async def follow_all(socket: WebSocket) -> None:
    """Follow all runs: a `row` for each run and each change of it. A client may follow runs with a command."""
    server = await _accepted(socket)
    if server is None:
        return
    client = _Client(socket)
    followed: dict[str, anyio.CancelScope] = {}

    async def send() -> None:
        async for item in server.overview.changes():
            await client.send(item)

    async def follow(run_id: str, after: int, form: Form, scope: anyio.CancelScope) -> None:
        with scope:
            try:
                await require_run(server.engine, run_id)
                async with server.feeds.follow(run_id, after, form=form) as feed:
                    await _send_feed(client, feed, run_id)
                    await client.send({"kind": "end", "run_id": run_id, "after": feed.number})
            except TeamwrightError as error:
                await client.send({"kind": "error", "run_id": run_id, "message": str(error)})
        if followed.get(run_id) is scope:
            del followed[run_id]

    async def command(text: str) -> None:
        try:
            given = SocketCommand.model_validate_json(text)
        except ValidationError:
            raise _Refused(BAD_COMMAND, "a command is {follow, after} or {unfollow}") from None
        if given.unfollow in followed:
            followed.pop(given.unfollow).cancel()
        if given.follow is not None:
            if given.follow in followed:
                followed.pop(given.follow).cancel()
            if len(followed) >= MOST_FOLLOWED:
                raise _Refused(BAD_COMMAND, f"a socket follows at most {MOST_FOLLOWED} runs")
            scope = followed[given.follow] = anyio.CancelScope()
            client.tasks.start_soon(follow, given.follow, given.after, given.form, scope)

    await client.serve(send, command)


class _Refused(Exception):
    """The client broke the rules of a socket, or lost its right to it."""

    def __init__(self, code: int, reason: str) -> None:
        self.code, self.reason = code, reason
        super().__init__(reason)


class _Client:
    """One socket: what is sent has a time limit, what is received is small, and silence is filled with heartbeats."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._last = anyio.current_time()
        self.tasks = anyio.create_task_group()

    async def serve(self, send: Callable[[], Awaitable[None]], receive: Callable[[str], Awaitable[None]]) -> None:
        """Send, receive and beat until one of them ends; then close with its reason."""
        code, reason = 1000, ""
        try:
            async with self.tasks as tasks:
                tasks.start_soon(self._until_disconnected, receive)
                tasks.start_soon(self._beat)
                await send()
                tasks.cancel_scope.cancel()
            if state_of(self._socket).feeds.is_closing:
                code, reason = GOING_AWAY, "the server stops; come back later"
        except BaseExceptionGroup as group:
            first = _first(group)
            if isinstance(first, WebSocketDisconnect):
                return
            code, reason = _closing(first)
        with anyio.CancelScope(shield=True), anyio.move_on_after(1):
            await self._close(code, reason)

    async def send(self, item: Item) -> None:
        """Send an item; raises `TimeoutError` if the client does not take it in time."""
        with anyio.fail_after(SEND_SECONDS):
            await self.send_text(encode(item))

    async def send_text(self, text: str) -> None:
        """Send an encoded item; the caller limits the time."""
        await self._socket.send({"type": "websocket.send", "text": text})
        self._last = anyio.current_time()

    async def _until_disconnected(self, receive: Callable[[str], Awaitable[None]]) -> None:
        """Pass on what the client sends, no faster than a visitor may: what comes too fast waits in the connection."""
        pace, sender = state_of(self._socket).messages, self._socket.state.visitor.name
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message.get("code", 1000))
            while seconds := pace.wait(sender):  # noqa: ASYNC110 - time is what it waits for
                await anyio.sleep(seconds)
            await receive(message.get("text") or "")

    async def _beat(self) -> None:
        while True:
            await anyio.sleep(HEARTBEAT)
            try:
                need(self._socket, "read")
            except (NotKnown, NotAllowed):
                raise _Refused(REFUSED, "the session or token has ended") from None
            if anyio.current_time() - self._last >= HEARTBEAT / 2:
                await self.send({"kind": "heartbeat"})

    async def _close(self, code: int, reason: str) -> None:
        try:
            await self._socket.close(code, reason[:120])
        except (RuntimeError, WebSocketDisconnect):  # it is closed already
            return


async def _send_feed(client: _Client, feed: Feed, run_id: str | None = None) -> None:
    """Send the items of a feed; with `run_id`, each item names its run. A slow client is dropped with the reason."""
    head = "" if run_id is None else f'{{"run_id":{json.dumps(run_id)},'
    sent = feed.number
    try:
        while (frames := await feed.next()) is not None:
            for start in range(0, len(frames), AT_ONCE):
                with anyio.fail_after(SEND_SECONDS):
                    for frame in frames[start : start + AT_ONCE]:
                        await client.send_text(frame.text if not head else head + frame.text[1:])
                        if frame.number is not None and frame.is_last:
                            sent = frame.number
    except TimeoutError:
        raise TooSlow(sent) from None


async def _ignore(text: str) -> None:
    if text:
        raise _Refused(BAD_COMMAND, "this socket takes no messages")


async def _accepted(socket: WebSocket) -> ServerState | None:
    """Accept the socket of a visitor who may read; a browser sees the reason only of a socket that was accepted."""
    subprotocol = SUBPROTOCOL if offers_subprotocol(socket) else None
    try:
        need(socket, "read")
    except (NotKnown, NotAllowed) as error:
        await socket.accept(subprotocol)
        await socket.close(REFUSED, (str(error) or "show a token")[:120])
        return None
    await socket.accept(subprotocol)
    return state_of(socket)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that ended a socket; a client that is gone is only the reason if nothing else is."""
    errors = [one for one in _leaves(group) if not isinstance(one, WebSocketDisconnect)]
    return errors[0] if errors else _leaves(group)[0]


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for one in group.exceptions:
        inner = cast("BaseExceptionGroup[BaseException]", one) if isinstance(one, BaseExceptionGroup) else None
        found += _leaves(inner) if inner is not None else [one]
    return found


def _closing(error: BaseException) -> tuple[int, str]:
    match error:
        case TooSlow() | TimeoutError():
            return TRY_AGAIN, str(error) or "too slow"
        case _Refused(code=code, reason=reason):
            return code, reason
        case TeamwrightError():
            return BROKEN, mask_text(str(error))
        case _:
            raise error
