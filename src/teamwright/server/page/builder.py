"""The page events that one event of a journal yields, while they are being made, and the values in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from pydantic import JsonValue

from teamwright.history.record.asks import RecordedBodies
from teamwright.server.page.page_events import (
    PageAmounts,
    PageArtifact,
    PageCriterion,
    PageEvent,
    PageExpert,
    PageForecast,
    PageJudge,
    PageQuantiles,
    PageStep,
    PageUsage,
    StepState,
)
from teamwright.server.page.state import Stage, TeamAtWork
from teamwright.values.events.body import Body
from teamwright.values.events.event import Event
from teamwright.values.key import join_key
from teamwright.values.limits.spend_forecast import Quantiles, SpendForecast
from teamwright.values.limits.usage import Amounts, Usage
from teamwright.values.secrets.patterns import mask_text, mask_value
from teamwright.values.turns.artifacts import Artifact
from teamwright.values.verdicts import CriterionResult, JudgeRecord

MOST_MASKED = 16
"""How many texts are kept masked: a task is that of several turns, and an answer ends a turn, its team and the run."""


class Head(TypedDict):
    """The fields that all page events have."""

    number: int
    index: int
    time: float
    scope: str
    key: str
    expert: PageExpert | None


class PageDraft:
    """Collects page events; without `bodies` their texts are empty, which is enough to catch up with a run.

    `source` has the manifest, which is always needed.
    """

    __slots__ = ("bodies", "event", "key", "made", "source", "stage", "team")

    def __init__(self, stage: Stage, event: Event, bodies: RecordedBodies | None, source: RecordedBodies) -> None:
        self.stage, self.event, self.bodies, self.source = stage, event, bodies, source
        self.key = event.key
        self.team: TeamAtWork = stage.team_around(self.key)
        self.made: list[PageEvent] = []

    def add(self, event: PageEvent) -> None:
        """Add a page event; its head must be new."""
        self.made.append(event)

    def head(self, expert: PageExpert | str | None = None, key: str | None = None) -> Head:
        """Return the head of the next page event; an expert may be given by its name in the team."""
        if isinstance(expert, str):
            expert = self.stage.expert(self.team, expert) if expert else None
        event = self.event
        return {
            "number": event.number,
            "index": len(self.made),
            "time": event.time,
            "scope": self.team.scope,
            "key": self.key if key is None else key,
            "expert": expert,
        }

    def text(self, *bodies: Body) -> str:
        """The masked texts of bodies, as one."""
        if self.bodies is None or not bodies:
            return ""
        known = self.stage.masked_texts
        if bodies in known:
            return known[bodies]
        text = mask_text("\n\n".join(str(self.bodies.value(body)) for body in bodies))
        if len(known) >= MOST_MASKED:
            del known[next(iter(known))]
        known[bodies] = text
        return text

    def value(self, body: Body | None) -> JsonValue:
        """The masked value of a body."""
        return None if self.bodies is None or body is None else mask_value(self.bodies.value(body))

    def set_step(
        self,
        step: str,
        state: StepState,
        *,
        attempt: int = 1,
        members: tuple[str, ...] = (),
        reason: str = "",
        verdict: str = "",
        score: float | None = None,
    ) -> None:
        """Record the state of a step, and add a page event if it has changed."""
        team = self.team
        if state == "running":
            team.work.update(dict.fromkeys(members, step))
        else:
            team.work = {member: one for member, one in team.work.items() if one != step}
        if not step or (team.states.get(step) == state and not verdict):
            return
        team.states[step] = state
        self.add(
            PageStep(
                **self.head(key=join_key(team.scope, step)),
                step=step,
                state=state,
                attempt=attempt,
                assignees=self.stage.ids(team, members),
                reason=mask_text(reason),
                verdict=verdict,
                score=score,
            )
        )


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
