"""The failure ladder of one step: which rung comes next after a failure, and what was tried before. It makes no ask.

Plans without states of steps have no ladder: `part_results` says whether a failure ends them, and `step_queue` what is
skipped.
"""

from __future__ import annotations

from typing import Protocol

from teamwright.agents.approval import REJECTED
from teamwright.agents.contract.agent import Agent
from teamwright.agents.contract.retry import FUTILE
from teamwright.strategies.plan.options import FailureLadder, RungName
from teamwright.strategies.team_conversation import BUDGET
from teamwright.values.events.team import FailureRung
from teamwright.values.specs.plan import Step
from teamwright.values.turns.turn import Failure, Tier

LAST_RUNGS: frozenset[FailureRung] = frozenset(("replan", "skip_step", "finish", "abort_team"))
"""The rungs after which the step itself is not tried again."""
TIERS: dict[FailureRung, Tier] = {"upgrade_model": "stronger", "downgrade_model": "economy"}
"""The models with which rungs try a step, in their order."""


class Helpers(Protocol):
    """What a team can do about a failure besides asking the same member again."""

    @property
    def can_replan(self) -> bool:
        """Whether the lead may plan again after a failure."""
        ...

    @property
    def can_adjust(self) -> bool:
        """Whether the lead may change a step before it is tried again."""
        ...

    def exchange(self, step: Step, failed: Agent) -> Agent:
        """Return who tries a step again after this agent has failed: the same one, or another."""
        ...


class Climb:
    """How far one step has climbed: its retries, and the models with which it was tried."""

    def __init__(self, ladder: FailureLadder, helpers: Helpers) -> None:
        self.ladder, self._helpers = ladder, helpers
        self.retries = 0
        self.tier: Tier = "primary"
        self._tried: list[Tier] = []

    @property
    def adjusts_next(self) -> bool:
        """Whether the lead may change the step before the next attempt."""
        return self._left[:1] == ("adjust",) and self._helpers.can_adjust

    @property
    def will_adjust(self) -> bool:
        """Whether the lead may change the step before one of the attempts that are left."""
        return "adjust" in self._left and self._helpers.can_adjust

    @property
    def _left(self) -> tuple[RungName, ...]:
        return self.ladder.attempts[self.retries :]

    def seek_adjustment(self) -> bool:
        """Pass over the attempts before the next change of the lead; return whether there is one."""
        if self.will_adjust:
            self.retries += self._left.index("adjust")
        return self.adjusts_next

    def may_upgrade(self, agent: Agent) -> bool:
        """Return whether a stronger model comes next after a review, not a change of the lead."""
        return self._is_left("upgrade_model", agent) and not self.will_adjust

    def change_model(self, rung: FailureRung) -> Tier:
        """Continue with the model of a rung."""
        self.tier = TIERS[rung]
        self._tried.append(self.tier)
        return self.tier

    @property
    def tried_models(self) -> str:
        """The models besides the regular one that were tried."""
        return f"{' and '.join(self._tried)} model{'s' if len(self._tried) > 1 else ''}"

    def successor(self, failure: Failure, agent: Agent, step: Step) -> Agent | None:
        """Return who makes the next attempt that may help, if one is left, and pass over those before it.

        Where the settings or the input of a member are wrong, only another member may help, or a change of the lead.
        """
        if failure.error in (BUDGET, REJECTED):
            return None
        for passed_over, kind in enumerate(self._left):
            other = self._helpers.exchange(step, agent) if kind == "other_member" else agent
            is_adjusted = kind == "adjust" and self._helpers.can_adjust
            if is_adjusted or other is not agent or failure.error not in FUTILE:
                self.retries += passed_over
                return other
        return None

    def next_rung(
        self, failure: Failure, agent: Agent, step: Step, *, is_shared: bool
    ) -> tuple[FailureRung, tuple[FailureRung, ...]]:
        """Return the next rung that applies where no further attempt is made, and those before it that do not."""
        passed_over: list[FailureRung] = []
        if self._left or failure.error == BUDGET:
            passed_over.append("retry")
        is_hopeless = failure.error in (*FUTILE, REJECTED) or is_shared
        for rung, tier in TIERS.items():
            is_dearer = tier == "stronger" and failure.error == BUDGET
            if self._is_left(rung, agent) and not is_hopeless and not is_dearer:
                return rung, tuple(passed_over)
            if self._is_wanted(rung) and tier not in self._tried:
                passed_over.append(rung)
        return self.last_rung(failure, step), tuple(passed_over)

    def last_rung(self, failure: Failure, step: Step, *, last: bool = False) -> FailureRung:
        """Return what follows when there is no further attempt. A used-up budget skips what it does not cover."""
        if self._helpers.can_replan and not last and not failure.optional and failure.error != BUDGET:
            return "replan"
        if (self.ladder.skip_step and not step.required) or failure.optional or failure.error == BUDGET:
            return "skip_step"
        return "finish" if self.ladder.finish else "abort_team"

    def _is_wanted(self, rung: FailureRung) -> bool:
        return self.ladder.upgrade_model if rung == "upgrade_model" else self.ladder.downgrade_model

    def _is_left(self, rung: FailureRung, agent: Agent) -> bool:
        """Return whether the member has another model for this rung, with which it has not tried yet."""
        tier = TIERS[rung]
        return self._is_wanted(rung) and tier not in self._tried and agent.policy.model_at(tier) is not None
