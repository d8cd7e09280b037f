"""Grades answers: by the words and data that a case expects, and by a recorded run of an evaluator.

A grade is a run like any other, so that a judge is paid once, also if the process is killed while it judges. The prompt
of a judge, and how its answer is read, are in `experts/judge.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from teamwright.agents.agent import Agent, Context
from teamwright.agents.clients.client_pool import Models
from teamwright.agents.evaluators import Evaluator, criteria_problems, make_evaluator, read_verdict
from teamwright.agents.functions.imports import modules_of
from teamwright.errors import InvalidOutput, MemberFailed, UnknownName
from teamwright.lab.experiments.dataset import Case
from teamwright.teams.builder import Builder
from teamwright.teams.manifests.environment_variables import resolve_secrets
from teamwright.teams.team import Team
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.specs.manifest import Source
from teamwright.values.turns.messages import EMPTY, History, Message
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import EvaluatedWork, EvaluationVerdict, Failure, Reply, Turn
from teamwright.values.value import JsonValue

GRADING = "grading"
ANSWER = "answer"
MakeGrader = Callable[[Evaluate, str, JsonValue], Team]
"""Makes the team that grades an answer, by criteria, for a task, with the data of the answer."""
_BLANKS = re.compile(r"\s+")


class Grader(Agent):
    """Lets an evaluator judge one answer to a task of others."""

    kind = "grader"

    def __init__(self, evaluator: Evaluator, task: str, about: EvaluatedWork) -> None:
        self.name, self._evaluator, self._task, self._about = GRADING, evaluator, task, about
        self.tool_agents = (evaluator, *evaluator.judges)

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Ask the evaluator about the work, which is the task of the turn."""
        asked = History.of((Message(name="user", content=self._task, role="user"),)) if self._task else EMPTY
        question = Turn(turn.task, asked, purpose="judge", work=self._about)
        reply = await ctx.ask(self._evaluator, question, key="evaluation")
        if isinstance(reply, Failure):
            raise MemberFailed(reply.error, reply.message, member=self._evaluator.name)
        return reply


@dataclass(frozen=True, slots=True)
class Judges:
    """Makes the teams that grade answers, with judges from the manifest of the first team that is measured."""

    source: Source
    models: Models | None = None

    def team(self, declared: Evaluate, task: str, data: JsonValue) -> Team:
        """The team whose run grades one answer; functions of its criteria are found beside the manifest."""
        manifest, secrets = resolve_secrets(self.source.manifest)
        with modules_of(self.source.module_folder):
            builder = Builder(manifest, Path(self.source.base), self.models, self.source.roots)
            evaluator = make_evaluator(declared, [builder.agent(judge) for judge in declared.judges])
        made = Team(GRADING, members=[Grader(evaluator, task, EvaluatedWork(ANSWER, data))], checked=True)
        made.declared, made.secrets = made.source.model_copy(update={"base": self.source.base}), secrets
        return made

    def problems(self, declared: Evaluate) -> list[str]:
        """Return what is wrong with an evaluation, also unknown judges and code that can't be loaded."""
        known = [*self.source.manifest.agents, *self.source.manifest.teams]
        unknown = [str(UnknownName("judge", name, known)) for name in declared.judges if name not in known]
        with modules_of(self.source.module_folder):
            return [*declared.problems(), *unknown, *criteria_problems(declared)]


@dataclass(frozen=True, slots=True)
class Grade:
    """Whether an answer passes, its score if criteria were declared, and why it does not pass."""

    passed: bool
    score: float | None = None
    reason: str = ""


def expectation_grade(case: Case, result: RunResult) -> Grade | None:
    """The grade by what the case expects of text and data; `None` if it expects neither."""
    if case.expected is None and case.data is None:
        return None
    if case.expected is not None and not has_words(result.output or "", case.expected):
        return Grade(False, None, f"the answer lacks {case.expected!r}")
    if case.data is not None and (where := misfit(case.data, result.data)):
        return Grade(False, None, where)
    return Grade(True)


def verdict_grade(result: RunResult) -> Grade:
    """The grade that the run of a grader has given."""
    try:
        verdict = read_verdict(Reply.of(GRADING, result.output or "", data=result.data))
    except InvalidOutput:
        why = result.failure.message if result.failure else result.status
        return Grade(False, None, f"not graded: {why}")
    return Grade(verdict.passes, verdict.score, "" if verdict.passes else _why(verdict))


def _why(verdict: EvaluationVerdict) -> str:
    failed = [f"{one.id}: {one.reason}" if one.reason else one.id for one in verdict.criteria if not one.passed]
    return "; ".join(failed) or verdict.feedback


def joined(grades: Sequence[Grade]) -> Grade:
    """One grade of several: all have to pass, and the score is that of the criteria."""
    failed = [one for one in grades if not one.passed]
    scores = [one.score for one in grades if one.score is not None]
    return Grade(not failed, scores[-1] if scores else None, "; ".join(one.reason for one in failed if one.reason))


def has_words(text: str, words: str) -> bool:
    """Whether a text contains words as whole words, whatever their case and the blanks between them: 42, not 142."""
    wanted = re.escape(_BLANKS.sub(" ", words).strip().casefold())
    return re.search(rf"(?<!\w){wanted}(?!\w)", _BLANKS.sub(" ", text).casefold()) is not None


def misfit(expected: JsonValue, found: JsonValue, at: str = "data") -> str:
    """Say where data lacks what is expected of it; empty if it does not. Fields beside the expected ones may differ."""
    match expected:
        case dict():
            if not isinstance(found, Mapping):
                return f"{at} is {found!r:.100} and no object"
            fields = cast("Mapping[str, JsonValue]", found)
            missing = (f"{at}.{name} is missing" for name in expected if name not in fields)
            inner = (misfit(one, fields[name], f"{at}.{name}") for name, one in expected.items() if name in fields)
            return next(missing, "") or next(filter(None, inner), "")
        case list():
            if not isinstance(found, list) or len(found) != len(expected):
                return f"{at} is {found!r:.100}, and {expected!r:.100} is expected"
            pairs = enumerate(zip(expected, found, strict=True))
            return next(filter(None, (misfit(one, other, f"{at}[{place}]") for place, (one, other) in pairs)), "")
        case _:
            same = expected == found and isinstance(expected, bool) == isinstance(found, bool)
            return "" if same else f"{at} is {found!r:.100}, and {expected!r:.100} is expected"
