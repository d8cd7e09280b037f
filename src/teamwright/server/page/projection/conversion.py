"""Converts values of the journal to those of page events; texts are masked."""

from __future__ import annotations

from collections.abc import Iterable

from teamwright.server.page.page_events import (
    PageAmounts,
    PageArtifact,
    PageCriterion,
    PageForecast,
    PageJudge,
    PageQuantiles,
    PageUsage,
)
from teamwright.values.limits.spend_forecast import Quantiles, SpendForecast
from teamwright.values.limits.usage import Amounts, Usage
from teamwright.values.models import JsonValue
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
from teamwright.values.secrets.patterns import mask_text, mask_value
from teamwright.values.turns.artifacts import Artifact
from teamwright.values.verdicts import CriterionResult, JudgeRecord


def page_usage(usage: Usage) -> PageUsage:
    """Convert what calls used."""
    return PageUsage(
        requests=usage.requests,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        tool_calls=usage.tool_calls,
        total_tokens=usage.input_tokens + usage.output_tokens,
        usd=usage.usd,
        saved_usd=usage.saved_usd,
    )


def page_amounts(amounts: Amounts) -> PageAmounts:
    """Convert limits or amounts of a budget."""
    return PageAmounts(tokens=amounts.tokens, usd=amounts.usd, calls=amounts.calls, seconds=amounts.seconds)


def page_forecast(forecast: SpendForecast) -> PageForecast:
    """Convert the forecast of a run."""
    return PageForecast(
        basis=forecast.basis,
        runs=forecast.runs,
        tokens=_quantiles(forecast.tokens),
        usd=_quantiles(forecast.usd),
        asks=_quantiles(forecast.asks),
    )


def _quantiles(one: Quantiles | None) -> PageQuantiles | None:
    return None if one is None else PageQuantiles(p50=one.p50, p90=one.p90)


def page_artifacts(artifacts: Iterable[Artifact]) -> tuple[PageArtifact, ...]:
    """Convert pointers to artifacts."""
    return tuple(
        PageArtifact(hash=one.hash, name=mask_text(one.name), media_type=one.media_type, size=one.size)
        for one in artifacts
    )


def page_criteria(criteria: Iterable[CriterionResult]) -> tuple[PageCriterion, ...]:
    """Convert the results of criteria."""
    return tuple(
        PageCriterion(id=one.id, passed=one.passed, score=one.score, reason=mask_text(one.reason), by=one.by)
        for one in criteria
    )


def page_judges(judges: Iterable[JudgeRecord]) -> tuple[PageJudge, ...]:
    """Convert how judges scored."""
    return tuple(PageJudge(name=one.member, model=one.model, scores=one.scores, spread=one.spread) for one in judges)


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
