"""A webhook learns when a run has ended or comes close to its budget; each attempt is logged."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from teamwright.errors import JournalUnavailable
from teamwright.journal import MemoryJournal
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.values.turns.results import RunResult
from tests.kit.server import TestServer, serving
from tests.runtime.people.test_webhook_request import SECRET, verify
from tests.runtime.people.test_webhook_retries import Receiver


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("TEAMWRIGHT_ALLOW_PRIVATE_WEBHOOK", "1")
    monkeypatch.setenv("TEAMWRIGHT_WEBHOOK_SECRET", SECRET)
    monkeypatch.setenv("TEAMWRIGHT_URL", "http://127.0.0.1:8420/")
    return monkeypatch


async def logged(server: TestServer, count: int) -> list[dict[str, object]]:
    async with asyncio.timeout(20):
        while len(lines := (await server.client("admin").get("/api/webhooks")).json()) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return lines


async def test_an_ending_is_signed_retried_and_logged(
    tmp_path: Path, teams: Path, environment: pytest.MonkeyPatch
) -> None:
    with Receiver(503, 204).open() as receiver:
        environment.setenv("TEAMWRIGHT_WEBHOOK", receiver.url)
        async with serving(MemoryJournal(), tmp_path, [teams]) as server:
            server.state.webhook_notices.backoff = (0.01,)
            started = await server.client("run").post("/api/runs", json={"team": "pair", "task": "Go", "run_id": "r"})
            assert started.status_code == 201
            lines = await logged(server, 2)
            assert (await server.client("run").get("/api/webhooks")).status_code == 403
    assert [(one["kind"], one["attempt"], one["error"]) for one in lines] == [
        ("run.completed", 2, None),
        ("run.completed", 1, "HTTP 503"),
    ]
    (headers, body), (again, _) = receiver.requests
    assert headers["webhook-id"] == again["webhook-id"]
    assert verify(SECRET, headers, body)
    notice = json.loads(body)
    assert (notice["kind"], notice["run_id"], notice["status"]) == ("run.completed", "r", "completed")
    assert notice["url"] == "http://127.0.0.1:8420/#/runs/r"


async def test_a_budget_that_runs_out_is_a_warning_and_its_end_a_notice(
    tmp_path: Path, teams: Path, environment: pytest.MonkeyPatch
) -> None:
    with Receiver().open() as receiver:
        environment.setenv("TEAMWRIGHT_WEBHOOK", receiver.url)
        async with serving(MemoryJournal(), tmp_path, [teams]) as server:
            work = {"team": "pair", "task": "Go", "limits": {"calls": 1}}
            assert (await server.client("run").post("/api/runs", json=work)).status_code == 201
            lines = await logged(server, 2)
    assert {one["kind"] for one in lines} == {"budget.warning", "run.completed"}


async def test_runs_of_others_and_no_webhook_send_nothing(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        await server.client("run").post("/api/runs", json={"team": "pair", "task": "Go", "run_id": "r"})
        await server.state.engine.runs.wait("r")
        assert (await server.client("admin").get("/api/webhooks")).json() == []


async def test_a_retry_that_was_due_when_the_server_stopped_is_made_by_the_next(
    tmp_path: Path, teams: Path, environment: pytest.MonkeyPatch
) -> None:
    with Receiver(503, 204).open() as receiver:
        environment.setenv("TEAMWRIGHT_WEBHOOK", receiver.url)
        journal = tmp_path / "journal.db"
        async with serving(SqliteJournal(journal), tmp_path, [teams]) as server:
            server.state.webhook_notices.backoff = (0.5,)
            await server.client("run").post("/api/runs", json={"team": "pair", "task": "Go", "run_id": "r"})
            await logged(server, 1)
        async with serving(SqliteJournal(journal), tmp_path, [teams]) as server:
            lines = await logged(server, 2)
        async with serving(SqliteJournal(journal), tmp_path, [teams]) as server:
            await asyncio.sleep(0.2)
            assert len(await logged(server, 2)) == 2
    assert [(one["attempt"], one["error"]) for one in lines] == [(2, None), (1, "HTTP 503")]
    (first, _), (second, _) = receiver.requests
    assert first["webhook-id"] == second["webhook-id"]


async def test_a_notice_that_was_under_way_when_the_server_was_killed_is_sent_again_with_its_id(
    tmp_path: Path, teams: Path, environment: pytest.MonkeyPatch
) -> None:
    killed, left = tmp_path / "killed", tmp_path / "left"
    with Receiver(hangs=True).open() as receiver:
        environment.setenv("TEAMWRIGHT_WEBHOOK", receiver.url)
        killed.mkdir()
        async with serving(SqliteJournal(killed / "journal.db"), killed, [teams]) as server:
            await server.client("run").post("/api/runs", json={"team": "pair", "task": "Go", "run_id": "r"})
            await receiver.called()
            shutil.copytree(killed, left)  # what a server leaves that is killed now
            receiver.released.set()
            await logged(server, 1)
    (first, _) = receiver.requests[0]
    with Receiver().open() as receiver:
        environment.setenv("TEAMWRIGHT_WEBHOOK", receiver.url)
        async with serving(SqliteJournal(left / "journal.db"), left, [teams]) as server:
            (line,) = await logged(server, 1)
        async with serving(SqliteJournal(left / "journal.db"), left, [teams]) as server:
            assert server.state.webhook_notices._due.empty()  # pyright: ignore[reportPrivateUsage]
    assert (line["kind"], line["attempt"], line["error"]) == ("run.completed", 1, None)
    assert [headers["webhook-id"] for headers, _ in receiver.requests] == [first["webhook-id"]]


async def test_a_journal_that_is_away_for_a_moment_costs_an_attempt_and_no_notice(
    tmp_path: Path, teams: Path, environment: pytest.MonkeyPatch
) -> None:
    with Receiver().open() as receiver:
        environment.setenv("TEAMWRIGHT_WEBHOOK", receiver.url)
        async with serving(MemoryJournal(), tmp_path, [teams]) as server:
            notices, read = server.state.webhook_notices, server.state.engine.runs.result
            notices.backoff = (0.01,)
            failures = [JournalUnavailable("away")]

            async def result(run_id: str) -> RunResult:
                if failures:
                    raise failures.pop()
                return await read(run_id)

            environment.setattr(server.state.engine.runs, "result", result)
            await server.client("run").post("/api/runs", json={"team": "pair", "task": "Go", "run_id": "r"})
            lines = await logged(server, 2)
    assert [(one["attempt"], one["error"]) for one in lines] == [(2, None), (1, "away")]
