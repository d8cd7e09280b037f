"""Facade for people in a run: questions, answers, approvals, pause and cancel.

Names load on first use, so importing the module is cheap.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.values.limits.spend_forecast import ConfirmAbove, Quantiles, SpendForecast
    from teamwright.values.people.approvals import Approve, Notify
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
    from teamwright.values.people.questions import Answer, Question

__all__ = [
    "ActionClaim",
    "AddMember",
    "Answer",
    "Answered",
    "Approve",
    "Cancel",
    "ConfirmAbove",
    "EditPlan",
    "Intervention",
    "Mark",
    "Notify",
    "Pause",
    "PauseMember",
    "Quantiles",
    "Question",
    "RaiseBudget",
    "RemoveMember",
    "ResumeMember",
    "SpendForecast",
    "Tell",
    "Undo",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.values.limits.spend_forecast": "ConfirmAbove Quantiles SpendForecast",
        "teamwright.values.people.approvals": "Approve Notify",
        "teamwright.values.people.interventions": """
            ActionClaim AddMember Answered Cancel EditPlan Intervention Mark Pause PauseMember RaiseBudget RemoveMember
            ResumeMember Tell Undo
        """,
        "teamwright.values.people.questions": "Answer Question",
    },
)
