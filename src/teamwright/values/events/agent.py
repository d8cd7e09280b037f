"""Facts about a member's turn and the calls that it makes."""

from __future__ import annotations

from typing import ClassVar, Literal

from teamwright.values.events.body import Body, MessageRef
from teamwright.values.limits.usage import NOTHING, Amounts, Usage
from teamwright.values.models import Record
from teamwright.values.turns.artifacts import Artifact
from teamwright.values.turns.envelope import HandoffNote
from teamwright.values.turns.turn import Purpose, Signal, Tier

EffectKind = Literal["model", "tool", "function"]
ValueForm = Literal["reply", "data"]


class AgentAsked(Record, frozen=True):
    """An ask began. `length` and `digest` say what the member was told, without a copy.

    `called` says that the turn is a single call: it leaves with this event, and the ending is its return. `left` is
    what was left of the budget around the turn, and `tier` which of the member's models was to answer.
    """

    kind: ClassVar = "agent.asked"
    member: str
    member_kind: str
    turn: int
    task: Body
    length: int
    digest: str
    purpose: Purpose = "work"
    called: bool = False
    left: Amounts | None = None
    tier: Tier = "primary"


class Tally(Record, frozen=True):
    """What the effects inside one agent's turn came to, so that its ending stands for them all.

    `charged` is what the budget was charged where that differs from the tokens used, and `charged_usd` where it
    differs from the money.
    """

    calls: int = 0
    charged: int | None = None
    charged_usd: float | None = None
    marks: tuple[str, ...] = ()


class AgentReplied(Record, frozen=True):
    kind: ClassVar = "agent.replied"
    messages: tuple[MessageRef, ...] = ()
    data: Body | None = None
    usage: Usage = NOTHING
    signal: Signal | None = None
    stop_reason: str | None = None
    truncated: bool = False
    warnings: tuple[str, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    tally: Tally | None = None
    handoff: HandoffNote | None = None


class AgentFailed(Record, frozen=True):
    """An ask ended without an answer; `cancelled` endings follow from a decision that is recorded elsewhere.

    `path` is who failed inside the member that was asked, and begins with its name; empty where it failed itself.
    """

    kind: ClassVar = "agent.failed"
    member: str
    error: str
    message: str
    usage: Usage = NOTHING
    messages: tuple[MessageRef, ...] = ()
    data: Body | None = None
    tally: Tally | None = None
    path: str = ""
    warnings: tuple[str, ...] = ()


class AgentAbandoned(Record, frozen=True):
    """A member, or a call of one, did not end within the grace time after it was cancelled."""

    kind: ClassVar = "agent.abandoned"
    name: str
    grace: float


class AgentCalled(Record, frozen=True):
    """An effect is about to leave, after it has `waited` for its turn at the model. Without a return it is in doubt."""

    kind: ClassVar = "agent.called"
    effect: EffectKind
    name: str
    request: str
    attempt: int = 1
    reserved: int = 0
    reserved_usd: float = 0.0
    max_output: int | None = None
    in_doubt: bool = False
    waited: float = 0.0


class AgentRecovered(Record, frozen=True):
    """Something is tried after an ask failed: a shorter conversation, another agent, or a person's advice."""

    kind: ClassVar = "agent.recovered"
    member: str
    error: str
    how: Literal["summarised", "fell_back", "asked_person"]
    to: str = ""


class AgentReturned(Record, frozen=True):
    kind: ClassVar = "agent.returned"
    body: Body
    attempt: int = 1
    usage: Usage = NOTHING
    mark: str | None = None
    truncated: bool = False
    form: ValueForm | None = None
    capped: int | None = None


class AgentCallFailed(Record, frozen=True):
    """An effect failed; it is made again after `retry_in` seconds, or is given up."""

    kind: ClassVar = "agent.call_failed"
    error: str
    message: str
    attempt: int = 1
    retry_in: float | None = None
    charged: bool = False
    mark: str | None = None
