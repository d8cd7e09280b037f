"""The Responses API over the teams of a server: create, read, follow and cancel responses, which are runs.

A request is one run, the next turn of a conversation, or the answer to what a run asks, however often its client sends
it. Nothing is started before all of a request is known to fit. Every request goes through the guard: reading needs
`read`, answering `answer`, starting and cancelling `run`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import anyio
from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import JsonValue

from teamwright.agents.attachments import Attachment
from teamwright.errors import ConversationBusy, NotResumable, RunExists, RunNotFound, UsageError
from teamwright.runtime.run_request import RunRequest, check_task, read_files
from teamwright.server.chat.chat_completions import answering_member
from teamwright.server.chat.model_call import (
    ModelCall,
    Retry,
    SentAgain,
    awaited_result,
    followed,
    key_run,
    last_from_user,
    spoken,
)
from teamwright.server.chat.responses_record import (
    OWN_ANSWER,
    PREFIX,
    ResponseId,
    ResponseStream,
    StoredResponse,
    find_response,
    parts_of,
    read_response,
    response_json,
)
from teamwright.server.chat.responses_wire import AnswerItem, MessageItem, NewResponse, check_format, refused
from teamwright.server.driven_runs import identity_of
from teamwright.server.error_responses import responses
from teamwright.server.guard import note_run
from teamwright.server.routes.interventions import answered_alone, send_answers
from teamwright.server.routes.runs import beside
from teamwright.server.routes.sockets import EventStream
from teamwright.server.state import MAY_READ, Answerer, Runner, Server, ServerState, need
from teamwright.values.people import Answer
from teamwright.values.turns.results import FINAL, FOR_PEOPLE, RunSummary

if TYPE_CHECKING:
    from teamwright.server.credentials import Visitor
    from teamwright.teams.team import Team


PREVIOUS = "previous_response_id"


class _Content(NamedTuple):
    """The task of a run, what was said before it, and its files."""

    task: str
    before: list[MessageItem]
    files: list[Attachment]


class ResponseRequest:
    """One request for a response."""

    def __init__(self, server: ServerState, request: Request, asked: NewResponse, retry: SentAgain) -> None:
        self._server, self._request, self._asked, self._retry = server, request, asked, retry
        self._previous: RunSummary | None = None

    async def answer(self, visitor: Visitor) -> ResponseId | None:
        """Answer what the previous response asks, unless this was done; `None` for a request that is no answer."""
        named = self._asked.previous_response_id
        if not named:
            return None
        try:
            found, previous = await find_response(self._server, named)
        except RunNotFound as error:
            text = f"there is no response {named[:100]!r}"
            raise refused(PREVIOUS, text, code="previous_response_not_found") from error
        self._previous = found
        identity = OWN_ANSWER + identity_of(visitor.name, self._retry.key, await self._request.body())
        async with answered_alone(found.id):
            own = ResponseId(found.id, identity)
            parts = await parts_of(self._server, found.id)
            if own in [one.id for one in parts]:
                return own
            if (later := parts[-1].id) != previous:
                raise refused(PREVIOUS, f"{named!r} was answered already; go on from {str(later)!r}")
            if found.status in FINAL:
                return None
            stored = await read_response(self._server, previous)
            if found.status != "paused" or found.stop_reason not in FOR_PEOPLE or not stored.questions:
                raise ConversationBusy(found.conversation or found.id, found.id, found.status)
            await self._send(stored, identity, visitor)
        self._server.awaited.answered(found.id)
        return own

    async def _send(self, stored: StoredResponse, identity: str, visitor: Visitor) -> None:
        summary = stored.summary
        if summary.team != (await self.team()).name:
            raise refused("model", f"{str(stored.part.id)!r} is of the team {summary.team!r}, which alone can go on")
        replies: dict[str, Answer] = {}
        for key, text, data in self._answers(stored):
            if key in replies:
                raise refused("input", f"{key!r} is answered twice; send one answer to each question")
            if key not in stored.questions:
                raise refused("input", f"nothing is asked at {key!r}; open: {', '.join(map(repr, stored.questions))}")
            replies[key] = Answer(text=text, data=data, by=visitor.name, id=identity)
        await send_answers(self._server, summary, replies)

    def _answers(self, stored: StoredResponse) -> list[tuple[str, str, JsonValue]]:
        """Return the answers in the input by the keys of questions; a text answers the only one."""
        only = next(iter(stored.questions)) if len(stored.questions) == 1 else ""
        items = self._asked.items
        named = [one for one in items if isinstance(one, AnswerItem)]
        if named:
            if len(named) < len(items):
                raise refused("input", "give answers or messages, not both")
            return [(one.key or only, one.text, one.data) for one in named]
        messages = [one for one in items if isinstance(one, MessageItem)]
        if any(True for one in messages for _ in one.files()):
            raise refused("input", "an answer is a text; files can't go with it")
        text = "\n\n".join(one.text for one in messages if one.role != "assistant")
        if not text.strip():
            raise refused("input", "the answer is empty")
        if not only:
            keys = ", ".join(map(repr, stored.questions))
            raise refused("input", f"{len(stored.questions)} questions are open; answer by items with a key: {keys}")
        return [(only, text, None)]

    async def team(self) -> Team:
        """Return the team that the request names."""
        with beside("model"):
            return await anyio.to_thread.run_sync(self._server.catalogue.load, self._asked.model)

    async def run_of(self, team: Team) -> Callable[[str], Awaitable[RunRequest]]:
        """Check the request for a run, and return what makes the request of the run with an id."""
        asked = self._asked
        check_format(asked.text.format, team.name, team.output_schema)
        content = await anyio.to_thread.run_sync(self._content)
        check_task(content.task)
        if content.files:
            await read_files(team, content.files)
        history = [spoken(one.role, one.text, one.member or None) for one in content.before]

        async def make(run_id: str) -> RunRequest:
            conversation, continues = await self._place(run_id)
            return RunRequest(
                team,
                content.task,
                run_id=run_id,
                conversation=conversation,
                continues=continues,
                history=history,
                attachments=content.files,
            )

        return make

    def _content(self) -> _Content:
        """Return what the input says: without a conversation, the messages before the last one are its history."""
        messages = self._asked.messages
        files = [file for one in messages for file in one.files()]
        given = self._asked.instructions
        if self._previous is None and self._asked.conversation is None:
            *before, last = messages
            told = [MessageItem(role="developer", content=given)] if given else []
            return _Content(last_from_user(last.role, last.text), [*told, *before], files)
        if any(one.role == "assistant" for one in messages):
            raise UsageError("What the team has said is known here: send what is new, all of it the user's.")
        return _Content("\n\n".join(filter(None, [given, *(one.text for one in messages)])), [], files)

    async def _place(self, run_id: str) -> tuple[str | None, str | None]:
        """Return the conversation of a run, and the run that it continues where it is not the conversation's last.

        A run that exists is the same one again, if it continues the same. Who continues an earlier turn branches off.
        """
        previous, conversations = self._previous, self._server.engine.conversations
        if previous is None:
            return None if self._asked.conversation is None else self._asked.conversation.id, None
        name = previous.conversation or previous.id
        known = await self._server.engine.runs.find(run_id)
        if known is not None:
            if await conversations.before(run_id) != previous.id:
                raise RunExists(run_id, [f"the response that it continues, another one than {PREFIX}{previous.id}"])
            return known.conversation or None, None if known.conversation else previous.id
        if await conversations.last(name) is None:
            return name, previous.id
        if await conversations.head(name) == previous.id:
            return name, None
        return None, previous.id


router = APIRouter(prefix="/v1/responses", tags=["openai"])
Json = dict[str, Any]
RESPONSE: dict[int | str, Json] = {
    200: {
        "description": "a response, or with `stream` its events",
        "content": {
            "application/json": {"schema": {"type": "object", "required": ["id", "status", "output"]}},
            "text/event-stream": {},
        },
    }
}
CANCEL_SECONDS = 10.0
"""How long a request to cancel a response waits for its end."""
LARGEST_NUMBER = 2**53


@router.post("", responses=RESPONSE | responses(404, 409), response_model=None)
async def create_response(
    server: Server, request: Request, visitor: Answerer, asked: NewResponse, retry: Retry
) -> Response:
    """Let a team answer, or answer what the run of the previous response asks.

    Requests are the same, and one run, as with chat completions. A response that waits for a person is `incomplete`
    with the questions as its last messages; a request with its id as `previous_response_id` answers them.
    """
    sent = ResponseRequest(server, request, asked, retry)
    answered = await sent.answer(visitor)
    if answered is not None:
        note_run(request, answered.run_id)
        return await _answered(server, request, asked, answered)
    need(request, "run")
    team = await sent.team()
    make = await sent.run_of(team)
    call = await ModelCall.enter(server, request, visitor, retry, kept=asked.is_kept, stream=asked.stream)
    try:
        await call.start(key_run(visitor, retry, "responses"), make)
        return await _started(server, request, asked, call, answering_member(team))
    except BaseException:
        call.leave()
        raise


async def _started(
    server: Server, request: Request, asked: NewResponse, call: ModelCall, answering: str | None
) -> Response:
    """Answer a request whose run has started, and let its client go."""
    id_ = ResponseId(call.run_id)
    if asked.stream:
        stream = ResponseStream(server, request, await read_response(server, id_), asked.echo())

        async def texts() -> AsyncGenerator[str]:
            async with aclosing(stream.texts(call.frames(), answering, "run")) as found:
                async for text in found:
                    yield text
            if stream.final is not None:
                call.answered(is_kept=stream.final.summary.status not in FINAL)
            else:
                call.keep()

        return EventStream(texts(), ended=call.leave)
    if asked.background:
        call.answered(is_kept=True)
    else:
        result = await call.result()
        call.answered(is_kept=result.status not in FINAL)
    found = await response_json(server, id_)
    call.leave()
    return JSONResponse(found | asked.echo())


async def _answered(server: Server, request: Request, asked: NewResponse, id_: ResponseId) -> Response:
    """Answer a request that has answered a question; the run goes on without its client."""
    if asked.stream:
        stream = ResponseStream(server, request, await read_response(server, id_), asked.echo())
        return EventStream(stream.texts(followed(server, request, id_.run_id, "answer"), None, "answer"))
    if not asked.background:
        await awaited_result(server, request, id_.run_id, "answer")
    return JSONResponse(await response_json(server, id_) | asked.echo())


@router.get("/{response_id}", responses=RESPONSE | responses(404), response_model=None, dependencies=[MAY_READ])
async def read(
    server: Server,
    request: Request,
    response_id: str,
    stream: bool = False,
    starting_after: Annotated[int, Query(ge=-1, le=LARGEST_NUMBER)] = -1,
) -> Response:
    """Return a response, or with `stream` its events, after the event with a number."""
    _, id_ = await find_response(server, response_id)
    if not stream:
        return JSONResponse(await response_json(server, id_))
    events = ResponseStream(server, request, await read_response(server, id_), {}, after=starting_after)
    return EventStream(events.texts(followed(server, request, id_.run_id, "read"), None, "read"))


@router.post("/{response_id}/cancel", responses=RESPONSE | responses(404), response_model=None)
async def cancel(server: Server, visitor: Runner, response_id: str) -> Response:
    """End the run of a response for good; one that has ended stays as it is."""
    found, id_ = await find_response(server, response_id)
    if found.status not in FINAL:
        with anyio.move_on_after(CANCEL_SECONDS):
            with suppress(NotResumable):  # it has ended meanwhile
                await server.engine.runs.cancel(found.id, f"by {visitor.name}", by=visitor.name)
    return JSONResponse(await response_json(server, id_))
