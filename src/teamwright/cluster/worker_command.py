"""`teamwright worker`: drives queued runs until it is stopped."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer

from teamwright.cli.terminal.command_setup import run_on_loop
from teamwright.cli.terminal.options import seconds_of
from teamwright.cli.terminal.output import flush_all, one_line, redirect_prints, say
from teamwright.cluster.wing import RUNS_AT_ONCE, WING

if TYPE_CHECKING:
    from teamwright.cluster.status import WorkerLog
    from teamwright.cluster.worker import Worker

END_SECONDS = 5.0
"""How long a worker that has stopped may need to hand its runs back and to close its connections."""
AWAY_SECONDS = 1.0
"""The same while the database is away, so that there is nothing to wait for: others take its runs over."""
CodeFolders = Annotated[
    list[Path] | None,
    typer.Option(
        "--code", metavar="DIR", help="A folder with code that manifests name; runs with the same code are driven."
    ),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="KIND:NAME",
        help="What runs may use: a package (module:shop), a program (program:git), or a variable, also for one host"
        " alone (env:TOKEN, env:TOKEN@example.com); may be repeated.",
    ),
]
AllowedRoot = Annotated[
    list[Path] | None,
    typer.Option("--allow-root", metavar="DIR", help="A folder that file tools of runs may read and write."),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        "--port",
        metavar="[HOST:]PORT",
        help="Serve metrics, health and readiness over HTTP, on loopback unless a host is named.",
    ),
]
Retain = Annotated[
    str | None,
    typer.Option("--keep", metavar="AGE", help="Delete runs of this journal that ended longer ago: 12h, 30d, 8w."),
]
QueueName = Annotated[str, typer.Option("--queue", metavar="NAME", help="The queue of the runs.")]


def worker(
    queue: QueueName = "default",
    *,
    at_once: Annotated[int, typer.Option("--at-once", min=1, help="How many runs to drive at a time.")] = RUNS_AT_ONCE,
    name: Annotated[
        str, typer.Option("--name", help="The name of the worker in messages; by default that of the machine.")
    ] = "",
    code: CodeFolders = None,
    allow: Allow = None,
    allow_root: AllowedRoot = None,
    metrics: Metrics = None,
    retain: Retain = None,
    json: Annotated[bool, typer.Option("--json", help="Print lines of JSON in place of text.")] = False,
) -> int:
    """Drive the runs of a queue, until SIGTERM or Ctrl-C. Start as many workers as you like, on any machine.

    A worker that is stopped lets calls in flight finish and hands its runs back to the queue; a second signal cuts them
    off, and ends the worker within seconds. A run that needs what this worker lacks, such as a version of a strategy,
    is left to others, and says for what it waits. A run uses none of the modules, programs, variables and folders of
    this machine that the options don't allow by name; keys of model providers go to their providers. The runs of a
    worker that dies are taken over by others within seconds. The journal must be in Postgres.

    Example:
      teamwright worker --queue nightly --at-once 8 --allow program:git
    """
    with WING.needed("A queue with workers"):
        from teamwright.cluster.permissions import Permissions
        from teamwright.cluster.run_requirements import CodeFolder
        from teamwright.cluster.status import WorkerLog, cluster_journal, silence_libraries
        from teamwright.cluster.worker import Worker
        from teamwright.teams.run_files import FileCache
    from anyio.to_thread import run_sync

    from teamwright.cli.terminal.command_setup import extend_sys_path

    async def work() -> int:
        extend_sys_path()
        silence_libraries()
        folders = [CodeFolder(one) for one in code or ()]
        await run_sync(FileCache().remove_unused)
        report = WorkerLog(_write, as_json=json)
        made = Worker(
            cluster_journal(),
            queue=queue,
            at_once=at_once,
            name=name,
            code=folders,
            allow=Permissions.read(allow or (), allow_root or ()),
            retain=None if retain is None else seconds_of(retain),
            report=report,
        )
        for one in folders:
            report("starting", detail=f"it has the code {one.digest[:12]} in {str(one.folder)!r}")
        return await _work(made, report, metrics, stop)

    with redirect_prints(), _Stop() as stop:
        return run_on_loop(work)


async def _work(worker: Worker, report: WorkerLog, metrics: str | None, stop: _Stop) -> int:
    """Let the worker drive runs until a signal, and hand them back."""
    from teamwright.cluster.metrics_endpoint import monitoring

    stop.listen(worker)
    async with AsyncExitStack() as stack:
        if metrics is not None:
            address = await stack.enter_async_context(monitoring(worker, report, metrics))
            report("starting", detail=f"metrics at {address}/metrics, health at /healthz and /readyz")
        if not await worker.open(stop.requested):
            return 0
        stack.push_async_exit(worker)
        drives = f"drives runs of the queue {worker.queue!r}, {worker.at_once} at a time"
        report("starting", detail=f"worker {worker.worker_id} {drives}")
        await stop.requested.wait()
        report("stopping", detail="stopping: calls in flight finish, and runs go back to the queue")
        await worker.drain()
        stop.end_soon(worker)
    return 0


def _write(line: str) -> None:
    say(one_line(line))


class _Stop:
    """The first signal asks the worker to stop, the second one cuts off calls in flight and ends the process soon.

    Without the database, closing could take a minute, so the process also ends if closing takes too long.
    """

    def __init__(self) -> None:
        import asyncio

        self.requested = asyncio.Event()
        self._timers: list[threading.Timer] = []

    def listen(self, worker: Worker) -> None:
        """Handle the signals in the running event loop."""
        import asyncio

        def stopped() -> None:
            if self.requested.is_set():
                worker.interrupt()
                self.end_soon(worker)
            self.requested.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped)

    def end_soon(self, worker: Worker) -> None:
        """End the process unless it ends by itself in time; what it still drives is taken over by others."""
        timer = threading.Timer(END_SECONDS if worker.is_connected else AWAY_SECONDS, _end)
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for timer in self._timers:
            timer.cancel()


def _end() -> None:
    flush_all()
    os._exit(0)
