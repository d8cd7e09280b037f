"""One turn of a guest: its requests and its recorded calls become effects, whichever task or thread they come from.

A key follows from what a call sends, since the loop of a guest may make calls side by side. Errors that end the turn
are kept: a guest that catches one gets it again at its next call, and the turn fails with it.

What a framework starts in our event loop must not end or hold up the process: the loop passes `SystemExit` on to its
caller, and all other runs would end with it. When it is closed, it waits for its threads, and so does Python at its
exit; a thread of a guest that was cancelled may go on for hours.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack
from contextvars import ContextVar
from functools import partial, wraps
from inspect import iscoroutinefunction
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Self, TypeVar, cast

from pydantic import BaseModel, JsonValue
from pydantic_core import to_json, to_jsonable_python
from typing_extensions import override

from teamwright.agents.clients.client_pool import SHARED_MODELS, Models, import_models
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.functions.threads import run_in_thread
from teamwright.errors import AgentError, InvalidOutput, TeamwrightError, UsageError
from teamwright.values.run_keys import TOOL_CALL
from teamwright.values.specs.models import AnyModel, model_key
from teamwright.values.text.display import error_text
from teamwright.values.turns.messages import digest

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

    from teamwright.agents.agent import Context
    from teamwright.agents.clients.model_client import ModelClient
    from teamwright.agents.model.agent import ModelAgent


T = TypeVar("T")
MOST_THREADS = 64
"""How many calls of guests are in threads at once; others wait."""


class GuestTasks:
    """A task factory of an event loop with guests: what would end the process in a task of theirs fails the task."""

    def __init__(self, outer: Any, is_guests: Callable[[], bool]) -> None:
        self._outer, self._is_guests = outer, is_guests
        self.turns = 0

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop, is_guests: Callable[[], bool]) -> GuestTasks:
        """Return the factory of a loop; make it, around that of the loop, for its first guest."""
        found = loop.get_task_factory()
        if not isinstance(found, cls):
            found = cls(found, is_guests)
            loop.set_task_factory(found)
            if getattr(loop, "_default_executor", None) is None:
                loop.set_default_executor(GuestThreads())
        return found

    def turn_ended(self, loop: asyncio.AbstractEventLoop) -> None:
        """Leave the loop after its last guest."""
        self.turns -= 1
        if not self.turns and loop.get_task_factory() is self:
            loop.set_task_factory(self._outer)

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        work = _without_exit(coro) if self._is_guests() else coro
        return asyncio.Task(work, loop=loop, **options) if self._outer is None else self._outer(loop, work, **options)


async def _without_exit(coro: Awaitable[T]) -> T:
    try:
        return await coro
    except SystemExit as error:
        raise AgentError(error_text(error)) from error


class GuestThreads(ThreadPoolExecutor):
    """The threads of an event loop with guests, for which neither the loop nor Python waits at its end."""

    def __init__(self) -> None:
        super().__init__(1)
        self._jobs, self._guard, self._threads_at_work = deque[Callable[[], None]](), Lock(), 0

    @override
    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future = Future[T]()
        with self._guard:
            self._jobs.append(partial(_carry_out, future, partial(fn, *args, **kwargs)))
            is_needed = self._threads_at_work < MOST_THREADS
            self._threads_at_work += is_needed
        if is_needed:
            Thread(target=self._work, name="guest", daemon=True).start()
        return future

    def _work(self) -> None:
        while True:
            with self._guard:
                if not self._jobs:
                    self._threads_at_work -= 1
                    return
                job = self._jobs.popleft()
            job()

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the threads to themselves."""


def _carry_out(future: Future[T], call: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001 - the caller gets what it raised
        future.set_exception(error)


P = ParamSpec("P")
DIGITS = 12
"""How much of a digest is part of a key."""
DATA = (str, int, float, bool, type(None), list, tuple, dict, BaseModel)
CURRENT: ContextVar[GuestTurn | None] = ContextVar("teamwright_guest_turn", default=None)


class GuestSettings(NamedTuple):
    """What a turn knows of its guest."""

    name: str
    what: str
    """What its framework calls it."""
    model_agent: ModelAgent | None
    """The agent that makes its requests, unless it calls models of its own."""
    agent_of: Callable[[AnyModel], ModelAgent]
    """What makes an agent for its requests to another model."""
    max_requests: int


class GuestTurn:
    """What the loop of a guest reaches of us during one turn."""

    def __init__(self, guest: GuestSettings, ctx: Context) -> None:
        self.guest, self.ctx = guest, ctx
        self._loop = asyncio.get_running_loop()
        self._stack = AsyncExitStack()
        self._models: Models | None = SHARED_MODELS.get()
        self._agents: dict[str, ModelAgent] = {}
        self._places: Counter[str] = Counter()
        self._calls: set[asyncio.Task[Any]] = set()
        self._count = self.in_flight = 0
        self._error: BaseException | None = None
        self._has_ended = False

    async def __aenter__(self) -> Self:
        if self._models is None and self.guest.model_agent is not None:
            self._models = await self._stack.enter_async_context(Models())
        if self.guest.model_agent is not None:
            await import_models()
        self._tasks = GuestTasks.of(self._loop, _is_in_turn)
        self._tasks.turns += 1
        self._token = CURRENT.set(self)
        return self

    async def __aexit__(self, *exception: object) -> None:
        """End the turn: what threads still wait for is cancelled, and later calls are refused."""
        self._has_ended = True
        CURRENT.reset(self._token)
        self._tasks.turn_ended(self._loop)
        calls = list(self._calls)
        for call in calls:
            call.cancel()
        try:
            await asyncio.gather(*calls, return_exceptions=True)
        finally:
            await self._stack.aclose()

    def check(self) -> None:
        """Raise the error that ended the turn, if the guest has caught it."""
        if self._error is not None:
            raise self._error

    def failure(self, error: Exception | SystemExit) -> Exception:
        """Return why the turn failed: an error of ours that the guest has passed on in another, or its own."""
        if self._error is not None:
            return cast("Exception", self._error)
        found: BaseException | None = error
        while found is not None:
            if isinstance(found, TeamwrightError):
                return found
            found = (
                found.exceptions[0] if isinstance(found, BaseExceptionGroup) else found.__cause__ or found.__context__
            )
        return AgentError(f"{self.guest.what} failed: {error_text(error)}")

    async def client(self, model: AnyModel | None = None) -> ModelClient:
        """Return the client of a model, by default of the guest's own."""
        agent = self._agent(model)
        assert self._models is not None
        return await agent.client_of(agent.model, self._models)

    async def request(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
        model: AnyModel | None = None,
    ) -> ModelResponse:
        """Make a request to a model, from any event loop."""
        request = partial(self._request, messages, settings, parameters, model)
        if asyncio.get_running_loop() is self._loop:
            return await request()
        return await asyncio.wrap_future(self._submit(request))

    def request_in_thread(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
        model: AnyModel | None = None,
    ) -> ModelResponse:
        """Make a request to a model, and wait for it in a thread of the guest's."""
        return self._submit(partial(self._request, messages, settings, parameters, model)).result()

    async def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> JsonValue:
        """Call a function as an effect, from any event loop."""
        call = partial(self._call, function, args, kwargs)
        return await (call() if asyncio.get_running_loop() is self._loop else asyncio.wrap_future(self._submit(call)))

    def call_in_thread(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> JsonValue:
        """Call a function as an effect, and wait for it in a thread of the guest's."""
        return self._submit(partial(self._call, function, args, kwargs)).result()

    async def _request(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
        model: AnyModel | None,
    ) -> ModelResponse:
        from teamwright.guests.model_requests import send_request

        self._count += 1
        if self._count > self.guest.max_requests:
            most = self.guest.max_requests
            self._error = InvalidOutput(
                f"{self.guest.name!r} made {most} requests and had no answer; raise  max_requests"
            )
        with_model = self._agent(model)
        return await self._counted(partial(send_request, self, with_model, messages, settings, parameters))

    async def _call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> JsonValue:
        name = function.__name__
        arguments: dict[str, JsonValue] = {"args": list(map(_argument, args))} if args else {}
        arguments |= {key: _argument(value) for key, value in kwargs.items()}
        content = digest(name, to_json(arguments).decode())
        effect = Effect(
            kind="tool",
            name=name,
            request=content,
            call=partial(_make_call, function, args, kwargs),
            arguments=arguments,
            by_content=True,
        )
        place = self.place(TOOL_CALL, content)
        returned = await self._counted(lambda: self.ctx.effect(place, effect))
        return returned.value

    def place(self, kind: str, content: str) -> str:
        """Return the place of a call by what it sends; the second such call of the turn is another."""
        place = f"{kind}{content[:DIGITS]}"
        self._places[place] += 1
        return place if self._places[place] == 1 else f"{place}-{self._places[place]}"

    async def _counted(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call unless the turn has ended; keep an error that ends it."""
        if self._has_ended:
            raise AgentError(f"The turn of {self.guest.name!r} has ended.")
        self.check()
        self.in_flight += 1
        try:
            return await call()
        except AgentError:
            raise
        except TeamwrightError as error:
            self._error = error
            raise
        finally:
            self.in_flight -= 1

    def _submit(self, call: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Make a call in the event loop of the run, for a thread."""
        if _running_loop() is self._loop:
            raise UsageError(
                f"{self.guest.name!r} made a synchronous call in the event loop: write the function with  async def"
            )
        return asyncio.run_coroutine_threadsafe(self._followed(call), self._loop)

    async def _followed(self, call: Callable[[], Awaitable[T]]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        try:
            return await call()
        finally:
            self._calls.discard(task)

    def _agent(self, model: AnyModel | None) -> ModelAgent:
        own = self.guest.model_agent
        if own is None:
            raise UsageError(f"The guest {self.guest.name!r} has no model: write  model='openai:gpt-5-mini'")
        if model is None:
            return own
        key = model_key(model)
        return self._agents.get(key) or self._agents.setdefault(key, self.guest.agent_of(model))


def current_turn(what: str) -> GuestTurn:
    """Return the turn that the caller works in; raises `UsageError` outside of any."""
    turn = CURRENT.get()
    if turn is None:
        raise UsageError(f"{what} answers only in a turn of its guest: run the team that the guest is a member of.")
    return turn


def recorded(function: Callable[P, T]) -> Callable[P, T]:
    """Make each call of a function within a turn of a guest an effect: recorded, and not made again after a crash.

    Its result has to be JSON. Elsewhere the function is called as usual.
    """

    @wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> object:
        turn = CURRENT.get()
        if turn is None:
            return await cast("Awaitable[object]", function(*args, **kwargs))
        return await turn.call(function, *args, **kwargs)

    @wraps(function)
    def call_in_thread(*args: P.args, **kwargs: P.kwargs) -> object:
        turn = CURRENT.get()
        return function(*args, **kwargs) if turn is None else turn.call_in_thread(function, *args, **kwargs)

    return cast("Callable[P, T]", call if iscoroutinefunction(function) else call_in_thread)


async def _make_call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], _: Attempt
) -> Returned:
    if iscoroutinefunction(function):
        value = await function(*args, **kwargs)
    else:
        value = await run_in_thread(partial(function, *args, **kwargs), f"guest's {function.__name__}")
    return Returned(cast("JsonValue", to_jsonable_python(value)), form="data")


def _argument(value: object) -> JsonValue:
    """Return an argument for the record; of what is no data, such as the context of a framework, only its type."""
    if isinstance(value, DATA):
        return cast("JsonValue", to_jsonable_python(value, fallback=_type_name))
    return _type_name(value)


def _type_name(value: object) -> str:
    return f"<{type(value).__qualname__}>"


def _is_in_turn() -> bool:
    return CURRENT.get() is not None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
