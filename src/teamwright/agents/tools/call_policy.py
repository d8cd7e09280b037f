"""How one tool is called: its timeout and retries, and what happens to a call whose outcome is unknown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import JsonValue

from teamwright.agents.tools.file_result import ToolValue
from teamwright.values.limits.retry import RetryPolicy

if TYPE_CHECKING:
    from teamwright.agents.tools.context import ToolContext

NO_RETRY = RetryPolicy.model_construct(attempts=0)

OutcomeCheck = Callable[[Mapping[str, JsonValue], "ToolContext"], Awaitable[ToolValue]]
"""Asks the outside world for the result of a call; `None` says that the call did not happen."""


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """The settings of one tool.

    A call is in doubt if the record says that it began and not how it ended: the process may have died before, during
    or after it. `check` finds out. Without it, a call in doubt is made again if the tool is `idempotent`, and fails if
    the tool is not; a tool that does not say is called again, with the same idempotency key, unless it has `once`.
    `once` returns the identity of the action that a call with these arguments makes: no action is made twice.
    """

    timeout: float | None = None
    retries: int = 0
    idempotent: bool | None = None
    once: Callable[[Mapping[str, JsonValue]], str] | None = None
    check: OutcomeCheck | None = None

    @property
    def retry(self) -> RetryPolicy:
        """The retry policy of the effect."""
        return RetryPolicy(attempts=self.retries) if self.retries else NO_RETRY

    @property
    def repeats_in_doubt(self) -> bool:
        """Whether a call in doubt is made again without a check."""
        return self.once is None if self.idempotent is None else self.idempotent

    @property
    def just_repeats(self) -> bool:
        """Whether a call in doubt is simply made again."""
        return self.once is None and self.check is None and self.repeats_in_doubt


DEFAULT_POLICY = CallPolicy()
