"""Lists of 100 000 runs: what a page of them costs, as the database says it."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from teamwright.journal.postgres.connection import Connection, DatabaseAddress, connect
from teamwright.journal.postgres.journal import OPEN_RUNS, PostgresJournal
from teamwright.journal.run_filter import ALL_RUNS, RecentRuns, RunFilter, RunKind
from tests.kit.postgres import schema_url

RUNS, PAGE = 100_000, 100
FILL = f"""
    INSERT INTO runs (id, number, team, started, status, tokens, seconds, since, conversation, parent, driver)
    SELECT 'run-' || n, 1, CASE WHEN n % 5000 = 0 THEN 'rare' ELSE 'team-' || n % 20 END, n,
        CASE WHEN n % 1000 = 0 THEN 'failed' WHEN n % 999 = 0 THEN 'paused' ELSE 'completed' END, n, 1, n, '',
        CASE WHEN n BETWEEN 60000 AND 95000 THEN 'run-59999' ELSE '' END, ''
    FROM generate_series(1, {RUNS}) AS n;
    ANALYZE runs
"""
"""Runs of many teams, of which one has 35 000 children."""


@pytest.fixture
async def connection(postgres_server: str, tmp_path: Path) -> AsyncIterator[Connection]:
    url = schema_url(postgres_server, tmp_path)
    journal = PostgresJournal(url)
    await journal.open()
    await journal.close()
    async with await connect(DatabaseAddress.parse(url)) as connection:
        await connection.execute(FILL.encode())
        yield connection


async def plan_of(connection: Connection, clauses: str, parameters: Sequence[str | float] = ()) -> list[dict[str, Any]]:
    """The steps by which the database reads runs."""
    statement = f"EXPLAIN (ANALYZE, FORMAT JSON) SELECT * FROM runs {clauses.replace('?', '%s')}"
    row = await (await connection.execute(statement.encode(), parameters)).fetchone()
    assert row is not None
    steps, rest = list[dict[str, Any]](), [row[0][0]["Plan"]]
    while rest:
        steps.append(rest.pop())
        rest += steps[-1].get("Plans", [])
    return steps


async def test_no_page_of_the_newest_runs_reads_more_than_it_shows(connection: Connection) -> None:
    for which in (
        ALL_RUNS,
        RunFilter(after="run-97000"),
        RunFilter(after="run-95001"),
        RunFilter(after="run-150"),
        RunFilter(order="started", after="run-59990"),
        RunFilter(team="team-7", after="run-95500"),
        RunFilter(team="rare"),
        RunFilter(status="failed"),
        RunFilter(status="completed", after="run-95100"),
        RunFilter(status="paused", after="run-50000"),
        RunFilter(status="interrupted"),
    ):
        steps = await plan_of(connection, *which.clauses(PAGE))
        assert "Seq Scan" not in [step["Node Type"] for step in steps], (which, steps)
        scans = [step for step in steps if "Scan" in step["Node Type"]]
        read = sum(step["Actual Rows"] + step.get("Rows Removed by Filter", 0) for step in scans)
        # Of a team with many runs, the database may rather walk along all teams than along an index of its own.
        assert read <= (20 * PAGE if which.team == "team-7" else 2 * PAGE + 1), (which, steps)


async def test_no_page_of_the_runs_of_a_team_reads_more_than_it_shows(connection: Connection) -> None:
    failed = (RunKind("failed"), RunKind("degraded", done=False))
    for which, shown in (
        (RecentRuns("team-0"), PAGE),
        (RecentRuns("team-7", before=(50_000.0, "run-50000")), PAGE),
        (RecentRuns("team-0", failed), RUNS // 1000),
        (RecentRuns("team-7", failed), 0),
        (RecentRuns("rare"), RUNS // 5000),
    ):
        steps = await plan_of(connection, *which.clauses(PAGE))
        assert "Seq Scan" not in [step["Node Type"] for step in steps], (which, steps)
        scans = [step for step in steps if "Scan" in step["Node Type"]]
        read = sum(step["Actual Rows"] * step["Actual Loops"] for step in scans)
        assert read <= len(which.kinds) * 3 * PAGE, (which, steps)
        assert steps[0]["Actual Rows"] <= shown


async def test_open_runs_are_found_without_reading_all(connection: Connection) -> None:
    steps = await plan_of(connection, OPEN_RUNS)
    assert "Seq Scan" not in [step["Node Type"] for step in steps], steps
    assert steps[0]["Actual Rows"] == RUNS // 999


async def test_every_run_is_on_one_page(connection: Connection, postgres_server: str, tmp_path: Path) -> None:
    journal = PostgresJournal(schema_url(postgres_server, tmp_path))
    await journal.open()
    try:
        seen = list[str]()
        while page := await journal.top_runs(10_000, RunFilter(after=seen[-1] if seen else None)):
            seen += [run.id for run in page]
        assert len(seen) == len(set(seen)) == RUNS - 35_001
        dearest = await journal.top_runs(3, RunFilter(order="-tokens", after="run-99990"))
        assert [run.total_tokens for run in dearest] == [99_989, 99_988, 99_987]
    finally:
        await journal.close()
