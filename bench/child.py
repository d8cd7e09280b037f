"""Measures one case in this process and prints the value: `python -m bench.child CASE`, where CASE is JSON.

The parent starts one such process per case and round, so that no case inherits another's imports, caches or garbage.
"""

import asyncio
import gc
import sys
import tempfile
import time
from pathlib import Path
from typing import cast

from bench import clock
from bench.cases import DATABASE_RUNS, Case
from bench.contenders import CONTENDERS, Measured, MeasuredGraph
from bench.offline import refuse_network
from bench.postgres_server import new_database
from bench.workload import Database, graph, uneven

WARM_UP_TURNS = 20
# Short runs are repeated within the process, so that an outlier does not become the figure.
REPEATS = 5
REPEAT_WITHIN_SECONDS = 1.0


async def value(case: Case, folder: Path) -> float:  # noqa: PLR0911 - one for each kind
    """The figure of a case, in the unit of its kind."""
    match case.kind:
        case "turns":
            return await _microseconds_per_turn(case, folder)
        case "cpu":
            clock.measure_cpu()
            return await _microseconds_per_turn(case, folder)
        case "database":
            return await _bytes(case, folder)
        case "floor":
            from bench import floor

            return await floor.seconds_per_unit(case.subject, folder) * 1e6
        case "resume":
            from bench import resume

            return await resume.seconds(case.size, folder)
        case "makespan":
            measured = cast("MeasuredGraph", CONTENDERS[case.subject].load())
            await measured.dag(graph("layered", WARM_UP_TURNS), None)
            steps, delays = uneven()
            return await measured.dag(steps, None, delays)
        case "plan":
            from bench import planner

            return planner.seconds(case.subject, case.size)
        case "ledger":
            from bench import ledger

            return await ledger.microseconds(case.subject, case.size)
        case "sweep":
            from bench import sweeps

            return sweeps.seconds(case.subject, case.size, folder)
        case "model":
            from bench import model_turns

            return await model_turns.microseconds(case, folder)
        case "prefix":
            from bench import prompt_prefixes

            return prompt_prefixes.share(case.subject)
        case "import":
            raise ValueError("an import is measured by a bare interpreter, see bench.imports")


RESERVE = "-reserve"
"""The file of fixed size that Teamwright holds back for a full disk; it is no part of what grows with the turns."""


async def _microseconds_per_turn(case: Case, folder: Path) -> float:
    measured = CONTENDERS[case.subject].load()
    await _once(measured, case.model_copy(update={"size": WARM_UP_TURNS}), _database(case, folder, "warm-up"))
    best, deadline = float("inf"), time.perf_counter() + REPEAT_WITHIN_SECONDS
    for repeat in range(REPEATS):
        gc.collect()
        best = min(best, await _once(measured, case, _database(case, folder, str(repeat))))
        if time.perf_counter() > deadline:
            break
    return best / case.size * 1e6


async def _bytes(case: Case, folder: Path) -> float:
    database = folder / "filled.db"
    if case.subject == "floor":
        from bench import floor

        floor.fill(database)
    else:
        measured = CONTENDERS[case.subject].load()
        for shape, size in DATABASE_RUNS:
            await _once(measured, case.model_copy(update={"shape": shape, "size": size}), database)
    files = [file for file in folder.rglob("*") if file.is_file() and not file.name.endswith(RESERVE)]
    return float(sum(file.stat().st_size for file in files))


def _database(case: Case, folder: Path, name: str) -> Database:
    """A database of its own for each repetition."""
    match case.store:
        case "memory":
            return None
        case "sqlite":
            return folder / f"{name}.db"
        case "postgres":
            return new_database()


async def _once(measured: Measured, case: Case, database: Database) -> float:
    match case.shape:
        case "chain":
            return await measured.chain(case.size, database)
        case "fan_out":
            return await measured.fan_out(case.size, database)
        case _:
            return await cast("MeasuredGraph", measured).dag(graph(case.shape, case.size), database)


def main() -> None:
    """Read the case, measure, print."""
    case = Case.model_validate_json(sys.argv[1])
    refuse_network(loopback=case.kind == "model")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        print(asyncio.run(value(case, Path(folder))))


if __name__ == "__main__":
    main()
