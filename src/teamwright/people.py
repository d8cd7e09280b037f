"""Facade for people in a run: questions, answers, approvals, pause and cancel.

Names load on first use, so importing the module is cheap.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.values.limits.spend_forecast import ConfirmAbove, Quantiles, SpendForecast
    from teamwright.values.people.approvals import Approve, Notify
    from teamwright.values.people.interventions import ActionClaim, Answered, Cancel, Intervention, Mark, Pause, Undo
    from teamwright.values.people.questions import Answer, Question

__all__ = [
    "ActionClaim",
    "Answer",
    "Answered",
    "Approve",
    "Cancel",
    "ConfirmAbove",
    "Intervention",
    "Mark",
    "Notify",
    "Pause",
    "Quantiles",
    "Question",
    "SpendForecast",
    "Undo",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.values.limits.spend_forecast": "ConfirmAbove Quantiles SpendForecast",
        "teamwright.values.people.approvals": "Approve Notify",
        "teamwright.values.people.interventions": "ActionClaim Answered Cancel Intervention Mark Pause Undo",
        "teamwright.values.people.questions": "Answer Question",
    },
)
