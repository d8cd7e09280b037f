"""Phoenix as a receiver of our traces: what it counts for each run is what the ledger has, to the digit.

The runs are driven by the command line against a model server on loopback: with retries, branches side by side, nested
teams, a killed driver and a resume. Beside them, the spans of one team are compared with those of
`opentelemetry-util-genai`, which other instrumentations are made with.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tools.conformance import ROOT, Row, Unavailable

PLACE = ROOT / "tests" / "conformance" / "phoenix"
ENVIRONMENT = ROOT / ".venv-conformance-phoenix"
NEEDED = ("arize-phoenix==20.26.1", "opentelemetry-util-genai==1.3b0", "opentelemetry-sdk")
STARTS_WITHIN = 600.0
PART, NAMES = "Phoenix 20.26.1", "opentelemetry-util-genai 1.3b0"
EXPECTED: Mapping[str, str] = {}


def run(only: str) -> Iterator[Row]:
    """Send each kind of run to Phoenix, and compare its counts with the ledger; then compare spans by name."""
    python = _environment()
    with tempfile.TemporaryDirectory() as folder, _phoenix(python, Path(folder)) as url:
        runs = Runs(Path(folder), url)
        for name, scenario in SCENARIOS.items():
            if only in name:
                scenario(runs, name)
                yield runs.row(name)
        if runs.ledger:
            yield runs.total()
    if only in NAMES:
        yield from _compare_names(python)


class Runs:
    """Runs of the command line, and what Phoenix has of them."""

    def __init__(self, folder: Path, phoenix: str) -> None:
        self.phoenix = phoenix
        self.ledger: dict[str, tuple[int, int]] = {}
        self._folder = folder
        self._environment = {**os.environ, "TEAMWRIGHT_HOME": str(folder / "home")}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "teamwright", *arguments]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command that sends what it drives to Phoenix."""
        return subprocess.Popen(
            [*self.command(*arguments), "--otlp", self.phoenix],
            env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self._folder,
        )  # fmt: skip

    def finish(self, *arguments: str) -> None:
        process = self.start(*arguments)
        output, errors = process.communicate(timeout=120)
        if process.returncode or "telemetry" in errors:
            raise RuntimeError(f"{arguments} ended with {process.returncode}: {output}{errors}")

    def manifest(self, url: str) -> str:
        file = self._folder / "team.yaml"
        file.write_text((PLACE / "team.yaml").read_text(encoding="utf-8").replace("URL", url), encoding="utf-8")
        return str(file)

    def row(self, run_id: str) -> Row:
        """Compare what Phoenix has of a run with the ledger."""
        found = subprocess.run(
            self.command("runs", "show", run_id, "--json"), env=self._environment, capture_output=True, check=True
        )
        usage = json.loads(found.stdout)["usage"]
        expected = self.ledger[run_id] = usage["input_tokens"], usage["output_tokens"]
        spans = self._settled(run_id)
        counted = tuple(sum(_count(one, name) for one in spans) for name in ("prompt", "completion"))
        known = {one["context"]["span_id"] for one in spans}
        orphans = [one for one in spans if one["parent_id"] not in known and one["parent_id"] is not None]
        right = counted == expected and not orphans and sum(expected) > 0
        checks = f"{len(spans)} spans, {counted[0]} + {counted[1]} tokens of {expected[0]} + {expected[1]}"
        return Row(PART, run_id, "passed" if right else "failed", checks)

    def total(self) -> Row:
        """Compare what Phoenix has of all runs with the ledger."""
        query = '{"query":"{projects{edges{node{tokenCountPrompt tokenCountCompletion}}}}"}'
        request = Request(f"{self.phoenix}/graphql", query.encode(), {"Content-Type": "application/json"})
        with urlopen(request, timeout=30) as answer:
            node = json.load(answer)["data"]["projects"]["edges"][0]["node"]
        counted = int(node["tokenCountPrompt"]), int(node["tokenCountCompletion"])
        expected = tuple(sum(one[part] for one in self.ledger.values()) for part in (0, 1))
        checks = f"{counted[0]} + {counted[1]} tokens of {expected[0]} + {expected[1]}"
        return Row(
            PART, "all of them, as the project shows them", "passed" if counted == expected else "failed", checks
        )

    def _settled(self, run_id: str) -> list[dict[str, Any]]:
        """The spans of a run once no more arrive: Phoenix stores them later than it takes them."""
        before: list[dict[str, Any]] = []
        for _ in range(60):
            with urlopen(f"{self.phoenix}/v1/projects/default/spans?limit=1000", timeout=30) as answer:
                spans = json.load(answer)["data"]
            found = [one for one in spans if one["attributes"].get("teamwright.run.id") == run_id]
            if found and len(found) == len(before):
                return found
            before = found
            time.sleep(2)
        return before


def _count(span: Mapping[str, Any], part: str) -> int:
    return int(span["attributes"].get(f"llm.token_count.{part}") or 0)


@contextmanager
def _model(answer: Callable[[int], object] | None = None) -> Generator[str]:
    """A model server; `answer` gets the number of each request, and returns an answer in place of the usual one."""
    from teamwright.testing.model_server import ChatAnswer, ChatRequest, ModelServer, Say

    lock, numbers = threading.Lock(), iter(range(1, 10_000))

    def respond(_: ChatRequest) -> ChatAnswer:
        with lock:
            number = next(numbers)
        made: Any = answer(number) if answer is not None else None
        return made or Say(text=f"Answer {number}. " * number)

    with ModelServer(respond) as server:
        yield server.url


def _plain(team: str) -> Callable[[Runs, str], None]:
    def scenario(runs: Runs, run_id: str) -> None:
        with _model() as url:
            runs.finish("run", runs.manifest(url), "The task", "--team", team, "--run-id", run_id, "-q")

    return scenario


def _retries(runs: Runs, run_id: str) -> None:
    from teamwright.testing.model_server import Fail

    with _model(lambda number: Fail(status=503, retry_after=0.0) if number in (1, 3) else None) as url:
        runs.finish("run", runs.manifest(url), "The task", "--team", "chain", "--run-id", run_id, "-q")


def _twice(runs: Runs, run_id: str) -> None:
    _plain("nested")(runs, run_id)
    for _ in range(2):
        runs.finish("runs", "export", run_id, "--full", "--out", runs.phoenix)


def _crash(runs: Runs, run_id: str) -> None:
    reached, may_go_on = threading.Event(), threading.Event()

    def block(number: int) -> None:
        if number == 3:
            reached.set()
            may_go_on.wait(60)

    with _model(block) as url:
        process = runs.start("run", runs.manifest(url), "The task", "--team", "chain", "--run-id", run_id, "-q")
        reached.wait(60)
        time.sleep(2)  # what has ended is sent by now
        process.send_signal(signal.SIGKILL)
        process.communicate()
        may_go_on.set()
        runs.finish("runs", "resume", run_id, "-q")


SCENARIOS: Mapping[str, Callable[[Runs, str], None]] = {
    "retries": _retries,
    "parallel-branches": _plain("parallel"),
    "nested-teams": _plain("nested"),
    "sent-three-times": _twice,
    "a-crash-and-a-resume": _crash,
}


def _compare_names(python: Path) -> Iterator[Row]:
    """Compare each attribute that the library writes with ours for the same call."""
    command = [python, PLACE / "genai_spans.py"]
    theirs = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    ours = {one["name"]: one for one in _own_spans()}
    for one in theirs:
        own = ours.get(one["name"], {"attributes": {}})
        same = [name for name, value in one["attributes"].items() if own["attributes"].get(name) == value]
        right = len(same) == len(one["attributes"]) and own["kind"] == one["kind"]
        checks = f"{len(same)} of {len(one['attributes'])} attributes"
        yield Row(NAMES, one["name"], "passed" if right else "failed", checks)


def _own_spans() -> Iterator[dict[str, Any]]:
    """The spans of the same calls, as they are exported."""
    from teamwright.history.telemetry.run_spans import spans_of
    from teamwright.values.events.agent import AgentAsked, AgentCalled, AgentReplied, AgentReturned, Body
    from teamwright.values.events.event import Event, Fact
    from teamwright.values.events.run import RunStarted
    from teamwright.values.usage_and_prices import Usage

    text = Body("0" * 32)
    usage = Usage(requests=1, input_tokens=100, output_tokens=20, cached_tokens=40, reasoning_tokens=5)
    turn: dict[str, Any] = {"turn": 1, "task": text, "length": 1, "digest": "d"}
    facts: list[tuple[str, str, Fact]] = [
        ("", "", RunStarted(team="t", task=text, manifest=text, seed=1)),
        ("", "t", AgentAsked(member="t", member_kind="team", **turn)),
        ("t", "a", AgentAsked(member="a", member_kind="model", **turn)),
        ("t/a", "request-1", AgentCalled(effect="model", name="openai:m", request="r", max_output=64)),
        ("t/a", "request-1", AgentReturned(body=text, usage=usage)),
        ("t/a", "tool-1", AgentCalled(effect="tool", name="lookup", request="r")),
        ("t/a", "tool-1", AgentReturned(body=text)),
        ("t", "a", AgentReplied()),
        ("", "t", AgentReplied()),
    ]
    events = [Event("r", number, float(number), *fact) for number, fact in enumerate(facts, 1)]
    for one in spans_of(events):
        yield {"name": one.name, "kind": one.kind.upper(), "attributes": one.attributes}


@contextmanager
def _phoenix(python: Path, folder: Path) -> Generator[str]:
    """A server of Phoenix with a database of its own, on loopback."""
    ports = [_free_port(), _free_port()]
    environment = {
        **os.environ, "PHOENIX_WORKING_DIR": str(folder / "phoenix"), "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(ports[0]), "PHOENIX_GRPC_PORT": str(ports[1]), "PHOENIX_TELEMETRY_ENABLED": "false",
    }  # fmt: skip
    (folder / "phoenix").mkdir()
    url = f"http://127.0.0.1:{ports[0]}"
    with (folder / "phoenix.log").open("wb") as log:
        process = subprocess.Popen([python.with_name("phoenix"), "serve"], env=environment, stdout=log, stderr=log)
        try:
            _wait_until_it_serves(url, process, folder / "phoenix.log")
            yield url
        finally:
            process.terminate()
            process.wait(30)


def _wait_until_it_serves(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urlopen(f"{url}/healthz", timeout=2):
                return
        except OSError:
            time.sleep(0.5)
    raise Unavailable(f"Phoenix does not start: {log.read_text(errors='replace')[-2000:]}")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _environment() -> Path:
    python = ENVIRONMENT / "bin" / "python"
    done = ENVIRONMENT / ".done"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        if subprocess.run([python, "-m", "pip", "install", "--quiet", *NEEDED], check=False).returncode:
            raise Unavailable("Phoenix can't be installed")
        done.touch()
    return python
