"""The compliance tests of Open Responses against the responses of a server.

They are no package: `OPENRESPONSES` names a checkout of https://github.com/openresponses/openresponses. Their sources
are copied into an environment of their own, where `bun` from npm runs them. The team in `tests/conformance/responses`
answers.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.conformance import ROOT, Row, Unavailable
from tools.page import npm
from tools.restarted_server import RestartedServer

CHECKOUT = "OPENRESPONSES"
TEAM = ROOT / "tests" / "conformance" / "responses" / "team"
HOME = ROOT / ".venv-conformance-responses"
PACKAGES = {"bun": "1.4.4", "zod": "3.25.76"}
"""What runs the tests, and what they check with, in the version that the checkout locks."""
COPIED = ("bin/compliance-test.ts", "src/lib", "src/generated")
PART = "HTTP and server-sent events"
SOCKET = "responses come by HTTP and server-sent events; the transport by WebSocket is optional"
COMPACTION = "a team compacts its history itself, and keeps it in the journal; there is no window to hand out"
WHY: Mapping[str, str] = {
    "tool-calling": "a team calls the tools that it declares, and ignores those of a request, as chat completions do",
    "compact-response": COMPACTION,
    "compact-missing-model": COMPACTION,
    **dict.fromkeys(
        (
            "websocket-response",
            "websocket-sequential-responses",
            "websocket-continuation",
            "websocket-reconnect-store-false-recovery",
            "websocket-previous-response-not-found",
            "websocket-failed-continuation-evicts-cache",
            "websocket-compact-new-chain",
        ),
        SOCKET,
    ),
}
"""Why tests fail, by their ids."""
EXPECTED: Mapping[str, str] = {f"{PART}: {name}": why for name, why in WHY.items()}


def run(only: str) -> Iterator[Row]:
    """Run the tests whose id contains a text; raises `Unavailable` where they can't be had."""
    checkout = Path(os.environ.get(CHECKOUT, ""))
    if not (checkout / COPIED[0]).is_file():
        raise Unavailable(f"set {CHECKOUT} to a checkout of https://github.com/openresponses/openresponses")
    _install(checkout)
    with tempfile.TemporaryDirectory() as folder:
        server = RestartedServer(Path(folder), [TEAM.parent])
        try:
            report = _report(server.url, server.tokens[0])
        finally:
            server.stop()
    yield from sorted((row for row in rows_of(report) if only in row.scenario), key=lambda row: row.scenario)


def _install(checkout: Path) -> None:
    """Copy the tests, and install what runs them, unless it is."""
    HOME.mkdir(exist_ok=True)
    for name in COPIED:
        target = HOME / name
        if (checkout / name).is_dir():
            shutil.copytree(checkout / name, target, dirs_exist_ok=True)
        else:
            target.parent.mkdir(exist_ok=True)
            shutil.copy(checkout / name, target)
    wanted = [f"{name}@{version}" for name, version in PACKAGES.items()]
    kept = HOME / "node_modules" / ".wanted"
    if kept.is_file() and kept.read_text(encoding="utf-8") == " ".join(wanted):
        return
    (HOME / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    try:
        npm("install", "--no-audit", "--no-fund", "--ignore-scripts", *wanted, web=HOME)
    except (subprocess.CalledProcessError, SystemExit) as error:
        raise Unavailable(f"{' and '.join(wanted)} can't be installed: {error}") from error
    kept.write_text(" ".join(wanted), encoding="utf-8")


def _report(url: str, token: str) -> dict[str, Any]:
    bun = next((HOME / "node_modules" / "@oven").glob("bun-*/bin/bun"))  # no script of the package has made its command
    command = [
        bun, HOME / COPIED[0], "--base-url", f"{url}/v1", "--api-key", token,
        "--model", TEAM.name, "--json",
    ]  # fmt: skip
    found = subprocess.run(command, cwd=HOME, check=False, stdout=subprocess.PIPE, text=True, timeout=300)
    report: dict[str, Any] = json.loads(found.stdout)
    return report


def rows_of(report: Mapping[str, Any]) -> Iterator[Row]:
    """Return a row for each test of a report."""
    for one in report["results"]:
        events = f"{one['streamEvents']} events" if one.get("streamEvents") else ""
        yield Row(PART, one["id"], one["status"], events)
