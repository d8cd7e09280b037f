"""A team of the crash matrix whose work is evaluated and revised, by members, by a step and by the team itself."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from teamwright.agents.agent import Agent, Context
from teamwright.agents.evaluators import EVALUATOR, Evaluator, verdict_reply
from teamwright.agents.review import REVISION
from teamwright.teams.team import Team
from teamwright.testing.model_server import ChatRequest
from teamwright.values.specs.evaluation import Criterion, Evaluate, Length
from teamwright.values.turns.turn import CriterionResult, EvaluationVerdict, Failure, Reply, Turn
from tests.laws.crash.http_members import http_member

YES, NO, DRAFT = "yes", "no", "a draft"
CRITERIA = (Criterion(id="one", length=Length(min=1)), Criterion(id="two", length=Length(min=1)))


class AskingEvaluator(Evaluator):
    """Asks its judge, which makes two calls, and passes what the judge says yes to."""

    kind = EVALUATOR
    name = "asking"

    def __init__(self, declaration: Evaluate, *, judge: Sequence[Agent] = ()) -> None:
        self.declaration, self.judges = declaration, tuple(judge)

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Ask the judge."""
        answer = await ctx.ask(self.judges[0], Turn(turn.task, purpose="judge", aside=True), key="judge")
        passed = not isinstance(answer, Failure) and answer.text == YES
        results = tuple(CriterionResult(id=one.id, passed=passed, score=float(passed)) for one in CRITERIA)
        verdict = EvaluationVerdict(outcome="pass" if passed else "revise", criteria=results, feedback="Again.")
        return verdict_reply(self.name, verdict)


def evaluated(url: str) -> Team:
    """A member and a step whose first work does not pass, side by side, and a team whose work passes at once."""
    judge = http_member(url, "judge", calls=2)
    declared = Evaluate(
        evaluator="tests.laws.crash.evaluations:AskingEvaluator", criteria=CRITERIA, revisions=1, judge=judge.name
    )
    writer = http_member(url, "a", evaluate=AskingEvaluator(declared, judge=[judge]))
    step = declared.model_dump(mode="json", exclude_unset=True)
    steps: list[JsonValue] = [{"id": "a"}, {"id": "b", "evaluate": step}, {"id": "z", "needs": ["a", "b"]}]
    return Team(
        "reviewed",
        members=[writer, http_member(url, "b"), http_member(url, "z")],
        helpers=[judge],
        strategy="dag",
        options={"steps": steps},
        evaluate=AskingEvaluator(declared, judge=[judge]),
    )


def _told(request: ChatRequest) -> str:
    return str(request.body["prompt"])


def draft(request: ChatRequest, times: int) -> str:
    """Answer with a draft, and a text that is none once it is reviewed."""
    return f"{DRAFT} {request.digest}" if REVISION not in _told(request) else f"the text {request.digest}"


def judgement(request: ChatRequest, times: int) -> str:
    """Say no to drafts; the second call repeats what the first one said."""
    return _told(request) if _told(request) in (YES, NO) else NO if _told(request).startswith(DRAFT) else YES


SAYS = {"a": draft, "b": draft, "judge": judgement}
