"""A worker that is monitored: what it answers over HTTP, and what it logs."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from signal import SIGTERM
from socket import socket

import httpx2
import pytest

from teamwright.cli.terminal.output import one_line
from teamwright.cluster.metrics_endpoint import WorkerMetrics, monitoring
from teamwright.cluster.status import WorkerLog
from teamwright.cluster.worker import Worker
from teamwright.runtime.transport import Traffic
from teamwright.values.events.agent import AgentReturned, Body
from teamwright.values.events.event import Event
from teamwright.values.usage_and_prices import Usage
from tests.kit.local_placement import placed_team, placing_engine
from tests.kit.workers import Cluster, WorkerProcess, eventually


def _address(worker: WorkerProcess) -> str:
    found = re.search(r"http://127\.0\.0\.1:\d+", "\n".join(worker.lines))
    assert found is not None, "it serves before it claims runs"
    return found[0]


def test_metrics_are_exact_and_count_live_signals() -> None:
    metrics = WorkerMetrics(WorkerLog(print))
    usage = Usage(requests=1, input_tokens=12_345_678, output_tokens=1)
    metrics.count(Event("r", 1, 0.0, "k", "request", AgentReturned(body=Body("0" * 32), usage=usage)))
    text = metrics.render(None, Traffic(sent=3, dropped=2, losses=1), driving=0, at_once=1)
    lines = text.splitlines()
    assert 'teamwright_tokens_total{kind="input"} 12345678' in lines
    assert 'teamwright_live_signals_total{outcome="sent"} 3' in lines
    assert 'teamwright_live_signals_total{outcome="dropped"} 2' in lines
    assert "teamwright_redis_losses_total 1" in lines
    assert "teamwright_live_signals" not in metrics.render(None, None, driving=0, at_once=1)


async def test_metrics_count_runs_tokens_and_queues(cluster: Cluster) -> None:
    await cluster.submit("one", "two")
    worker = cluster.start("--port", "0", redis="unix:///nowhere/redis.sock")
    await eventually(lambda: sum("finished" in line for line in worker.lines) == 2, "both runs end")
    async with httpx2.AsyncClient(base_url=_address(worker)) as client:
        page = await client.get("/metrics")
        assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
        lines = page.text.splitlines()
        assert 'teamwright_runs_finished_total{status="completed"} 2' in lines
        assert "teamwright_runs_driving 0" in lines
        assert "teamwright_database_up 1" in lines
        assert 'teamwright_queue_queued{queue="default"} 0' in lines
        assert 'teamwright_workers{state="ready"} 1' in lines
        assert 'teamwright_live_signals_total{outcome="sent"} 0' in lines
        spent = (await cluster.engine.runs.result("one")).usage.total_tokens * 2
        counted = [float(line.split()[1]) for line in lines if line.startswith("teamwright_tokens_total")]
        assert sum(counted) == spent
        for line in lines:
            assert line.startswith("# ") or re.fullmatch(r'[a-z_]+(\{[a-z]+="[^"]*"\})? [0-9.e+-]+', line), line


async def test_the_tokens_of_a_child_run_count_where_they_are_used(tmp_path: Path) -> None:
    metrics = WorkerMetrics(WorkerLog(lambda _: None))
    async with placing_engine() as engine:
        with engine.bus.listening(metrics.count):
            result = await engine.run(placed_team(tmp_path), "go")
    lines = metrics.render(None, None, driving=0, at_once=1).splitlines()
    assert sum(float(line.split()[1]) for line in lines if line.startswith("teamwright_tokens_total")) == (
        result.usage.total_tokens
    )


async def test_a_worker_is_healthy_while_it_lives_and_ready_while_it_claims_runs(cluster: Cluster) -> None:
    cluster.hold.touch()
    await cluster.submit("one")
    worker = cluster.start("--port", "0")
    await eventually(lambda: len(cluster.effects) == 1, "the call begins")
    async with httpx2.AsyncClient(base_url=_address(worker)) as client:
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/readyz")).status_code == 200
        assert (await client.get("/other")).status_code == 404
        assert (await client.post("/metrics")).status_code == 405
        worker.send(SIGTERM)
        await eventually(lambda: worker.has_said("stopping"), "the worker drains")
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/readyz")).status_code == 503
    cluster.hold.unlink()


async def test_a_log_of_json_has_one_object_for_each_thing_that_happens(cluster: Cluster) -> None:
    await cluster.submit("one")
    worker = cluster.start("--json", "--name", "w1")
    await cluster.completed("one")
    await eventually(lambda: worker.has_said("finished"), "the end is logged")
    driven = await cluster.engine.runs.find("one")
    assert driven is not None
    assert driven.driver == f"w1:{worker.pid}"
    lines = [json.loads(line) for line in worker.lines]
    assert {line["worker"].split(":")[0] for line in lines} == {"w1"}
    events = [(line["event"], line.get("run_id")) for line in lines]
    assert events[0] == ("starting", None)
    assert ("drives", "one") in events
    ended = next(line for line in lines if line["event"] == "finished")
    assert (ended["run_id"], ended["detail"]) == ("one", "completed")


async def test_a_worker_whose_port_is_taken_does_not_begin(cluster: Cluster) -> None:
    with socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        worker = cluster.start("--port", str(taken.getsockname()[1]))
        await eventually(lambda: not worker.lives, "it ends")
    assert worker.has_said("Metrics can't be served")
    assert not worker.has_said("drives runs of the queue")


def test_a_line_of_json_is_whole_whatever_the_detail_contains() -> None:
    lines: list[str] = []
    WorkerLog(lines.append, as_json=True)("trouble", detail="one\u2028two\x85three\nfour")
    assert json.loads(one_line(lines[0]))["detail"] == "one\u2028two\x85three\nfour"


async def test_a_database_that_does_not_answer_counts_as_away(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(cluster.journal, report=(log := WorkerLog(print)))
    monkeypatch.setattr(worker, "status", asyncio.Event().wait)
    monkeypatch.setattr("teamwright.cluster.metrics_endpoint.STATUS_SECONDS", 0.01)
    async with monitoring(worker, log, "0") as address, httpx2.AsyncClient(base_url=address) as client:
        assert "teamwright_database_up 0" in (await client.get("/metrics")).text.splitlines()
