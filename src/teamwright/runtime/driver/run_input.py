"""What a new run starts with, as the engine hands it to its driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, cast

from teamwright.agents.attachments import Attachment
from teamwright.agents.contract.arguments import value_of
from teamwright.errors import UsageError
from teamwright.journal.stores import BudgetClaim
from teamwright.values.call_limits import Recovery
from teamwright.values.events.agent import Body
from teamwright.values.events.run import Origin
from teamwright.values.limits import Limits, SpendForecast
from teamwright.values.models import misfit_of
from teamwright.values.owned_paths import Owned
from teamwright.values.people import Answer
from teamwright.values.turns.artifacts import SharedValue
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Turn

if TYPE_CHECKING:
    from teamwright.agents.attachments import AttachmentLike
    from teamwright.runtime.admission.confirm_request import ConfirmRequest
    from teamwright.teams.team import Team


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


class RunRequest(NamedTuple):
    """What a caller asks a run for, whether it is started or exists already."""

    team: Team
    task: str
    run_id: str | None
    history: Sequence[Message]
    limits: Limits | None
    attachments: Sequence[AttachmentLike]
    confirm: ConfirmRequest
    budget: str | None


LARGEST_TASK = 1024 * 1024
"""Bytes of a task."""


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


def check_start(task: object, history: object, limits: Limits | None) -> Limits | None:
    """Return the limits of a run; raises `UsageError` for arguments that are of the wrong type or too large."""
    if not isinstance(task, str):
        raise UsageError(f"The task must be a text, and is {task!r}.")
    if not isinstance(history, Sequence) or not all(
        isinstance(one, Message) for one in cast("Sequence[object]", history)
    ):
        raise UsageError("The history must be a list of Message, for example  [Message(name='user', content='Hi')].")
    for one in cast("Sequence[Message]", history):
        if (wrong := misfit_of(one)) is not None:
            raise UsageError(f"A message of the history can't be used: {wrong}")
    if len(task.encode("utf-8", "surrogatepass")) > LARGEST_TASK:
        raise UsageError(
            f"The task is larger than {LARGEST_TASK // 1024} KiB; put it into a file that a tool can read."
        )
    return value_of("The run", "limits", limits, Limits)
