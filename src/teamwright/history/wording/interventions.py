"""What people did to a run, in words."""

from __future__ import annotations

from typing import assert_never

from teamwright.values.events.run import RunAborted, RunApplied, RunIntervened, RunRefused
from teamwright.values.people.interventions import (
    ActionClaim,
    AddMember,
    Answered,
    Cancel,
    EditPlan,
    Intervention,
    Mark,
    Pause,
    PauseMember,
    RaiseBudget,
    RemoveMember,
    ResumeMember,
    Tell,
    Undo,
)
from teamwright.values.text.control_characters import visible
from teamwright.values.text.display import cut

LONGEST = 80
"""Characters of a message that a note shows."""


def intervention_text(fact: RunIntervened | RunApplied | RunRefused | RunAborted) -> str:
    """Say what a person did, and whether it was accepted, refused or took effect."""
    match fact:
        case RunAborted(member=member):
            return f"aborted by a person after {member} failed"
        case RunIntervened(intervention=intervention):
            by = "" if isinstance(intervention, Answered | ActionClaim) else intervention.by
            return f"{visible(by) if by else 'a person'} sent: {_text(intervention)}"
        case RunApplied(intervention=intervention):
            return f"in effect: {_text(intervention)}"
        case RunRefused(intervention=intervention, reason=reason):
            return f"refused: {_text(intervention)}: {visible(reason)}"
        case _:
            assert_never(fact)


def _text(intervention: Intervention) -> str:
    match intervention:
        case Tell(text=text, to=to):
            return f"{f'to {to}: ' if to else ''}{cut(visible(text), LONGEST)!r}"
        case PauseMember(member=member):
            return f"pause {member}"
        case ResumeMember(member=member):
            return f"resume {member}"
        case RaiseBudget() as raise_:
            return f"raise the budget to {_amounts(raise_)}"
        case EditPlan():
            return "another plan"
        case AddMember(member=member):
            return f"add {member}"
        case RemoveMember(member=member):
            return f"remove {member}"
        case Answered() | Cancel() | Pause() | Mark() | Undo() | ActionClaim():
            return intervention.kind
        case _:
            assert_never(intervention)


def _amounts(limits: RaiseBudget) -> str:
    """Say limits in words: `$2.5 and 40 calls`."""
    money = f"${limits.usd:g}" if limits.usd is not None else ""
    others = {"tokens": limits.tokens, "calls": limits.calls, "seconds": limits.seconds}
    return " and ".join(filter(None, (money, *(f"{value:g} {name}" for name, value in others.items() if value))))
