"""People in a run: what they are asked, what they answer, and what else they can send to it.

Names load on first use, so that importing the module costs next to nothing.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.values.approvals import Approve, Notify
    from teamwright.values.people import Answer, Answered, Cancel, Intervention, Mark, Pause, Question

__all__ = [
    "Answer",
    "Answered",
    "Approve",
    "Cancel",
    "Intervention",
    "Mark",
    "Notify",
    "Pause",
    "Question",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.values.approvals": "Approve Notify",
        "teamwright.values.people": "Answer Answered Cancel Intervention Mark Pause Question",
    },
)
