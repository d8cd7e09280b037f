"""What live telemetry costs: CPU time of a durable turn of a model with and without a receiver, in turns.

`python -m bench.telemetry` prints both, and their ratio. The receiver is another process, which takes everything.
"""

import asyncio
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from statistics import median

from bench.model_turns import INSTRUCTIONS, QUESTION, WARM_UP, convert, look_up

TURNS, ROUNDS = 100, 5
RECEIVER = "--receive"


class _Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def _child(*arguments: str) -> Generator[str]:
    """A process that prints the port on which it serves."""
    process = subprocess.Popen([sys.executable, "-m", *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()


async def microseconds(model: str, otlp: str | None, folder: Path) -> float:
    """Return the CPU time of a turn of this process, with that of sending its spans."""
    from teamwright import Engine, ModelAgent, Team
    from teamwright.values.specs.models import ServerModel

    agent = ModelAgent(
        "baker", model=ServerModel(url=f"{model}/v1", name="whole"), instructions=INSTRUCTIONS, tools=[look_up, convert]
    )
    with tempfile.TemporaryDirectory(dir=folder) as made:
        engine = Engine(Path(made) / "runs.db", otlp=otlp)
        async with engine:
            await engine.run(Team("t", members=[agent] * WARM_UP, share="output"), QUESTION)
            if otlp is not None:
                await asyncio.sleep(1.5)  # what loads with the first spans has loaded
            gc.collect()
            started = time.process_time()
            await engine.run(Team("t", members=[agent] * TURNS, share="output"), QUESTION)
        return (time.process_time() - started) / TURNS * 1e6


def main() -> None:
    """Measure in turns, and print the medians."""
    found: dict[bool, list[float]] = {False: [], True: []}
    with (
        tempfile.TemporaryDirectory() as folder,
        _child("bench.instant_server") as model,
        _child("bench.telemetry", RECEIVER) as receiver,
    ):
        for _ in range(ROUNDS):
            for exports in (False, True):
                spent = asyncio.run(microseconds(model, receiver if exports else None, Path(folder)))
                found[exports].append(spent)
    without, live = median(found[False]), median(found[True])
    print(
        f"a durable model turn: {without:.0f} µs of CPU, with live telemetry {live:.0f} µs: {live / without - 1:+.1%}"
    )


if __name__ == "__main__":
    if RECEIVER in sys.argv:
        server = HTTPServer(("127.0.0.1", 0), _Receiver)
        print(server.server_address[1], flush=True)
        server.serve_forever()
    else:
        main()
