"""The risk of a team: how the work of its steps is evaluated, and what is wrong with that."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from teamwright.agents.evaluators import Evaluator
from teamwright.experts.coordination.options import CoordinationOptions, ExpertStep
from teamwright.strategies.plan.step_options import EVALUATE, STEPS, declaration_problems, evaluator_among
from teamwright.strategies.protocol import Issue, Members
from teamwright.values.specs.evaluation import Evaluate


def evaluation_of(step: ExpertStep, options: CoordinationOptions) -> Evaluate:
    """Return how a step is evaluated: by its own declaration or that of the team, at the risk and in the rounds of it.

    A declaration that names its own risk keeps it; its own rounds may only be fewer.
    """
    declared = (step.evaluate or options.evaluate or Evaluate()).at_risk(options.risk)
    most = options.max_feedback_rounds
    rounds = min(declared.rounds, most) if "rounds" in declared.model_fields_set else most
    return declared.model_copy(update={"rounds": rounds})


def evaluator_of_step(step: ExpertStep, options: CoordinationOptions, members: Members) -> Evaluator:
    """Return the evaluator of a step, with members or helpers of the team as its judges."""
    return evaluator_among(members, evaluation_of(step, options))


def own_judge_flaws(
    options: CoordinationOptions, steps: Sequence[ExpertStep], authors: Mapping[str, Collection[str]]
) -> Iterator[Issue]:
    """Yield each judge of a step that may be its author; `authors` are those who may work on a step, by its id."""
    for index, step in enumerate(steps):
        declared, own = evaluation_of(step, options), step.evaluate is not None
        reported = {step.agent or step.id} if own else set[str]()  # with the plan
        for name in declared.judges if declared.asks_judges else ():
            if name in authors.get(step.id, ()) and name not in reported:
                text = f"the step {step.id!r}: {name!r} would judge its own work; name another judge"
                yield Issue(text, (STEPS, index, EVALUATE) if own else (EVALUATE,))


def risk_flaws(options: CoordinationOptions, steps: Sequence[ExpertStep]) -> Iterator[Issue]:
    """Yield what is wrong with the evaluations at the risk of the team, and what a reader may not expect of them."""
    if options.evaluate is not None:
        declared = options.evaluate.at_risk(options.risk)
        yield from (Issue(text, (EVALUATE,)) for text in declaration_problems(declared))
        yield from (Issue(text, (EVALUATE,), is_warning=True) for text in declared.warnings())
    for index, step in enumerate(steps):
        if step.evaluate is not None:
            at, declared = (STEPS, index, EVALUATE), step.evaluate.at_risk(options.risk)
            own = step.evaluate.problems()  # which are reported with the plan
            yield from (Issue(f"the step {step.id!r}: {text}", at) for text in declared.problems() if text not in own)
            yield from (Issue(f"the step {step.id!r}: {text}", at, is_warning=True) for text in declared.warnings())
