"""Carries out what people change in a live run: messages, pauses of members, raised budgets, changes of the team.

Each intervention is accepted or refused when it arrives, and takes effect at a recorded place: before an ask, or for
the run as a whole. A replay applies it at the same places and nowhere else, so an ask that has begun in the record
never changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf

from msgspec import structs

from teamwright.agents.agent import Agent, AppliedChange, ApplyChange
from teamwright.errors import TeamwrightError
from teamwright.history.recorded_charges import TOO_LATE
from teamwright.runtime.context.timers import Deadline
from teamwright.runtime.people.interventions import Interventions, redacted_steer, refusal_of
from teamwright.runtime.people.questions import BEFORE, ask_person_at
from teamwright.runtime.run_state import RunState
from teamwright.runtime.scope import Scope
from teamwright.strategies.protocol import Members
from teamwright.teams.team import Team
from teamwright.values.events.budget import BudgetRaised
from teamwright.values.events.run import RunApplied, RunIntervened, RunRefused
from teamwright.values.events.team import TeamLife, TeamPlanChanged, TeamPlanProposed, TeamPlanStatus
from teamwright.values.limits import tighter
from teamwright.values.people import (
    RESUME,
    AddMember,
    Answer,
    Question,
    RaiseBudget,
    ResumeMember,
    Steer,
    StopStep,
    TeamChange,
    Tell,
)
from teamwright.values.run_keys import join_key, parent_key
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.turn import Turn

PLAN_FACTS = (TeamPlanChanged.kind, TeamPlanStatus.kind, TeamPlanProposed.kind, TeamLife.kind)
NEXT_STOP = "!stop-next"
"""The key at which steps are stopped."""
PAUSED = "paused"
"""The last part of the key at which a paused member waits."""


def interventions_of(run: RunState, team: Team) -> Interventions:
    """Return the interventions of a run of this team; most runs have none, so they are set up with the first one."""
    if run.interventions is None:
        run.interventions = Interventions(run.record.interventions, team)
    return run.interventions


def receive_steer(run: RunState, team: Team, steer: Steer, inbox_id: int, refusal: str | None = None) -> None:
    """Accept an intervention from the inbox, or refuse it with the reason, `refusal` if there is one already."""
    interventions = interventions_of(run, team)
    steer = redacted_steer(steer, run.redactor)
    reason = refusal or refusal_now(run, team, steer)
    if reason is None and isinstance(steer, AddMember):
        reason = _build_problem(interventions, steer)
    if reason is not None:
        run.recorder.add("", "", RunRefused(intervention=steer, inbox_id=inbox_id, reason=reason))
        return
    run.recorder.add("", "", RunIntervened(intervention=steer, inbox_id=inbox_id))
    if isinstance(steer, RaiseBudget | ResumeMember):
        _apply_to_run(run, team, steer, inbox_id)
    else:
        interventions.accept(steer, inbox_id)
        if isinstance(steer, StopStep) and run.apply_at_once is not None:
            _stop_when_clear(run, interventions)


def refusal_now(run: RunState, team: Team, steer: Steer) -> str | None:
    """Return why a run can't take an intervention after what it has accepted; None if it can."""
    interventions = interventions_of(run, team)
    limits = [one for one in map(interventions.raised, (run.limits, team.policy.limits)) if one is not None]
    reason = refusal_of(steer, team, limits, interventions.paused, interventions.joined)
    if reason is None and isinstance(steer, AddMember):
        reason = _name_problem(interventions, steer.member)
    if reason is None and isinstance(steer, TeamChange):
        reason = _present_problem(run, interventions, steer)
    return reason


def take_at_once(scope: Scope, apply: ApplyChange) -> None:
    """Let `apply` carry out from now on what waits for no place; repeat what is recorded of it, each in its turn."""
    run = scope.run
    run.apply_at_once, run.changed_scope = apply, scope.path
    if run.interventions is None:
        return
    for key, stop in run.interventions.recorded.stops.items():
        run.delivery.call_in_turn(key, partial(_repeat_stop, apply, stop))
    _stop_when_clear(run, run.interventions)


def _repeat_stop(apply: ApplyChange, stop: StopStep) -> None:
    apply(AppliedChange(stop))


def _stop_when_clear(run: RunState, interventions: Interventions) -> None:
    """Stop steps once everything that is recorded has been delivered: a replay stops them in the same state.

    The event that says so is the next one, so the key is not recorded.
    """
    if interventions.stops and not interventions.stops_next:
        interventions.stops_next = True
        run.delivery.enqueue(NEXT_STOP)
        run.delivery.call_in_turn(NEXT_STOP, partial(_stop_next, run, interventions))


def _stop_next(run: RunState, interventions: Interventions) -> None:
    """Stop the step that comes first; what is being stopped has ended before the next one."""
    interventions.stops_next = False
    if run.closing or run.apply_at_once is None or run.check_change is None:
        return
    if run.delivery.is_clear:
        inbox_id, stop = next(iter(interventions.stops.items()))
        del interventions.stops[inbox_id]
        interventions.applied.add(inbox_id)
        if (reason := run.check_change(stop, ())) is not None:
            run.recorder.add("", "", RunRefused(intervention=stop, inbox_id=inbox_id, reason=reason))
        else:
            run.recorder.add(run.changed_scope, "", RunApplied(intervention=stop, inbox_id=inbox_id))
            run.apply_at_once(AppliedChange(stop))
    _stop_when_clear(run, interventions)


def _present_problem(run: RunState, interventions: Interventions, change: TeamChange) -> str | None:
    """Return why the team can't be changed so after what waits, as far as the strategy says it.

    A step is stopped at once, before changes that wait.
    """
    if run.check_change is None or run.delivery.is_replaying:
        return None
    before = () if isinstance(change, StopStep) else interventions.changes.values()
    return run.check_change(change, [AppliedChange(one, joining_agent(interventions, one)) for one in before])


def _name_problem(interventions: Interventions, name: str) -> str | None:
    """Return why no member can join under a name, also before the team is at work."""
    team = interventions.team
    joining = (one.member for one in interventions.changes.values() if isinstance(one, AddMember))
    if name in joining or any(one.name == name for one in team.members):
        return f"there is already a member {name!r}; choose another name"
    if any(one.name == name for one in team.helpers):
        return f"{name!r} is the name of an agent that leads, judges or helps this team; choose another one"
    if any(one.name == name for one in team.everyone()):
        return f"{name!r} is the name of an agent within this team, such as one of a team in it; choose another one"
    return None


def _build_problem(interventions: Interventions, change: AddMember) -> str | None:
    """Build the agent that joins, or return why that is impossible."""
    from teamwright.teams.preflight import new_member_problem

    try:
        agent = joining_agent(interventions, change)
    except TeamwrightError as error:
        return str(error).rstrip(".")
    problem = None if agent is None else new_member_problem(interventions.team, agent)
    if problem is not None:
        del interventions.joined[change.member]
    return problem


def apply_pending(run: RunState, team: Team) -> None:
    """Carry out what an earlier driver accepted and that takes effect at once."""
    for inbox_id, steer in interventions_of(run, team).pending:
        _apply_to_run(run, team, steer, inbox_id)


def _apply_to_run(run: RunState, team: Team, steer: RaiseBudget | ResumeMember, inbox_id: int) -> None:
    """Carry out an intervention that takes effect at once."""
    if isinstance(steer, RaiseBudget):
        _raise_budget(run, team, steer, inbox_id)
    else:
        interventions_of(run, team).accept(steer, inbox_id)
        for waiting in run.questions.values():
            question = waiting.question
            if question.reason == "pause" and question.about == steer.member and not waiting.answer.done():
                waiting.answer.set_result(Answer(text=RESUME, by=steer.by))
    run.recorder.add("", "", RunApplied(intervention=steer, inbox_id=inbox_id))
    interventions_of(run, team).applied.add(inbox_id)


def _raise_budget(run: RunState, team: Team, steer: RaiseBudget, inbox_id: int) -> None:
    """Raise the limits of the run and of its outermost team: those recorded, the accounts, and the deadline."""
    interventions = interventions_of(run, team)
    interventions.raises.pop(inbox_id, None)  # if an earlier driver accepted it
    before = interventions.raised(run.limits), interventions.raised(team.policy.limits)
    interventions.accept(steer, inbox_id)
    run.limits, own = interventions.raised(run.limits), interventions.raised(team.policy.limits)
    for scope in sorted(run.record.budgets.opened):
        limits = own if scope else run.limits
        if limits is None or parent_key(scope) or limits == before[bool(scope)]:
            continue
        run.recorder.add(scope, "", BudgetRaised(limits=limits.bounds))
        if (account := run.accounts.get(scope)) is not None:
            account.raise_bounds(limits)
    seconds = tighter(*(one.seconds if one else None for one in (own, run.limits)))
    for resource in tuple(run.open_resources):
        if seconds is not None and isinstance(resource, Deadline) and resource.is_outermost:
            resource.extend(seconds)
        elif isinstance(resource, Deadline) and resource.is_of_own_team and run.limits and run.limits.seconds:
            resource.extend_to(run.limits.seconds)


async def steer_ask(interventions: Interventions, scope: Scope, member: str, turn: Turn, place: str) -> Turn:
    """Hold an ask while its member is paused, and return its turn with what people have said.

    Asks inside an agent's turn and those of judges are left alone.
    """
    if scope.in_agent or turn.aside or turn.purpose == "judge":
        return turn
    await _wait_while_paused(interventions, scope, member, place)
    return _with_messages(interventions, scope, member, turn, place)


async def _wait_while_paused(interventions: Interventions, scope: Scope, member: str, place: str) -> None:
    run, key = scope.run, f"{place}/{PAUSED}"
    full = join_key(scope.path, key)
    if full not in run.record.questions:
        if member not in interventions.paused or _has_begun(scope, place):
            return
        inbox_id, pause = interventions.paused[member]
        run.recorder.add(scope.path, place, RunApplied(intervention=pause, inbox_id=inbox_id))
        interventions.applied.add(inbox_id)
    elif member not in interventions.paused:
        run.answers.setdefault(full, Answer(text=RESUME))
    question = Question(text=f"{member!r} is paused.", choices=(RESUME,), reason="pause", about=member)
    await ask_person_at(scope, key, question)
    if full not in run.record.answers:
        interventions.paused.pop(member, None)


def _with_messages(interventions: Interventions, scope: Scope, member: str, turn: Turn, place: str) -> Turn:
    placed = interventions.placed.setdefault(scope.path, {})
    for fact in interventions.recorded.places.get(join_key(scope.path, place), ()):
        if isinstance(fact.intervention, Tell) and fact.at is not None:
            placed[fact.inbox_id] = fact
    if not _has_begun(scope, place):
        for inbox_id, tell in interventions.messages.items():
            if (
                inbox_id in placed
                or tell.to not in ("", member)
                or _is_read(interventions, scope, inbox_id, tell, turn)
            ):
                continue
            placed[inbox_id] = fact = RunApplied(intervention=tell, inbox_id=inbox_id, at=len(turn.history))
            scope.run.recorder.add(scope.path, place, fact)
            interventions.applied.add(inbox_id)
    said = [(fact.at or 0, tell) for fact in placed.values() if isinstance(tell := fact.intervention, Tell)]
    read = [(at, _message(tell)) for at, tell in said if tell.to in ("", member)]
    return _insert(turn, read) if read else turn


def _is_read(interventions: Interventions, scope: Scope, inbox_id: int, tell: Tell, turn: Turn) -> bool:
    """Whether the history of a turn has a message already, from the turn of the team around it.

    Others may have the same text: those that the run began with, and those that were sent before.
    """
    message = _message(tell)
    sent_before = sum(one.text == tell.text for other, one in interventions.messages.items() if other < inbox_id)
    return turn.history.count(message) > scope.run.history.count(message) + sent_before


async def take_changes(
    interventions: Interventions, scope: Scope, place: str, apply: ApplyChange, *, messages: bool
) -> Sequence[AppliedChange]:
    """Let `apply` carry out what people want changed before the ask, or the fact about the plan, at `place`.

    Only the outermost team is changed. What is carried out is recorded, so a replay does the same: there, too, the
    branches that were started before have come as far as they can, and nothing new comes before what is recorded.
    """
    full, run = join_key(scope.path, place), scope.run
    recorded = [fact for fact in interventions.recorded.places.get(full, ()) if fact.at is None]
    done: list[AppliedChange] = []
    if recorded or full in interventions.recorded.refused:
        await run.delivery.rejoin(scope.lane)
    for fact in recorded:
        interventions.handed_out.add(fact.inbox_id)
        if isinstance(change := fact.intervention, Tell | TeamChange):
            done.append(one := AppliedChange(change, joining_agent(interventions, change)))
            apply(one)
    if done or interventions.taking or has_passed(interventions, scope, place) or not scope.is_outermost:
        return done
    if not _pending_changes(interventions, scope, messages=messages):
        return done
    interventions.taking = True
    try:
        await run.delivery.rejoin(scope.lane)
    finally:
        interventions.taking = False
    for inbox_id, change in _pending_changes(interventions, scope, messages=messages):
        one = AppliedChange(change, joining_agent(interventions, change))
        if (reason := apply(one)) is None:
            run.recorder.add(scope.path, place, RunApplied(intervention=change, inbox_id=inbox_id))
            done.append(one)
        else:
            run.recorder.add(scope.path, place, RunRefused(intervention=change, inbox_id=inbox_id, reason=reason))
        interventions.changes.pop(inbox_id, None)
        interventions.handed_out.add(inbox_id)
        interventions.applied.add(inbox_id)
    return done


def has_passed(interventions: Interventions, scope: Scope, place: str) -> bool:
    """Whether an earlier driver has come beyond a place, so that nothing new takes effect before it."""
    full = join_key(scope.path, place)
    return (
        full in interventions.recorded.refused
        or any(fact.at is None for fact in interventions.recorded.places.get(full, ()))
        or _has_begun(scope, place)
        or _is_planned(scope, place)
        or full in interventions.begun(scope.run.record)
    )


def _pending_changes(
    interventions: Interventions, scope: Scope, *, messages: bool
) -> list[tuple[int, TeamChange | Tell]]:
    """Return the changes that may be carried out now and, if wanted, the messages to all or the lead, as they arrived.

    While a replay has more to deliver, or asks to reach, an earlier driver may have come by here before it accepted
    what was sent since.
    """
    run, pending = scope.run, dict[int, TeamChange | Tell](interventions.changes)
    if messages and interventions.messages:
        team = interventions.team
        lead = team.strategy.lead(team.settings, Members(team.members, team.helpers))
        unread = (one for one in interventions.messages.items() if one[0] not in interventions.handed_out)
        pending |= {inbox_id: tell for inbox_id, tell in unread if tell.to in ("", lead)}
    if pending:
        at, before, asks = interventions.recorded.accepted_at, inf, run.record.asks
        if run.delivery.is_replaying:  # it came by after the last delivery, or else after the team was asked
            before = run.last_delivered or (asks[scope.path].number if scope.path in asks else 0)
        if (ask := run.unreached_ask()) is not None:
            before = min(before, asks[ask].number)
        if before < inf:
            pending = {one: change for one, change in pending.items() if at.get(one, inf) < before}
    return sorted(pending.items(), key=lambda one: one[0])


def joining_agent(interventions: Interventions, change: TeamChange | Tell) -> Agent | None:
    """Return the agent that a change adds, built once."""
    if not isinstance(change, AddMember):
        return None
    if change.member not in interventions.joined:
        from teamwright.teams.team_loader import build_new_member  # with the manifests, which most runs never need

        interventions.joined[change.member] = build_new_member(interventions.team, change.member, change.spec)
    return interventions.joined[change.member]


def refuse_unapplied(run: RunState) -> None:
    """Record, for a run that ends, which accepted interventions never took effect."""
    for inbox_id, steer in run.interventions.unapplied.items() if run.interventions is not None else ():
        run.recorder.add("", "", RunRefused(intervention=steer, inbox_id=inbox_id, reason=TOO_LATE))


def _has_begun(scope: Scope, place: str) -> bool:
    """Whether an earlier driver has begun the ask, so that nothing new takes effect before it."""
    record, full = scope.run.record, join_key(scope.path, place)
    return full in record.asks or join_key(full, BEFORE) in record.questions


def _is_planned(scope: Scope, place: str) -> bool:
    """Whether an earlier driver has recorded a fact about the plan there, so that nothing new takes effect before."""
    return any((kind, scope.path, place) in scope.run.record.emitted for kind in PLAN_FACTS)


def _message(tell: Tell) -> Message:
    return Message(name="user", content=tell.text, role="user")


def _insert(turn: Turn, read: Sequence[tuple[int, Message]]) -> Turn:
    """Return the turn with each message at its position in the conversation, or at the end of a shorter one."""
    messages = list(turn.history)
    for offset, (at, message) in enumerate(sorted(read, key=lambda one: one[0])):
        place = max(min(at, len(turn.history)), turn.since or 0)
        messages.insert(place + offset, message)
    return structs.replace(turn, history=History.of(messages))
