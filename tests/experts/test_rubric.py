"""The rubric as a whole: in Python and in manifests, with checks before judges, and from every point of its record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from teamwright import Engine, load_team
from teamwright.agents import Criterion, Evaluate
from teamwright.agents.evaluators import Evaluator
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.errors import UsageError
from teamwright.experts import Rubric
from teamwright.history.kpis import kpis_of
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.teams.team import Team
from teamwright.testing import EvaluatorConformance
from teamwright.values.events.agent import AgentAsked
from teamwright.values.events.event import Event
from teamwright.values.events.team import TeamEvaluationResult, TeamEvaluationStarted
from teamwright.values.limits import Limits
from teamwright.values.specs.evaluation import Length
from teamwright.values.turns.turn import EvaluationVerdict
from tests.kit.members import FakeMembers
from tests.kit.records import cut_and_resume
from tests.kit.runs import TASK, run

CITES = Criterion(id="cites", regex=r"\[\d+\]")
CLEAR = Criterion(id="clear", judge="Is it clear?")


def says(passed: bool, score: float, feedback: str = "") -> str:
    return json.dumps({"criteria": [{"id": "clear", "passed": passed, "score": score}], "feedback": feedback})


def clear_if_short(prompt: str) -> str:
    work = prompt.partition("# work:\n")[2].partition("\n\n# criteria:")[0]
    return says(len(work) < 20, 1.0 if len(work) < 20 else 0.0)


class TestRubricOfChecks(EvaluatorConformance):
    good, bad = "A source [1].", "No source."

    def make(self) -> Evaluator:
        return Rubric(Evaluate(criteria=(CITES, Criterion(id="program", command=("grep", "-q", "1")))))


class TestRubricWithJudge(EvaluatorConformance):
    good, bad = "Short [1].", "A text that is too long [1]."

    def make(self) -> Evaluator:
        judge = FunctionAgent("critic", clear_if_short)
        return Rubric(Evaluate(criteria=(CITES, CLEAR), times=2), judge=judge)


class TestDefaultRubric(EvaluatorConformance):
    good, bad = "Anything.", " "

    def make(self) -> Evaluator:
        return Rubric()


def verdicts(events: list[Event]) -> list[EvaluationVerdict]:
    return [event.fact.verdict for event in events if isinstance(event.fact, TeamEvaluationResult)]


async def test_the_default_rubric_fails_blank_work() -> None:  # K-10
    result, events = await run(Team("t", members=[FunctionAgent("writer", lambda text: " \n", evaluate=Rubric())]))
    assert result.stop_reason == "review_exceeded"
    assert [(one.id, one.passed) for one in verdicts(events)[0].criteria] == [("not-blank", False)]


async def test_a_broken_check_ends_the_review_before_a_judge_is_paid() -> None:
    criteria = (Criterion(id="program", command=("no-such-program",)), CITES, CLEAR)
    judge = FunctionAgent("critic", lambda text: says(True, 1.0))
    writer = FunctionAgent("writer", lambda text: "[1]", evaluate=Rubric(Evaluate(criteria=criteria), judge=judge))
    result, events = await run(Team("t", members=[writer]))
    (verdict,) = verdicts(events)
    assert (result.stop_reason, verdict.outcome) == ("review_exceeded", "review_exceeded")
    assert [one.id for one in verdict.criteria] == ["program", "cites", "clear"]
    assert "critic" not in [event.fact.member for event in events if isinstance(event.fact, AgentAsked)]


@pytest.mark.parametrize(
    ("last", "outcome", "score"), [(says(True, 0.8), "pass", 0.8), (says(False, 0.3), "revise", 0.3)]
)
async def test_the_marks_of_the_last_judge_are_those_that_are_reported(last: str, outcome: str, score: float) -> None:
    judge = FunctionAgent("critic", lambda text: says(True, 1.0))
    final = FunctionAgent("chief", lambda text: last)
    evaluator = Rubric(Evaluate(criteria=(CLEAR,)), judge=[judge, final])
    _, events = await run(Team("t", members=[FunctionAgent("writer", lambda text: "x", evaluate=evaluator)]))
    (verdict,) = verdicts(events)
    assert (verdict.outcome, verdict.score) == (outcome, score)
    assert [one.member for one in verdict.judges] == ["critic", "chief"]


async def test_the_second_judge_is_not_asked_about_work_that_does_not_pass_the_first() -> None:
    judge, final = (
        FunctionAgent("critic", lambda text: says(False, 0.1)),
        FunctionAgent("chief", lambda text: says(True, 1)),
    )
    evaluator = Rubric(Evaluate(criteria=(CLEAR,)), judge=[judge, final])
    _, events = await run(Team("t", members=[FunctionAgent("writer", lambda text: "x", evaluate=evaluator)]))
    assert [one.member for one in verdicts(events)[0].judges] == ["critic"]


@pytest.mark.parametrize("fields", [{"risk": "high"}, {"evaluator": "rubric"}])
async def test_where_checks_alone_decide_no_judge_is_asked(fields: dict[str, Any]) -> None:  # K-10
    judge = FunctionAgent("critic", lambda text: says(False, 0.0))
    evaluator = Rubric(Evaluate(criteria=(CITES, CLEAR), **fields), judge=judge)
    result, events = await run(Team("t", members=[FunctionAgent("writer", lambda text: "[1]", evaluate=evaluator)]))
    (verdict,) = verdicts(events)
    assert (result.status, verdict.outcome, [one.id for one in verdict.criteria]) == ("completed", "pass", ["cites"])
    assert "critic" not in [event.fact.member for event in events if isinstance(event.fact, AgentAsked)]
    assert bool(verdict.warnings) is ("risk" in fields)


async def test_a_judge_that_is_a_team_judges() -> None:
    panel = Team(
        "panel", members=[FunctionAgent("one", lambda text: "hm"), FunctionAgent("two", lambda text: says(True, 1))]
    )
    evaluator = Rubric(Evaluate(criteria=(CLEAR,)), judge=panel)
    result, events = await run(Team("t", members=[FunctionAgent("writer", lambda text: "x", evaluate=evaluator)]))
    assert (result.status, verdicts(events)[0].judges[0].model) == ("completed", "team")


async def test_the_digest_of_the_rubric_is_recorded_and_changes_with_its_criteria() -> None:
    one = Evaluate(criteria=(CITES,))
    writer = FunctionAgent("writer", lambda text: "[1]", evaluate=Rubric(one))
    _, events = await run(Team("t", members=[writer]))
    (started,) = [event.fact for event in events if isinstance(event.fact, TeamEvaluationStarted)]
    assert started.rubric == one.rubric_digest
    assert verdicts(events)[0].rubric == one.rubric_digest
    heavier = CITES.model_copy(update={"weight": 2.0})
    assert len({one.rubric_digest, Evaluate(criteria=(heavier,)).rubric_digest}) == 2


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Rubric(Evaluate(criteria=(CLEAR,))), "'clear' needs a judge"),
        (lambda: Rubric(Evaluate(criteria=(CLEAR,), judge="critic")), "'critic' is only a name"),
        (lambda: Rubric(judge=FunctionAgent("critic", lambda text: text)), "'critic' has nothing to judge"),
        (lambda: Rubric("cites"), "A rubric takes an Evaluate"),  # pyright: ignore[reportArgumentType]
        (lambda: Rubric(judge="critic"), "critic"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_a_rubric_that_can_not_work_is_refused_where_it_is_made(make: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        make()


MANIFEST = """
agents:
  writer:
    model: scripted:replies.yaml
    evaluate:
      revisions: 2
      judge: critic
      criteria:
        - {id: cites, regex: '\\[\\d+\\]'}
        - {id: clear, judge: Is it clear?, weight: 2}
  critic: {model: scripted:replies.yaml}
teams:
  report: {members: [writer]}
"""
REPLIES = f"""
rules:
  - {{agent: writer, reply: no source, times: 1}}
  - {{agent: writer, reply: "unclear [1]", times: 1}}
  - {{agent: writer, reply: "clear [1]"}}
  - {{agent: critic, reply: '{says(False, 0.2, "Say it plainly.")}', times: 1}}
  - {{agent: critic, reply: '{says(True, 0.9)}'}}
"""


async def test_a_manifest_evaluates_as_python_does_and_resumes_from_every_event(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(MANIFEST, encoding="utf-8")
    (tmp_path / "replies.yaml").write_text(REPLIES, encoding="utf-8")
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(load_team(tmp_path / "team.yaml"), TASK, run_id="r")
    events = list(await journal.read("r"))
    assert (result.status, result.output) == ("completed", "clear [1]")
    assert [(one.outcome, one.score) for one in verdicts(events)] == [
        ("revise", 0.0),
        ("revise", 0.4667),
        ("pass", 0.9333),
    ]
    calls = sum(event.kind == "agent.called" for event in events)
    for at in range(1, len(events)):
        resumed, kinds = await cut_and_resume(load_team(tmp_path / "team.yaml"), at, journal)
        assert (resumed.status, resumed.output, resumed.usage) == (result.status, result.output, result.usage), at
        in_doubt = events[at - 1].kind == "agent.called"
        assert kinds.count("agent.called") == calls + in_doubt, at


async def test_what_judges_cost_is_counted_apart() -> None:
    critic = ScriptedAgent("critic", [Rule(reply=says(True, 1.0))])
    writer = ScriptedAgent("writer", [Rule(reply="x")], evaluate=Rubric(Evaluate(criteria=(CLEAR,)), judge=critic))
    result, events = await run(Team("t", members=[writer]))
    found = kpis_of(events)
    assert found.judge_tokens > found.work_tokens > 0
    assert found.judge_tokens + found.work_tokens == result.usage.total_tokens
    assert (found.steps, found.judged, found.assumed, found.pass_rate) == (1, 1, 0, 1.0)


async def test_a_judge_works_under_the_budget_of_the_team() -> None:
    critic = ScriptedAgent("critic", [Rule(reply=says(True, 1.0))])
    writer = ScriptedAgent("writer", [Rule(reply="x")], evaluate=Rubric(Evaluate(criteria=(CLEAR,)), judge=critic))
    result, events = await run(Team("t", members=[writer], limits=Limits(tokens=60)))
    assert result.usage.total_tokens <= 60
    assert verdicts(events)[0].judges[0].unusable == ("it failed (budget)",)
    assert result.stop_reason == "review_exceeded"


@pytest.mark.parametrize("declared", [Evaluate(), Evaluate(revisions=1, risk="high")], ids=["default", "high"])
async def test_work_for_which_nobody_declared_a_criterion_is_not_reviewed(declared: Evaluate) -> None:
    writer = FakeMembers().member("writer", "a text", evaluate=Rubric(declared))
    result, events = await run(Team("t", members=[writer]))
    assert (result.status, result.output) == ("completed", "a text")
    (verdict,) = verdicts(events)
    assert (verdict.outcome, verdict.score, verdict.passes) == ("not_reviewed", None, True)
    assert not any("1.00" in str(one.fact) for one in events)
    found = kpis_of(events)
    assert (found.passed, found.judged, found.assumed, found.pass_rate) == (1, 0, 1, 1.0)


async def test_a_criterion_that_is_declared_is_a_review_and_blank_work_never_counts() -> None:
    writer = FakeMembers().member(
        "writer", "a text", evaluate=Rubric(Evaluate(criteria=(Criterion(id="said", length=Length(min=1)),)))
    )
    _, events = await run(Team("t", members=[writer]))
    assert [(one.outcome, one.score) for one in verdicts(events)] == [("pass", 1.0)]
    writer = FakeMembers().member("writer", " ", evaluate=Rubric(Evaluate()))
    result, events = await run(Team("t", members=[writer]))
    assert (result.status, [one.outcome for one in verdicts(events)]) == ("failed", ["revise"])
