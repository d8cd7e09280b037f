"""What is decided about a step before it starts: its review, its failure ladder and who may try it again.

The ladder says which rung comes next after a failure. Nothing here makes an ask.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, cast

from pydantic import JsonValue

from teamwright.agents.agent import Agent
from teamwright.agents.evaluators import Evaluator, check_evaluator_name, criteria_problems, make_evaluator
from teamwright.agents.review import REJECTED
from teamwright.errors import UsageError, nearest
from teamwright.strategies.expressions import Condition, Template
from teamwright.strategies.plan.options import FailureLadder, RungName
from teamwright.strategies.plan.schedule import MOST_SUGGESTIONS
from teamwright.strategies.plan.schedule_maker import plan_faults
from teamwright.strategies.protocol import Issue, Members, Settings, Strategy
from teamwright.strategies.team_conversation import BUDGET
from teamwright.values.events.team import FailureRung
from teamwright.values.retries import FUTILE
from teamwright.values.specs.evaluation import RUBRIC, Evaluate
from teamwright.values.specs.plan import Step
from teamwright.values.text.display import name_text
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


STEPS, EVALUATE = "steps", "evaluate"
"""The options of a plan that hold its steps, and the field of a step that is evaluated."""

STEP_VARIABLES = ("task", "outputs", "data", "failed", "variables")
"""The variables of conditions and templates: the task of the team, the needed steps by id, and those of the plan."""

MOST_SHOWN = 10
"""How many needs of a step an error message lists."""

VARIABLES = "variables"
MAYBE = ("default", "defined")
"""What a text contains that says what happens where a variable is missing."""
BY_STEP = ("outputs", "data", "failed")
"""The variables that are indexed by the id of a step."""


def owned_keys(strategy: Strategy, settings: Settings) -> list[str]:
    """Return the keys that the steps of a team own; empty if its strategy has no plan."""
    model = strategy.options
    if model is None or STEPS not in model.model_fields:
        return []
    steps: Sequence[object] = getattr(settings.read(model), STEPS)
    return [key for step in steps if isinstance(step, Step) for key in step.owns]


def plan_flaws(steps: Sequence[Step]) -> Iterator[Issue]:
    """Yield the faults of the plan, each with its path in the options."""
    for one in plan_faults(steps):
        yield Issue(one.text, (STEPS, one.step, "id") if one.need is None else (STEPS, one.step, "needs", one.need))
    for index, step in enumerate(steps):
        for text in () if step.evaluate is None else declaration_problems(step.evaluate):
            yield Issue(f"the step {name_text(step.id)}: {text}", (STEPS, index, EVALUATE))


def template_flaws(steps: Sequence[Step]) -> Iterator[Issue]:
    """Yield invalid conditions and tasks, and those that read steps whose output they never see."""
    ids = {step.id for step in steps}
    suggestions = 0
    for index, step in enumerate(steps):
        needs = frozenset(step.needs)
        for field, text in _texts_of(step):
            if problem := text.problem(STEP_VARIABLES):
                yield Issue(problem, (STEPS, index, field))
                continue
            for key in dict.fromkeys(key for _, key in text.keys(BY_STEP)):
                if key in needs:
                    continue
                suggestions += key not in ids
                known = step.needs if suggestions <= MOST_SUGGESTIONS else ()
                yield Issue(_unseen(step, key, known, is_step=key in ids), (STEPS, index, field))


def _texts_of(step: Step) -> list[tuple[str, Condition | Template]]:
    """Return the conditions and templates of a step, each with its field."""
    texts: list[tuple[str, Condition | Template]] = []
    if step.when is not None:
        texts.append(("when", Condition(step.when)))
    if step.task is not None:
        texts.append(("task", Template(step.task)))
    return texts + [("parts", Template(part.task)) for part in step.parts if part.task is not None]


def variable_flaws(index: int, step: Step, known: Collection[str]) -> Iterator[Issue]:
    """Yield variables of the plan that a step reads and that there are not; a text may name its own default."""
    for field, text in _texts_of(step):
        if any(word in text.text for word in MAYBE) or text.problem(STEP_VARIABLES) is not None:
            continue
        for name in dict.fromkeys(key for _, key in text.keys((VARIABLES,)) if key not in known):
            hint = nearest(name, known, f"add it:  variables: {{{name}: …}}").rstrip(".")
            yield Issue(
                f"the step {name_text(step.id)} reads variables.{name}, which is not set; {hint}", (STEPS, index, field)
            )


def _unseen(step: Step, key: str, known: Sequence[str], *, is_step: bool) -> str:
    """Return why a step can't read a key: it sees only the outputs of the steps it needs."""
    if is_step:
        hint = "it has no output yet" if key == step.id else "add it"
        if key != step.id and len(step.needs) < MOST_SHOWN:
            hint = f"add it: needs: [{', '.join((*step.needs, key))}]"
        return f"the step {name_text(step.id)} asks about {name_text(key)}, which is not among its needs; {hint}"
    hint = f"; {nearest(key, known).rstrip('.')}" if known else ""
    return f"the step {name_text(step.id)} asks about {name_text(key)}, which is no step that it needs{hint}"


def evaluator_among(members: Members, declared: Evaluate) -> Evaluator:
    """Return the evaluator of a declaration, with members or helpers of the team as its judges."""
    return make_evaluator(declared, [members.named(judge) for judge in declared.judges])


def declaration_problems(declared: Evaluate) -> list[str]:
    """Return what is wrong with the declaration of an evaluation."""
    problems = [*declared.problems(), *(criteria_problems(declared) if declared.evaluator_name == RUBRIC else ())]
    try:
        check_evaluator_name(declared.evaluator_name)
    except UsageError as error:
        problems.append(f"{str(error)[0].lower()}{str(error)[1:].rstrip('.')}")
    return problems


def _evaluated_steps(settings: Settings) -> Iterator[dict[str, JsonValue]]:
    """Yield the declarations of steps that are evaluated, whichever strategy has them."""
    steps = settings.options.get(STEPS)
    for step in steps if isinstance(steps, list | tuple) else ():
        if isinstance(step, dict) and step.get(EVALUATE) is not None:
            yield step


def has_evaluated_steps(settings: Settings) -> bool:
    """Return whether a step of a team is evaluated, by its own declaration or by one for all of them."""
    return settings.options.get(EVALUATE) is not None or any(True for _ in _evaluated_steps(settings))


def evaluated_steps(settings: Settings) -> list[str]:
    """Return the ids of the steps of a team that are evaluated."""
    return [str(step.get("id", "")) for step in _evaluated_steps(settings)]


def without_evaluation(settings: Settings) -> Settings:
    """Return the settings of a team with steps that are not evaluated."""
    if not has_evaluated_steps(settings):
        return settings
    options = {name: value for name, value in settings.options.items() if name != EVALUATE}
    if STEPS in options:
        steps = cast("list[dict[str, JsonValue]]", options[STEPS])
        options[STEPS] = [{name: value for name, value in step.items() if name != EVALUATE} for step in steps]
    return replace(settings, options=options)
