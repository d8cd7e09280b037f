"""The model clients of one engine: opened on first use, shared by its agents, closed with it.

pydantic-ai takes seconds to import, so it is imported when the first client opens and never before. The client of a
model that the caller made is neither guarded nor closed here; one that pydantic-ai opened for it is closed by it.
"""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from contextvars import ContextVar
from typing import TYPE_CHECKING, Self

import anyio

from teamwright.agents.clients.providers import missing_extra
from teamwright.collector_pauses import import_uncollected
from teamwright.values.specs.models import AnyModel, NamedModel, ServerModel

if TYPE_CHECKING:
    from pydantic_ai.models import Model as OwnModel

    from teamwright.agents.clients.model_client import ModelClient

HEAVY = "teamwright.agents.model.turn"
SHARED_MODELS: ContextVar[Models | None] = ContextVar("models", default=None)
"""The clients of the engine that runs the current task, which model agents without clients of their own use."""


class Models:
    """The model clients of one engine: opened on first use, shared by its agents, closed with it."""

    def __init__(self) -> None:
        self._clients: dict[str | ServerModel, ModelClient] = {}
        self._own_clients: dict[int, ModelClient] = {}
        self._stack = AsyncExitStack()
        self._lock = anyio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections and stop the local models; a later use opens new ones."""
        self._clients.clear()
        self._own_clients.clear()
        stack, self._stack = self._stack, AsyncExitStack()
        with anyio.CancelScope(shield=True):
            await stack.aclose()

    async def client(self, model: AnyModel) -> ModelClient:
        """Return the client of a model, or raise a `UsageError` that says what is missing."""
        if isinstance(model, NamedModel):
            model = model.model
        elif isinstance(model, ServerModel) and model.settings is not None:
            model = model.model_copy(update={"settings": None})  # agents send them; the client is the same
        # The lock yields to the event loop, which would split the facts of a turn into two commits.
        if (opened := self._clients.get(model)) is not None:
            return opened
        async with self._lock:
            if model not in self._clients:
                if missing := missing_extra(model):
                    raise missing
                await import_models()
                from teamwright.agents.clients.model_client import open_client

                self._clients[model] = await self._stack.enter_async_context(open_client(model))
            return self._clients[model]

    async def own_client(self, model: OwnModel) -> ModelClient:
        """Return the client of a model that the caller made."""
        if (opened := self._own_clients.get(id(model))) is not None:
            return opened
        async with self._lock:
            if id(model) not in self._own_clients:  # the client keeps the model, and so its id
                await import_models()
                from teamwright.agents.clients.model_client import open_own_client

                self._own_clients[id(model)] = await self._stack.enter_async_context(open_own_client(model))
            return self._own_clients[id(model)]


async def import_models() -> None:
    """Import pydantic-ai in a thread, so that the event loop is not blocked."""
    if HEAVY not in sys.modules:
        await anyio.to_thread.run_sync(import_uncollected, HEAVY)
