import sqlite3
from contextlib import closing

import pytest

from teamwright.journal.run_filter import RecentRuns, RunFilter, RunKind
from teamwright.journal.sqlite.database import MIGRATIONS, migrate


def test_a_page_begins_after_a_run_and_not_at_a_number() -> None:
    clauses, parameters = RunFilter(team="t", status="failed", after="run", order="usd").clauses(10)
    assert clauses == (
        "WHERE parent = '' AND team = ? AND status = ?"
        " AND (coalesce(usd, -1), place) > (SELECT coalesce(usd, -1), place FROM runs WHERE id = ?)"
        " ORDER BY coalesce(usd, -1) ASC, place ASC LIMIT ?"
    )
    assert parameters == ["t", "failed", "run", 10]


def test_a_status_that_drivers_tell_is_picked_from_all_open_runs() -> None:
    clauses, parameters = RunFilter(status="running").clauses(10)
    assert clauses == "WHERE parent = '' AND (status IS NULL OR status = 'interrupted') ORDER BY place DESC"
    assert parameters == []


@pytest.mark.parametrize("before", [None, (1.0, "run")])
def test_a_page_of_recent_runs_is_read_along_an_index(before: tuple[float, str] | None) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate("x", 0, connection.execute, MIGRATIONS)
        for which in (RecentRuns("t", before=before), RecentRuns("t", (RunKind("degraded", done=False),), 5.0, before)):
            clauses, parameters = which.clauses(10)
            plan = connection.execute(f"EXPLAIN QUERY PLAN SELECT * FROM runs {clauses}", parameters).fetchall()
            steps = [str(step[-1]) for step in plan if "runs" in str(step[-1])]
            walks = [step for step in steps if "INDEX recent_runs (parent" in step or "INDEX recent_runs (team" in step]
            assert len(walks) == len(which.kinds), steps
            assert all("USING INTEGER PRIMARY KEY" in step for step in steps if step not in walks), steps
