"""Facts about budgets: what holds, what did not fit, what went beyond, and how fast models are called."""

from __future__ import annotations

from typing import ClassVar, Literal

from teamwright.values.limits.degradation import Cutback
from teamwright.values.limits.usage import Amounts, Bounds
from teamwright.values.models import Record


class BudgetOpened(Record, frozen=True):
    """From here on these limits hold for what happens in this scope, which is the whole run where it has no name.

    `spent` is what had been charged there before, as in what a fork took over.
    """

    kind: ClassVar = "budget.opened"
    limits: Bounds
    spent: Amounts | None = None


class BudgetRefused(Record, frozen=True):
    """A call did not fit what is left at `level`."""

    kind: ClassVar = "budget.refused"
    level: str
    what: Literal["tokens", "usd", "calls"]
    needed: int | float
    left: int | float
    limit: int | float


class BudgetExceeded(Record, frozen=True):
    """A provider reported more than was reserved."""

    kind: ClassVar = "budget.exceeded"
    level: str
    reserved: int | float
    spent: int | float
    over: int | float
    what: Literal["tokens", "usd"] = "tokens"


class BudgetUnpriced(Record, frozen=True):
    """Nobody knows what a model costs, so a limit on money can't be held for its requests; said once in a run."""

    kind: ClassVar = "budget.unpriced"
    model: str

    @property
    def warning(self) -> str:
        """What the result of the run says about it."""
        return f"the limit on money is not held for {self.model!r}, whose price is not known: give the model a `price`"


class BudgetDegraded(Record, frozen=True):
    """A rung of the degradation ladder was taken, or `undone`: `before` and `after` are what it changes.

    `posture` is all that is cut back in the team from here on.
    """

    kind: ClassVar = "budget.degraded"
    rung: str
    before: bool | float | None
    after: bool | float | None
    reason: str
    posture: Cutback
    undone: bool = False


class BudgetThrottled(Record, frozen=True):
    """A provider asked to slow down: nobody calls the model for `seconds`, and then at most `after` calls at once.

    It holds for all runs of the engine, and stands in the record of the one that was told.
    """

    kind: ClassVar = "budget.throttled"
    model: str
    before: int
    after: int
    seconds: float = 0.0


class BudgetEased(Record, frozen=True):
    """A model that was slowed down takes as many calls at once as before."""

    kind: ClassVar = "budget.eased"
    model: str
    concurrency: int
