"""The check that an agent may have for itself before anything runs. It makes no request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from teamwright.agents.model.models import Models


@runtime_checkable
class Preflight(Protocol):
    """An agent that knows before a run what would keep it from answering. One without this is taken to be ready."""

    async def preflight(self, models: Models) -> Sequence[str]:
        """Return configuration problems (a missing extra, key or model) without a request; `models` opens clients."""
        ...
