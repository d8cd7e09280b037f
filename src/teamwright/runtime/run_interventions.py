"""What people change in a live run, as methods of `engine.runs`: each sends one intervention."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from teamwright.agents.contract.arguments import value_of
from teamwright.errors import UsageError
from teamwright.runtime.driver.raised_limits import amounts
from teamwright.values.limits import Limits
from teamwright.values.models import JsonValue, exact_json
from teamwright.values.names import check_name
from teamwright.values.people import (
    STEERING_VERSION,
    AddMember,
    EditPlan,
    PauseMember,
    RaiseBudget,
    RemoveMember,
    ResumeMember,
    Steer,
    Tell,
)
from teamwright.values.specs.manifest import AgentSpec

if TYPE_CHECKING:
    from teamwright.runtime.followers.receipt import Receipt


class RunInterventions(ABC):
    """Interventions in the runs of a journal, in whichever process they are driven."""

    @abstractmethod
    async def _steer(self, run_id: str, steer: Steer, *, wait: bool = False) -> Receipt:
        """Send an intervention and return how far it came."""

    async def say(self, run_id: str, text: str, *, to: str = "", by: str = "", wait: bool = False) -> Receipt:
        """Tell all members of a run something, or the member `to`; each reads it with its next turn.

        Returns when the run has accepted the message, with `wait` when a member was asked with it. A run without a
        driver accepts it when it is resumed. Raises `InterventionRefused` if the run can't take it.
        """
        if not isinstance(text, str) or not text.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"The message to a run must be a text, and is {text!r}.")
        return await self._steer(run_id, Tell(text=text, to=to, by=by, version=STEERING_VERSION), wait=wait)

    async def pause_member(self, run_id: str, member: str, *, by: str = "") -> Receipt:
        """Hold a member before its next turn, while the others continue; `resume_member` lets it go on."""
        return await self._steer(run_id, PauseMember(member=member, by=by, version=STEERING_VERSION))

    async def resume_member(self, run_id: str, member: str, *, by: str = "") -> Receipt:
        """Let a paused member take its turn. A paused run also needs `engine.resume`."""
        return await self._steer(run_id, ResumeMember(member=member, by=by, version=STEERING_VERSION))

    async def raise_budget(self, run_id: str, limits: Limits, *, by: str = "") -> Receipt:
        """Raise limits of a run and of its team, at once; limits that are not given stay as they are."""
        given = value_of("The raised budget", "limits", limits, Limits) or Limits()
        steer = RaiseBudget(
            tokens=given.tokens,
            usd=given.usd,
            calls=given.calls,
            seconds=given.seconds,
            by=by,
            version=STEERING_VERSION,
        )
        if not amounts(steer):
            raise UsageError("A raised budget needs a limit: tokens, usd, calls or seconds.")
        return await self._steer(run_id, steer)

    async def edit_plan(self, run_id: str, plan: JsonValue, *, by: str = "", wait: bool = False) -> Receipt:
        """Replace the plan of a run's team; what is done stays done. `history.plan()` is the present one."""
        edited = _plain("The plan", plan)
        return await self._steer(run_id, EditPlan(plan=edited, by=by, version=STEERING_VERSION), wait=wait)

    async def add_member(
        self, run_id: str, name: str, spec: AgentSpec | Mapping[str, JsonValue], *, by: str = "", wait: bool = False
    ) -> Receipt:
        """Add a member to a run's team; `spec` declares it, as in a manifest, and is recorded."""
        from teamwright.teams.load import check_declaration

        given = spec.model_dump(mode="json", exclude_unset=True) if isinstance(spec, AgentSpec) else spec
        declared = _plain(f"The declaration of {name!r}", given)
        check_declaration(check_name("agent", name), declared)
        return await self._steer(
            run_id, AddMember(member=name, spec=declared, by=by, version=STEERING_VERSION), wait=wait
        )

    async def remove_member(self, run_id: str, name: str, *, by: str = "", wait: bool = False) -> Receipt:
        """Remove a member from a run's team; what it has done is kept."""
        return await self._steer(run_id, RemoveMember(member=name, by=by, version=STEERING_VERSION), wait=wait)


def _plain(what: str, value: object) -> JsonValue:
    """Return a value as the JSON that is recorded; raises `UsageError` if it is none."""
    try:
        return exact_json(value)
    except ValueError as error:
        raise UsageError(f"{what} is not JSON: {error}") from error
