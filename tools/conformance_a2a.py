"""The compatibility kit of A2A against the agents of a server: level MUST, by JSON-RPC and by HTTP+JSON, and both again
with the server killed between a message and the next request.

The kit is no package: `A2A_TCK` names a checkout of https://github.com/a2aproject/a2a-tck, branch 1.0-dev. Its texts
name scenarios, which the team in `tests/conformance/a2a` plays; `kit_client.py` there adds tokens to the kit's clients.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

from tools.conformance import ROOT, Row, Unavailable
from tools.restarted_server import RestartedServer

KIT = "A2A_TCK"
TEAM = ROOT / "tests" / "conformance" / "a2a"
ENVIRONMENT = ROOT / ".venv-conformance-a2a"
NEEDED = ("pytest", "pytest-asyncio", "pytest-html", "httpx", "grpcio", "protobuf", "googleapis-common-protos",
          "jsonschema", "gherkin-official", "Jinja2")  # fmt: skip
SHORT = re.compile(r"^.*test_(?=[a-z_]+(\.Test|$))")
"""What is left out of the names of tests."""
TOKENS = 300
"""One for each test of the kit, and more."""
PARTS = {"level MUST": 0, "level MUST, the server killed before every fifth request about a task": 5}
ERROR = "the kit names no error for this scenario, and so takes the error that it asks for as a failure"
MESSAGE = "an agent may always answer with a task, which can be read again; the kit wants a message"
WHY: Mapping[str, str] = {
    "artifacts.TestMessageResponse.test_returns_message_with_text_part": MESSAGE,
    "requirements.test_must_requirement[CORE-SEND-003": ERROR,
}
"""Why tests of the kit fail, by the beginnings of their names."""


class _Expected(Mapping[str, str]):
    """The reasons by row: those of a test hold for both bindings and both parts."""

    def __getitem__(self, name: str) -> str:
        scenario = name.partition(": ")[2]
        for beginning, why in WHY.items():
            if scenario.startswith(beginning):
                return why
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(WHY)

    def __len__(self) -> int:
        return len(WHY)


EXPECTED: Mapping[str, str] = _Expected()


def run(only: str) -> Iterator[Row]:
    """Run the kit, and return a row for each of its files, and one for each test that fails."""
    kit = Path(os.environ.get(KIT, ""))
    if not (kit / "tests" / "compatibility").is_dir():
        raise Unavailable(f"set {KIT} to a checkout of https://github.com/a2aproject/a2a-tck, branch 1.0-dev")
    python = _environment()
    for part, kill in PARTS.items():
        with tempfile.TemporaryDirectory() as folder:
            report, kills = _report(kit, python, Path(folder), kill, only)
            yield from rows_of(part, report)
            if kill:
                yield Row(part, "the server was killed", "passed" if kills else "failed", f"{kills} times")


def _environment() -> Path:
    python = ENVIRONMENT / "bin" / "python"
    done = ENVIRONMENT / ".done"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        if subprocess.run([python, "-m", "pip", "install", "--quiet", *NEEDED], check=False).returncode:
            raise Unavailable("what the kit needs can't be installed")
        done.touch()
    return python


def _report(kit: Path, python: Path, folder: Path, kill: int, only: str) -> tuple[Path, int]:
    """Run the kit against a server of its own; returns its report, and how often the server was killed."""
    server = RestartedServer(folder, [TEAM], TOKENS)
    try:
        report = folder / "report.xml"
        select = ["-k", only] if only else []
        subprocess.run(
            [python, "-m", "pytest", "-q", "-p", "kit_client", "-p", "no:cacheprovider", "tests/compatibility/",
             f"--sut-host={server.url}/a2a/a2a", "--transport=jsonrpc,http_json", "-m", "must",
             f"--junitxml={report}", *select],
            cwd=kit, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**server.environment, "KIT_TOKENS": json.dumps(server.tokens), "KIT_KILL": str(kill),
                 "KIT_SERVER": str(server.file), "KIT_URL": server.url, "PYTHONPATH": str(TEAM)},
        )  # fmt: skip
        return report, server.kills
    finally:
        server.stop()


def rows_of(part: str, report: Path) -> Iterator[Row]:
    """Return the rows of a report."""
    outcomes: dict[str, list[str]] = defaultdict(list)
    failed: list[Row] = []
    for case in ElementTree.parse(report).iter("testcase"):
        module, name = case.get("classname", ""), case.get("name", "")
        kinds = {one.tag for one in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        file = re.sub(r"^tests\.compatibility\.", "", module)
        outcomes[re.sub(r"\.Test\w+$", "", file)].append(outcome)
        if outcome == "failed":
            failed.append(Row(part, f"{SHORT.sub('', file)}.{name}", "failed"))
    for file, found in sorted(outcomes.items()):
        count = {outcome: found.count(outcome) for outcome in ("passed", "failed", "skipped")}
        if count["passed"]:
            below = f", {count['failed']} failed: see below" if count["failed"] else ""
            skipped = f", {count['skipped']} skipped by the kit" if count["skipped"] else ""
            yield Row(part, file, "passed", f"{count['passed']} passed{below}{skipped}")
    yield from sorted(failed, key=lambda row: row.scenario)
