"""What is known of the tokens of models across runs, in the same place as the journal.

It is the property `token_rates` of a journal that keeps it. It is an aid and no record: a run needs none of it to
resume, and of several processes that write at once the last one wins.
"""

from __future__ import annotations

from typing import Protocol


class TokenRates(Protocol):
    """A store of one text for each model: the latest requests that its tokens per byte are learnt from."""

    async def load(self, model: str) -> str | None:
        """Return what was saved for a model last, if anything."""
        ...

    async def save(self, model: str, samples: str) -> None:
        """Keep this for a model, in place of what was saved before."""
        ...


class MemoryTokenRates:
    """Rates in memory, for as long as their journal exists."""

    def __init__(self) -> None:
        self._saved: dict[str, str] = {}

    async def load(self, model: str) -> str | None:
        """Return what was saved for a model last."""
        return self._saved.get(model)

    async def save(self, model: str, samples: str) -> None:
        """Keep this for a model."""
        self._saved[model] = samples
