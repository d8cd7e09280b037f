"""Runs from code that is not async, outside and inside a running event loop."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextvars import ContextVar
from pathlib import Path

import pytest

from teamwright import Engine, FunctionAgent, run_sync
from teamwright.engine import resume_sync
from teamwright.errors import NotResumable, UsageError
from tests.kit.members import FakeMembers

PLACE: ContextVar[str] = ContextVar("place", default="")


def test_a_run_and_its_resume_without_async(tmp_path: Path) -> None:
    result = run_sync(FakeMembers().chain(1), "go", journal=tmp_path / "j.db", run_id="r")
    assert result.status == "completed"
    with pytest.raises(NotResumable):
        resume_sync("r", journal=tmp_path / "j.db")


async def test_inside_a_running_loop_a_run_has_a_loop_in_another_thread() -> None:
    threads: list[str] = []

    async def answer(turn: object) -> str:
        threads.append(threading.current_thread().name)
        return PLACE.get()

    PLACE.set("notebook")
    assert run_sync(FunctionAgent("a", answer), "go", journal="memory").output == "notebook"
    assert threads == ["teamwright run_sync"]


async def test_inside_a_running_loop_an_interrupted_run_is_resumed(tmp_path: Path) -> None:
    async def answer(turn: object) -> str:
        await asyncio.sleep(60)
        return "never"

    async with Engine(tmp_path / "j.db") as engine:
        handle = await engine.start(FunctionAgent("a", answer), "go", run_id="r")
        handle.interrupt()
        assert (await handle.result()).status == "interrupted"
    resumed = resume_sync("r", team=FunctionAgent("a", lambda turn: "done"), journal=tmp_path / "j.db")
    assert resumed.output == "done"


async def test_inside_a_running_loop_an_error_is_raised_as_it_is() -> None:
    with pytest.raises(UsageError, match="neither a team nor an agent"):
        run_sync(3, "go", journal="memory")  # pyright: ignore[reportArgumentType] - as without a type checker


async def test_ctrl_c_in_a_notebook_interrupts_the_run(tmp_path: Path) -> None:
    async def answer(turn: object) -> str:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        await asyncio.sleep(60)
        return "never"

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_sync(FunctionAgent("a", answer), "go", journal=tmp_path / "j.db", run_id="r")
    finally:
        signal.signal(signal.SIGINT, before)
    async with Engine(tmp_path / "j.db") as engine:
        assert (await engine.runs.result("r")).status == "interrupted"
