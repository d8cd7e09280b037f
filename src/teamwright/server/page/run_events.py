"""Facts about a run and about people as page events."""

from __future__ import annotations

from teamwright.server.page.builder import EventBuilder, page_value
from teamwright.server.page.page_events import (
    PageAmounts,
    PageAnswer,
    PageCheckpoint,
    PageFailure,
    PageForecast,
    PageIntervention,
    PageOrigin,
    PageQuestion,
    PageRun,
    PageUsage,
)
from teamwright.server.page.teams import decide_plan, propose_plan
from teamwright.values.events.event import Fact
from teamwright.values.events.run import (
    PersonAnswered,
    PersonAsked,
    RunAborted,
    RunApplied,
    RunCheckpoint,
    RunEnded,
    RunInterrupted,
    RunIntervened,
    RunPaused,
    RunQueued,
    RunRefused,
    RunResumed,
    RunStarted,
)
from teamwright.values.models import JsonValue
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
from teamwright.values.text.secret_patterns import mask_text, mask_value


def project_run(builder: EventBuilder, fact: Fact) -> bool:
    """Add what a fact about the run or a person shows; returns whether the fact is one."""
    match fact:
        case RunStarted():
            _started(builder, fact)
        case RunPaused(stop_reason=reason, waiting_for=keys):
            builder.add(PageRun(**builder.head(), state="paused", status="paused", reason=reason, waiting_for=keys))
        case RunResumed():
            builder.add(PageRun(**builder.head(), state="resumed", status="running"))
        case RunInterrupted():
            builder.add(PageRun(**builder.head(), state="interrupted", status="interrupted"))
        case RunQueued():
            builder.add(PageRun(**builder.head(), state="queued", status="queued"))
        case RunEnded():
            _ended(builder, fact)
        case RunCheckpoint(name=name, by=by):
            builder.add(PageCheckpoint(**builder.head(), name=mask_text(name), by=mask_text(by)))
        case RunIntervened() | RunApplied() | RunRefused() | RunAborted():
            _intervention(builder, fact)
        case PersonAsked():
            _question(builder, fact)
        case PersonAnswered(answer=answer):
            ask = builder.state.ask_around(builder.key)
            expert = None if ask is None or ask.is_team else ask.expert
            text, data = mask_text(answer.text), mask_value(answer.data)
            builder.add(PageAnswer(**builder.head(expert), text=text, data=data, by=mask_text(answer.by)))
            decide_plan(builder, answer)
        case _:
            return False
    return True


def _started(builder: EventBuilder, fact: RunStarted) -> None:
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


def _ended(builder: EventBuilder, fact: RunEnded) -> None:
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


def _intervention(builder: EventBuilder, fact: RunIntervened | RunApplied | RunRefused | RunAborted) -> None:
    if isinstance(fact, RunAborted):
        text = mask_text(fact.message)
        builder.add(PageIntervention(**builder.head(), id=0, what="abort", state="applied", to=fact.member, text=text))
        return
    given = fact.intervention
    if isinstance(given, AddMember):
        builder.state.appearance.add_profile(given.member, given.spec)
    to, text, data = intervention_fields(given)
    by = given.answer.by if isinstance(given, Answered) else "" if isinstance(given, ActionClaim) else given.by
    state = "applied" if isinstance(fact, RunApplied) else "refused" if isinstance(fact, RunRefused) else "accepted"
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
            reason=mask_text(fact.reason) if isinstance(fact, RunRefused) else "",
        )
    )


def intervention_fields(intervention: Intervention) -> tuple[str, str, JsonValue]:
    """Return the member that an intervention is about, its text and its data."""
    to, text = "", ""
    data: JsonValue = None
    match intervention:
        case Tell():
            to, text = intervention.to, intervention.text
        case PauseMember(member=member) | ResumeMember(member=member) | RemoveMember(member=member):
            to = member
        case AddMember(member=member, spec=spec):
            to, data = member, spec
        case EditPlan(plan=plan):
            data = plan
        case RaiseBudget() as raised:
            limits = {"tokens": raised.tokens, "usd": raised.usd, "calls": raised.calls, "seconds": raised.seconds}
            data = {name: limit for name, limit in limits.items() if limit is not None}
        case Cancel(reason=reason):
            text = reason
        case Mark(name=name):
            text = name
        case Answered(answer=answer):
            text = answer.text
        case Pause() | Undo() | ActionClaim():
            pass
    return to, mask_text(text), mask_value(data)


def _question(builder: EventBuilder, fact: PersonAsked) -> None:
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
