"""The multi-turn tasks of BFCL v4: its environments behind our tools, with the expected calls as a scripted model.

Each task runs as a conversation of a team, and the end state of its environment, the results of its calls and BFCL's
own verdict have to be what its executor and checkers compute from the expected calls. The environments are a service of
their own, with state on disk: what has happened there stays when a run is killed. Some tasks are killed before and
after each write of the journal, and have to end the same.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.conformance import ROOT, Row, Unavailable

if TYPE_CHECKING:
    from tests.conformance.bfcl.assistant import Drive, Tasks
    from tests.laws.crash.driver import When
    from tests.laws.crash.fork_server import ForkServer

PLACE = ROOT / "tests" / "conformance" / "bfcl"
ENVIRONMENT = ROOT / ".venv-conformance-bfcl"
NEEDED = ("bfcl-eval==2026.3.23", "filelock==4.2.10", "mpmath==1.4.1")
"""What the executor and the checkers of multi-turn tasks import. The package itself asks for the libraries of every
provider, `torch` and `faiss`; they are left out."""
CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
PART = "bfcl-eval 2026.3.23, multi-turn"
KILLED, CONTROL = "Killed before and after each write, and resumed", "base, with a new key for each attempt"
SCORE, EMBEDDED, SAMPLED = "score", "local", 20
"""The score of the embedded model, which is printed and not asserted: it judges a model, and nothing here."""
AT_ONCE, SERVERS = 4, 2
"""The tasks that one engine runs at once, and the tasks that are killed at once."""
STEP, SHIFT = 40, 8
"""Every fortieth task of a category is killed; the next category begins eight later."""
WHEN: tuple[When, ...] = ("before", "after")
DRIVE = "tests.conformance.bfcl.assistant:drive"
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
    """Run all tasks, and kill some; raises `Unavailable` where the package can't be installed."""
    python = _environment()
    with tempfile.TemporaryDirectory() as folder, _service(python, Path(folder)) as service:
        for category in CATEGORIES:
            named = [one for one in tasks_of(service.tasks.tasks, category) if only in f"{PART}: {category} {one}"]
            if named:
                yield from rows_of(PART, category, "tasks", asyncio.run(_run_all(service, named, Path(folder))))
        for number, category in enumerate(CATEGORIES):
            if only in f"{KILLED}: {category}":
                names = tasks_of(service.tasks.tasks, category)[SHIFT * number :: STEP]
                yield from rows_of(KILLED, category, f"kills of {len(names)} tasks", kill_all(service, names))
        if only in f"{KILLED}: {CONTROL}":
            yield control(service, tasks_of(service.tasks.tasks, CATEGORIES[0])[3 * STEP :: STEP])
        if only in SCORE:
            print(asyncio.run(score(service, EMBEDDED)), flush=True)


def tasks_of(tasks: Iterable[str], category: str) -> list[str]:
    """The tasks of a category."""
    return [one for one in tasks if one.rpartition("_")[0] == f"multi_turn_{category}"]


def rows_of(part: str, category: str, what: str, problems: Mapping[str, Sequence[str]]) -> Iterator[Row]:
    """Yield a row for a category, and one for each of its tasks, or kills, with a problem; `what` says which."""
    wrong = {name: found for name, found in problems.items() if found}
    checks = f"{len(problems) - len(wrong)} of {len(problems)} {what}"
    if len(wrong) < len(problems) or not problems:
        outcome = "passed" if problems else "failed"
        yield Row(part, category, outcome, f"{checks}: see below" if wrong else checks)
    for name, found in wrong.items():
        for one in found:
            print(f"{name}: {one}", file=sys.stderr, flush=True)
        yield Row(part, name, "failed")


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


def kill_all(service: Service, names: Sequence[str], *, is_keyed: bool = True) -> dict[str, list[str]]:
    """Kill tasks before and after each write and resume them; returns the problems of each kill."""
    from tests.laws.crash.fork_server import ForkServer

    def one(task: str) -> dict[str, list[str]]:
        with ForkServer() as server:
            return dict(_kill(service, server, task, is_keyed=is_keyed))

    with ThreadPoolExecutor(SERVERS) as threads:
        return {kill: problems for found in threads.map(one, names) for kill, problems in found.items()}


def _kill(service: Service, server: ForkServer, task: str, *, is_keyed: bool) -> Iterator[tuple[str, list[str]]]:
    """Run a task once for each write and instant, with a journal and a world of its own, until it is not killed."""
    driven: dict[str, Any] = {
        "tasks": str(service.file), "model": service.drive.model, "environment": service.drive.environment,
        "task": task, "is_keyed": is_keyed,
    }  # fmt: skip
    for when in WHEN:
        for write in itertools.count(1):
            kill = f"{task}-{when}-{write}" if is_keyed else f"{task}-{when}-{write}-control"
            own = {**driven, "journal": str(service.file.with_name(f"{kill}.db")), "world": kill}
            if not server.run(DRIVE, **own, write=write, when=when).killed:
                break
            yield f"{task}, {when} write {write}", service.problems(task, kill, server.run(DRIVE, **own).value)


def control(service: Service, names: Sequence[str]) -> Row:
    """Kill tasks whose calls have a new key for each attempt: then some calls have to be found to be made twice."""
    found = kill_all(service, names, is_keyed=False)
    wrong = [problems for problems in found.values() if problems]
    states = sum(one.startswith("state") for problems in wrong for one in problems)
    checks = f"{len(wrong)} of {len(found)} kills make a call twice, {states} end in another state"
    return Row(KILLED, CONTROL, "passed" if wrong else "failed", checks)


async def score(service: Service, model: str) -> str:
    """Return how many of a sample of BFCL's tasks of one call a model gets right, by BFCL's checker."""
    from teamwright.runtime.engine import Engine
    from tests.conformance.bfcl.assistant import ask, first_calls

    singles = ask(service.drive.environment, "single-turns", {})
    sample, right, made = singles[:: len(singles) // SAMPLED], 0, 0
    async with Engine("memory") as engine:
        for one in sample:
            calls = await first_calls(engine, model, one)
            made += bool(calls)
            right += ask(service.drive.environment, "right", {"task": one["id"], "calls": calls})
    return f"{model}: {right} of {len(sample)} tasks of one call (simple_python) are right; it made a call in {made}"


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
