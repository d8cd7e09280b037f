"""Facts about budgets: limits, refusals, overruns, degradation, and throttling of models."""

from __future__ import annotations

from typing import ClassVar, Literal

from teamwright.values.limits import Amounts, Bounds, Cutback
from teamwright.values.value import Record


class BudgetOpened(Record, frozen=True):
    """From now on these limits apply to this scope; an empty scope is the whole run.

    `spent` is what was charged to the scope before, such as the inherited charges of a fork.
    """

    kind: ClassVar = "budget.opened"
    limits: Bounds
    spent: Amounts | None = None


class BudgetRaised(Record, frozen=True):
    """A person raised limits of this scope: these apply from now on."""

    kind: ClassVar = "budget.raised"
    limits: Bounds


CountedBy = Literal["tokenizer", "bytes_per_token", "rates", "bytes"]
"""How the tokens of a prompt are bounded: by its tokenizer, as its model declares, by rates learnt, or as its bytes."""


class BudgetRefused(Record, frozen=True):
    """A call did not fit the remaining budget of `level`; `kept` of it is kept back for the closing asks of a team.

    `why` says why so much is counted, and what helps, where that is not plain.
    """

    kind: ClassVar = "budget.refused"
    level: str
    what: Literal["tokens", "usd", "calls"]
    needed: int | float
    left: int | float
    limit: int | float
    kept: int | float = 0
    why: str = ""


class BudgetAwaited(Record, frozen=True):
    """A call has waited for a while, because `holders` have reserved what it needs of the budget of `level`.

    It is recorded for readers only: how long a call waits changes nothing in a replay.
    """

    kind: ClassVar = "budget.awaited"
    member: str
    level: str
    what: Literal["tokens", "usd", "calls"]
    needed: int | float
    held: int | float
    holders: tuple[str, ...] = ()


class BudgetExceeded(Record, frozen=True):
    """A provider reported more than was reserved; `overspent` says that a limit is exceeded by it.

    Within every limit that is a note for readers, because nothing was spent that was not to be spent.
    """

    kind: ClassVar = "budget.exceeded"
    level: str
    reserved: int | float
    spent: int | float
    over: int | float
    what: Literal["tokens", "usd"] = "tokens"
    overspent: bool = False

    @property
    def is_warning(self) -> bool:
        return self.overspent


def exceeded_text(level: str, what: Literal["tokens", "usd"], over: float, calls: int = 1) -> str:
    """Say by how much calls exceeded their reservations."""
    more = f"${over:.6g}" if what == "usd" else f"{over} tokens"
    several = f" in {calls} calls" if calls > 1 else ""
    return f"the provider reported {more} more than was reserved at {level or 'the run'!r}{several}"


class BudgetUnpriced(Record, frozen=True):
    """The price of a model is unknown, so a limit on money does not apply to its requests; recorded once per run."""

    kind: ClassVar = "budget.unpriced"
    model: str

    @property
    def warning(self) -> str:
        return f"the limit on money is not held for {self.model!r}, whose price is not known: give the model a `price`"


class BudgetMisreported(Record, frozen=True):
    """A provider reported a usage that can't be right, recorded once per run for each model and problem.

    It is more output than the `cap` of the request, no output beside a text, or no input at all.
    """

    kind: ClassVar = "budget.misreported"
    model: str
    problem: Literal["over_cap", "no_output", "no_input"]
    reported: int = 0
    cap: int | None = None

    @property
    def warning(self) -> str:
        if self.problem == "no_output":
            return f"{self.model!r} reports no output tokens beside its text, so its calls are charged in full"
        if self.problem == "no_input":
            return f"{self.model!r} reports no input tokens for its prompts, so its calls are charged in full"
        return f"{self.model!r} reports {self.reported} output tokens with a cap of {self.cap}: limits may not hold"


class BudgetDegraded(Record, frozen=True):
    """A step of the degradation ladder was taken, or `undone`: `before` and `after` are the values that it changes.

    `cutback` is all that the team cuts back from now on.
    """

    kind: ClassVar = "budget.degraded"
    rung: str
    before: bool | float | None
    after: bool | float | None
    reason: str
    cutback: Cutback
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


EngineBudgetFact = BudgetOpened | BudgetRaised | BudgetRefused | BudgetExceeded | BudgetMisreported
BudgetFact = EngineBudgetFact | BudgetUnpriced | BudgetDegraded | BudgetThrottled | BudgetEased | BudgetAwaited
