"""Logs of a live run, and the member of each line."""

from __future__ import annotations

import re

import anyio
import pytest

from teamwright import Context, Engine, FunctionAgent, Team, Turn
from teamwright.cli.runs.logs import LogBook, LogQuery
from teamwright.errors import AgentTimeout
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunLogged, RunNotified
from teamwright.values.retries import RetryPolicy


async def test_a_log_is_followed_while_the_run_continues(capsys: pytest.CaptureFixture[str]) -> None:  # P-02
    seen: list[str] = []
    gate = anyio.Event()

    async def waiting(turn: Turn, ctx: Context) -> str:
        await ctx.emit(RunLogged(text="halfway"))
        await gate.wait()
        return "done"

    async with Engine("memory") as engine, anyio.create_task_group() as tasks:
        await engine.start(Team("t", members=[FunctionAgent("a", waiting)]), "go", run_id="r")
        await anyio.sleep(0.02)
        tasks.start_soon(LogQuery("r", "a", "info", True, False, None).print_lines, engine)
        while not seen:
            await anyio.sleep(0.01)
            seen += [line for line in capsys.readouterr().out.splitlines() if line.endswith("halfway")]
        gate.set()
    assert re.search(r"replied: done \(0 tokens in \d+\.\d s\)$", capsys.readouterr().out.rstrip())


async def test_retries_and_failures_are_weighed() -> None:  # P-02
    async def flaky(turn: Turn) -> str:
        raise AgentTimeout("too slow")

    agent = FunctionAgent("b", flaky, retry=RetryPolicy(times=1, backoff=0.001))
    inner = Team("inner", members=[agent])
    async with Engine("memory") as engine:
        await engine.run(Team("outer", members=[inner]), "go", run_id="r")
        book = LogBook(engine.journal)
        lines = [line for event in await engine.journal.read("r") if (line := await book.line(event))]
    own = [line for line in lines if line.member == "b"]
    assert {line.path for line in own} == {("outer", "inner", "b")}
    weighty = [(line.level, line.text.partition(":")[0]) for line in own if line.level not in {"debug", "info"}]
    assert weighty[-1] == ("error", "failed")
    assert ("warning", "attempt 1 failed") in weighty


@pytest.mark.parametrize(
    ("fact", "level", "text"),
    [
        (RunNotified(), "info", "webhook notified that the run waits"),
        (RunNotified(attempt=3), "info", "webhook notified that the run waits (attempt 3)"),
        (
            RunNotified(error="HTTP 503", attempt=2, retry_in=5.0),
            "warning",
            "webhook failed (attempt 2), retrying in 5.0 s: HTTP 503",
        ),
        (RunNotified(error="HTTP 410"), "warning", "webhook failed, gave up: HTTP 410"),
    ],
)
async def test_each_attempt_to_tell_a_webhook_is_a_line(fact: RunNotified, level: str, text: str) -> None:  # S-07
    async with Engine("memory") as engine:
        line = await LogBook(engine.journal).line(Event("r", 1, 0.0, "", "", fact))
    assert line is not None
    assert (line.level, line.text) == (level, text)
