"""Facade for people in a run: questions, answers, approvals, pause and cancel.

Names load on first use, so importing the module is cheap.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.values.limits import ConfirmAbove, Quantiles, SpendForecast
    from teamwright.values.people import (
        ActionClaim,
        AddMember,
        Answer,
        Answered,
        Approve,
        Cancel,
        EditPlan,
        Intervention,
        Mark,
        Notify,
        Pause,
        PauseMember,
        Question,
        RaiseBudget,
        RemoveMember,
        ResumeMember,
        Tell,
        Undo,
    )

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
        "teamwright.values.limits": "ConfirmAbove Quantiles SpendForecast",
        "teamwright.values.people": """
            ActionClaim AddMember Answer Answered Approve Cancel EditPlan Intervention Mark Notify Pause PauseMember
            Question RaiseBudget RemoveMember ResumeMember Tell Undo
        """,
    },
)
