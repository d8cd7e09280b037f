"""Where the branches of a team run: in the process of its run, or as runs of their own on workers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from teamwright.values.models import Value

Placement = Literal["here", "workers"]


class PlacedParts(Value):
    """The option of a strategy whose branches may be placed on workers. The engine carries it out."""

    placement: Placement = Field(
        default="here",
        description="where each branch runs: `here`, in the process of the run, or as a run of its own on `workers`,"
        " which needs a journal in Postgres",
    )
