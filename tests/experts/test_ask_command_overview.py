"""What is said of a formed team before it begins, and of its review when it has ended."""

from __future__ import annotations

from pathlib import Path

from teamwright.experts import ExpertTemplates
from teamwright.experts.ask_command import RunReview, overview, review_of_run
from teamwright.experts.formation import draft_named, form_team
from teamwright.experts.team_or_agent import Router
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.values.specs.manifest import Source
from teamwright.values.turns.turn import CriterionResult, EvaluationVerdict


def formed(tmp_path: Path, names: list[str], strategy: str = "expert", task: str = "") -> Source:
    given = {"model": "local", "base": tmp_path, "strategy": strategy, "task": task}
    return form_team(draft_named(names), ExpertTemplates(), **given)  # type: ignore[arg-type]


def test_a_team_is_shown_with_its_plan_and_its_review_in_aligned_lines(tmp_path: Path) -> None:  # A-11 A-12
    shown = overview(formed(tmp_path, ["writer", "editor", "barista"], task="Which beans? Which water? Which cup?"))
    assert shown.splitlines() == [
        "team      writer   leads  from the template writer",
        "          editor          from the template editor",
        "          barista         made up",
        "plan      1  editor, barista work on the task at once",
        "          2  writer puts the results together into the answer",
        "review    the answer, by barista: 5 criteria, 3 of them parts of the task; at most one revision",
        "warning   there is no expert template 'barista'; the role was made up for this run",
    ]


def test_one_expert_answers_and_a_lead_who_plans_says_so(tmp_path: Path) -> None:  # A-11 A-12
    alone = overview(formed(tmp_path, ["editor"])).splitlines()
    assert alone[1:] == [
        "plan      1  editor answers",
        "review    the answer, by judge: 2 criteria; at most one revision",
    ]
    led = overview(formed(tmp_path, ["editor", "writer"], "collaborate")).splitlines()
    assert led[2:] == [
        "plan      editor plans the steps, hands them out, and answers",
        "review    each step and the answer, by judge: 2 criteria; at most one revision",
    ]


async def test_one_agent_has_no_plan(tmp_path: Path) -> None:
    async with Engine(MemoryJournal()) as engine:
        assert overview(Router(engine, "local", tmp_path).agent()) == "agent     assistant answers alone"


def test_a_review_says_who_judged_how_often_and_what_came_of_it() -> None:
    results = tuple(CriterionResult(id=name, passed=name == "a", score=1.0) for name in "ab")
    verdict = EvaluationVerdict(outcome="revise", criteria=results, score=0.5)
    text = str(RunReview(("judge",), "editor", 2, verdict))
    assert text == "judge judged the answer of editor: it does not pass in attempt 2, 1 of 2 criteria, score 0.50"
    broken = EvaluationVerdict(outcome="auto_pass_with_warning", feedback="the judge gave no usable answer", score=None)
    assert str(RunReview(("judge",), "editor", 1, broken)) == "not reviewed: the judge gave no usable answer"


def test_a_run_without_a_review_is_not_reviewed() -> None:
    review = review_of_run([])
    assert (str(review), review.to_json()["outcome"]) == ("not reviewed", "not_reviewed")
