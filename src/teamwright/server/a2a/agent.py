"""A team as an agent of A2A: its card, and its operations: send a message, read, list, cancel and follow its tasks.

The card says what the team is called, where it is reached and what it takes; it is signed where a key is set.
A message without a task starts a run, whose id follows from who sends it and from its own id, so that the same message
again is the same task. A message with a task answers what its run waits for. Nothing is kept here between requests but
locks: a task is its run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import anyio
from starlette.requests import Request

from teamwright.agents.attachments import Attachment
from teamwright.errors import ConversationBusy, TeamwrightError, UsageError
from teamwright.runtime.people.webhook import SERVER
from teamwright.runtime.run_request import RunRequest, check_task, read_files
from teamwright.server.a2a.tasks import SETTLED, TERMINAL, Tasks, context_of
from teamwright.server.a2a.wire import (
    CONTENT_TYPE,
    INVALID_PARAMS,
    NOT_CANCELABLE,
    UNSUPPORTED_OPERATION,
    VERSION,
    A2AError,
    Json,
    MessagePart,
    SendMessage,
    UserMessage,
)
from teamwright.server.credentials import Visitor
from teamwright.server.driven_runs import digest_of_parts
from teamwright.server.overview import WaitingQuestion
from teamwright.server.routes.interventions import answered_alone, place_of_answer, send_answers
from teamwright.server.routes.runs import begin_run
from teamwright.server.state import ServerState, need, visitor_of
from teamwright.values.people import Answer
from teamwright.values.text.secrets import mask_text
from teamwright.values.turns.artifacts import is_text_type
from teamwright.values.turns.results import FINAL, RunSummary

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.teams.team import Team


KEY = "TEAMWRIGHT_A2A_KEY"
"""The variable with the file of the private key that signs cards: PEM, of an elliptic curve P-256 or of RSA."""
INPUTS = (
    "text/plain", "text/markdown", "text/csv", "text/html", "application/json", "application/yaml", "application/xml",
    "application/pdf", "image/png", "image/jpeg", "image/gif", "image/webp", "audio/mpeg", "audio/wav", "video/mp4",
)  # fmt: skip
"""The media types that a message may have; the models of a team decide which of them they can read."""
OUTPUTS = ("text/plain", "application/json")


def address_of(request: Request) -> str:
    """Return the address of this server for a client: the one that it called, or by TLS where the server is named so.

    Behind a proxy that ends TLS, the address that the environment names tells that clients use it.
    """
    host = request.headers.get("host", "")
    named = urlsplit(os.environ.get(SERVER, ""))
    scheme = named.scheme if named.netloc == host and named.scheme else request.url.scheme
    return f"{scheme}://{host}"


def agent_card(id_: str, team: Team, address: str) -> Json:
    """Return the card of a team, signed if `TEAMWRIGHT_A2A_KEY` names a key."""
    url = f"{address}/a2a/{quote(id_, safe='')}"
    description = mask_text(team.description) or f"The team {team.name}."
    interface: Json = {"url": url, "protocolVersion": VERSION}
    skill: Json = {
        "id": id_,
        "name": team.name,
        "description": description,
        "tags": [team.strategy.name],
    }
    card: Json = {
        "name": team.name,
        "description": description,
        "version": version("teamwright"),
        "supportedInterfaces": [{**interface, "protocolBinding": one} for one in ("JSONRPC", "HTTP+JSON")],
        "capabilities": {"streaming": True, "pushNotifications": True, "extendedAgentCard": False},
        "securitySchemes": {"token": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"token": {"list": []}}}],
        "defaultInputModes": list(INPUTS),
        "defaultOutputModes": list(OUTPUTS),
        "skills": [skill],
    }
    if file := os.environ.get(KEY):
        card["signatures"] = _signatures(json.dumps(card), file)
    return card


def _signatures(card: str, file: str) -> list[Json]:
    try:
        return _sign(card, Path(file).read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"The key that {KEY} names can't sign cards: {error}") from error


@lru_cache(maxsize=256)
def _sign(card: str, key: bytes) -> list[Json]:
    """Sign a card once, so that clients that ask again find the same."""
    from teamwright.server.a2a.sdk import sign_card

    return sign_card(json.loads(card), key)


CANCEL_SECONDS = 10.0
"""How long a request to cancel a task waits for its end."""


class TeamAgent:
    """A team as an agent for the client of one request."""

    def __init__(self, server: ServerState, request: Request, id_: str, team: Team) -> None:
        self.server, self.request, self._id, self.team = server, request, id_, team
        self.tasks = Tasks(server.engine, server.inbox, team.name, address_of(request))

    async def send(self, asked: SendMessage) -> RunSummary:
        """Start the task of a message, or answer with it; returns the run, which may have ended long ago."""
        message = asked.message
        if message.task_id:
            return await self._answer(message, need(self.request, "answer"))
        visitor = need(self.request, "run")
        task, files = await self._content(message)
        run_id = self.task_id_of(message)
        async with answered_alone(run_id):  # the same message may be sent again at once
            started = await self._run_request(asked, task, files, run_id)
            await begin_run(self.server, started, visitor, self.request)
        return await self.tasks.find(run_id)

    async def _run_request(self, asked: SendMessage, task: str, files: Sequence[Attachment], run_id: str) -> RunRequest:
        """Return the run of a message; of one that exists, only what makes it the same."""
        message, settings = asked.message, asked.metadata.teamwright
        known = await self.server.engine.runs.find(run_id)
        if known is not None:
            if message.context_id not in ("", context_of(known)):
                raise A2AError(INVALID_PARAMS, f"the message {message.message_id[:100]!r} was sent in another context")
            return RunRequest(self.team, task, run_id=run_id, conversation=known.conversation or None)
        conversation, continues = await self._context(message.context_id)
        return RunRequest(
            self.team,
            task,
            run_id=run_id,
            conversation=conversation,
            continues=continues,
            attachments=files,
            limits=None if settings is None else settings.limits,
            budget=None if settings is None else settings.budget,
        )

    def task_id_of(self, message: UserMessage) -> str:
        """Return the id of the task of a message, which follows from who sends it and from its own id."""
        visitor = visitor_of(self.request)
        return message.task_id or f"a2a-{digest_of_parts(visitor.name, self._id, message.message_id)}"

    async def _context(self, context: str) -> tuple[str | None, str | None]:
        """Return the conversation of a new task, and the run that it begins with; raises where a task is at work."""
        if not context:
            return None, None
        try:
            last = await self.server.engine.conversations.last(context)
            first = None if last is not None else await self.server.engine.runs.find(context)
        except TeamwrightError as error:
            raise A2AError(INVALID_PARAMS, f"the context {context[:100]!r} is no name here: {error}") from error
        before = last or first
        if before is not None and before.team != self.team.name:
            raise A2AError(INVALID_PARAMS, f"the context {context[:100]!r} is that of another team")
        if before is not None and before.status not in FINAL:
            raise ConversationBusy(context, before.id, before.status)
        return context, None if first is None else first.id

    async def _content(self, message: UserMessage) -> tuple[str, list[Attachment]]:
        """Return the task of a message and its files; raises `A2AError` for what the team can't read."""
        texts: list[str] = []
        files: list[Attachment] = []
        for part in message.parts:
            _check_media_type(part)
            if part.text is not None:
                texts.append(part.text)
            elif part.raw is not None:
                files.append(Attachment(part.raw, part.filename, part.media_type))
            else:
                texts.append(json.dumps(part.data, ensure_ascii=False))
        task = check_task("\n\n".join(texts))
        if files:
            try:
                await read_files(self.team, files)
            except TeamwrightError as error:
                raise A2AError(CONTENT_TYPE, str(error)) from error
        return task, files

    async def _answer(self, message: UserMessage, visitor: Visitor) -> RunSummary:
        found = await self.tasks.find(message.task_id)
        if message.context_id not in ("", context_of(found)):
            raise A2AError(INVALID_PARAMS, f"the task {found.id!r} is not of the context {message.context_id[:100]!r}")
        identity = digest_of_parts(visitor.name, found.id, message.message_id)
        async with answered_alone(found.id):
            history = await self.server.engine.runs.history(found.id)
            if await place_of_answer(self.server, history, identity) is not None:
                return found
            if found.status in FINAL:
                raise A2AError(UNSUPPORTED_OPERATION, f"the task {found.id!r} has ended; send a message of its context")
            text, data, key = _answer_of(message)
            question = _question(await self.server.inbox.open_questions(found), key, found)
            reply = Answer(text=text, data=data, by=visitor.name, id=identity)
            await send_answers(self.server, found, {question.key: reply})
        return await self.tasks.find(found.id)

    async def cancel(self, task_id: str) -> RunSummary:
        """End a task for good."""
        visitor = need(self.request, "run")
        found = await self.tasks.find(task_id)
        if found.status in FINAL:
            raise A2AError(NOT_CANCELABLE, f"the task {task_id!r} has ended already ({found.status})")
        with anyio.move_on_after(CANCEL_SECONDS):
            await self.server.engine.runs.cancel(task_id, f"by {visitor.name}", by=visitor.name)
        return await self.tasks.find(task_id)

    async def require_open(self, task_id: str) -> RunSummary:
        """Return a task that may still change; raises `A2AError` for one that has ended."""
        found = await self.tasks.find(task_id)
        if await self.tasks.state(found) in TERMINAL:
            raise A2AError(UNSUPPORTED_OPERATION, f"the task {task_id!r} has ended ({found.status}); read it instead")
        return found

    async def settled(self, run_id: str) -> RunSummary | None:
        """Return the run if its task waits for its client or has ended; `None` if it goes on.

        Its driver has let go of it then, so that an answer which comes at once resumes it.
        """
        found = await self.tasks.find(run_id)
        if await self.tasks.state(found) not in SETTLED:
            return None
        await self.server.driven.wait(run_id)
        found = await self.tasks.find(run_id)
        return found if await self.tasks.state(found) in SETTLED else None


def _check_media_type(part: MessagePart) -> None:
    if len(part.contents) != 1:
        raise A2AError(INVALID_PARAMS, "a part has one of text, raw, url and data")
    kind = part.media_type.partition(";")[0].strip().lower()
    if part.url is not None:
        raise A2AError(CONTENT_TYPE, "this agent fetches no addresses: send the content of the file as raw")
    if kind and kind not in INPUTS and not is_text_type(kind):
        raise A2AError(CONTENT_TYPE, f"this agent reads no {kind[:100]!r}; its card lists what it does")


def _answer_of(message: UserMessage) -> tuple[str, JsonValue, str | None]:
    """Return the text, the data and the key of an answer; the key is that of its question, where it names one."""
    texts = [part.text for part in message.parts if part.text is not None]
    text, data, key = "\n\n".join(texts), None, None
    for part in message.parts:
        if len(part.contents) != 1 or part.raw is not None or part.url is not None:
            raise A2AError(CONTENT_TYPE, "an answer has texts, and data with the key of its question")
        match part.data:
            case {"key": str() as named, **given}:
                written = given.get("text", text)
                text, data, key = str(written), given.get("data"), named
            case None:
                pass
            case other:
                data = other
    return text, data, key


def _question(asked: list[WaitingQuestion], key: str | None, found: RunSummary) -> WaitingQuestion:
    """Return the question that a message answers: the one that it names, or the only one."""
    fitting = [one for one in asked if key is None or one.key == key]
    if len(fitting) == 1:
        return fitting[0]
    if not asked:
        raise A2AError(UNSUPPORTED_OPERATION, f"the task {found.id!r} waits for no answer ({found.status})")
    keys = ", ".join(repr(one.key) for one in asked)
    raise A2AError(INVALID_PARAMS, f"name the question that is answered by data with its key, one of {keys}")
