"""A run as a task of A2A: its state, its status message, its artifacts and its history, all read from the journal.

Nothing of a task is stored apart from its run, so that every process reads the same task, also after a crash. Where
clients want the updates of their tasks is in a private file beside the journal; deliveries are our webhooks'. Such an
address is checked when it is given and again at each delivery, which connects only to what it has checked.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pydantic import JsonValue

from teamwright.errors import RunNotFound, UnknownName
from teamwright.history.run_history import RunHistory
from teamwright.runtime.people.webhook import SERVER, Address, Webhook, WebhookRejected, private_is_allowed
from teamwright.server.a2a.wire import INVALID_PARAMS, TASK_NOT_FOUND, A2AError, Json, PushConfig, TaskState
from teamwright.server.credentials import file_version, write_private
from teamwright.server.error_responses import require_run
from teamwright.server.overview import Inbox, WaitingQuestion
from teamwright.server.page.projection import list_artifacts, read_artifact
from teamwright.values.events.agent import AgentAsked, AgentFailed, AgentReplied
from teamwright.values.events.run import PersonAnswered, PersonAsked
from teamwright.values.people import NO, confirmation_key
from teamwright.values.text.secrets import mask_text, mask_value
from teamwright.values.turns.results import FOR_PEOPLE, RunSummary, iso

if TYPE_CHECKING:
    from teamwright.runtime.engine import Engine
    from teamwright.values.turns.results import RunResult


ANSWER = "answer"
"""The id of the artifact that is the output of the run."""
LARGEST_INLINE = 256 * 1024
"""Bytes of an artifact that a task contains; a larger one is an address of this server."""
TERMINAL: frozenset[TaskState] = frozenset(
    ("TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED")
)
SETTLED: frozenset[TaskState] = frozenset((*TERMINAL, "TASK_STATE_INPUT_REQUIRED"))
"""The states in which a task waits for nothing but a message of its client."""


def context_of(summary: RunSummary) -> str:
    """Return the context of a task: the conversation of its run; a run that is of none begins one of its own name."""
    return summary.conversation or summary.id


def text_part(text: str) -> Json:
    """Return a part of a message with a text, in which secrets are masked."""
    return {"text": mask_text(text)}


def data_part(data: JsonValue) -> Json:
    """Return a part of a message with data, in which secrets are masked."""
    return {"data": mask_value(data)}


class Tasks:
    """Reads the tasks of one team."""

    def __init__(self, engine: Engine, inbox: Inbox, team: str, address: str) -> None:
        self._engine, self._inbox, self._team, self._address = engine, inbox, team, address

    async def find(self, task_id: str) -> RunSummary:
        """Return the run of a task; raises `A2AError` if it is none of this team."""
        try:
            found = await require_run(self._engine, task_id)
        except RunNotFound:
            found = None
        if found is None or found.team != self._team or found.parent:
            raise A2AError(TASK_NOT_FOUND, f"the team {self._team!r} has no task {task_id[:100]!r}")
        return found

    async def state(self, summary: RunSummary) -> TaskState:
        """Return the state of a task."""
        match summary.status:
            case "queued":
                return "TASK_STATE_SUBMITTED"
            case "running" | "interrupted":
                return "TASK_STATE_WORKING"
            case "paused":
                waits = summary.stop_reason in FOR_PEOPLE and await self._inbox.open_questions(summary)
                return "TASK_STATE_INPUT_REQUIRED" if waits else "TASK_STATE_WORKING"
            case "completed":
                return "TASK_STATE_COMPLETED"
            case "degraded":
                return "TASK_STATE_COMPLETED" if summary.stop_reason == "done" else "TASK_STATE_FAILED"
            case "failed" | "timeout":
                return "TASK_STATE_FAILED"
            case "cancelled":
                return "TASK_STATE_REJECTED" if await self._was_refused(summary) else "TASK_STATE_CANCELED"

    async def _was_refused(self, summary: RunSummary) -> bool:
        """Whether a person did not let the run begin."""
        if summary.total_tokens:
            return False
        key = confirmation_key(self._team)
        events = (await self._engine.runs.history(summary.id)).events
        return any(
            isinstance(event.fact, PersonAnswered) and event.key == key and event.fact.answer.text == NO
            for event in events
        )

    async def task(self, summary: RunSummary, history_length: int | None = None, *, artifacts: bool = True) -> Json:
        """Return a task; `history_length` is the most messages of its history."""
        history = await self._engine.runs.history(summary.id)
        result = history.result(summary.status)
        state = await self.state(summary)
        task: Json = {
            "id": summary.id,
            "contextId": context_of(summary),
            "status": await self._status(summary, state, history, result),
            "metadata": _metadata(summary, result),
        }
        if artifacts:
            task["artifacts"] = await self.artifacts(history, result)
        messages = list(_messages(summary, history))
        kept = messages if history_length is None else messages[len(messages) - min(history_length, len(messages)) :]
        return {**task, "history": kept} if kept else task

    async def status_update(self, summary: RunSummary) -> Json:
        """Return the present status of a task as an event of a stream."""
        history = await self._engine.runs.history(summary.id)
        result = history.result(summary.status)
        state = await self.state(summary)
        status = await self._status(summary, state, history, result)
        return status_event(summary, status, _metadata(summary, result))

    async def _status(self, summary: RunSummary, state: TaskState, history: RunHistory, result: RunResult) -> Json:
        parts = await self._explanation(summary, state, history, result)
        found: Json = {"state": state, "timestamp": iso(summary.since)}
        if parts:
            found["message"] = agent_message(summary, f"status-{history.number}", parts)
        return found

    async def _explanation(
        self, summary: RunSummary, state: TaskState, history: RunHistory, result: RunResult
    ) -> list[Json]:
        """The parts of the message beside a state: the open questions, who works, or why the run waits or has ended."""
        match state:
            case "TASK_STATE_INPUT_REQUIRED":
                return [part for one in await self._inbox.open_questions(summary) for part in _question_parts(one)]
            case "TASK_STATE_WORKING":
                return [text_part(text)] if (text := _present(summary, history)) else []
            case "TASK_STATE_FAILED" | "TASK_STATE_CANCELED" | "TASK_STATE_REJECTED":
                reason = result.failure.message if result.failure is not None else ""
                return [text_part(f"{result.status} ({result.stop_reason})" + (f": {reason}" if reason else ""))]
            case _:
                return []

    async def artifacts(self, history: RunHistory, result: RunResult) -> list[Json]:
        """Return the output of a run and the files that its members stored, those of an unfinished run so far."""
        given = {one.hash for one in history.started.attachments}
        stored = await list_artifacts(self._engine.journal, result.run_id)
        files = [await self._file(result.run_id, one.hash) for one in stored if one.hash not in given]
        if result.output is None or (not result.output and result.data is None and files):
            return files  # the files are the answer
        data = [] if result.data is None else [data_part(result.data)]
        parts = [*data, text_part(result.output)]
        return [{"artifactId": ANSWER, "name": result.output_kind or ANSWER, "parts": parts}, *files]

    async def _file(self, run_id: str, hash_: str) -> Json:
        try:
            found, content = await read_artifact(self._engine.journal, run_id, hash_)
        except UnknownName:  # pragma: no cover - the record lists it
            raise A2AError(TASK_NOT_FOUND, f"the run {run_id!r} was deleted") from None
        part: Json = {"filename": found.name, "mediaType": found.media_type}
        if len(content) > LARGEST_INLINE:
            part["url"] = f"{self._address}/api/runs/{run_id}/artifacts/{hash_}"
        else:
            part["raw"] = b64encode(content).decode()
        return {"artifactId": hash_, "name": found.name, "parts": [part]}


async def update_of(engine: Engine, inbox: Inbox, run_id: str) -> Json:
    """Return the present task of a run as the body of a notification."""
    found = await require_run(engine, run_id)
    return {"task": await Tasks(engine, inbox, found.team, os.environ.get(SERVER, "")).task(found)}


def status_event(summary: RunSummary, status: Json, metadata: Json | None = None) -> Json:
    """Return a status as an event of a stream."""
    event: Json = {"taskId": summary.id, "contextId": context_of(summary), "status": status}
    return {"statusUpdate": {**event, "metadata": metadata} if metadata else event}


def agent_message(summary: RunSummary, name: str, parts: Sequence[Json]) -> Json:
    """Return a message of the agent, whose id is the same whenever it is read."""
    return {
        "messageId": f"{summary.id}-{name}",
        "contextId": context_of(summary),
        "taskId": summary.id,
        "role": "ROLE_AGENT",
        "parts": list(parts),
    }


def _question_parts(one: WaitingQuestion) -> Iterator[Json]:
    """A question as text and as data, whose key an answer may name."""
    yield text_part(one.text)
    data: dict[str, JsonValue] = {"key": one.key, "text": one.text, "choices": [*one.choices], "reason": one.reason}
    if one.draft is not None:
        data |= {"draft": one.draft, "form": one.form}
    yield data_part(data)


def _present(summary: RunSummary, history: RunHistory) -> str:
    """Say why a run that has not ended does not work, or who does."""
    if summary.status == "interrupted":
        return "The run was interrupted and goes on when it is resumed."
    if summary.status == "paused":
        paused = history.record.paused
        if paused is not None and paused.why:
            return f"The run is paused: {paused.why}"
        answered = summary.stop_reason in FOR_PEOPLE
        return "The run was answered and goes on." if answered else f"The run is paused ({summary.stop_reason})."
    asked: dict[str, str] = {}
    for event in history.events:
        match event.fact:
            case AgentAsked(member=member, member_kind=kind) if kind != "team":
                asked[event.key] = member
            case AgentReplied() | AgentFailed():
                asked.pop(event.key, None)
            case _:
                pass
    return f"{', '.join(dict.fromkeys(asked.values()))} at work." if asked else ""


def _metadata(summary: RunSummary, result: RunResult) -> Json:
    found: dict[str, JsonValue] = {"status": result.status, "totalTokens": result.usage.total_tokens}
    if result.usage.usd is not None:
        found["usd"] = result.usage.usd
    if result.stop_reason is not None:
        found["stopReason"] = result.stop_reason
    if result.warnings:
        found["warnings"] = [*result.warnings]
    return cast("Json", mask_value({"run": summary.id, **found}))


def _messages(summary: RunSummary, history: RunHistory) -> Iterator[Json]:
    """The messages of a run in the order in which they were recorded: its task, replies, questions and answers."""
    ids = {"contextId": context_of(summary), "taskId": summary.id}

    def of_user(name: str, text: str) -> Json:
        return {"messageId": name, **ids, "role": "ROLE_USER", "parts": [text_part(text)]}

    yield of_user(f"{summary.id}-task", history.task)
    for event in history.events:
        match event.fact:
            case PersonAsked(question=question):
                yield agent_message(summary, str(event.number), [text_part(question.text)])
            case PersonAnswered(answer=answer):
                yield of_user(f"{summary.id}-{event.number}", answer.text)
            case AgentReplied(messages=refs) | AgentFailed(messages=refs) if history.is_direct_reply(event):
                for place, one in enumerate(history.record.bodies.messages(refs)):
                    if one.role != "user":
                        yield agent_message(summary, f"{event.number}-{place}", [text_part(one.content)])
            case _:
                pass


FILE = "server-a2a-push.json"
MOST_OF_TASK = 20
MOST_TASKS = 10_000
"""Tasks whose addresses are kept; those of the oldest go first."""
TOKEN_HEADER = "X-A2A-Notification-Token"


class PushConfigs:
    """The configurations of push notifications, by task and id."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read_as: tuple[int, int] | None = None
        self._configs: dict[str, dict[str, PushConfig]] = {}

    def of(self, task_id: str) -> list[PushConfig]:
        """Return the configurations of a task, oldest first."""
        return list(self._current().get(task_id, {}).values())

    def find(self, task_id: str, id_: str) -> PushConfig | None:
        """Return a configuration of a task; `None` if there is none of this id."""
        return self._current().get(task_id, {}).get(id_)

    def check(self, config: PushConfig) -> None:
        """Raise `A2AError` for an address that can't be one; whether it may be called is checked at each call."""
        try:
            Address.of(config.url)
        except WebhookRejected as error:
            raise A2AError(INVALID_PARAMS, f"url: {error}") from error

    def add(self, task_id: str, config: PushConfig) -> PushConfig:
        """Add a configuration, or replace the one of its id; returns it with its id."""
        added = config.model_copy(update={"task_id": task_id, "id": config.id or _id_of(config)})
        known = self._current()
        of_task = known.setdefault(task_id, {})
        if added.id not in of_task and len(of_task) >= MOST_OF_TASK:
            raise A2AError(INVALID_PARAMS, f"the task {task_id!r} has {MOST_OF_TASK} configs already; delete one first")
        of_task[added.id] = added
        while len(known) > MOST_TASKS:
            del known[next(iter(known))]
        self._save()
        return added

    def delete(self, task_id: str, id_: str) -> None:
        """Delete a configuration, if there is one."""
        of_task = self._current().get(task_id, {})
        if of_task.pop(id_, None) is not None:
            if not of_task:
                del self._configs[task_id]
            self._save()

    def _current(self) -> dict[str, dict[str, PushConfig]]:
        version = file_version(self._file)
        if version != self._read_as:
            self._configs, self._read_as = self._read(), version
        return self._configs

    def _read(self) -> dict[str, dict[str, PushConfig]]:
        try:
            stored = [PushConfig.model_validate(one) for one in json.loads(self._file.read_text(encoding="utf-8"))]
        except (OSError, ValueError, TypeError):
            return {}
        found: dict[str, dict[str, PushConfig]] = {}
        for one in stored:
            found.setdefault(one.task_id, {})[one.id] = one
        return found

    def _save(self) -> None:
        stored = [one.model_dump() for of_task in self._configs.values() for one in of_task.values()]
        write_private(self._file, stored)
        self._read_as = file_version(self._file)


def _id_of(config: PushConfig) -> str:
    """The id of a configuration that comes without one: the same for the same receiver, which a client may repeat."""
    return sha256(config.model_dump_json(exclude={"id", "task_id"}).encode()).hexdigest()[:16]


def receiver(config: PushConfig) -> tuple[Webhook, dict[str, str]]:
    """Return where an update is posted, and the headers that its receiver knows it by."""
    headers = {"A2A-Version": "1.0", "Content-Type": "application/a2a+json"}
    if config.token:
        headers[TOKEN_HEADER] = config.token
    if (shown := config.authentication) is not None and shown.credentials:
        headers["Authorization"] = f"{shown.scheme} {shown.credentials}"
    return Webhook(config.url, None, private_is_allowed()), headers
