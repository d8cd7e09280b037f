"""What must hold in every run of a team that works through a plan, read from its record."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from teamwright.strategies.plan.plan_change import step_fields
from teamwright.values.events.agent import AgentAsked, AgentCalled, AgentCallFailed, AgentFailed, AgentReturned
from teamwright.values.events.event import Event
from teamwright.values.events.run import PersonAnswered, RunApplied, RunIntervened, RunRefused
from teamwright.values.events.team import (
    StepSkipped,
    TeamEnded,
    TeamEvaluationResult,
    TeamEvaluationStarted,
    TeamMerged,
    TeamPlanChanged,
    TeamPlanProposed,
    TeamPlanStatus,
    TeamStarted,
    TeamStepAssigned,
    TeamStepCompleted,
    TeamStepFailed,
)
from teamwright.values.limits import Limits
from teamwright.values.people import ACCEPT, APPROVE, EDIT, RaiseBudget, ResumeMember
from teamwright.values.run_keys import nearest_key
from teamwright.values.specs.plan import Plan
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import PASSED
from tests.laws.plan_members import MARK, TROUBLE, mark_of
from tests.laws.random_plans import NEVER, PlanCase
from tests.laws.test_interventions import check_answers

T = TypeVar("T")
ENDED = frozenset(("agent.replied", "agent.failed"))
BUGS = re.compile(r"\b(?:Assertion|Key|Index|Attribute|Type|Value|Runtime|Unbound\w*)Error\b|IllegalMove|DuplicateKey")
LAST = 1 << 30
ENDINGS = {
    "completed": {"done", "terminated"},
    "degraded": {"done", "budget"},
    "failed": {"error", "planning", "review_exceeded"},
}
"""The stop reasons of a team that is not stopped, by its status; see the contract of both."""
FREE = re.compile(r"/lead/finish\b")
"""The asks that read all that was learnt, whatever became of its review: one agent finishes alone, and checks it."""


@dataclass
class TeamLog:
    """The events of one team, without those of teams within it, and its plan at each event."""

    scope: str
    events: list[Event] = field(default_factory=list[Event])
    options: dict[str, Any] | None = None

    def facts(self, kind: type[T]) -> list[T]:
        """The facts of a kind, in order."""
        return [event.fact for event in self.events if isinstance(event.fact, kind)]


AT_TEAM = re.compile(r"t(#\d+)?")
"""The scope of the whole team; where its conversation was too long, it is asked again with a summary."""


def logs_of(events: Sequence[Event]) -> list[TeamLog]:
    """The events of each team; an event belongs to the innermost team around it."""
    logs: dict[str, TeamLog] = {}
    for event in events:
        if isinstance(event.fact, TeamStarted):
            logs[event.scope] = TeamLog(event.scope)
        inner = [scope for scope in logs if event.scope == scope or event.scope.startswith(f"{scope}/")]
        if inner:
            logs[max(inner, key=len)].events.append(event)
    return list(logs.values())


def check_run(case: PlanCase, events: Sequence[Event], result: RunResult) -> None:
    """Check all laws of one whole record."""
    for event in events:
        if isinstance(event.fact, AgentFailed):
            assert event.fact.error != "crash", event.fact.message
            assert not BUGS.search(event.fact.message), event.fact.message
    check_endings(events, result)
    check_answered(case, events)
    check_budget(case.limits, events)
    check_judges(events)
    for log in logs_of(events):
        check_versions(log)
        check_pins(log)
        check_order(log, case)
        check_steps_end(log)
        check_verdicts(log)
        check_merges(log)
    assert result.failure is None or not BUGS.search(result.failure.message), result.failure


def check_endings(events: Sequence[Event], result: RunResult) -> None:
    """Check that the run and each of its teams ended once, the run as its result says."""
    assert [event.kind for event in events].count("run.ended") == 1
    assert events[-1].kind == "run.ended"
    started = Counter(event.scope for event in events if isinstance(event.fact, TeamStarted))
    ended = Counter(event.scope for event in events if isinstance(event.fact, TeamEnded))
    assert max(started.values()) == 1
    assert set(ended.values()) <= {1}
    whole = [event.fact for event in events if isinstance(event.fact, TeamEnded) and AT_TEAM.fullmatch(event.scope)][-1]
    assert (whole.status or result.status, whole.stop_reason) == (result.status, result.stop_reason)
    assert result.stop_reason in ENDINGS[result.status]
    assert (result.status == "failed") == (result.failure is not None and result.status != "degraded"), result
    if (result.status, result.stop_reason) == ("completed", "done"):
        assert not result.warnings, result.warnings
    if result.status == "degraded":
        assert result.warnings


def check_answered(case: PlanCase, events: Sequence[Event]) -> None:
    """Check that each intervention is answered for once, and that no impossible one was acknowledged."""
    answered = check_answers(list(events))
    assert len(answered) <= len(case.sent) + sum(event.kind == "person.answered" for event in events)
    for event in events:
        if isinstance(event.fact, RunIntervened):
            assert getattr(event.fact.intervention, "by", "") != NEVER, event.fact


def check_budget(limits: Limits | None, events: Sequence[Event]) -> None:
    """Check that the run never used more than its limits, which people may have raised."""
    if limits is None:
        return
    raised = [
        event.fact.intervention.calls or 0
        for event in events
        if isinstance(event.fact, RunApplied) and isinstance(event.fact.intervention, RaiseBudget)
    ]
    if limits.calls is not None:
        # A turn may be stopped before its next call is durable: that is not made. It was charged for those that were.
        stopped = {
            event.key: event.fact.tally.calls if event.fact.tally is not None else 0
            for event in events
            if isinstance(event.fact, AgentFailed) and event.fact.error == "cancelled"
        }
        calls = [event for event in events if isinstance(event.fact, AgentCalled) and event.fact.effect == "model"]
        turns = Counter(nearest_key(event.scope, stopped) for event in calls)
        used = sum(min(count, stopped.get(turn, count)) for turn, count in turns.items())
        assert used <= max([limits.calls, *raised])
    if limits.tokens is not None:
        used = sum(event.fact.usage.total_tokens for event in events if isinstance(event.fact, AgentReturned))
        assert used <= limits.tokens


def check_versions(log: TeamLog) -> None:
    """Check that the versions of the plan are numbered without gaps, and that each fact names the present one."""
    present, is_first = 1, True
    for event in log.events:
        if isinstance(event.fact, TeamPlanChanged):
            expected = (1, 2) if is_first else (present + 1,)
            assert event.fact.plan_version in expected, (event.fact.plan_version, present)
            present, is_first = event.fact.plan_version, False
            assert Plan.model_validate(event.fact.plan).version == present
        elif isinstance(event.fact, TeamPlanStatus):
            assert event.fact.plan_version == present


def check_pins(log: TeamLog) -> None:
    """Check that what a person edited stays, unless a person changes it or approves that it is changed.

    A step that has failed may be replaced by others.
    """
    before: Plan | None = None
    approved, failed = 0, set[str]()
    for event in log.events:
        match event.fact:
            case PersonAnswered(answer=answer):
                approved += answer.text in (APPROVE, EDIT)
            case TeamStepFailed(step=step):
                failed.add(step)
            case TeamPlanChanged(plan=data, by=by):
                after = Plan.model_validate(data)
                if before is not None:
                    assert set(before.pins.steps) <= set(after.pins.steps)
                    assert set(before.pins.variables) <= set(after.pins.variables)
                    if by and (lost := {*_overwritten(before, after)} - failed):
                        assert approved, f"a person set {lost}, and {by} changed it"
                        approved -= 1
                before = after
            case _:
                pass


def _overwritten(before: Plan, after: Plan) -> Iterator[str]:
    """The steps and variables of which something changed that a person had set."""
    for id_, fields in before.pins.steps.items():
        old, new = before.by_id.get(id_), after.by_id.get(id_)
        if old is None or new is None:
            if old is not new:
                yield id_
            continue
        was, now = step_fields(old), step_fields(new)
        if any(was.get(name) != now.get(name) for name in fields):
            yield id_
    for name in before.pins.variables:
        if before.variables.get(name) != after.variables.get(name):
            yield f"variable {name}"


def step_of(log: TeamLog, key: str, ids: Iterable[str]) -> str | None:
    """The step in whose branch a key is: the first of its parts that names one."""
    parts = key.removeprefix(f"{log.scope}/").split("/")
    return next((part for part in parts if part in ids), None)


def check_order(log: TeamLog, case: PlanCase) -> None:
    """Check that no step starts before those have ended which it needs in the plan of that moment."""
    steps: dict[str, tuple[str, ...]] = {}
    if log.scope == "t":
        steps = {one["id"]: tuple(one.get("needs", ())) for one in case.options.get("steps", ())}
    keeps_states = bool(log.facts(TeamStepAssigned))
    over, begun = set[str](), set[str]()
    asks: dict[str, str] = {}
    open_asks: defaultdict[str, set[str]] = defaultdict(set)
    for event in log.events:
        match event.fact:
            case TeamPlanChanged(plan=data):
                steps = {one.id: one.needs for one in Plan.model_validate(data).steps}
            case TeamStepAssigned(step=step) if step not in begun:
                begun.add(step)
                assert set(steps.get(step, ())) <= over, f"{step} started before {set(steps[step]) - over}"
            case TeamStepCompleted(step=step) | StepSkipped(step=step):
                over.add(step)
            case AgentAsked(purpose="work") if not keeps_states:
                step = step_of(log, event.key, steps)
                if step is None or event.place != "work":
                    continue
                open_asks[step].add(event.key)
                asks[event.key] = step
                if step not in begun:
                    begun.add(step)
                    assert set(steps[step]) <= over, f"{step} started before {set(steps[step]) - over}"
            case _ if event.kind in ENDED and event.key in asks:
                over.add(asks[event.key])
            case _:
                pass


def check_steps_end(log: TeamLog) -> None:
    """Check that each step that was started ended once, and that none ended that was not."""
    if not log.facts(TeamEnded) or log.facts(TeamEnded)[0].stop_reason == "cancelled":  # by those around it
        return
    begun = {fact.step for fact in log.facts(TeamStepAssigned)}
    ended = Counter(fact.step for fact in log.facts(TeamStepCompleted))
    assert set(ended) == begun, (begun, ended)
    assert set(ended.values()) <= {1}, ended
    skipped = Counter(fact.step for fact in log.facts(StepSkipped))
    assert not skipped.keys() & begun, skipped
    assert set(skipped.values()) <= {1}, skipped


def check_judges(events: Sequence[Event]) -> None:
    """Check that no author was asked about its own work, neither as a judge nor by one, as a member of a team."""
    authors: dict[str, str] = {}
    for event in events:
        if isinstance(event.fact, TeamEvaluationStarted):
            authors[event.key.removesuffix("/started")] = event.fact.member
        elif isinstance(event.fact, AgentAsked):
            for key, author in authors.items():
                if event.key.startswith(f"{key}/"):
                    assert event.fact.member != author, f"{author} judges its own work at {event.key}"


def check_verdicts(log: TeamLog) -> None:
    """Check that work passes where all its criteria do, and is accepted by people alone."""
    accepted = 0
    for event in log.events:
        match event.fact:
            case PersonAnswered(answer=answer):
                accepted += answer.text == ACCEPT
            case TeamEvaluationResult(verdict=verdict) if verdict.outcome == "pass":
                assert verdict.criteria
                assert all(one.passed for one in verdict.criteria), verdict
            case TeamEvaluationResult(verdict=verdict) if verdict.outcome == "accepted":
                accepted -= 1
                assert accepted >= 0, f"no person accepted the work at {event.key}"
            case _:
                pass


def check_merges(log: TeamLog) -> None:
    """Check that no member decided a competition for its own answer, or approved its own proposal."""
    for fact in log.facts(TeamMerged):
        if fact.merge != "fusion":
            among = fact.tied or tuple(fact.entries)
            assert fact.by not in {fact.entries[name] for name in among} or len(fact.entries) == 1, fact
        for voter, vote in fact.votes.items():
            assert not vote or fact.entries[vote] != voter, fact
    for proposal in log.facts(TeamPlanProposed):
        assert not proposal.approved or proposal.to != proposal.by or not proposal.to, proposal


def check_reviews(
    case: PlanCase, events: Sequence[Event], prompts: Sequence[tuple[str, str]], result: RunResult
) -> None:
    """Check that work under review reached no other step, no answer and no result before its review let it count.

    And the text of no failure reached anyone.
    """
    (log,) = [one for one in logs_of(events) if one.scope == "t"]
    ids, reviewed = _reviewed_steps(case, log)
    _check_completed(log, reviewed)
    lenient = ids if case.options.get("risk") == "low" else set[str]()  # with a warning
    counts, steps, asked = dict[str, int](), dict[str, str](), dict[str, int]()
    for event in log.events:
        match event.fact:
            case AgentAsked(purpose=purpose):
                asked[event.key] = event.number
                step = step_of(log, event.key, ids)
                if purpose == "work" and step in reviewed and "evaluation-" not in event.key:
                    steps[mark_of(event.key)] = step
            case TeamEvaluationResult(verdict=verdict, work=work):
                if verdict.passes or step_of(log, f"{event.scope}/", ids) in lenient:
                    counts.setdefault(mark_of(f"{event.scope}/{work}"), event.number)
            case _:
                pass
    for key, prompt in prompts:
        assert TROUBLE not in prompt, f"a failure reached {key}"
        if FREE.search(key) or (case.talks and case.habits.talks):
            continue
        for mark in MARK.findall(prompt):
            if mark in steps and steps[mark] != step_of(log, key, ids):
                is_reviewed = mark in counts and counts[mark] < asked.get(key, LAST)
                assert is_reviewed, f"the work on {steps[mark]} reached {key} without a review"
    is_finished = any(event.key in ("t/lead/finish", "t/plan/lead/finish") for event in events)
    for mark in MARK.findall(result.output or "") if result.output_kind == "answer" and not is_finished else ():
        assert mark not in steps or mark in counts, f"the work on {steps[mark]} is the result"


def _check_completed(log: TeamLog, reviewed: set[str]) -> None:
    """Check that each step under review that is completed has passed it."""
    for fact in log.facts(TeamStepCompleted):
        if fact.state == "completed" and fact.step in reviewed and not fact.nothing_found:
            assert fact.verdict in PASSED, f"the work on {fact.step} counts without a review"


def _reviewed_steps(case: PlanCase, log: TeamLog) -> tuple[set[str], set[str]]:
    """The ids of all steps, and of those whose work is reviewed by criteria in every version of the plan."""
    by_team = bool((case.options.get("evaluate") or {}).get("criteria"))
    ids, reviewed, plain = {"answer"}, set[str](), set[str]()
    steps: list[Any] = [*case.options.get("steps", ())]
    for fact in log.facts(TeamPlanChanged):
        data: Any = fact.plan
        steps += data["steps"]
    for step in steps:
        ids.add(step["id"])
        own = step.get("evaluate")
        is_reviewed = bool(own.get("criteria")) if own is not None else by_team
        (reviewed if is_reviewed else plain).add(step["id"])
        if step.get("nothing_found"):
            plain.add(step["id"])
    if by_team:
        reviewed.add("answer")
    return ids, reviewed - plain


def recorded_calls(events: Sequence[Event]) -> set[str]:
    """The keys of calls whose result is recorded, which are never made again."""
    found = set[str]()
    for event in events:
        match event.fact:
            case AgentReturned() | AgentCallFailed(retry_in=None):
                found.add(event.key)
            case _:
                pass
    return found


def received(events: Sequence[Event]) -> set[int]:
    """The letters that the run has taken from its inbox."""
    return {event.fact.inbox_id for event in events if isinstance(event.fact, RunIntervened | RunRefused)}


def settled(events: Sequence[Event]) -> set[int]:
    """The letters that had their effect; one that was only accepted has it at the next place, wherever that is."""
    at_once = RaiseBudget | ResumeMember
    taken = {event.fact.inbox_id for event in events if isinstance(event.fact, RunApplied | RunRefused)}
    raised = (event.fact for event in events if isinstance(event.fact, RunIntervened))
    return taken | {fact.inbox_id for fact in raised if isinstance(fact.intervention, at_once)}


def pending_places(events: Sequence[Event], ends: Sequence[int]) -> list[int]:
    """The ends of writes at which an intervention is acknowledged and has no effect yet."""
    waits, found = set[int](), list[int]()
    for event in events:
        match event.fact:
            case RunIntervened(inbox_id=letter):
                waits.add(letter)
            case RunApplied(inbox_id=letter) | RunRefused(inbox_id=letter):
                waits.discard(letter)
            case _:
                pass
        if waits and event.number in ends:
            found.append(event.number)
    return found


def step_endings(events: Sequence[Event]) -> set[tuple[str, str, str]]:
    """How each step ended, by its team."""
    return {(log.scope, fact.step, fact.state) for log in logs_of(events) for fact in log.facts(TeamStepCompleted)}
