"""Experts and templates are rated by what evaluators said of their work, and by what it cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import Engine
from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.experts.ratings import RatedWork, Rating, rate_runs, rate_work
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.teams.team import Team
from teamwright.values.limits import NOTHING, Usage
from teamwright.values.specs.evaluation import EvaluationVerdict, VerdictOutcome
from tests.kit.evaluators import WordEvaluator, words
from tests.kit.local_placement import placed_team, placing_engine
from tests.kit.records import damage_first_event


def work(
    member: str = "writer",
    outcome: VerdictOutcome | None = "pass",
    *,
    template: str = "",
    attempts: int = 1,
    usd: float | None = 0.01,
) -> RatedWork:
    verdict = None if outcome is None else EvaluationVerdict(outcome=outcome, score=0.8 if outcome == "pass" else 0.2)
    usage = Usage(requests=attempts, input_tokens=100 * attempts, usd=usd)
    judging = NOTHING if verdict is None else Usage(requests=1, input_tokens=10, usd=usd)
    return RatedWork(member, template, attempts, outcome is None, verdict, usage, judging)


def rating(*pieces: RatedWork) -> Rating:
    (found,) = rate_work({"r": pieces}).experts
    return found


def test_a_rating_says_how_often_work_passed_with_what_revisions_and_at_what_price() -> None:
    found = rating(work(), work(attempts=3), work(outcome="revise", attempts=3), work(outcome=None))
    assert (found.steps, found.judged, found.passed, found.failed) == (4, 3, 2, 1)
    assert (found.pass_rate, found.first_time, found.revisions) == (0.6667, 0.3333, 1.3333)
    assert (found.score, found.total_tokens, found.judge_tokens) == (0.6, 800, 30)
    assert (found.usd, found.judge_usd) == (pytest.approx(0.04), pytest.approx(0.03))
    assert found.tokens_per_pass == (700 + 30) // 2
    assert found.usd_per_pass == pytest.approx(0.03)


def test_what_was_never_judged_has_no_pass_rate() -> None:
    found = rating(work(outcome=None), work(outcome="review_exceeded"), work(outcome="auto_pass_with_warning"))
    assert (found.judged, found.unreviewed, found.pass_rate, found.at_least) == (0, 2, None, None)
    assert (found.tokens_per_pass, found.usd_per_pass, found.score) == (None, None, None)


def test_a_price_that_is_not_known_is_none() -> None:
    found = rating(work(usd=None))
    assert (found.usd, found.usd_per_pass, found.tokens_per_pass) == (None, None, 110)


def test_much_good_work_ranks_before_a_little_and_unjudged_work_is_last() -> None:
    pieces = [work("new"), *(work("old") for _ in range(19)), work("old", "revise"), work("quiet", None)]
    found = rate_work({"r": pieces}).experts
    assert [one.name for one in found] == ["old", "new", "quiet"]
    assert (found[0].pass_rate, found[1].pass_rate) == (0.95, 1.0)


def test_experts_of_one_template_are_rated_together_and_those_of_two_apart() -> None:
    pieces = {"r": [work("ann", template="editor"), work("bob", "revise", template="editor")], "s": [work("ann")]}
    found = rate_work(pieces)
    assert {(one.name, one.template, one.runs) for one in found.experts} == {
        ("ann", "", 1), ("ann", "editor", 1), ("bob", "editor", 1),
    }  # fmt: skip
    assert [(one.name, one.steps, one.pass_rate, one.runs) for one in found.templates] == [("editor", 2, 0.5, 1)]
    assert found.runs == 2


async def test_runs_are_read_from_a_journal() -> None:
    journal = MemoryJournal()
    rules = [Rule(reply="first", times=1), Rule(reply="a good second")]
    team = Team("t", members=[ScriptedAgent("writer", rules, evaluate=WordEvaluator(words(rounds=2)))])
    async with Engine(journal) as engine:
        used = (await engine.run(team, "go", run_id="r")).usage
    found = await rate_runs(journal, ["r"])
    (writer,) = found.experts
    assert (writer.name, writer.steps, writer.judged, writer.passed, writer.revisions) == ("writer", 1, 1, 1, 1.0)
    assert (writer.first_time, writer.total_tokens) == (0.0, used.total_tokens)
    assert found.to_json()["templates"] == []


async def test_members_of_placed_branches_are_rated_once_as_if_they_had_worked_in_the_run(tmp_path: Path) -> None:
    async with placing_engine() as engine:
        result = await engine.run(placed_team(tmp_path), "go", run_id="spread")
        children = await engine.journal.descendants(["spread"])
        spread = await rate_runs(engine.journal, ["spread", *(one.id for one in children)])
    async with Engine("memory") as engine:
        await engine.run(placed_team(tmp_path, "here"), "go", run_id="whole")
        whole = await rate_runs(engine.journal, ["whole"])
    assert len(children) == 2
    assert spread == whole
    assert sum(one.total_tokens for one in spread.experts) == result.usage.total_tokens > 0


async def test_a_run_whose_record_is_damaged_is_left_out_and_the_others_are_rated(tmp_path: Path) -> None:  # S-08
    file = tmp_path / "runs.db"
    team = Team("t", members=[ScriptedAgent("writer", [Rule(reply="a good text")])])
    async with Engine(file) as engine:
        for run_id in ("bad", "good"):
            await engine.run(team, "go", run_id=run_id)
    damage_first_event(file)
    async with Engine(file) as engine:
        found = await rate_runs(engine.journal, ["bad", "good"])
    assert [(one.name, one.runs) for one in found.experts] == [("writer", 1)]
    assert "The record of run 'bad' is damaged" in found.left_out["bad"]
