"""The confirmation of what a run will cost: a person sees the forecast before the run spends anything, and decides.

The question is made of the recorded forecast alone, so that a resumed run asks the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from teamwright.agents.approval import rejection_reason
from teamwright.runtime.people.questions import ask_person_at
from teamwright.runtime.scope import Scope
from teamwright.values.events.run import PersonAsked
from teamwright.values.limits import Bounds, ForecastBasis, Limits, Quantiles, SpendForecast, lowered
from teamwright.values.people import CONFIRM_CHOICES, SMALLER, YES, Question, confirmation_key, lower_ceiling

BASIS: dict[ForecastBasis, str] = {
    "runs": "{runs} past runs of this team",
    "simulation": "{runs} simulated runs with usual figures, since there are too few past runs of this team",
    "unknown": "nothing: this team has too few past runs and can't be simulated",
}


class Confirmed(NamedTuple):
    """A person's decision about a run: whether it may begin, the limits that hold, and why it may not."""

    may_begin: bool
    limits: Limits | None
    reason: str = ""


async def confirm_run(scope: Scope, team: str, forecast: SpendForecast, limits: Limits | None) -> Confirmed:
    """Ask a person whether a run may begin, and return the decision."""
    key = confirmation_key(team)
    question = _recorded_question(scope, key) or confirmation_question(team, forecast)
    answer = await ask_person_at(scope, key, question)
    if answer.text == YES:
        return Confirmed(may_begin=True, limits=limits)
    if answer.text != SMALLER:
        return Confirmed(may_begin=False, limits=limits, reason=rejection_reason(answer))
    return Confirmed(may_begin=True, limits=lowered(limits, lower_ceiling(key, answer.data)))


def _recorded_question(scope: Scope, key: str) -> Question | None:
    """The question as it was asked, so that a run waits for the same answer in whatever words a later version asks."""
    record = scope.run.record
    asked = record.questions[key].fact if key in record.questions else None
    if not isinstance(asked, PersonAsked) or asked.draft is None:
        return None
    return asked.question.changed(draft=str(record.bodies.value(asked.draft)))


def confirmation_question(team: str, forecast: SpendForecast) -> Question:
    """Return the question whether a run of a team may begin; its draft shows the forecast and the ceiling."""
    return Question(
        text=f"May this run of {team!r} begin?",
        choices=CONFIRM_CHOICES,
        reason="approval",
        draft=forecast_text(forecast),
    )


def forecast_text(forecast: SpendForecast) -> str:
    """The forecast as a small table: its money, tokens and asks, the ceiling, and what it is based on."""
    rows = {
        "cost": _amounts(forecast.usd, _money) or "not known: no price is known for a model of this team",
        "tokens": _amounts(forecast.tokens, _count) or "not known",
        "asks": _amounts(forecast.asks, _count) or "not known",
        "ceiling": _ceiling(forecast.ceiling),
        "based on": BASIS[forecast.basis].format(runs=forecast.runs),
    }
    return "\n".join(f"{name:<9} {value}" for name, value in rows.items())


def _amounts(quantiles: Quantiles | None, shown: Callable[[float], str]) -> str:
    return "" if quantiles is None else f"{shown(quantiles.p50)} (p50), {shown(quantiles.p90)} (p90)"


def _count(amount: float) -> str:
    return f"{amount:,.0f}"


def _money(usd: float) -> str:
    """An amount of money: in cents, and more exactly below a dollar."""
    if usd >= 1:
        return f"${usd:,.2f}"
    return f"${usd:.4f}" if usd >= 0.01 or not usd else f"${usd:.6f}"


def _ceiling(bounds: Bounds) -> str:
    """The limits that hold; one on time or calls alone does not bound what a run costs."""
    given = {
        "usd": None if bounds.usd is None else _money(bounds.usd),
        "tokens": None if bounds.tokens is None else f"{_count(bounds.tokens)} tokens",
        "calls": None if bounds.calls is None else f"{_count(bounds.calls)} calls",
        "seconds": None if bounds.seconds is None else f"{bounds.seconds:g} seconds",
    }
    listed = ", ".join(text for text in given.values() if text is not None)
    if bounds.tokens is not None or bounds.usd is not None:
        return listed
    return "none: no limit on tokens or money is set" + (f" ({listed})" if listed else "")
