"""Any Python callable as an agent.

A callable of one parameter is one effect: called, recorded, never repeated. One of two parameters also gets the
context and is an agent in its own right, whose effects are its own.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal, cast

import anyio
import anyio.to_process
import anyio.to_thread
from pydantic import BaseModel, JsonValue
from pydantic_core import from_json, to_json, to_jsonable_python

from teamwright.agents.protocol import Attempt, Context, Effect, Returned
from teamwright.agents.schema import check, check_input
from teamwright.errors import AgentError, InvalidOutput
from teamwright.values.events import AgentAbandoned
from teamwright.values.limits import Limits, RetryPolicy
from teamwright.values.messages import Message
from teamwright.values.names import check_name
from teamwright.values.specs import AgentSpec, JsonSchema
from teamwright.values.turns import Reply, Turn

GRACE = 1.0
"""How long a synchronous function may take to end once its turn is over."""

LOOK_EVERY = 0.01
NORMAL = RetryPolicy()

Function = Callable[..., Any]


class FunctionAgent:
    """An agent that is a function: it gets the turn (or only its text, when annotated `str`) and returns its answer.

    The answer is a string, a `Reply`, or any JSON value, which becomes structured output.
    """

    kind = "function"

    def __init__(
        self,
        name: str,
        function: Function,
        *,
        description: str = "",
        capabilities: tuple[str, ...] = (),
        input_schema: JsonSchema | None = None,
        output_schema: JsonSchema | None = None,
        timeout: float | None = None,
        retry: RetryPolicy | None = None,
        limits: Limits | None = None,
        isolate: Literal["thread", "process"] = "thread",
        can_terminate: bool = False,
    ) -> None:
        self.name = check_name("agent", name)
        self.description, self.capabilities, self.limits = description, capabilities, limits
        self.can_terminate = can_terminate
        self._function, self._retry, self._timeout = function, retry or NORMAL, timeout
        self._isolate: Literal["thread", "process"] = isolate
        self._input_schema, self._output_schema = input_schema, output_schema
        self._async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__ is a function too
        )
        parameters = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
        self._wants_context = len(parameters) > 1
        self._wants_text = bool(parameters) and parameters[0].annotation in (str, "str")

    @property
    def spec(self) -> AgentSpec:
        """The agent as a declaration; a function that can't be imported by name is left out of it."""
        declared: dict[str, object] = {
            "function": import_path(self._function),
            "description": self.description,
            "capabilities": self.capabilities,
            "input_schema": self._input_schema,
            "output_schema": self._output_schema,
            "timeout": self._timeout,
            "limits": self.limits,
        }
        given = {name: value for name, value in declared.items() if value}
        if self._retry is not NORMAL:
            given["retry"] = self._retry
        if self._isolate != "thread":
            given["isolate"] = self._isolate
        return AgentSpec.model_validate(given)

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Call the function and make a reply of what it returns."""
        if self._input_schema is not None:
            check_input(self._input_schema, turn.task, f"The task of {self.name!r}")
        if self._wants_context:
            return self._reply(await cast("Awaitable[object]", self._function(turn, ctx)))
        effect = Effect(
            kind="function",
            name=self.name,
            request=turn.digest,
            call=partial(self._call, turn, ctx),
            retry=self._retry,
            timeout=self._timeout,
        )
        returned = await ctx.effect("call", effect)
        return self._reply(returned.value, truncated=returned.truncated)

    async def _call(self, turn: Turn, ctx: Context, attempt: Attempt) -> Returned:
        told = turn.prompt if self._wants_text else turn
        if self._async:
            answer: object = await self._function(told)
        elif self._isolate == "process":
            answer = await anyio.to_process.run_sync(self._function, told, cancellable=True)
        else:
            answer = await self._in_thread(told, ctx)
        if isinstance(answer, Reply):
            return Returned({"$reply": answer.model_dump(mode="json", exclude_defaults=True)}, answer.usage)
        return Returned(cast("JsonValue", answer if isinstance(answer, str) else to_jsonable_python(answer)))

    async def _in_thread(self, told: object, ctx: Context) -> object:
        """A thread can't be stopped: once its turn is over it gets a grace time, and is then left behind, visibly."""
        ended = threading.Event()

        def work() -> object:
            try:
                return self._function(told)
            finally:
                ended.set()

        try:
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await _until(ended, GRACE)
                if not ended.is_set():
                    await ctx.emit(AgentAbandoned(name=self.name, grace=GRACE))
            raise

    def _reply(self, answer: object, *, truncated: bool = False) -> Reply:
        match answer:
            case Reply():
                reply = answer
            case {"$reply": _}:
                reply = Reply.model_validate(cast("dict[str, object]", answer)["$reply"])
            case str():
                reply = Reply(messages=(Message(name=self.name, content=answer),), truncated=truncated)
            case BaseModel() | dict() | list() | int() | float() | bool() | None:
                data: JsonValue = to_jsonable_python(answer)
                reply = Reply(messages=(Message(name=self.name, content=_text_of(data)),), data=data)
            case _:
                raise AgentError(f"{self.name!r} returned {type(answer).__name__}, which is neither text nor JSON")
        return (
            reply
            if self._output_schema is None
            else with_data(reply, self._output_schema, f"The reply of {self.name!r}")
        )


def import_path(function: Function) -> str | None:
    """`module:function` when the function can be found again by that, else `None`."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not name or "<" in name or module == "__main__":
        return None
    return f"{module}:{name}"


def with_data(reply: Reply, schema: JsonSchema, what: str) -> Reply:
    """The reply with the structured output that its schema asks for, read from its text where it has none."""
    data = reply.data
    if data is None:
        try:
            data = cast("JsonValue", from_json(reply.text))
        except ValueError as error:
            raise InvalidOutput(f"{what} must be JSON, and is not ({error}).") from error
    check(schema, data, what)
    return reply.model_copy(update={"data": data})


async def _until(event: threading.Event, seconds: float) -> None:
    """Wait for a thread by looking: another thread to wait with might find no room either."""
    for _ in range(int(seconds / LOOK_EVERY)):
        if event.is_set():
            return
        await anyio.sleep(LOOK_EVERY)


def _text_of(data: JsonValue) -> str:
    return to_json(data).decode()
