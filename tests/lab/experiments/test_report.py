from __future__ import annotations

import random
import re
from xml.etree import ElementTree

import pytest

from teamwright.errors import UsageError
from teamwright.lab.experiments.dataset import Case
from teamwright.lab.experiments.experiment import CaseAttempt, JudgedLabel
from teamwright.lab.experiments.report import compare, html_of, judge_report, report_of, text_of


def trials(variant: str, *passed: bool | None, usd: float = 0.01, attempts: int = 1) -> list[CaseAttempt]:
    return [
        CaseAttempt(
            case=f"c{n // attempts}", attempt=n % attempts + 1, variant=variant, run_id=f"{variant}-{n}",
            status="completed", passed=one, score=None if one is None else float(one), usd=usd, tokens=100,
        )
        for n, one in enumerate(passed)
    ]  # fmt: skip


CASES = [Case(id=f"c{n}", task="t", tags=("odd",) if n % 2 else ()) for n in range(4)]


def test_what_was_not_measured_counts_neither_for_nor_against_a_team() -> None:
    found = report_of(trials("a", True, None, False, True), CASES).variants[0]
    assert (found.cases, found.trials, found.passed, found.unmeasured) == (3, 3, 2, 1)
    assert found.usd_per_pass == pytest.approx(0.015)


def test_flaky_cases_tags_and_pass_k_are_by_case() -> None:
    report = report_of(trials("a", *[True, False] * 2, *[True] * 4, attempts=2), CASES)
    assert report.variants[0].flaky == ("c0", "c1")
    assert (report.variants[0].pass_all, report.variants[0].pass_any) == ((0.75, 0.5), (0.75, 1.0))
    assert [(one.name, one.passed, one.trials) for one in report.by_tag] == [("odd", 3, 4)]
    assert "pass^2 50 %, pass@2 100 %" in text_of(report)


def test_two_teams_that_chance_explains_can_not_be_told_apart_and_the_cases_that_would_are_said() -> None:
    draw = random.Random(1)
    one, two = ([draw.random() < rate for _ in range(60)] for rate in (0.7, 0.75))
    found = compare(trials("a", *one), trials("b", *two, usd=0.007))
    assert found.pass_rate.holds_zero
    assert re.match(r"can't tell 'a' and 'b' apart \(.* points\); .* about .* cases would be needed", found.sentence)
    assert found.cost is not None
    assert found.cost.value == pytest.approx(-0.3)


def test_two_teams_that_differ_are_told_apart() -> None:
    one, two = [n % 2 == 0 for n in range(60)], [n % 6 != 0 for n in range(60)]
    assert compare(trials("a", *one), trials("b", *two)).sentence.startswith("'b' is better than 'a': +33 points")
    assert compare(trials("b", *two), trials("a", *one)).sentence.startswith("'a' is worse than 'b': -33 points")
    with pytest.raises(UsageError, match="no case in common"):
        compare(trials("a", True), [one.changed(case="x") for one in trials("b", True)])


def test_a_judge_that_favours_an_author_and_the_first_criterion_is_found_out() -> None:
    labels = [
        JudgedLabel(
            case=str(n), author="own" if n % 2 else "other", label=n % 4 < 2, passed=n % 4 < 2 or n % 2 == 1,
            reversed_passed=n % 4 < 2,
        )
        for n in range(40)
    ]  # fmt: skip
    found = judge_report(labels)
    assert (found.agreement.value, found.passes_bad, found.fails_good) == (0.75, 0.5, 0.0)
    assert found.order_changes is not None
    assert found.order_changes.value == 0.25
    assert {one.author: one.passes_bad for one in found.authors} == {"other": 0.0, "own": 1.0}


def test_the_page_needs_nothing_else_and_hides_no_markup_of_a_case() -> None:
    report = report_of(trials("<b>a</b>", True, False), [Case(id="c0", task="t", tags=("<i>",)), CASES[1]])
    page = html_of(report, "<script>")
    assert "<script" not in page
    assert "<b>a" not in page
    assert "<i>" not in page
    assert not re.search(r"https?://|src=|href=|@import|url\(", page)
    ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])


def test_what_a_part_is_worth_is_said_with_what_chance_may_explain() -> None:
    def sentence(before: list[bool], after: list[bool]) -> str:
        trials_ = [*trials("team", *before), *trials("without critic", *after, usd=0.0069)]
        return report_of(trials_, [], ablated=True).comparisons[0].sentence

    cheaper = "without critic: 31 % cheaper [31 to 31], "
    assert sentence([True] * 100, [True] * 100) == f"{cheaper}no loss found in 100 cases"
    assert sentence([True] * 9, [True] * 9).endswith("no loss found in 9 cases, which could be up to 29 points")
    assert "passes 50 points fewer, which chance may explain" in sentence([True] * 2, [True, False])
    assert "passes 40 points fewer (" in sentence([True] * 50, [n % 5 > 1 for n in range(50)])
