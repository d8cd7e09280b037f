"""Page events about a run and about people, what experts wait for, and what the levels of a budget have spent."""

from __future__ import annotations

from collections.abc import Iterator

from teamwright.history.member_board import BudgetLevels, Level
from teamwright.server.page.page_events import (
    PageAmounts,
    PageAnswer,
    PageBudget,
    PageCheckpoint,
    PageFailure,
    PageForecast,
    PageIntervention,
    PageOrigin,
    PageQuestion,
    PageRun,
    PageUsage,
    PageWait,
    WaitKind,
)
from teamwright.server.page.page_state import EventBuilder, page_value
from teamwright.server.page.teams import propose_plan
from teamwright.values import people
from teamwright.values.events import agent, budget, run
from teamwright.values.events.event import Fact
from teamwright.values.events.team import StepHeldUp, StepSkipped
from teamwright.values.run_keys import in_scope, join_key, key_and_parents
from teamwright.values.text.secrets import mask_text, mask_value
from teamwright.values.usage_and_prices import NOTHING, Usage
from teamwright.values.value import JsonValue

NONE_RESERVED = PageAmounts(tokens=0, usd=0.0, calls=0)


def project_run(builder: EventBuilder, fact: Fact) -> bool:
    """Add what a fact about the run or a person shows; returns whether the fact is one."""
    match fact:
        case run.RunStarted():
            _started(builder, fact)
        case run.RunPaused(stop_reason=reason, waiting_for=keys):
            builder.add(PageRun(**builder.head(), state="paused", status="paused", reason=reason, waiting_for=keys))
        case run.RunResumed():
            builder.add(PageRun(**builder.head(), state="resumed", status="running"))
        case run.RunInterrupted():
            builder.add(PageRun(**builder.head(), state="interrupted", status="interrupted"))
        case run.RunQueued():
            builder.add(PageRun(**builder.head(), state="queued", status="queued"))
        case run.RunEnded():
            _ended(builder, fact)
        case run.RunCheckpoint(name=name, by=by):
            builder.add(PageCheckpoint(**builder.head(), name=mask_text(name), by=mask_text(by)))
        case run.RunIntervened() | run.RunApplied() | run.RunRefused() | run.RunAborted():
            _intervention(builder, fact)
        case run.PersonAsked():
            _question(builder, fact)
        case run.PersonAnswered(answer=answer):
            ask = builder.state.ask_around(builder.key)
            expert = None if ask is None or ask.is_team else ask.expert
            text, data = mask_text(answer.text), mask_value(answer.data)
            builder.add(PageAnswer(**builder.head(expert), text=text, data=data, by=mask_text(answer.by)))
        case _:
            return False
    return True


def _started(builder: EventBuilder, fact: run.RunStarted) -> None:
    strategy = builder.state.start(fact, builder.source.value(fact.manifest))
    origin = fact.origin
    builder.add(
        PageRun(
            **builder.head(),
            state="started",
            status="running",
            team=fact.team,
            strategy=strategy,
            task=builder.text(fact.task),
            limits=None if fact.limits is None else page_value(PageAmounts, fact.limits),
            forecast=None if fact.confirm is None else page_value(PageForecast, fact.confirm),
            origin=None
            if origin is None or origin.how == "place"
            else PageOrigin(
                run_id=origin.run_id, number=origin.number, how=origin.how, checkpoint=mask_text(origin.checkpoint)
            ),
            conversation=fact.conversation,
        )
    )


def _ended(builder: EventBuilder, fact: run.RunEnded) -> None:
    failure = None
    if fact.error is not None:
        failure = PageFailure(error=fact.error, message=mask_text(fact.message or ""))
    builder.add(
        PageRun(
            **builder.head(),
            state="ended",
            status=fact.status,
            reason=fact.stop_reason,
            output="" if fact.output is None else builder.text(fact.output),
            data=builder.value(fact.data),
            usage=page_value(PageUsage, fact.usage),
            seconds=fact.seconds,
            failure=failure,
            warnings=tuple(map(mask_text, fact.warnings)),
        )
    )


def _intervention(
    builder: EventBuilder, fact: run.RunIntervened | run.RunApplied | run.RunRefused | run.RunAborted
) -> None:
    if isinstance(fact, run.RunAborted):
        text = mask_text(fact.message)
        builder.add(PageIntervention(**builder.head(), id=0, what="abort", state="applied", to=fact.member, text=text))
        return
    given = fact.intervention
    if isinstance(given, people.AddMember):
        builder.state.appearance.add_profile(given.member, given.spec)
    to, text, data = intervention_fields(given)
    by = (
        given.answer.by
        if isinstance(given, people.Answered)
        else ""
        if isinstance(given, people.ActionClaim)
        else given.by
    )
    state = (
        "applied" if isinstance(fact, run.RunApplied) else "refused" if isinstance(fact, run.RunRefused) else "accepted"
    )
    builder.add(
        PageIntervention(
            **builder.head(),
            id=fact.inbox_id,
            what=given.kind,
            state=state,
            by=mask_text(by),
            to=to,
            text=text,
            data=data,
            reason=mask_text(fact.reason) if isinstance(fact, run.RunRefused) else "",
        )
    )


def intervention_fields(intervention: people.Intervention) -> tuple[str, str, JsonValue]:
    """Return the member that an intervention is about, its text and its data."""
    to, text = "", ""
    data: JsonValue = None
    match intervention:
        case people.Tell():
            to, text = intervention.to, intervention.text
        case (
            people.PauseMember(member=member) | people.ResumeMember(member=member) | people.RemoveMember(member=member)
        ):
            to = member
        case people.AddMember(member=member, spec=spec):
            to, data = member, spec
        case people.EditPlan(plan=plan):
            data = plan
        case people.StopStep(step=step, reason=reason):
            text = reason
            data = {"step": step}
        case people.RestorePlan(plan_version=version):
            data = {"version": version}
        case people.RaiseBudget() as raised:
            data = dict[str, JsonValue](raised.by_name)
        case people.Cancel(reason=reason):
            text = reason
        case people.Mark(name=name):
            text = name
        case people.Answered(answer=answer):
            text = answer.text
        case people.Pause() | people.Undo() | people.ActionClaim():
            pass
    return to, mask_text(text), mask_value(data)


def _question(builder: EventBuilder, fact: run.PersonAsked) -> None:
    question, ask = fact.question, builder.state.ask_around(builder.key)
    builder.add(
        PageQuestion(
            **builder.head(None if ask is None or ask.is_team else ask.expert),
            text=mask_text(question.text),
            reason=question.reason,
            choices=tuple(map(mask_text, question.choices)),
            to=mask_text(question.to),
            draft=None if fact.draft is None else builder.text(fact.draft),
            form=question.form,
            turn="" if ask is None else ask.key,
        )
    )
    if fact.draft is not None and question.form == "json":
        propose_plan(builder, fact.draft)


class Waits:
    """The open waits of a run, by key. The page event of a wait is kept, so that its end repeats it."""

    def __init__(self) -> None:
        self._open: dict[str, PageWait] = {}

    def project(self, builder: EventBuilder, fact: Fact) -> None:
        """Add the waits that an event begins or ends."""
        match fact:
            case run.PersonAsked(question=question):
                whom = (mask_text(question.to),) if question.to else ()
                self._begin(builder, builder.key, "person", whom, mask_text(question.text))
            case run.PersonAnswered():
                self._end(builder, builder.key)
            case agent.AgentCallFailed(retry_in=float() | int() as seconds, message=message):
                self._begin(builder, builder.key, "retry", (), mask_text(message), seconds=float(seconds))
            case budget.BudgetAwaited(level=level, holders=holders):
                self._begin(builder, builder.key, "budget", holders, level)
            case StepHeldUp(keys=keys, by=by, step=step):
                key = join_key(builder.team.scope, step) if step else builder.event.scope
                self._begin(builder, key, "keys", by, ", ".join(keys), step=step)
                builder.set_step(step, "waiting")
            case agent.AgentAsked():
                self._asked(builder)
            case agent.AgentCalled() | budget.BudgetRefused() | StepSkipped() if self._open:
                self._end(builder, builder.key)
                self._end(builder, builder.event.scope)
            case agent.AgentReplied() | agent.AgentFailed() if self._open:
                self._end_inside(builder, builder.key)
            case run.RunEnded():
                self._end_inside(builder, "")
            case _:
                pass

    def _asked(self, builder: EventBuilder) -> None:
        """Let a member that asks another one as a tool wait for it, and end the wait of the step that starts."""
        ask = builder.state.asks[builder.key]
        if self._open and ask.step:
            self._end(builder, join_key(ask.team.scope, ask.step))
        if ask.asker is not None:
            wait = PageWait(**builder.head(ask.asker.expert), what="member", whom=(ask.expert.id,))
            self._open[builder.key] = wait
            builder.add(wait)

    def _begin(
        self,
        builder: EventBuilder,
        key: str,
        what: WaitKind,
        whom: tuple[str, ...],
        text: str,
        *,
        step: str = "",
        seconds: float | None = None,
    ) -> None:
        ask = builder.state.ask_around(builder.key)
        expert = None if ask is None or ask.is_team else ask.expert
        wait = PageWait(**builder.head(expert, key), what=what, whom=whom, text=text, step=step, seconds=seconds)
        self._open[key] = wait
        builder.add(wait)

    def _end(self, builder: EventBuilder, key: str) -> None:
        wait = self._open.pop(key, None)
        if wait is not None:
            seconds = round(max(0.0, builder.event.time - wait.time), 3)
            head = builder.head(wait.expert, key)
            builder.add(wait.changed(**{**head, "scope": wait.scope}, seconds=seconds, ended=True))

    def _end_inside(self, builder: EventBuilder, key: str) -> None:
        for one in [one for one in self._open if in_scope(one, key)]:
            self._end(builder, one)


class BudgetView:
    """The budget of a run: its levels, and what the run has used where it has no limits itself."""

    def __init__(self) -> None:
        self._levels = BudgetLevels()
        self._used: Usage = NOTHING
        self._calls = 0

    def project(self, builder: EventBuilder, fact: Fact) -> None:
        """Apply an event, and add the levels that it has changed, the innermost first."""
        event = builder.event
        self._levels.apply(event)
        match fact:
            case agent.AgentReturned(usage=usage) if usage.total_tokens or usage.usd or usage.tool_calls:
                self._used, self._calls = self._used + usage, self._calls + 1
                self._add_around(builder, event.scope)
            case agent.AgentCallFailed(charged=True, usage=usage):
                self._used, self._calls = self._used + usage, self._calls + 1
                self._add_around(builder, event.scope)
            case budget.BudgetOpened() | budget.BudgetRaised():
                self._add(builder, event.scope)
            case budget.BudgetDegraded(rung=rung, undone=undone):
                builder.team.rungs.pop(rung, None)
                if not undone:
                    builder.team.rungs[rung] = None
                level = next(self._around(event.scope), None)
                self._add(builder, "" if level is None else level.scope, rung)
            case _:
                pass

    def _around(self, scope: str) -> Iterator[Level]:
        levels = self._levels.by_scope
        return (levels[one] for one in key_and_parents(scope) if one in levels)

    def _add_around(self, builder: EventBuilder, scope: str) -> None:
        for level in self._around(scope):
            if level.scope:
                self._add(builder, level.scope)
        self._add(builder, "")

    def _add(self, builder: EventBuilder, scope: str, rung: str = "") -> None:
        level = self._levels.by_scope.get(scope)
        seconds = round(self._levels.driver_seconds, 3)
        if level is None:
            used = self._used
            spent = PageAmounts(tokens=used.total_tokens, usd=used.usd, calls=self._calls, seconds=seconds)
            reserved, limits = NONE_RESERVED, None
        else:
            spent = page_value(PageAmounts, level.used(self._levels.driver_seconds))
            reserved, limits = page_value(PageAmounts, level.reserved()), page_value(PageAmounts, level.limits)
            if self._used.usd is None and limits.usd is None:
                spent = spent.changed(usd=None)  # a sum of no prices is not known to be zero
        builder.add(
            PageBudget(
                **builder.head(key=scope),
                level=scope,
                spent=spent,
                reserved=reserved,
                limits=limits,
                rung=rung,
                rungs=tuple(builder.team.rungs),
            )
        )
