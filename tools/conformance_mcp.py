"""The suite of the Model Context Protocol, from npm, against our server, our tasks after a kill, and our client.

It runs with the Node of a wheel, in a folder of its own. What it judges is in `tests/server/mcp/conformance`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from tools.conformance import ROOT, Outcome, Row, Unavailable
from tools.page import node, npm

PACKAGE, VERSION = "@modelcontextprotocol/conformance", "0.2.0-alpha.12"
REVISION = "2026-07-28"
HOME = ROOT / ".venv-conformance-mcp"
APPLICATION, PROXY, CLIENT = (f"tests.server.mcp.conformance.{name}" for name in ("app", "killing_proxy", "client"))
SERVER, KILLED, PLAIN, OWN_CLIENT = (
    "The application",
    "The application, killed after each answer with a task",
    "The product's own `/mcp`, without fixtures",
    "Our client",
)
STAMP = len("-2026-11-18T00-00-00-000Z")
"""The length of the time in the name of a folder of results."""
CLIENT_SCENARIOS = (
    "tools_call",
    "request-metadata",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
)
TASK_SCENARIOS = (
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
)
PLAIN_SCENARIOS = (
    "tools-list",
    "resources-list",
    "sep-2164-resource-not-found",
    "dns-rebinding-protection",
)
"""What the product passes alone; the others name tools, prompts and resources that no team has."""
SCENARIO_MS = "120000"
EXPECTED = {
    f"{SERVER}: tasks-status-notifications": "the suite skips it: it waits for a harness of `subscriptions/listen`",
}


def run(only: str) -> Iterable[Row]:
    """Run all legs; raises `Unavailable` where the suite can't be installed."""
    install()
    with serving(APPLICATION) as url:
        yield from judge_server(SERVER, url, only)
    with serving(PROXY) as url:
        yield from judge_scenarios(KILLED, "server", TASK_SCENARIOS, only, "--url", url)
    with serving(APPLICATION, "--plain") as url:
        yield from judge_scenarios(PLAIN, "server", PLAIN_SCENARIOS, only, "--url", url)
    command = f"{sys.executable} -m {CLIENT}"
    yield from judge_scenarios(OWN_CLIENT, "client", CLIENT_SCENARIOS, only, "--command", command)


def install() -> None:
    """Install the suite, unless it is; raises `Unavailable`."""
    kept = HOME / "node_modules" / PACKAGE / "package.json"
    if kept.is_file() and json.loads(kept.read_text(encoding="utf-8"))["version"] == VERSION:
        return
    HOME.mkdir(exist_ok=True)
    (HOME / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    try:
        npm("install", "--no-audit", "--no-fund", "--ignore-scripts", f"{PACKAGE}@{VERSION}", web=HOME)
    except (subprocess.CalledProcessError, SystemExit) as error:
        raise Unavailable(f"{PACKAGE} {VERSION} can't be installed: {error}") from error


@contextmanager
def serving(module: str, *options: str) -> Generator[str]:
    """Serve an application in a process of its own; yields its address."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", module, folder, *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            process.communicate()


def judge_server(part: str, url: str, only: str) -> Iterator[Row]:
    """Run everything that the revision names, or the scenarios whose name contains a text."""
    with tempfile.TemporaryDirectory() as folder:
        suite("server", "--url", url, "--requirements", REVISION, "-o", folder)
        for name, outcome, checks in outcomes(Path(folder)):
            if only in name:
                yield Row(part, name, outcome, checks)


def judge_scenarios(part: str, leg: str, names: Iterable[str], only: str, *options: str) -> Iterator[Row]:
    """Run single scenarios."""
    for name in names:
        if only in name:
            with tempfile.TemporaryDirectory() as folder:
                suite(leg, *options, "--scenario", name, "--spec-version", REVISION, "--force", "-o", folder)
                found = list(outcomes(Path(folder)))
            yield Row(part, name, *found[0][1:]) if found else Row(part, name, "failed", "no checks")


def suite(*arguments: str) -> None:
    """Run the suite; its status says what the checks say too."""
    program = HOME / "node_modules" / PACKAGE / "dist" / "index.js"
    command = [node() / "bin" / "node", program, *arguments, "--timeout", SCENARIO_MS]
    subprocess.run(command, check=False, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def outcomes(folder: Path) -> Iterator[tuple[str, Outcome, str]]:
    """Yield the name, the outcome and the checks of each scenario, as the suite saved them."""
    for file in sorted(folder.glob("**/checks.json"), key=lambda one: one.stat().st_mtime):
        name = str(file.parent.relative_to(folder)).removeprefix("server-").removeprefix("client-")
        checks = cast("list[dict[str, str]]", json.loads(file.read_text(encoding="utf-8")))
        statuses = [one["status"] for one in checks]
        passed, failed = statuses.count("SUCCESS"), statuses.count("FAILURE")
        outcome: Outcome = "failed" if failed else "passed" if passed else "skipped"
        yield name[:-STAMP], outcome, f"{passed} of {passed + failed}"
