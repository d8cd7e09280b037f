"""The rubric: deterministic criteria first, then a judge for the rest, if the work can still pass.

It is an evaluator, which is an agent: its checks are effects, and its judges are asked through its context.
"""

from __future__ import annotations

from teamwright.agents.contract.agent import Agent, require_agent
from teamwright.agents.contract.context import Context
from teamwright.agents.evaluation_gate import is_passing, weighted_score
from teamwright.agents.evaluator_registry import criteria_problems
from teamwright.agents.evaluators import EVALUATOR, Evaluator, verdict_reply
from teamwright.errors import UsageError
from teamwright.experts.checks import NO_WORK, CheckFailed, run_check
from teamwright.experts.judge import Judge, Judgement
from teamwright.values.specs.evaluation import Criterion, CriterionResult, Evaluate, EvaluationVerdict, JudgeRecord
from teamwright.values.turns.turn import EvaluatedWork, Reply, Turn

NOT_ASKED = "not judged, because the checks before it did not pass"
NOT_REACHED = "not evaluated, because the evaluation broke off"


class Rubric(Evaluator):
    """An evaluator with weighted criteria. `judge` answers those that are questions; `final_judge` marks what passes.

    In Python, the judges are agents: `evaluate=Rubric(Evaluate(criteria=(…)), judge=critic)`.
    """

    kind = EVALUATOR

    def __init__(
        self,
        declaration: Evaluate | None = None,
        *,
        judge: Agent | None = None,
        final_judge: Agent | None = None,
    ) -> None:
        given = declaration if declaration is not None else Evaluate()
        if not isinstance(given, Evaluate):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped code
            raise UsageError(f"A rubric takes an Evaluate, not {given!r:.100}.")
        found = tuple(require_agent(one) for one in (judge, final_judge) if one is not None)
        names = {"judge": judge.name if judge else None, "final_judge": final_judge.name if final_judge else None}
        self.declaration = given.model_copy(update={name: value for name, value in names.items() if value})
        problems = [*self.declaration.problems(), *criteria_problems(self.declaration)]
        if self.declaration.judge is not None and judge is None:
            problems.append(f"the judge {self.declaration.judge!r} is only a name; pass the agent as  judge=…")
        if self.declaration.final_judge is not None and final_judge is None:
            problems.append(
                f"the final judge {self.declaration.final_judge!r} is only a name; pass the agent as  final_judge=…"
            )
        if problems:
            raise UsageError.several(f"The rubric: {text}." for text in problems)
        self.name = self.declaration.evaluator
        self.judges: tuple[Agent, ...] = tuple({id(one): one for one in found}.values())
        self._judge, self._final_judge = judge, final_judge

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Evaluate the work, which is the task of the turn, and reply with the verdict."""
        task = turn.history[-1].content if turn.history else ""
        return verdict_reply(self.name, await self.evaluate(task, turn.task, ctx, turn.work or NO_WORK))

    async def evaluate(self, task: str, work: str, ctx: Context, about: EvaluatedWork = NO_WORK) -> EvaluationVerdict:
        """Return the verdict on work that answers this task; checks also get what else is known about it."""
        results: list[CriterionResult] = []
        for criterion in self.declaration.rubric:
            if criterion.judge is not None:
                continue
            try:
                results.append(await run_check(criterion, work, ctx, task, about))
            except CheckFailed as error:
                return self._verdict(results).exceeded(str(error))
        judged = [one for one in self.declaration.rubric if one.judge is not None]
        if not judged:
            return self._verdict(results)
        if not self._can_pass(results, judged):
            skipped = [CriterionResult(id=one.id, passed=False, score=0.0, reason=NOT_ASKED) for one in judged]
            return self._verdict([*results, *skipped])
        return await self._judged_verdict(task, work, results, judged, ctx)

    def _can_pass(self, results: list[CriterionResult], judged: list[Criterion]) -> bool:
        """Return whether the work passes if the judge passes everything; if not, asking the judge would be wasted."""
        best = [CriterionResult(id=one.id, passed=True, score=1.0) for one in judged]
        return is_passing([*results, *best], self.declaration)

    async def _judged_verdict(
        self, task: str, work: str, results: list[CriterionResult], judged: list[Criterion], ctx: Context
    ) -> EvaluationVerdict:
        """Ask the judge, and the final judge about work that the first one passes."""
        records: list[JudgeRecord] = []
        verdict = self._verdict(results)
        for key, agent in (("judge", self._judge), ("final-judge", self._final_judge)):
            if agent is None:
                break
            judge = Judge(agent, self.declaration.times, self.declaration.reducer)
            judgement = await judge.judge(task, work, judged, ctx, key)
            records.append(judgement.record)
            verdict = self._verdict([*results, *judgement.results], judgement, tuple(records))
            if judgement.problem:
                return verdict.exceeded(judgement.problem)
            if not verdict.passes:
                break
        return verdict

    def _verdict(
        self,
        results: list[CriterionResult],
        judgement: Judgement | None = None,
        records: tuple[JudgeRecord, ...] = (),
    ) -> EvaluationVerdict:
        """Return the verdict of these results; criteria without one were not reached."""
        known = {one.id: one for one in results}
        complete = tuple(
            known.get(one.id, CriterionResult(id=one.id, passed=False, score=0.0, reason=NOT_REACHED))
            for one in self.declaration.rubric
        )
        verdict = EvaluationVerdict(
            outcome="pass" if is_passing(complete, self.declaration) else "revise",
            criteria=complete,
            score=weighted_score(complete, self.declaration) if self.declaration.reviews else None,
            rubric=self.declaration.rubric_digest,
            judges=records,
        )
        if judgement is None:
            return verdict
        return verdict.changed(
            feedback=judgement.feedback,
            suggestions=judgement.suggestions,
            missing=judgement.missing,
            unknown=judgement.unknown,
        )
