"""What a new run starts with, as the engine hands it to its driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from teamwright.agents.attachments import Attachment
from teamwright.journal.stores import BudgetClaim
from teamwright.values.call_limits import Recovery
from teamwright.values.events.agent import Body
from teamwright.values.events.run import Origin
from teamwright.values.limits import Limits, SpendForecast
from teamwright.values.owned_paths import Owned
from teamwright.values.people import Answer
from teamwright.values.turns.artifacts import SharedValue
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Turn


@dataclass(frozen=True, slots=True)
class PlacedInput:
    """What a child run begins with besides the texts of its turn."""

    turn: Turn
    depth: int
    artifacts: tuple[Body, ...] = ()
    values: Mapping[str, SharedValue] = field(default_factory=dict[str, SharedValue])
    recovery: Recovery | None = None
    """How the teams around the member recover from its failures."""
    owned: Owned = field(default_factory=Owned)
    """What the steps around the member may write."""
    notes_team: str = ""
    """The team that the notes of agents belong to."""


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
    placed: PlacedInput | None = None
    """The turn of another run that this run answers."""
