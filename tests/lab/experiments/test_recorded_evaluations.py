"""Reports of experiments are in the journal, where the server finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import Engine, FunctionAgent, Team
from teamwright.errors import RunNotFound
from teamwright.journal import MemoryJournal
from teamwright.lab.experiments.dataset import Case
from teamwright.lab.experiments.experiment import CaseAttempt
from teamwright.lab.experiments.recorded_evaluations import TEAM, read_report, record_report, recorded_reports
from teamwright.lab.experiments.report import ExperimentReport, report_of
from tests.kit.server import serving


def report(passed: bool = True) -> ExperimentReport:
    trial = CaseAttempt(
        case="one", attempt=1, variant="desk", run_id="eval-1", status="completed", passed=passed, usd=0.5
    )
    return report_of([trial], [Case(id="one", task="Add.", tags=("sums",))])


async def test_a_report_is_read_as_it_was_recorded_and_the_same_one_is_recorded_once() -> None:
    async with Engine(MemoryJournal()) as engine:
        run_id = await record_report(engine, report(), "desk on cases.csv")
        assert await record_report(engine, report(), "desk on cases.csv") == run_id
        assert await read_report(engine, run_id) == report()
        await record_report(engine, report(passed=False), "desk on cases.csv")
        listed = await recorded_reports(engine.journal, 10)
        assert (len(listed), {one.title for one in listed}) == (2, {"desk on cases.csv"})


async def test_a_run_of_another_team_of_that_name_is_no_report() -> None:
    async with Engine(MemoryJournal()) as engine:
        await engine.run(Team(TEAM, members=[FunctionAgent("a", lambda task: "{}")]), "Go", run_id="eval-report-x")
        with pytest.raises(RunNotFound):
            await read_report(engine, "eval-report-x")


async def test_a_server_lists_reports_and_masks_what_looks_like_a_secret(tmp_path: Path) -> None:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        key = "sk-" + "a1B2c3D4" * 4
        run_id = await record_report(engine, report(), f"desk on {key}")
    async with serving(journal, tmp_path) as server:
        client = server.client("read")
        assert "evaluations" in (await client.get("/api/operations")).json()["parts"]
        listed = (await client.get("/api/lab/experiments")).json()
        assert [one["run_id"] for one in listed] == [run_id]
        assert key not in listed[0]["title"]
        found = (await client.get(f"/api/lab/experiments/{run_id}")).json()
        assert found["report"]["by_tag"][0]["name"] == "sums"
        assert (await client.get("/api/lab/experiments/none")).status_code == 404
