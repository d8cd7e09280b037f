"""A process that runs queued workflows of DBOS alone: `python -m bench.dbos_worker URL AT_ONCE`."""

import sys
import threading

from dbos import DBOS, DBOSConfig

QUEUE, WORKFLOW = "bench", "short"
POLL_SECONDS = 0.05
"""As often as a worker of Teamwright that is busy."""


@DBOS.step()
async def answer(task: str) -> str:
    """Answer at once."""
    return f"{task} is done"


@DBOS.workflow(name=WORKFLOW)
async def work(task: str) -> str:
    """One step."""
    return await answer(task)


def main() -> None:
    """Run workflows until the process is killed."""
    config: DBOSConfig = {"name": "bench", "system_database_url": sys.argv[1], "log_level": "ERROR"}
    DBOS(config=config)
    DBOS.launch()
    DBOS.register_queue(QUEUE, worker_concurrency=int(sys.argv[2]), polling_interval_sec=POLL_SECONDS)
    threading.Event().wait()


if __name__ == "__main__":
    main()
