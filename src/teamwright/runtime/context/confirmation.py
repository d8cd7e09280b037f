"""The confirmation of a run before it spends anything: a person says yes, sets a lower ceiling, or says no.

The question is made of the recorded forecast alone, so that a resumed run asks the same one.
"""

from __future__ import annotations

from typing import NamedTuple

from teamwright.agents.approval import rejection_reason
from teamwright.runtime.context.question import ask_person_at
from teamwright.runtime.scope import Scope
from teamwright.values.limits.limits import Limits
from teamwright.values.limits.spend_forecast import ForecastBasis, Quantiles, SpendForecast, lowered
from teamwright.values.limits.usage import Bounds
from teamwright.values.people.confirmations import (
    CONFIRM_CHOICES,
    SMALLER,
    YES,
    confirmation_key,
    lower_ceiling,
)
from teamwright.values.people.questions import Question

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
    answer = await ask_person_at(scope, key, confirmation_question(team, forecast))
    if answer.text == YES:
        return Confirmed(may_begin=True, limits=limits)
    if answer.text != SMALLER:
        return Confirmed(may_begin=False, limits=limits, reason=rejection_reason(answer))
    return Confirmed(may_begin=True, limits=lowered(limits, lower_ceiling(key, answer.data)))


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
        "cost": _amounts(forecast.usd, "${:,.4f}", "not known: no price is known for a model of this team"),
        "tokens": _amounts(forecast.tokens, "{:,.0f}", "not known"),
        "asks": _amounts(forecast.asks, "{:,.0f}", "not known"),
        "ceiling": _ceiling(forecast.ceiling),
        "based on": BASIS[forecast.basis].format(runs=forecast.runs),
    }
    return "\n".join(f"{name:<9} {value}" for name, value in rows.items())


def _amounts(quantiles: Quantiles | None, form: str, unknown: str) -> str:
    if quantiles is None:
        return unknown
    return f"{form.format(quantiles.p50)} (p50), {form.format(quantiles.p90)} (p90)"


def _ceiling(bounds: Bounds) -> str:
    """The limits that hold; one on time or calls alone does not bound what a run costs."""
    forms = {"usd": "${:,.4f}", "tokens": "{:,} tokens", "calls": "{:,} calls", "seconds": "{:g} seconds"}
    given = [form.format(amount) for unit, form in forms.items() if (amount := getattr(bounds, unit)) is not None]
    if bounds.tokens is not None or bounds.usd is not None:
        return ", ".join(given)
    return "none: no limit on tokens or money is set" + (f" ({', '.join(given)})" if given else "")
