"""acplint, a linter of agents of the Agent Client Protocol, against `teamwright serve --protocol acp`.

Its idea of the protocol differs from the published schema in names and in the type of the version. So it runs twice: as
it is, where the failures are that difference, and with the names of the published schema, where its checks are what
counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.conformance import ROOT, Row, Unavailable

PLACE = ROOT / "tests" / "conformance" / "acp"
ENVIRONMENT = ROOT / ".venv-conformance-acp"
NEEDED = ("acplint==0.1.0",)
SECONDS = 600
PLAIN, PUBLISHED = "acplint 0.1.0", "acplint 0.1.0, with the names of the published schema"
VERSION = "it expects the version as a text; the schema has the number 1"
PROMPT = "it sends `content`, and expects `agentMessageChunk`; the schema has `prompt` and `agent_message_chunk`"
EXPECTED: Mapping[str, str] = {
    f"{PLAIN}: initialization.initialize_v1": VERSION,
    f"{PLAIN}: initialization.protocol_version_returned": VERSION,
    f"{PLAIN}: schema_validation.schema_initialize": VERSION,
    f"{PLAIN}: streaming.session_update_received": PROMPT,
    f"{PLAIN}: streaming.agent_message_chunk_received": PROMPT,
    f"{PLAIN}: streaming.prompt_stop_reason": PROMPT,
}


def run(only: str) -> Iterator[Row]:
    """Run the linter in both ways; raises `Unavailable` where it can't be installed."""
    python = _environment()
    for part, program in ((PLAIN, ("-m", "acplint.cli")), (PUBLISHED, (str(PLACE / "published.py"),))):
        if only in part or only not in PUBLISHED:
            yield from (row for row in rows_of(part, _lint(python, program)) if only in row.name)


def rows_of(part: str, report: Mapping[str, Any]) -> Iterator[Row]:
    """Yield a row for each category, and one for each of its checks that failed."""
    found: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for one in report["results"]:
        found[one["category"]].append(one)
    for category, checks in found.items():
        failed = [one for one in checks if one["status"] != "PASS"]
        passed = f"{len(checks) - len(failed)} of {len(checks)}"
        if len(failed) < len(checks):
            yield Row(part, category, "passed", f"{passed}: see below" if failed else passed)
        for one in failed:
            yield Row(part, f"{category}.{one['name']}", "skipped" if one["status"] == "SKIP" else "failed")


def _lint(python: Path, program: tuple[str, ...]) -> Mapping[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TEAMWRIGHT_HOME": str(Path(folder, "home"))}
        arguments = f"-m teamwright serve --protocol acp {PLACE / 'team'}"
        command = [python, *program, "--agent", sys.executable, "--agent-args", arguments, "--output", "json"]
        done = subprocess.run(
            command, check=False, stdout=subprocess.PIPE, text=True, timeout=SECONDS, env=environment, cwd=folder
        )
    return json.loads(done.stdout)


def _environment() -> Path:
    python, done = ENVIRONMENT / "bin" / "python", ENVIRONMENT / ".done"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        if subprocess.run([python, "-m", "pip", "install", "--quiet", *NEEDED], check=False).returncode:
            raise Unavailable(f"{NEEDED[0]} can't be installed")
        done.touch()
    return python
