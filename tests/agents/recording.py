"""A context for agents under test: it calls each effect once, records its result, and can replay it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from teamwright.agents.agent import Context
from teamwright.agents.effect import (
    REPLY,
    Attempt,
    Effect,
    ReplyPart,
    Returned,
)
from teamwright.errors import AgentError
from teamwright.values.events.event import Fact
from teamwright.values.owned_paths import Owned


@dataclass
class Recording:
    """The record: effects by key in the order of their calls, results, failures and streamed text."""

    results: dict[str, Returned] = field(default_factory=dict[str, Returned])
    failures: dict[str, AgentError] = field(default_factory=dict[str, AgentError])
    effects: dict[str, Effect] = field(default_factory=dict[str, Effect])
    made: list[str] = field(default_factory=list[str])
    deltas: list[str] = field(default_factory=list[str])
    max_output: int | None = None
    is_followed: bool = True
    emitted: dict[str | None, Fact] = field(default_factory=dict[str | None, Fact])
    refuse: dict[str, Exception] = field(default_factory=dict[str, Exception])
    owned: Owned = field(default_factory=Owned)

    async def effect(self, key: str, effect: Effect) -> Returned:
        assert key not in self.effects, f"the key {key!r} is used twice"
        self.effects[key] = effect
        if key in self.refuse:
            raise self.refuse[key]
        if key in self.failures:
            raise self.failures[key]
        if key not in self.results:
            await self._make(key, effect)
        return self.results[key]

    async def _make(self, key: str, effect: Effect) -> None:
        self.made.append(key)
        cap = self.max_output or effect.max_output
        attempt = Attempt(
            "run",
            1,
            key,
            cap,
            lambda _: 0,
            self._delta,
            is_followed=self.is_followed,
        )
        try:
            self.results[key] = await effect.call(attempt)
        except AgentError as error:
            self.failures[key] = error
            raise

    def _delta(self, text: str, part: ReplyPart = REPLY) -> None:
        if part.kind == "text":
            self.deltas.append(text)

    async def emit(self, fact: Fact, *, key: str | None = None) -> None:
        self.emitted[key] = fact

    def again(self) -> Recording:
        """A replay: the same record, nothing asked for yet."""
        return Recording(results=dict(self.results), failures=dict(self.failures))

    @property
    def ctx(self) -> Context:
        """This, as an agent sees it; the doors that agents do not use are not built."""
        return _as_context(self)


def _as_context(recording: Any) -> Context:
    return recording
