"""Calibration: numbers that journals were made with come back, and files are read as they were written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from teamwright.errors import InvalidName, UnknownName, UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.lab import calibrate, observe
from teamwright.lab.calibration import (
    Calibration,
    CalibrationReport,
    Fit,
    profile_names,
    profile_text,
    profiles_of,
    read_profile,
    save_profile,
    tokens_per_task,
)
from teamwright.lab.observations import Observation
from teamwright.lab.simulation.simulated_agents import Learnt
from teamwright.lab.topology_model import TOPOLOGIES, WORKLOADS, EvaluationSettings, Topology, TopologyProfile, evaluate
from teamwright.values.specs.simulation import Simulation
from tests.lab.journals import Record

SETTINGS = EvaluationSettings(workload="debugging", protocol="transcript")
OTHER = {
    "execution": 1.31,
    "cache": 0.12,
    "messages": 1.5,
    "summary": 0.8,
    "seconds_per_task": 11.0,
    "seconds_per_message": 0.4,
}


async def calibrated(
    topology: Topology, profile: TopologyProfile, *, failed: int = 0, participants: int = 5
) -> CalibrationReport:
    """A calibration on runs of several sizes that were made with a profile."""
    journal = MemoryJournal()
    for number, (tasks, rounds) in enumerate([(10, 2), (20, 4), (40, 3), (80, 4)]):
        settings = SETTINGS.model_copy(update={"tasks": tasks, "rounds": rounds, "average_tokens": 1500 + 100 * number})
        Record(f"r{number}", topology, profile, settings, participants, failed * tasks // 10).write(journal)
    seen = await observe(journal, [f"r{number}" for number in range(4)])
    assert not seen.left_out
    return calibrate(seen.runs, workload="debugging", learnt=seen.learnt)


@pytest.mark.parametrize("topology", ["lead_subagent", "star_team", "mesh_team"])
async def test_numbers_that_journals_were_made_with_come_back(topology: Topology) -> None:
    participants = 2 if topology == "lead_subagent" else 5
    made = TOPOLOGIES[topology]._replace(**OTHER)
    report = await calibrated(topology, made, failed=1, participants=participants)
    fit = report.calibration.topologies[topology]
    for name, value in OTHER.items():
        assert getattr(fit, name) == pytest.approx(value, rel=0.02), name
    assert fit.pass_rate == pytest.approx(0.9 + 0.02 + 0.02, abs=1e-6)
    assert (fit.runs, fit.steps) == (4, 150)


async def test_one_agent_has_no_messages_to_fit() -> None:
    made = TOPOLOGIES["single"]._replace(execution=1.2, seconds_per_task=3.0)
    fit = (await calibrated("single", made, participants=1)).calibration.topologies["single"]
    assert (fit.execution, fit.seconds_per_task) == pytest.approx((1.2, 3.0), rel=1e-3)
    assert (fit.messages, fit.summary, fit.seconds_per_message) == (None, None, None)


async def test_a_fit_predicts_what_was_and_the_gap_says_so() -> None:
    report = await calibrated("star_team", TOPOLOGIES["star_team"]._replace(**OTHER), failed=1)
    assert {gap.figure for gap in report.gaps} == {
        "execution_tokens", "coordination_tokens", "total_tokens", "pass_rate", "seconds",
    }  # fmt: skip
    for gap in report.gaps:
        assert gap.fitted_off < 0.02, gap
        assert gap.fitted == pytest.approx(gap.actual, rel=0.02)
    off = {gap.figure: gap.built_in_off for gap in report.gaps}
    assert off["execution_tokens"] == pytest.approx(1 - 0.92 / 1.31, abs=0.01)


async def test_built_in_numbers_come_back_as_they_are() -> None:
    for topology, profile in TOPOLOGIES.items():
        participants = profile.participants or 5
        fit = (await calibrated(topology, profile, participants=participants)).calibration.topologies[topology]
        again = fit.over(profile)
        assert again[1:] == pytest.approx(profile[1:], rel=0.01)


async def test_steps_without_judgement_or_failure_say_nothing_of_quality() -> None:
    fit = (await calibrated("star_team", TOPOLOGIES["star_team"])).calibration.topologies["star_team"]
    assert (fit.pass_rate, fit.judged) == (None, 0)
    assert fit.over(TOPOLOGIES["star_team"]).pass_rate == TOPOLOGIES["star_team"].pass_rate


async def test_judged_steps_give_the_pass_rate_and_others_do_not_count() -> None:
    journal = MemoryJournal()
    Record("r", "star_team", TOPOLOGIES["star_team"], SETTINGS, failed=1).write(journal)
    [run] = (await observe(journal, ["r"])).runs
    added = 0.9 - fitted_pass_rate(replace(run, steps=10, passed=9))
    assert fitted_pass_rate(replace(run, judged=4, right=3)) == pytest.approx(0.75 - added)
    assert fitted_pass_rate(replace(run, judged=4, right=4, passed=run.steps)) == pytest.approx(1 - added)


def fitted_pass_rate(run: Observation) -> float:
    fit = calibrate([run]).calibration.topologies["star_team"]
    assert fit.judged == run.judged
    assert fit.pass_rate is not None
    return fit.pass_rate


async def test_runs_of_one_size_tell_time_per_task_alone() -> None:
    journal = MemoryJournal()
    made = TOPOLOGIES["star_team"]._replace(seconds_per_task=9.0)
    for number in range(3):
        Record(f"r{number}", "star_team", made, SETTINGS).write(journal)
    fit = calibrate((await observe(journal, ["r0", "r1", "r2"])).runs, workload="debugging").calibration
    assert fit.topologies["star_team"].seconds_per_task == pytest.approx(9.0, rel=0.01)
    assert fit.topologies["star_team"].seconds_per_message is None


async def test_where_plans_say_nothing_one_agents_runs_are_the_measure() -> None:
    report = await calibrated("star_team", TOPOLOGIES["star_team"])
    seen = (await observe(MemoryJournal(), [])).runs
    assert tokens_per_task(seen) is None
    assert report.calibration.average_tokens is not None


def test_a_profile_stands_in_the_place_of_what_is_built_in() -> None:
    fit = Fit(runs=3, steps=30, execution=2.0, seconds_per_task=1.0)
    profiles = Calibration(topologies={"star_team": fit}).profiles
    assert profiles["single"] is TOPOLOGIES["single"]
    settings = EvaluationSettings(topologies=("star_team",))
    usual, own = evaluate(settings).chosen, evaluate(settings, profiles).chosen
    assert own.execution_tokens == pytest.approx(usual.execution_tokens / 0.92 * 2, abs=2)
    assert own.coordination_tokens == usual.coordination_tokens
    assert own.p95_latency_s < usual.p95_latency_s


@given(st.builds(EvaluationSettings, tasks=st.integers(1, 500), rounds=st.integers(0, 12)))
def test_an_empty_calibration_changes_no_digit(settings: EvaluationSettings) -> None:
    assert evaluate(settings, Calibration().profiles) == evaluate(settings)


async def test_times_without_spread_are_refused_and_the_built_in_ones_stay() -> None:  # M-08
    """Runs that took less than their messages alone are taken to need say nothing of either."""
    journal = MemoryJournal()
    quick = TOPOLOGIES["star_team"]._replace(seconds_per_task=0.0, seconds_per_message=0.001)
    for number in range(3):
        Record(f"r{number}", "star_team", quick, EvaluationSettings()).write(journal)
    report = calibrate((await observe(journal, ["r0", "r1", "r2"])).runs)
    fit = report.calibration.topologies["star_team"]
    assert (fit.seconds_per_task, fit.seconds_per_message) == (None, None)
    (note,) = report.notes
    assert "times are not fitted" in note
    assert report.to_json()["notes"] == [note]
    assert fit.over(TOPOLOGIES["star_team"]).seconds_per_task == TOPOLOGIES["star_team"].seconds_per_task


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 200), st.floats(0, 1e4)), min_size=1, max_size=8),
    st.sampled_from(list(TOPOLOGIES)),
)
def test_what_is_fitted_is_never_far_off_from_the_runs_it_was_fitted_to(
    drawn: list[tuple[int, int, float]], topology: Topology
) -> None:  # M-08
    runs = [
        Observation(
            run_id=f"r{number}", topology=topology, protocol="a2a_lite", participants=1 if topology == "single" else 3,
            tasks=tasks, average_tokens=100, execution=100 * tasks, coordination=0,
            messages=0 if topology == "single" else messages, cached=0, steps=tasks, passed=tasks, seconds=seconds,
        )
        for number, (tasks, messages, seconds) in enumerate(drawn)
    ]  # fmt: skip
    report = calibrate(runs)
    fit = report.calibration.topologies[topology]
    assert (fit.seconds_per_task is None) == bool(report.notes)
    if fit.seconds_per_task is not None:
        latency = WORKLOADS["mixed"].latency
        per_message = fit.seconds_per_message if fit.seconds_per_message is not None else 0.02
        workers = max(1, runs[0].participants - 1)
        told = [one.tasks / workers * latency * fit.seconds_per_task + one.messages * per_message for one in runs]
        off = [
            abs(a - one.seconds) / (one.seconds or a) if one.seconds or a else 0
            for a, one in zip(told, runs, strict=True)
        ]
        assert sum(off) / len(off) <= 0.51 or max(one.seconds for one in runs) < 0.1


CALIBRATION = Calibration(
    runs=("r1", "r2"),
    average_tokens=1200,
    topologies={"star_team": Fit(runs=2, steps=20, execution=1.1)},
    learnt=Learnt(members={"a": Simulation(skill=0.5, latency=(1.0, 2.0))}),
)


def test_a_profile_is_read_as_it_was_kept(tmp_path: Path) -> None:
    save_profile(CALIBRATION)
    save_profile(CALIBRATION, "mine")
    file = tmp_path / "mine.json"
    file.write_text(profile_text(CALIBRATION), encoding="utf-8")
    assert read_profile("default") == read_profile("mine") == read_profile(str(file)) == CALIBRATION
    assert profile_names() == ["default", "mine"]


def test_without_a_profile_the_numbers_are_those_built_in() -> None:
    assert profiles_of(None) is TOPOLOGIES
    save_profile(CALIBRATION)
    assert profiles_of("default")["star_team"].execution == 1.1


def test_a_profile_that_is_not_there_is_reported_with_those_that_are(tmp_path: Path) -> None:
    save_profile(CALIBRATION, "mine")
    with pytest.raises(UnknownName, match=r"no profile 'mind'.*mine"):
        read_profile("mind")
    with pytest.raises(UsageError, match="create it with  teamwright lab calibrate --out"):
        read_profile(str(tmp_path / "no.json"))
    with pytest.raises(InvalidName):
        save_profile(CALIBRATION, "../mine")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no json", "is not a calibration"),
        ('{"topologies": {"ring": {"runs": 1, "steps": 1}}}', r"is not a calibration: topologies\.ring"),
        ('{"version": 99}', "newer version"),
    ],
)
def test_a_file_that_is_no_calibration_is_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=words):
        read_profile(str(file))
