"""The conformance suite for evaluators: subclass `EvaluatorConformance`, override `make`, and say what passes.

class TestMyEvaluator(EvaluatorConformance):
    good, bad = "A text with a source [1].", "A text."

    def make(self) -> Evaluator:
        return MyEvaluator(Evaluate(…))

`check_evaluator` runs the same checks in one call. An evaluator is an agent, so the checks of agents are among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import anyio

from teamwright.agents.evaluators import EVALUATOR, Evaluator, read_verdict, require_evaluator
from teamwright.errors import InvalidOutput, UsageError
from teamwright.testing.agent import CHECKS as AGENT_CHECKS, AgentConformance, AgentTrial
from teamwright.testing.trial import FaultInjector, run_checks
from teamwright.values.events.agent import AgentAsked
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.turns.turn import EvaluationVerdict, Reply

NUMBERS_OF_BLANKS = (0, 1, 100)


@dataclass(frozen=True)
class EvaluatorTrial:
    """How to create the evaluator under test, work that passes it, and work that does not."""

    make: Callable[[], Evaluator]
    good: str
    bad: str

    async def verdict(self, work: str, faults: FaultInjector | None = None) -> EvaluationVerdict | None:
        """Return the verdict on this work, with these faults injected; `None` if the evaluator fails."""
        observed, _, _ = await AgentTrial(self.make).run(faults, work)
        if not isinstance(observed.reply, Reply):
            return None
        try:
            return read_verdict(observed.reply)
        except InvalidOutput as error:
            raise AssertionError(
                f"The evaluator replies without a verdict: {error}; return verdict_reply(name, EvaluationVerdict(…))."
            ) from error


async def check_evaluator_declaration(trial: EvaluatorTrial) -> None:
    """Check that it has a declaration, which survives a round trip through JSON."""
    try:
        evaluator = require_evaluator("The evaluator", trial.make())
    except UsageError as error:
        raise AssertionError(str(error)) from error
    assert evaluator.kind == EVALUATOR, f"The `kind` of an evaluator is {EVALUATOR!r}, not {evaluator.kind!r}."
    declared = evaluator.declaration
    written = declared.model_dump(mode="json", exclude_unset=True)
    assert Evaluate.model_validate(written) == declared, "`declaration` changes when it is written as JSON and read."


async def check_verdicts(trial: EvaluatorTrial) -> None:
    """Check that good work passes, bad work does not, and each verdict names every criterion of the rubric once."""
    ids = Counter(one.id for one in trial.make().declaration.rubric)
    for work, passes in ((trial.good, True), (trial.bad, False)):
        verdict = await trial.verdict(work)
        assert verdict is not None, "The evaluator fails on work that it can evaluate."
        named = Counter(one.id for one in verdict.criteria)
        assert named == ids, f"A verdict names every criterion once: {sorted(ids)}, and this one has {sorted(named)}."
        assert all(0 <= one.score <= 1 for one in verdict.criteria), "The score of a criterion is from 0 to 1."
        word = "good" if passes else "bad"
        assert verdict.passes == passes, f"The verdict on {word} work is {verdict.outcome!r}."


async def check_blank_work(trial: EvaluatorTrial) -> None:
    """Check that blank work never passes."""
    for count in NUMBERS_OF_BLANKS:
        verdict = await trial.verdict(" " * count)
        assert verdict is None or not verdict.passes, f"Work of {count} blanks passes; require text that is not blank."


async def check_broken_calls(trial: EvaluatorTrial) -> None:
    """Check that nothing passes while checks and judges fail."""
    faults = FaultInjector("fail")
    verdict = await trial.verdict(trial.good, faults)
    if faults.has_injected:
        assert verdict is None or not verdict.passes, "Work passes although a check or a judge failed."


async def check_judges(trial: EvaluatorTrial) -> None:
    """Check that judges are asked with `purpose="judge"`, so that what they cost is counted apart."""
    _, _, log = await AgentTrial(trial.make, trial.good).run()
    judges = {one.name for one in trial.make().judges}
    asked = [event.fact for event in log.events if isinstance(event.fact, AgentAsked)]
    for fact in asked:
        if fact.member in judges:
            assert fact.purpose == "judge", f"{fact.member!r} is asked as {fact.purpose!r}: set  purpose='judge'."


Check = Callable[[EvaluatorTrial], Awaitable[None]]
CHECKS: tuple[Check, ...] = (
    check_evaluator_declaration, check_verdicts, check_blank_work, check_broken_calls, check_judges,
)  # fmt: skip


def check_evaluator(make: Callable[[], Evaluator], good: str, bad: str) -> None:
    """Run all checks on an evaluator, those of agents too; raises one `AssertionError` that lists every mistake."""
    found: list[str] = []
    for run in (
        partial(run_checks, CHECKS, EvaluatorTrial(make, good, bad)),
        partial(run_checks, AGENT_CHECKS, AgentTrial(make, good)),
    ):
        try:
            run()
        except AssertionError as error:
            found.append(str(error))
    if found:
        raise AssertionError("\n".join(found))


class EvaluatorConformance(AgentConformance):
    """The tests of an evaluator. Set `good` and `bad`: work that passes and work that does not."""

    good: str = ""
    bad: str = ""

    @property
    def task(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - the work is the task
        """The work that the checks of agents use."""
        return self.good

    def make(self) -> Evaluator:
        """Return a new evaluator on each call; all of them give the same verdicts."""
        raise NotImplementedError

    def check_evaluator(self, check: Check) -> None:
        """Run one check of evaluators."""
        anyio.run(check, EvaluatorTrial(self.make, self.good, self.bad))

    def test_its_evaluation_is_declared(self) -> None:
        self.check_evaluator(check_evaluator_declaration)

    def test_its_verdicts_name_every_criterion(self) -> None:
        self.check_evaluator(check_verdicts)

    def test_blank_work_does_not_pass(self) -> None:
        self.check_evaluator(check_blank_work)

    def test_nothing_passes_while_calls_fail(self) -> None:
        self.check_evaluator(check_broken_calls)

    def test_judges_are_asked_as_judges(self) -> None:
        self.check_evaluator(check_judges)
