"""What the official client of AG-UI, npm `@ag-ui/client`, makes of our streams: schemas, `verifyEvents`, `HttpAgent`.

The protocol has no suite of its own. The judge is `tests/conformance/agui/judge.mjs`, which the Node of a wheel runs in
a folder of its own: the examples and the teams beside the judge live, also with the server killed, and the recorded
runs of every preset and strategy.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import copyfile
from types import SimpleNamespace
from typing import Any, cast

import yaml

from tools.conformance import ROOT, Row, Unavailable
from tools.page import node, npm
from tools.restarted_server import RestartedServer

PACKAGE, VERSION = "@ag-ui/client", "1.0.0"
HOME = ROOT / ".venv-conformance-agui"
TEAMS = ROOT / "tests" / "conformance" / "agui"
PROGRAM = "judge.mjs"
PAGE, CLIENT = ROOT / "docs" / "running" / "server.md", "agui_client.mjs"
EXAMPLES = ROOT / "examples"
SECONDS = 600
EXPECTED: dict[str, str] = {}


def run(only: str) -> Iterator[Row]:
    """Run all legs; raises `Unavailable` where the client can't be installed."""
    install()
    recorded = [{"name": name, "text": recorded_stream(name)} for name in recorded_names()]
    yield from judge(only, live_examples(), recorded)


def install() -> None:
    """Install the client, unless it is; raises `Unavailable`."""
    kept = HOME / "node_modules" / PACKAGE / "package.json"
    if not kept.is_file() or json.loads(kept.read_text(encoding="utf-8"))["version"] != VERSION:
        HOME.mkdir(exist_ok=True)
        (HOME / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        try:
            npm("install", "--no-audit", "--no-fund", "--ignore-scripts", f"{PACKAGE}@{VERSION}", web=HOME)
        except (subprocess.CalledProcessError, SystemExit) as error:
            raise Unavailable(f"{PACKAGE} {VERSION} can't be installed: {error}") from error


def live_examples() -> list[dict[str, str]]:
    """The examples that run offline with scripted models, and their tasks."""
    folders = sorted(path.parent for path in EXAMPLES.glob("*/task.txt"))
    scripted = [one for one in folders if (one / "team.yaml").is_file() and (one / "replies.yaml").is_file()]
    return [{"team": one.name, "task": (one / "task.txt").read_text(encoding="utf-8")} for one in scripted]


def judge(only: str, examples: Sequence[dict[str, str]], recorded: Sequence[dict[str, str]]) -> Iterator[Row]:
    """Run the judge against a server of its own; yields a row for each scenario."""
    from tests.docs.pages import blocks

    (client,) = [one.text for one in blocks(PAGE) if one.about == CLIENT]
    (HOME / "page_client.mjs").write_text(client, encoding="utf-8")
    copyfile(TEAMS / PROGRAM, HOME / PROGRAM)
    with tempfile.TemporaryDirectory() as folder:
        write_teams(Path(folder) / "teams")
        server = RestartedServer(Path(folder), [Path(folder) / "teams", *(EXAMPLES / one["team"] for one in examples)])
        try:
            asked = Path(folder) / "asked.json"
            where = {"url": server.url, "token": server.tokens[0], "pid": str(server.file), "only": only}
            asked.write_text(json.dumps({**where, "examples": examples, "recorded": recorded}), encoding="utf-8")
            command = [node() / "bin" / "node", HOME / PROGRAM, asked]
            found = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, timeout=SECONDS)
        finally:
            server.stop()
    for line in found.stdout.splitlines():
        one = cast("dict[str, Any]", json.loads(line))
        for why in one["why"]:
            print(f"{one['scenario']}: {why}", flush=True)
        outcome = "failed" if one["why"] else "passed"
        yield Row(one["part"], one["scenario"], outcome, f"{one['passed']} of {one['checks']}")
    if found.returncode:
        yield Row("The judge", "runs to its end", "failed")


def write_teams(folder: Path) -> None:
    """Give each of the teams beside the judge a folder of its own, whose name is its id."""
    declared = yaml.safe_load((TEAMS / "team.yaml").read_text(encoding="utf-8"))
    for name, team in declared["teams"].items():
        own = folder / name
        own.mkdir(parents=True)
        manifest = {"agents": declared["agents"], "teams": {name: team}}
        (own / "team.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
        for file in ("members.py", "replies.yaml"):
            copyfile(TEAMS / file, own / file)


def recorded_names() -> list[str]:
    """The recorded runs, one for each preset and strategy and some more."""
    from tests.histories.teams import TEAMS as RECORDED_TEAMS

    return list(RECORDED_TEAMS)


def recorded_stream(name: str) -> str:
    """Return the stream of a recorded run."""
    return asyncio.run(_stream(name))


async def _stream(name: str) -> str:
    from starlette.requests import Request

    from teamwright import Engine
    from teamwright.server.chat.agui import AguiStream, RunPart
    from teamwright.server.chat.agui_wire import RunAgentInput
    from teamwright.server.state import open_state
    from tests.histories.history import RUN_ID, History
    from tests.histories.teams import TEAMS as RECORDED_TEAMS, speak

    history = History.load(name)
    asked = RunAgentInput.model_validate({"threadId": "t", "runId": name, "messages": []})
    quiet = SimpleNamespace(notes=list, is_answered=False)
    with tempfile.TemporaryDirectory() as folder:
        journal = history.journal(len(history.events))
        async with Engine(journal) as engine, open_state(engine, [], Path(folder)) as state:
            stream = AguiStream(state, Request({"type": "http"}), RECORDED_TEAMS[name](speak), asked, [])
            return "".join([one async for one in stream.events(cast("Any", quiet), RunPart(RUN_ID))])
