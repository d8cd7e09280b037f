"""The optional protocol for agents that check their configuration before a run. It makes no request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from teamwright.agents.clients.models import Models


@runtime_checkable
class Preflight(Protocol):
    """An agent that can report configuration problems before a run. Agents without it are assumed to be ready."""

    async def preflight(self, models: Models) -> Sequence[str]:
        """Return configuration problems (a missing extra, key or model) without a request; `models` opens clients."""
        ...
