"""The multi-turn tasks of BFCL v4: its environments behind our tools, with the expected calls as a scripted model.

Each task runs as a conversation of a team, and the end state of its environment, the results of its calls and BFCL's
own verdict have to be what its executor and checkers compute from the expected calls. The environments are a service of
their own, with state on disk: what has happened there stays when the run is killed.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tools.conformance import ROOT, Row, Unavailable

if TYPE_CHECKING:
    from tests.conformance.bfcl.assistant import Drive, Tasks

PLACE = ROOT / "tests" / "conformance" / "bfcl"
ENVIRONMENT = ROOT / ".venv-conformance-bfcl"
NEEDED = ("bfcl-eval==2026.3.23", "filelock==4.2.10", "mpmath==1.4.1")
"""What the executor and the checkers of multi-turn tasks import. The package itself asks for the libraries of every
provider, `torch` and `faiss`; they are left out."""
CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
PART = "bfcl-eval 2026.3.23, multi-turn"
AT_ONCE = 4
EXPECTED: Mapping[str, str] = {
    f"{PART}: multi_turn_miss_func_49": "its second turn expects a call of `tail`, which is withheld until the fourth"
}


@dataclass(frozen=True)
class Service:
    """The environments of the tasks, and the model that makes the expected calls."""

    tasks: Tasks
    file: Path
    """What the service has exported."""
    drive: Drive

    def problems(self, task: str, world: str, calls: object) -> list[str]:
        """Judge a world and the recorded calls."""
        from tests.conformance.bfcl.assistant import ask

        return ask(self.drive.environment, "judge", {"world": world, "task": task, "turns": calls})


def run(only: str) -> Iterator[Row]:
    """Run all tasks; raises `Unavailable` where the package can't be installed."""
    python = _environment()
    with tempfile.TemporaryDirectory() as folder, _service(python, Path(folder)) as service:
        for category in CATEGORIES:
            named = [one for one in tasks_of(service.tasks.tasks, category) if only in f"{PART}: {category} {one}"]
            if named:
                yield from rows_of(category, asyncio.run(_run_all(service, named, Path(folder))))


def tasks_of(tasks: Iterable[str], category: str) -> list[str]:
    """The tasks of a category."""
    return [one for one in tasks if one.rpartition("_")[0] == f"multi_turn_{category}"]


def rows_of(category: str, problems: Mapping[str, Sequence[str]]) -> Iterator[Row]:
    """Yield a row for a category, and one for each of its tasks with a problem."""
    wrong = {task: found for task, found in problems.items() if found}
    checks = f"{len(problems) - len(wrong)} of {len(problems)} tasks"
    if len(wrong) < len(problems):
        yield Row(PART, category, "passed", f"{checks}: see below" if wrong else checks)
    for task, found in wrong.items():
        for one in found:
            print(f"{task}: {one}", file=sys.stderr, flush=True)
        yield Row(PART, task, "failed")


async def _run_all(service: Service, names: Sequence[str], folder: Path) -> dict[str, list[str]]:
    """Run tasks side by side in one engine; returns the problems of each."""
    from teamwright.runtime.engine import Engine

    limit = asyncio.Semaphore(AT_ONCE)
    async with Engine(str(folder / "journal.db")) as engine:

        async def one(task: str) -> list[str]:
            async with limit:
                await service.drive.run(engine, task, task)
                calls = await service.drive.calls(engine, task, task)
            return await asyncio.to_thread(service.problems, task, task, calls)

        return dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))


@contextmanager
def _service(python: Path, folder: Path) -> Generator[Service]:
    """Serve the environments and the model on loopback."""
    from teamwright.testing.model_server import ModelServer
    from tests.conformance.bfcl.assistant import Drive, ask, load_tasks

    command = [python, PLACE / "environment.py", folder / "worlds.db"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = f"http://127.0.0.1:{int(process.stdout.readline())}"
            file = folder / "tasks.json"
            file.write_text(json.dumps(ask(url, "tasks", {})), encoding="utf-8")
            tasks = load_tasks(str(file))
            with ModelServer(tasks.answer) as model:
                yield Service(tasks, file, Drive(tasks, model.url, url))
        finally:
            process.terminate()


def _environment() -> Path:
    python, done = ENVIRONMENT / "bin" / "python", ENVIRONMENT / ".done"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--no-deps", *NEEDED]
        if subprocess.run(install, check=False).returncode:
            raise Unavailable(f"{NEEDED[0]} can't be installed")
        done.touch()
    return python
