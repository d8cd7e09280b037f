"""Recorded asks and effects: requests, attempts and outcomes."""

from __future__ import annotations

from dataclasses import dataclass

from teamwright.budget.ledger import ONE_CALL, Cost
from teamwright.values.events.agent import AgentAsked, AgentCallFailed, AgentFailed, AgentReplied, AgentReturned
from teamwright.values.events.budget import BudgetRefused
from teamwright.values.limits.usage import NOTHING, Usage


@dataclass(slots=True)
class RecordedAsk:
    """One ask and its ending, if it has one."""

    asked: AgentAsked
    time: float
    number: int
    ending: AgentReplied | AgentFailed | None = None

    @property
    def is_team(self) -> bool:
        """Whether a team was asked."""
        return self.asked.member_kind == "team"

    @property
    def is_cancelled(self) -> bool:
        """Whether it was cancelled; the decision to do so is another event."""
        return isinstance(self.ending, AgentFailed) and self.ending.error == "cancelled"


@dataclass(slots=True)
class RecordedCall:
    """The attempts of one effect."""

    request: str
    attempts: int = 0
    failures: int = 0
    in_doubt: bool = False
    reserved: Cost = ONE_CALL
    retry_at: float | None = None
    retry_in: float = 0.0
    outcome: AgentReturned | AgentCallFailed | BudgetRefused | None = None
    usage: Usage = NOTHING
    """What had arrived of replies that broke off."""
