"""The wording of what teams do beside asking: plans, phases, messages between members, interventions."""

from __future__ import annotations

from typing import assert_never

from teamwright.values.events.event import Event
from teamwright.values.events.run import RunAborted, RunApplied, RunIntervened, RunRefused
from teamwright.values.events.team import (
    TeamLife,
    TeamMerged,
    TeamMessage,
    TeamPhase,
    TeamPlanChanged,
    TeamPlanProposed,
    TeamPlanStatus,
)
from teamwright.values.people import (
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
from teamwright.values.text.display import count_text, cut

FIRST = 1


def plan_note(event: Event) -> str | None:
    """Return the line for a change of a plan, of its status or of a phase; none for other events."""
    match event.fact:
        case TeamPlanChanged(plan_version=version, difference=lines, by=by):
            if version == FIRST:
                phases = sum(line.startswith("+ ") for line in lines)
                return f"the plan{f' of {by}' if by else ''} has {count_text(phases, 'phase')}"
            return f"{by or 'a person'} changes the plan (version {version}): {'; '.join(lines)}"
        case TeamPlanStatus(status="failed" | "fallback" as status, reason=reason):
            return f"the plan is {status}{f': {reason}' if reason else ''}"
        case TeamPlanProposed(by=by, to=to, approved=approved, reason=reason):
            decided = f"{to or 'a person'} {'approves' if approved else 'refuses'}"
            return f"{by} proposes to change the plan; {decided}{f': {reason}' if reason else ''}"
        case _:
            return _phase_note(event)


def is_plan_progress(event: Event) -> bool:
    """Whether a plan goes on as planned: nothing failed, was refused, or has to be tried again."""
    match event.fact:
        case TeamPhase(status=status, attempt=attempt):
            return status in ("in_progress", "completed") and attempt == FIRST
        case TeamPlanChanged(plan_version=version):
            return version == FIRST
        case TeamMerged():
            return True
        case _:
            return False


def _phase_note(event: Event) -> str | None:
    match event.fact:
        case TeamPhase(phase=phase, status="in_progress", attempt=attempt, members=members):
            again = "" if attempt == FIRST else f", attempt {attempt}"
            return f"phase {phase} starts{again}: {', '.join(members)}"
        case TeamPhase(phase=phase, status="pending"):
            return f"phase {phase} waits until the lead has split it"
        case TeamPhase(phase=phase, status=status):
            return f"phase {phase} {'is ' if status != 'failed' else ''}{status}"
        case TeamMerged(phase=phase, winner=winner, by=by, tied=tied, votes=votes, entries=entries):
            if not winner:
                return f"phase {phase}: {by} merged the answers"
            given = sum(one == winner for one in votes.values())
            how = f" by {count_text(given, 'vote')}" if votes else f", {by} decided" if by else ""
            tie = f", a tie that {by} broke" if tied else ""
            return f"phase {phase}: {winner} of {entries.get(winner, '')} wins{how}{tie}"
        case _:
            return None


LONGEST_MESSAGE = 120
"""Characters of a message that a note shows."""


def live_note(event: Event) -> str | None:
    """Return the line for a message between members, or a change of the team; none for other events."""
    match event.fact:
        case TeamMessage(type=kind, by=by, to=to, text=text):
            words = {"chat": "tells", "assist_request": "asks", "assist": "answers", "decision": "decides for"}
            return f"{by} {words[kind]} {', '.join(to)}: {cut(visible(text), LONGEST_MESSAGE)}"
        case TeamLife(reason=reason, members=members, left=left) if reason:
            gone = f"; left: {', '.join(left)}" if left else ""
            return f"{reason}: {', '.join(members)}{gone}"
        case TeamLife(state="dissolved"):
            return "the team is dissolved; its outputs stay"
        case _:
            return None


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
