"""Which failures a reader has seen already, so that each is shown once, where it happened."""

from __future__ import annotations

from teamwright.values.events.agent import AgentCallFailed, AgentFailed
from teamwright.values.events.event import Event


class ShownFailures:
    """Folds events: a turn often fails with the message of its last call, and a team with that of a member."""

    def __init__(self) -> None:
        self._messages: dict[str, str] = {}

    def apply(self, event: Event) -> None:
        """Apply the next event, after it was asked about."""
        if isinstance(event.fact, AgentCallFailed) and event.fact.retry_in is None:
            self._messages[event.scope] = event.fact.message
        elif isinstance(event.fact, AgentFailed):
            self._messages.pop(event.key, None)

    def has(self, event: Event) -> bool:
        """Whether an event is a failure whose cause was shown before."""
        if not isinstance(event.fact, AgentFailed):
            return False
        return bool(event.fact.path) or self._messages.get(event.key) == event.fact.message
