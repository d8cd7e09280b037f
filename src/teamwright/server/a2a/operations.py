"""The operations of the protocol by their names: the form of each request, what it does, and whether it only reads.

Both bindings call them, so that neither can do what the other can't. Nothing is started before a request is valid.

A page of the list of tasks costs the same however many runs there are: it begins after the task that its token names,
and the journal finds by the statuses of runs all states but those that more than the status tells.

A stream of updates says who works, the answer as it is written, and how the task stands. It begins with the task as it
is, so that a client which comes later misses nothing. A run never waits for a client; one that is too slow loses its
stream, and subscribes again.
"""

from __future__ import annotations

import json
import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec import structs

from teamwright.errors import TeamwrightError, UsageError
from teamwright.journal.run_filter import EVERY_KIND, RecentRuns, RunKind
from teamwright.server.a2a.agent import TeamAgent
from teamwright.server.a2a.tasks import ANSWER, SETTLED, TERMINAL, context_of, status_event, text_part
from teamwright.server.a2a.wire import (
    INVALID_PARAMS,
    MOST_TASKS,
    TASK_NOT_FOUND,
    UNSUPPORTED_OPERATION,
    A2AError,
    Json,
    ListTasks,
    NamedConfig,
    NamedTask,
    NoFields,
    PushConfig,
    SendMessage,
    TaskState,
    Wire,
)
from teamwright.server.chat.chat_completions import CompletionText
from teamwright.server.error_responses import while_connected
from teamwright.server.event_feeds import STOPS, Feed, TooSlow
from teamwright.server.frames import Frame
from teamwright.server.state import need
from teamwright.values.names import NAME, check_name
from teamwright.values.turns.results import RunSummary, iso

PAGE = 50
"""Tasks of a page, unless its client asks for another number."""
KINDS: Mapping[TaskState, tuple[RunKind, ...]] = {
    "TASK_STATE_UNSPECIFIED": EVERY_KIND,
    "TASK_STATE_SUBMITTED": (RunKind("queued"),),
    "TASK_STATE_WORKING": (RunKind("running"), RunKind("interrupted"), RunKind("paused")),
    "TASK_STATE_INPUT_REQUIRED": (RunKind("paused"),),
    "TASK_STATE_COMPLETED": (RunKind("completed"), RunKind("degraded", done=True)),
    "TASK_STATE_FAILED": (RunKind("failed"), RunKind("timeout"), RunKind("degraded", done=False)),
    "TASK_STATE_CANCELED": (RunKind("cancelled"),),
    "TASK_STATE_REJECTED": (RunKind("cancelled"),),
    "TASK_STATE_AUTH_REQUIRED": (),
}
"""The kinds of runs whose task may have a state; without one, of all tasks."""
UNSURE = frozenset[TaskState](
    ("TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED")
)
"""The states that the status of a run alone does not tell: all runs that may have them are looked at."""


class _Start(NamedTuple):
    """Where a page begins: after the task `id` whose status is of the time `since`; `total` is that of the list."""

    since: float
    id: str
    total: int


async def list_tasks(agent: TeamAgent, asked: ListTasks) -> Json:
    """Return a page of the tasks of a team."""
    size = min(asked.page_size or PAGE, MOST_TASKS)
    start = _read_token(asked.page_token) if asked.page_token else None
    after = asked.status_timestamp_after
    which = RecentRuns(
        agent.team.name, KINDS[asked.status], 0.0 if after is None else after.timestamp(), start and start[:2]
    )
    if asked.context_id or asked.status in UNSURE or not which.kinds:
        found, total = await _looked_at(agent, asked, which)
    else:
        journal = agent.server.engine.journal
        found = await journal.top_runs(size + 1, which)
        total = await journal.count_recent(which) if start is None else start.total
    page = found[:size]
    tasks = [task for one in page if (task := await _task(agent, asked, one)) is not None]
    more = len(found) > size
    return {
        "tasks": tasks,
        "nextPageToken": _token(_Start(page[-1].since, page[-1].id, total)) if more else "",
        "pageSize": size,
        "totalSize": total,
    }


async def _task(agent: TeamAgent, asked: ListTasks, one: RunSummary) -> Json | None:
    """Return a task of a list; `None` if its run is damaged or was deleted meanwhile, which hides no other."""
    try:
        return await agent.tasks.task(one, asked.history_length, artifacts=asked.include_artifacts)
    except (TeamwrightError, A2AError):
        return None


async def _looked_at(agent: TeamAgent, asked: ListTasks, which: RecentRuns) -> tuple[list[RunSummary], int]:
    """Return the runs of a page and after it, and how many there are, by looking at each that may fit."""
    journal, every = agent.server.engine.journal, structs.replace(which, before=None)
    if asked.context_id and NAME.fullmatch(asked.context_id) is None:
        runs: list[RunSummary] = []
    elif asked.context_id:
        runs = await journal.runs(conversation=asked.context_id)
        own = await journal.find(asked.context_id)
        runs = every.pick([*runs, own] if own is not None and not own.conversation else runs, None)
    else:
        runs = await journal.top_runs(None, every) if every.kinds else []
    if asked.status in UNSURE:
        runs = [one for one in runs if await _state(agent, one) == asked.status]
    return which.pick(runs, None), len(runs)


async def _state(agent: TeamAgent, one: RunSummary) -> TaskState | None:
    try:
        return await agent.tasks.state(one)
    except TeamwrightError:
        return None


def _token(start: _Start) -> str:
    return urlsafe_b64encode(json.dumps(start).encode()).decode()


def _read_token(token: str) -> _Start:
    """Return where a page begins; raises `A2AError` for a token that is not ours."""
    try:
        match json.loads(urlsafe_b64decode(token.encode("ascii"))):
            case [float() as since, str() as run_id, int() as total] if math.isfinite(since) and total >= 0:
                return _Start(since, check_name("run", run_id), total)
            case _:
                pass
    except (ValueError, RecursionError, UsageError):
        pass
    raise A2AError(INVALID_PARAMS, "the page token is none that this agent gave")


CHANGES = STOPS | {"run.resumed"}
"""The events after which a task may have another state."""


class TaskStream:
    """The updates of one task for one client, `until` it has one of these states; `None` stands for lasting silence."""

    def __init__(self, agent: TeamAgent, found: RunSummary, until: AbstractSet[TaskState]) -> None:
        self._agent, self._found, self._until = agent, found, until
        self._text = CompletionText(agent.team)
        self._sent: list[str] = []
        self._shown: tuple[TaskState, float] | None = None
        self._number = 0

    async def updates(self, history_length: int | None = None) -> AsyncGenerator[Json | None]:
        """Yield the task, then its updates."""
        server, run_id = self._agent.server, self._found.id
        self._number = (await server.engine.runs.history(run_id)).number
        found = await self._agent.settled(run_id) or await self._agent.tasks.find(run_id)
        state = await self._agent.tasks.state(found)
        self._shown = state, found.since
        yield {"task": await self._agent.tasks.task(found, history_length)}
        if state in self._until:
            return
        async with server.feeds.follow(run_id, form="events") as feed:
            try:
                async for update in self._follow(feed):
                    yield update
            except TooSlow:
                return

    async def _follow(self, feed: Feed) -> AsyncGenerator[Json | None]:
        while (frames := await feed.next()) is not None:
            need(self._agent.request, "read")  # the token may have been revoked meanwhile
            if not frames:
                yield None
            for update in self._progress(frames):
                yield update
            if any(frame.kind in CHANGES for frame in frames):
                for update in await self._changes():
                    yield update
            if self._shown is not None and self._shown[0] in self._until:
                return

    def _progress(self, frames: Sequence[Frame]) -> Iterator[Json]:
        """Yield the pieces of the answer, and who begins to work."""
        asked = ""
        for frame in frames:
            for kind, piece in self._text.pieces(frame):
                if kind == "content" and piece:
                    yield self._artifact([{"text": piece}], append=bool(self._sent))
                    self._sent.append(piece)
            if frame.kind == "agent.asked" and (frame.number or 0) > self._number:
                item = json.loads(frame.text)
                asked = asked if item["member_kind"] == "team" else item["member"]
        if asked and self._shown is not None and self._shown[0] == "TASK_STATE_WORKING":
            message = {
                "messageId": f"{self._found.id}-work-{frames[-1].number or 0}",
                "role": "ROLE_AGENT",
                "parts": [text_part(f"{asked} at work.")],
            }
            status = {"state": "TASK_STATE_WORKING", "timestamp": iso(self._shown[1]), "message": message}
            yield status_event(self._found, status)

    async def _changes(self) -> list[Json]:
        """Return the new state of the task, if it has one, after the artifacts of a task that has ended."""
        found = await self._agent.settled(self._found.id) or await self._agent.tasks.find(self._found.id)
        state = await self._agent.tasks.state(found)
        if self._shown == (state, found.since):
            return []
        self._shown = state, found.since
        update = await self._agent.tasks.status_update(found)
        return [*await self._artifacts(found), update] if state in TERMINAL else [update]

    async def _artifacts(self, found: RunSummary) -> list[Json]:
        history = await self._agent.server.engine.runs.history(found.id)
        updates: list[Json] = []
        for one in await self._agent.tasks.artifacts(history, history.result(found.status)):
            parts, sent = one["parts"], "".join(self._sent)
            if one["artifactId"] == ANSWER and sent and len(parts) == 1:
                text: str = parts[0]["text"]
                if text.startswith(sent) and text != sent:
                    updates.append(self._artifact([{"text": text[len(sent) :]}], append=True, last=True))
                    continue
            updates.append(self._artifact(parts, of=one, last=True))
        return updates

    def _artifact(self, parts: list[Json], *, of: Json | None = None, append: bool = False, last: bool = False) -> Json:
        artifact: Json = {"artifactId": ANSWER, "name": ANSWER, **(of or {}), "parts": parts}
        ids = {"taskId": self._found.id, "contextId": context_of(self._found)}
        return {"artifactUpdate": {**ids, "artifact": artifact, "append": append, "lastChunk": last}}


Updates = AsyncGenerator["Json | None"]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation: `stream` says that its result is a stream of updates."""

    form: type[Wire]
    call: Callable[[TeamAgent, Any], Awaitable[Any]]
    reads: bool = False
    stream: bool = False


async def send(agent: TeamAgent, asked: SendMessage) -> Json:
    """Send a message, and wait until its task has ended or waits for an answer; the run goes on without its client."""
    found = await _sent(agent, asked)
    if not asked.configuration.return_immediately:
        await while_connected(agent.request, lambda: _wait(agent, found))
    found = await agent.tasks.find(found.id)
    need(agent.request, "answer" if asked.message.task_id else "run")  # the token may have been revoked meanwhile
    return {"task": await agent.tasks.task(found, asked.configuration.history_length)}


async def _wait(agent: TeamAgent, found: RunSummary) -> None:
    async for _ in TaskStream(agent, found, SETTLED).updates():
        pass


async def stream(agent: TeamAgent, asked: SendMessage) -> Updates:
    """Send a message and follow its task."""
    found = await _sent(agent, asked)
    return TaskStream(agent, found, SETTLED).updates(asked.configuration.history_length)


async def _sent(agent: TeamAgent, asked: SendMessage) -> RunSummary:
    push = asked.configuration.task_push_notification_config
    return await (agent.send(asked) if push is None else _sent_with_push(agent, asked, push))


async def _sent_with_push(agent: TeamAgent, asked: SendMessage, push: PushConfig) -> RunSummary:
    """Send a message whose task notifies an address: also of an end that comes before this returns."""
    need(agent.request, "run")
    pushes, task_id = agent.server.webhook_notices.pushes, agent.task_id_of(asked.message)
    pushes.check(push)
    if asked.message.task_id:
        await agent.tasks.find(task_id)
    before = pushes.find(task_id, push.id)
    added = pushes.add(task_id, push)
    try:
        return await agent.send(asked)
    except BaseException:
        if before is None:
            pushes.delete(task_id, added.id)
        else:
            pushes.add(task_id, before)
        raise


async def get(agent: TeamAgent, asked: NamedTask) -> Json:
    """Return a task."""
    return await agent.tasks.task(await agent.tasks.find(asked.id), asked.history_length)


async def cancel(agent: TeamAgent, asked: NamedTask) -> Json:
    """End a task for good."""
    return await agent.tasks.task(await agent.cancel(asked.id))


async def subscribe(agent: TeamAgent, asked: NamedTask) -> Updates:
    """Follow a task that has not ended."""
    found = await agent.require_open(asked.id)
    return TaskStream(agent, found, TERMINAL).updates()


async def create_config(agent: TeamAgent, asked: PushConfig) -> Json:
    """Send the updates of a task to an address from now on."""
    need(agent.request, "run")
    found = await agent.tasks.find(asked.task_id)
    pushes = agent.server.webhook_notices.pushes
    pushes.check(asked)
    return pushes.add(found.id, asked).shown()


async def get_config(agent: TeamAgent, asked: NamedConfig) -> Json:
    """Return where updates of a task are sent."""
    found = await agent.tasks.find(asked.task_id)
    config = agent.server.webhook_notices.pushes.find(found.id, asked.id)
    if config is None:
        raise A2AError(TASK_NOT_FOUND, f"the task {found.id!r} has no push notification config {asked.id[:100]!r}")
    return config.shown()


async def list_configs(agent: TeamAgent, asked: NamedConfig) -> Json:
    """Return where all updates of a task are sent."""
    found = await agent.tasks.find(asked.task_id)
    return {"configs": [one.shown() for one in agent.server.webhook_notices.pushes.of(found.id)]}


async def delete_config(agent: TeamAgent, asked: NamedConfig) -> Json:
    """Send no more updates of a task to an address; one that is not known is deleted already."""
    need(agent.request, "run")
    found = await agent.tasks.find(asked.task_id)
    agent.server.webhook_notices.pushes.delete(found.id, asked.id)
    return {}


async def extended_card(_: TeamAgent, __: NoFields) -> Json:
    """Refuse: the card, which needs a token too, says everything."""
    raise A2AError(UNSUPPORTED_OPERATION, "this agent has no extended card; its card says everything")


OPERATIONS: dict[str, Operation] = {
    "SendMessage": Operation(SendMessage, send),
    "SendStreamingMessage": Operation(SendMessage, stream, stream=True),
    "GetTask": Operation(NamedTask, get, reads=True),
    "ListTasks": Operation(ListTasks, list_tasks, reads=True),
    "CancelTask": Operation(NamedTask, cancel),
    "SubscribeToTask": Operation(NamedTask, subscribe, reads=True, stream=True),
    "CreateTaskPushNotificationConfig": Operation(PushConfig, create_config),
    "GetTaskPushNotificationConfig": Operation(NamedConfig, get_config, reads=True),
    "ListTaskPushNotificationConfigs": Operation(NamedConfig, list_configs, reads=True),
    "DeleteTaskPushNotificationConfig": Operation(NamedConfig, delete_config),
    "GetExtendedAgentCard": Operation(NoFields, extended_card, reads=True),
}
