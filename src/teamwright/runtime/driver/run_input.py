"""What a new run starts with, as the engine hands it to its driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from teamwright.agents.files.attachment import Attachment
from teamwright.journal.budgets import BudgetClaim
from teamwright.values.events.run import Origin
from teamwright.values.limits.limits import Limits
from teamwright.values.limits.spend_forecast import SpendForecast
from teamwright.values.people.questions import Answer
from teamwright.values.turns.messages import Message


@dataclass(frozen=True, slots=True)
class RunInput:
    """What a new run starts with."""

    task: str
    seed: int
    history: Sequence[Message] = ()
    origin: Origin | None = None
    limits: Limits | None = None
    conversation: str = ""
    named: bool = True
    """Whether the caller chose the run id, so that the inbox may already hold items for it."""
    attachments: Sequence[Attachment] = ()
    confirm: SpendForecast | None = None
    """The forecast that a person confirms before the run spends anything."""
    confirmation: Answer | None = None
    """The answer to it, where the caller has it already."""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """The files that travel with the run, by their paths in the folder of its manifest."""
    code: str = ""
    """The digest of the folder with the run's Python code."""
    claim: BudgetClaim | None = None
    """What the run reserves of a tenant's budget with its first events."""
