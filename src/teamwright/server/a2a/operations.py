"""The operations of the protocol by their names: the form of each request, what it does, and whether it only reads.

Both bindings call them, so that neither can do what the other can't. Nothing is started before a request is valid.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from teamwright.server.a2a.agent import TeamAgent
from teamwright.server.a2a.stream import TaskStream
from teamwright.server.a2a.task_list import list_tasks
from teamwright.server.a2a.wire import (
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
    Wire,
)
from teamwright.server.error_responses import while_connected
from teamwright.server.state import need
from teamwright.values.turns.results import RunSummary

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
    async for _ in TaskStream.of_message(agent, found).updates():
        pass


async def stream(agent: TeamAgent, asked: SendMessage) -> Updates:
    """Send a message and follow its task."""
    found = await _sent(agent, asked)
    return TaskStream.of_message(agent, found).updates(asked.configuration.history_length)


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
    return TaskStream.of_subscription(agent, found).updates()


async def create_config(agent: TeamAgent, asked: PushConfig) -> Json:
    """Send the updates of a task to an address from now on."""
    need(agent.request, "run")
    found = await agent.tasks.find(asked.task_id)
    pushes = agent.server.webhook_notices.pushes
    pushes.check(asked)
    return pushes.add(found.id, asked).shown()


async def get_config(agent: TeamAgent, asked: NamedConfig) -> Json:
    """Return where updates of a task are sent."""
    return (await _config(agent, asked)).shown()


async def _config(agent: TeamAgent, asked: NamedConfig) -> PushConfig:
    found = await agent.tasks.find(asked.task_id)
    config = agent.server.webhook_notices.pushes.find(found.id, asked.id)
    if config is None:
        raise A2AError(TASK_NOT_FOUND, f"the task {found.id!r} has no push notification config {asked.id[:100]!r}")
    return config


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
