"""Facts about a team's plan while it runs: its versions, proposals, phases, and how answers became one."""

from __future__ import annotations

from typing import ClassVar, Literal

from teamwright.values.models import JsonValue, Record


class TeamPlanChanged(Record, frozen=True):
    """A new version of a team's plan, made by a member or, with an empty `by`, by a person; the first is the plan.

    `difference` says what changed, a line each, and `to` are the members that it is announced to.
    """

    kind: ClassVar = "team.plan_changed"
    plan_version: int
    plan: JsonValue
    lead: str = ""
    by: str = ""
    difference: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    reason: str = ""


class TeamPlanStatus(Record, frozen=True):
    """How far a team's plan is now."""

    kind: ClassVar = "team.plan_status"
    status: Literal["draft", "confirmed", "executing", "completed", "failed", "fallback"]
    plan_version: int
    reason: str = ""


class TeamPlanProposed(Record, frozen=True):
    """A member's proposal to change the plan, and what `to` decided; an empty `to` is a person.

    `difference` is empty, and `reason` says why, where the proposal can't be used.
    """

    kind: ClassVar = "team.plan_proposed"
    by: str
    to: str = ""
    approved: bool = False
    difference: tuple[str, ...] = ()
    reason: str = ""


class TeamPhase(Record, frozen=True):
    """A phase of a plan waits for its parts, started, was completed, skipped, or failed, in its `attempt`th attempt."""

    kind: ClassVar = "team.phase"
    phase: str
    status: Literal["pending", "in_progress", "completed", "skipped", "failed"]
    attempt: int = 1
    members: tuple[str, ...] = ()


class TeamMerged(Record, frozen=True):
    """The answers of a competition became one: `winner` counts, or `by` merged them where there is none.

    `entries` are the members that gave the answers, and `votes` the answers that members voted for, an empty one by
    abstaining. `tied` are the answers between which `by` decided.
    """

    kind: ClassVar = "team.merged"
    phase: str
    merge: Literal["best", "vote", "fusion"]
    entries: dict[str, str]
    winner: str = ""
    by: str = ""
    votes: dict[str, str] = {}
    tied: tuple[str, ...] = ()
    reason: str = ""
