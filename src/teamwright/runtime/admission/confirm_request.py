"""Decides, before a run starts, whether a person has to confirm its forecast. Nothing is recorded or spent here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable

from teamwright.errors import UsageError
from teamwright.journal.protocol import Journal
from teamwright.teams.team import Team
from teamwright.values.limits import ConfirmAbove, Limits, SpendForecast
from teamwright.values.people import CONFIRM_CHOICES, NO, YES, Answer, check_confirmation, confirmation_key
from teamwright.wings import required_hook

Confirmation = Answer | str | bool
"""The answer of a function: an `Answer`, `"yes"` or `"no"`, or whether the run may begin."""
Confirmer = Callable[[SpendForecast], Confirmation | Awaitable[Confirmation]]
"""Answers for a person whether a run with this forecast may begin."""
Forecaster = Callable[[Journal, Team, str, Limits | None], Awaitable[SpendForecast]]


@dataclass(frozen=True, slots=True)
class ConfirmRequest:
    """What a caller says about the confirmation of a run.

    `confirm` is True to ask in any case, or a function that answers. A function without an amount is always asked;
    with one, it is asked as a person would be. `above` replaces the amounts that the team declares.
    """

    confirm: bool | Confirmer = False
    above: ConfirmAbove | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.confirm, bool) and not callable(self.confirm):
            raise UsageError(
                f"confirm must be True, or a function that gets the forecast and answers, and is {self.confirm!r}."
            )

    def is_about(self, team: Team) -> bool:
        """Whether a run of this team may need a confirmation, so that a forecast has to be made."""
        return self.confirm is not False or self.above is not None or team.confirm_above is not None

    async def forecast(self, journal: Journal, team: Team, task: str, limits: Limits | None) -> SpendForecast | None:
        """Return the forecast that has to be confirmed; `None` if the run may begin without."""
        forecaster: Forecaster = required_hook("forecast", "Confirming what a run will cost")
        forecast = await forecaster(journal, team, task, limits)
        above = self.above or team.confirm_above
        if self.confirm is True or above is None or above.is_exceeded_by(forecast):
            return forecast
        return None

    async def answer(self, team: Team, forecast: SpendForecast) -> Answer | None:
        """Return the answer of the caller's function; `None` if a person is to answer."""
        if isinstance(self.confirm, bool):
            return None
        given = self.confirm(forecast)
        return _to_answer(confirmation_key(team.name), await given if isawaitable(given) else given)


def _to_answer(key: str, given: object) -> Answer:
    if isinstance(given, bool):
        given = YES if given else NO
    answer = Answer(text=given) if isinstance(given, str) else given
    if not isinstance(answer, Answer) or answer.text not in CONFIRM_CHOICES:
        raise UsageError(
            f"The function that confirms a run returned {given!r}; it must return True or False, 'yes' or 'no', or"
            '  Answer(text="smaller", data={"usd": 0.5}).'
        )
    return check_confirmation(key, answer)
