"""DBOS as its documentation shows it: an asynchronous workflow whose turns are steps, recorded in its system database.

A fan-out starts its steps with `asyncio.gather`. Steps have no retries, which is the default.
"""

import asyncio
import logging

from dbos import DBOS, DBOSConfig

from bench.clock import now
from bench.workload import Database, check, texts


class Steps:
    """One workflow per run, one step per turn."""

    async def chain(self, turns: int, database: Database) -> float:
        return await _run(texts(turns), str(database), at_once=False)

    async def fan_out(self, members: int, database: Database) -> float:
        return await _run(texts(members), str(database), at_once=True)


async def _run(replies: list[str], database: str, *, at_once: bool) -> float:
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": database,
        "log_level": "ERROR",
    }
    DBOS(config=config)

    @DBOS.step()
    async def member(index: int) -> str:
        return replies[index]

    @DBOS.workflow()
    async def work() -> list[str]:
        if at_once:
            return list(await asyncio.gather(*(member(index) for index in range(len(replies)))))
        return [await member(index) for index in range(len(replies))]

    logging.getLogger("dbos").setLevel(logging.ERROR)
    DBOS.launch()
    try:
        started = now()
        said = await work()
        seconds = now() - started
    finally:
        DBOS.destroy(destroy_registry=True)
    check(said, replies)
    return seconds
