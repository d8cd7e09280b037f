"""Risk profiles: how the work of a step is evaluated, and what is wrong with such a declaration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from teamwright.agents.evaluators.protocol import Evaluator
from teamwright.agents.evaluators.registry import make_evaluator
from teamwright.experts.coordination.options import CoordinationOptions, ExpertStep
from teamwright.strategies.plan.step_evaluation import EVALUATE, STEPS, declaration_problems
from teamwright.strategies.protocol import Flaw, Members
from teamwright.values.specs.evaluation import Evaluate


def evaluation_of(step: ExpertStep, options: CoordinationOptions) -> Evaluate:
    """Return how a step is evaluated: its own declaration or that of the team, under the risk profile."""
    declared = step.evaluate or options.evaluate or Evaluate()
    if not _uses_judge(options):
        declared = _checks_of(declared)
    most = options.max_feedback_rounds
    rounds = min(declared.rounds, most) if "rounds" in declared.model_fields_set else most
    exceeded = "warn" if options.risk == "low" else "fail"
    return declared.model_copy(update={"rounds": rounds, "on_exceeded": exceeded})


def evaluator_of_step(step: ExpertStep, options: CoordinationOptions, members: Members) -> Evaluator:
    """Return the evaluator of a step, with members or helpers of the team as its judges."""
    declared = evaluation_of(step, options)
    judge = None if declared.judge is None else members.named(declared.judge)
    final = None if declared.final_judge is None else members.named(declared.final_judge)
    return make_evaluator(declared, judge=judge, final_judge=final)


def _uses_judge(options: CoordinationOptions) -> bool:
    return options.risk != "high" and options.evaluator != "rubric"


def _checks_of(declared: Evaluate) -> Evaluate:
    """Return the declaration without its judges and what only they can answer."""
    checks = tuple(one for one in declared.criteria if one.judge is None)
    return declared.model_copy(update={"criteria": checks, "judge": None, "final_judge": None})


def risk_flaws(options: CoordinationOptions, steps: Sequence[ExpertStep]) -> Iterator[Flaw]:
    """Yield what is wrong between risk, evaluator and the declarations of evaluations."""
    if options.auto_pass and options.risk != "low":
        yield Flaw(f"auto_pass needs  risk: low, and the risk is {options.risk}", ("auto_pass",))
    if options.evaluator == "agent" and options.risk == "high":
        yield Flaw("risk: high  evaluates by checks alone; remove  evaluator: agent", ("evaluator",))
    if options.evaluate is not None:
        yield from (Flaw(text, (EVALUATE,)) for text in declaration_problems(options.evaluate))
    for declared, at in _declarations(options, steps):
        if "on_exceeded" in declared.model_fields_set:
            yield Flaw("the risk decides about work that does not pass; remove  on_exceeded", (*at, "on_exceeded"))
        judged = [one.id for one in declared.criteria if one.judge is not None]
        if judged and not _uses_judge(options):
            why = "risk: high" if options.risk == "high" else "evaluator: rubric"
            text = f"the criterion {judged[0]!r} is not used: with  {why}  no judge is asked"
            yield Flaw(text, at, is_warning=True)
    yield from _missing_judges(options, steps)


def _missing_judges(options: CoordinationOptions, steps: Sequence[ExpertStep]) -> Iterator[Flaw]:
    """Yield a flaw for each evaluation without a judge, where one is asked for."""
    if options.evaluator != "agent":
        return
    declared = list(_declarations(options, steps))
    for one, at in declared:
        if one.judge is None:
            yield Flaw("evaluator: agent  needs a judge; name one as  judge", at)
    if not declared or (options.evaluate is None and any(step.evaluate is None for step in steps)):
        yield Flaw("evaluator: agent  needs a judge; declare  evaluate  with one", ("evaluator",))


def _declarations(
    options: CoordinationOptions, steps: Sequence[ExpertStep]
) -> Iterator[tuple[Evaluate, tuple[str | int, ...]]]:
    if options.evaluate is not None:
        yield options.evaluate, (EVALUATE,)
    for index, step in enumerate(steps):
        if step.evaluate is not None:
            yield step.evaluate, (STEPS, index, EVALUATE)
