"""What the terminal says about a team's plan while it runs."""

from __future__ import annotations

from teamwright.values.events.event import Event
from teamwright.values.events.plan import TeamMerged, TeamPhase, TeamPlanChanged, TeamPlanProposed, TeamPlanStatus
from teamwright.values.text.display import count_text

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
