"""Facts about budgets: limits, refusals, overruns, degradation, and throttling of models."""

from __future__ import annotations

from typing import ClassVar, Literal

from teamwright.values.limits.degradation import Cutback
from teamwright.values.limits.usage import Amounts, Bounds
from teamwright.values.models import Record


class BudgetOpened(Record, frozen=True):
    """From now on these limits apply to this scope; an empty scope is the whole run.

    `spent` is what was charged to the scope before, such as the inherited charges of a fork.
    """

    kind: ClassVar = "budget.opened"
    limits: Bounds
    spent: Amounts | None = None


class BudgetRefused(Record, frozen=True):
    """A call did not fit the remaining budget of `level`; `kept` of it is kept back for the closing asks of a team."""

    kind: ClassVar = "budget.refused"
    level: str
    what: Literal["tokens", "usd", "calls"]
    needed: int | float
    left: int | float
    limit: int | float
    kept: int | float = 0


class BudgetExceeded(Record, frozen=True):
    """A provider reported more than was reserved."""

    kind: ClassVar = "budget.exceeded"
    level: str
    reserved: int | float
    spent: int | float
    over: int | float
    what: Literal["tokens", "usd"] = "tokens"


class BudgetUnpriced(Record, frozen=True):
    """The price of a model is unknown, so a limit on money does not apply to its requests; recorded once per run."""

    kind: ClassVar = "budget.unpriced"
    model: str

    @property
    def warning(self) -> str:
        """The warning in the result of the run."""
        return f"the limit on money is not held for {self.model!r}, whose price is not known: give the model a `price`"


class BudgetDegraded(Record, frozen=True):
    """A step of the degradation ladder was taken, or `undone`: `before` and `after` are the values that it changes.

    `posture` is all that the team cuts back from now on.
    """

    kind: ClassVar = "budget.degraded"
    rung: str
    before: bool | float | None
    after: bool | float | None
    reason: str
    posture: Cutback
    undone: bool = False


class BudgetThrottled(Record, frozen=True):
    """A provider asked to slow down: no calls of the model for `seconds`, then at most `after` at once.

    It applies to all runs of the engine, and is recorded in the run whose call was throttled.
    """

    kind: ClassVar = "budget.throttled"
    model: str
    before: int
    after: int
    seconds: float = 0.0


class BudgetEased(Record, frozen=True):
    """A throttled model accepts as many concurrent calls as before."""

    kind: ClassVar = "budget.eased"
    model: str
    concurrency: int
