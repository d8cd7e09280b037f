"""Facade of the engine: `Engine`, the handle of a run, recorded runs, and functions for code without async.

Names load on first use, so importing the module is cheap.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.agents.clients.models import Models
    from teamwright.budget.rate_limits import Departure
    from teamwright.runtime.admission.shared_limits import PaceShare, SharedLimits, SharingLimiter
    from teamwright.runtime.conversations import Conversations
    from teamwright.runtime.engine import Engine
    from teamwright.runtime.followers.output_stream import PartialOutput
    from teamwright.runtime.followers.receipt import Receipt
    from teamwright.runtime.handle import Handle
    from teamwright.runtime.runs import Runs
    from teamwright.runtime.sync import resume_sync, run_sync
    from teamwright.values.turns.results import RunSummary, Status

__all__ = [
    "Conversations",
    "Departure",
    "Engine",
    "Handle",
    "Models",
    "PaceShare",
    "PartialOutput",
    "Receipt",
    "RunSummary",
    "Runs",
    "SharedLimits",
    "SharingLimiter",
    "Status",
    "resume_sync",
    "run_sync",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.budget.rate_limits": "Departure",
        "teamwright.runtime.admission.shared_limits": "PaceShare SharedLimits SharingLimiter",
        "teamwright.runtime.conversations": "Conversations",
        "teamwright.runtime.engine": "Engine",
        "teamwright.runtime.sync": "resume_sync run_sync",
        "teamwright.runtime.handle": "Handle",
        "teamwright.runtime.followers.output_stream": "PartialOutput",
        "teamwright.runtime.followers.receipt": "Receipt",
        "teamwright.runtime.runs": "Runs",
        "teamwright.agents.clients.models": "Models",
        "teamwright.values.turns.results": "RunSummary Status",
    },
)
