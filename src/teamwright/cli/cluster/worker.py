"""`teamwright worker`: drives queued runs until it is stopped."""

from __future__ import annotations

import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from teamwright.cli.interactive.open import run_on_loop
from teamwright.cli.terminal.extras import needs_extra
from teamwright.cli.terminal.output import one_line, redirect_prints, say

if TYPE_CHECKING:
    import asyncio

    from teamwright.cluster.worker.worker import Worker

LogFormat = Literal["text", "json"]
CodeFolders = Annotated[
    list[Path] | None,
    typer.Option(
        "--code", metavar="DIR", help="A folder with code that manifests name; runs with the same code are driven."
    ),
]
QueueName = Annotated[str, typer.Option("--queue", metavar="NAME", help="The queue of the runs.")]


def worker(
    queue: QueueName = "default",
    at_once: Annotated[int, typer.Option("--at-once", min=1, help="How many runs to drive at a time.")] = 4,
    name: Annotated[
        str, typer.Option("--name", help="The name of the worker in messages; by default that of the machine.")
    ] = "",
    code: CodeFolders = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="[HOST:]PORT",
            help="Serve metrics, health and readiness over HTTP, on loopback unless a host is named.",
        ),
    ] = None,
    log: Annotated[LogFormat, typer.Option("--log", help="What is printed: lines of text, or of JSON.")] = "text",
) -> int:
    """Drive the runs of a queue, until SIGTERM or Ctrl-C. Start as many workers as you like, on any machine.

    A worker that is stopped lets calls in flight finish and hands its runs back to the queue; a second signal cuts them
    off. A run that needs what this worker lacks, such as a version of a strategy, is left to others, and says for what
    it waits. The runs of a worker that dies are taken over by others within seconds. The journal must be in Postgres.
    """
    with needs_extra("cluster", "queues and workers"):
        from teamwright.cluster.journal import cluster_journal
        from teamwright.cluster.submission.code_folder import CodeFolder
        from teamwright.cluster.worker.log import WorkerLog
        from teamwright.cluster.worker.monitor import monitoring
        from teamwright.cluster.worker.worker import Worker
        from teamwright.teams.file_cache import FileCache
    from anyio.to_thread import run_sync

    from teamwright.cli.interactive.sys_path import extend_sys_path

    async def work() -> int:
        extend_sys_path()
        folders = [CodeFolder(one) for one in code or ()]
        await run_sync(FileCache().remove_unused)
        report = WorkerLog(_write, as_json=log == "json")
        made = Worker(cluster_journal(), queue=queue, at_once=at_once, name=name, code=folders, report=report)
        stop = _stop_on_signals(made)
        async with AsyncExitStack() as stack:
            if metrics is not None:
                address = await stack.enter_async_context(monitoring(made, report, metrics))
                report("starting", detail=f"metrics at {address}/metrics, health at /healthz and /readyz")
            await stack.enter_async_context(made)
            began = f"worker {made.worker_id} drives runs of the queue {queue!r}, {at_once} at a time"
            report("starting", detail=began)
            for one in folders:
                report("starting", detail=f"it has the code {one.digest[:12]} in {str(one.folder)!r}")
            await stop.wait()
            report("stopping", detail="stopping: calls in flight finish, and runs go back to the queue")
            await made.drain()
        return 0

    with redirect_prints():
        return run_on_loop(work)


def _write(line: str) -> None:
    say(one_line(line))


def _stop_on_signals(made: Worker) -> asyncio.Event:
    """Return an event that the first signal sets; later signals also cut off calls in flight."""
    import asyncio

    stop = asyncio.Event()

    def stopped() -> None:
        if stop.is_set():
            made.interrupt()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped)
    return stop
