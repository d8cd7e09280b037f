"""A remote A2A agent as a member: `a2a: URL` in a manifest. Its task goes on at its own server while this run may die.

A turn is effects: one sends the message, whose id follows from the effect, and records the id of the task; another
waits for this task. A killed run that is resumed asks for the same task again, and where it was killed in the middle of
the first call it sends the same message. What the remote agent asks is a question of this run to a person. A turn that
ends for good before its task cancels the task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Unpack, cast

import anyio
from pydantic import JsonValue
from typing_extensions import override

from teamwright.agents.agent import Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.functions.threads import finish
from teamwright.agents.settings import AgentKeywords
from teamwright.errors import AgentError, LimitReached, ServiceError
from teamwright.server.a2a.sdk import RemoteClient, remote_client
from teamwright.values.call_limits import MAX_BYTES
from teamwright.values.people import Question
from teamwright.values.specs.manifest import AgentSpec
from teamwright.values.turns.messages import Message, digest
from teamwright.values.turns.turn import Reply, Turn

if TYPE_CHECKING:
    from teamwright.values.specs.members import RemoteAddress

Json = dict[str, JsonValue]
Call = Callable[[Attempt], Awaitable[Returned]]
SECONDS = 600.0
"""How long one call waits for the task, unless the agent has a `timeout`."""
FIRST_LOOK, LONGEST_LOOK = 0.2, 5.0
"""Seconds between two looks at a task, at first and at most."""
AWAY_SECONDS = 30.0
"""How long an agent may be away before its turn fails."""
CANCEL_SECONDS = 2.0
"""How long a turn that ends for good waits until its task is cancelled."""
MOST_QUESTIONS = 20
"""How many questions of a remote agent one turn passes on."""
FINISHED = "TASK_STATE_COMPLETED"
ASKS = frozenset(("TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"))
FAILED = frozenset(("TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"))


class RemoteAgent(FunctionAgent):
    """A member whose answers are tasks of a remote agent."""

    def __init__(self, name: str, address: RemoteAddress, **settings: Unpack[AgentKeywords]) -> None:
        super().__init__(name, self._ask, **settings)
        self._address = address
        self._declared["a2a"] = address.model_dump(exclude_defaults=True)

    @property
    @override
    def spec(self) -> AgentSpec:
        """The agent as a declaration."""
        return AgentSpec.model_validate({**self._declared, **self.policy.declared(self.name)})

    async def _ask(self, turn: Turn, ctx: Context) -> Reply:
        sent = await self._effect(ctx, "send", turn.digest, partial(self._send, _message(turn.prompt)))
        if (task := sent.get("task")) is None:
            return self._answer(sent)
        try:
            return await self._follow(str(task), ctx)
        except anyio.get_cancelled_exc_class():
            if ctx.is_stopped:  # otherwise only this process stops, and another one waits for the task
                await finish(self._cancel(str(task)))
            raise
        except _Ended:
            raise
        except (AgentError, LimitReached):
            with suppress(AgentError, LimitReached):
                await self._effect(ctx, "cancel", str(task), partial(self._give_up, str(task)))
            raise

    async def _follow(self, task: str, ctx: Context) -> Reply:
        """Wait for a task and let people answer what it asks; returns its answer, or raises why there is none."""
        answered: JsonValue = None
        for count in range(MOST_QUESTIONS + 1):
            found = await self._effect(ctx, f"wait-{count}", f"{task} {count}", partial(self._wait, task, answered))
            if found["state"] == FINISHED:
                return self._answer(found)
            if found["state"] in FAILED:
                state = str(found["state"]).removeprefix("TASK_STATE_").lower()
                said = str(found["text"])[:2000] or "without words"
                raise _Ended(f"The remote agent {self.name!r} {state}: {said}")
            if count == MOST_QUESTIONS:
                break
            answered = found["question"]
            question = Question(text=f"{self.name} asks: {found['text']}", choices=_choices(found))
            given = await ctx.ask_person(question, key=f"question-{count}")
            parts = _message(given.text, _key(found)) | {"taskId": task}
            sent = await self._effect(ctx, f"answer-{count}", digest(given.text, task), partial(self._send, parts))
            if sent.get("task") is None:
                return self._answer(sent)
        raise AgentError(f"The remote agent {self.name!r} asked more than {MOST_QUESTIONS} questions in one turn.")

    def _answer(self, found: Json) -> Reply:
        text = str(found["text"])
        if not text and found["data"] is None:
            raise _Ended(f"The remote agent {self.name!r} completed its task without an answer.")
        return Reply(messages=(Message(name=self.name, content=text),), data=found["data"])

    async def _effect(self, ctx: Context, key: str, request: str, call: Call) -> Json:
        effect = Effect(
            kind="function",
            name=self.name,
            request=digest(self._address.url, request),
            call=call,
            retry=self.policy.retry,
            timeout=self._timeout,
            default_timeout=SECONDS,
            max_bytes=self.policy.max_bytes or MAX_BYTES,
        )
        return cast("Json", (await ctx.effect(key, effect)).value)

    async def _send(self, message: Json, attempt: Attempt) -> Returned:
        """Send a message; its id is the same in every attempt, so that the agent can tell that it has it already."""
        async with remote_client(self._address.url, self._address.headers) as client:
            named = {**message, "messageId": attempt.idempotency_key, "role": "ROLE_USER"}
            found = await _patiently(client, lambda: client.send(named))
        return Returned(found, form="data")

    async def _wait(self, task: str, answered: JsonValue, _: Attempt) -> Returned:
        """Look at a task until it has ended or asks something else than what was answered before.

        An agent that is away for a while is asked again.
        """
        pause = FIRST_LOOK
        async with remote_client(self._address.url, self._address.headers) as client:
            while True:
                found = await _patiently(client, lambda: client.task(task))
                if found.get("task") != task:
                    raise AgentError(f"The remote agent {self.name!r} answered with another task than {task!r}.")
                asks = found["state"] in ASKS and found["question"] != answered
                if found["state"] == FINISHED or found["state"] in FAILED or asks:
                    return Returned(found, form="data")
                await anyio.sleep(pause)
                pause = min(LONGEST_LOOK, pause * 1.5)

    async def _cancel(self, task: str) -> None:
        """End a task that no turn waits for any more, if its agent hears of it in time."""
        with anyio.move_on_after(CANCEL_SECONDS), suppress(AgentError):
            async with remote_client(self._address.url, self._address.headers) as client:
                await client.cancel(task)

    async def _give_up(self, task: str, _: Attempt) -> Returned:
        await self._cancel(task)
        return Returned(None, form="data")


class _Ended(AgentError):
    """The turn has failed because its task has ended, so that there is nothing to cancel."""


async def _patiently(client: RemoteClient, call: Callable[[], Awaitable[Json]]) -> Json:
    """Make a call again while its agent can't be reached, as while it starts again."""
    until = anyio.current_time() + AWAY_SECONDS
    while True:
        try:
            return await call()
        except ServiceError:
            if anyio.current_time() >= until or not client.may_come_back:
                raise
            await anyio.sleep(FIRST_LOOK)


def _message(text: str, key: str | None = None) -> Json:
    parts: list[JsonValue] = [{"text": text}]
    if key is not None:
        parts.append({"data": {"key": key, "text": text}})
    return {"parts": parts}


def _key(found: Json) -> str | None:
    """The key of the question, of an agent that names one, as a team of ours does."""
    match found.get("asked"):
        case {"key": str() as key}:
            return key
        case _:
            return None


def _choices(found: Json) -> tuple[str, ...]:
    match found.get("asked"):
        case {"choices": [*choices]} if all(isinstance(one, str) for one in choices):
            return tuple(cast("list[str]", choices))
        case _:
            return ()
