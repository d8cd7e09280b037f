"""Opens the page over example runs: some have ended, one waits for a person, and one is alive.

`make run-page` starts it. The runs are recorded once, offline with scripted replies, in a folder of their own.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
import webbrowser
from pathlib import Path
from typing import Any, cast

import yaml

from teamwright import Engine
from teamwright.server.credentials import Tokens, tokens_file
from teamwright.teams.team_loader import load_team

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
HOME = ROOT / "build" / "page"
ENDED = ("selector", "dag", "budget", "a2a_lite", "expert_review", "mesh_team")
WAITING = "approvals"
LIVE = "expert_review"
SLOWER = 6.0
"""Seconds that each reply of the live run takes."""
JOURNAL = "journal.db"


async def record(home: Path) -> None:
    """Record the example runs that have ended and the one that waits, unless they are recorded."""
    journal = home / JOURNAL
    if journal.exists():
        return
    async with Engine(journal) as engine:
        for name in (*ENDED, WAITING):
            await engine.run(load_team(EXAMPLES / name), _task(name), run_id=f"{name}-example")


def write_slow_team(home: Path) -> Path:
    """Write the team of the live run: an example whose replies take their time. Return the folder to serve."""
    folder = home / "teams"
    team = folder / f"live_{LIVE}"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(EXAMPLES / LIVE, team)
    replies = team / "replies.yaml"
    script = cast("dict[str, Any]", yaml.safe_load(replies.read_text(encoding="utf-8")))
    for rule in script["rules"]:
        rule["delay"] = SLOWER
    replies.write_text(yaml.safe_dump(script, allow_unicode=True), encoding="utf-8")
    return folder


def start_live(url: str, token: str) -> str:
    """Start the live run on a server, and return its id."""
    body = json.dumps({"team": f"live_{LIVE}", "task": _task(LIVE)}).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{url}/api/runs", body, headers)) as response:
        return str(json.load(response)["run_id"])


def new_token(home: Path) -> str:
    """Return a token that may start runs; that of an earlier call is deleted."""
    tokens = Tokens(tokens_file(home / JOURNAL))
    tokens.delete("run-page")
    return tokens.create("run-page", "run")


def serve(home: Path, port: int) -> "subprocess.Popen[str]":
    """Start the server of the example runs; it prints its address as JSON."""
    folders = [str(EXAMPLES), str(write_slow_team(home))]
    command = [sys.executable, "-m", "teamwright", "serve", *folders, "--port", str(port), "--json"]
    environment = {**os.environ, "TEAMWRIGHT_HOME": str(home)}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def address_of(server: "subprocess.Popen[str]") -> str:
    """Read the address that a server prints."""
    assert server.stdout is not None
    printed = server.stdout.readline()
    if not printed:
        raise SystemExit("the server did not start")
    return str(json.loads(printed)["url"])


def main() -> int:
    """Record, serve and open, until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8420)
    port = parser.parse_args().port
    HOME.mkdir(parents=True, exist_ok=True)
    asyncio.run(record(HOME))
    token = new_token(HOME)
    server = serve(HOME, port)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        address = address_of(server)
        start_live(address.partition("/?")[0], token)
        print(f"Open  {address}\nThe address works once. Ctrl-C stops the server.")
        if os.environ.get("DISPLAY") or sys.platform == "darwin":
            webbrowser.open(address)
        server.wait()
    except KeyboardInterrupt:
        pass
    finally:  # also where the live run could not start
        server.terminate()
        server.wait()
    return 0


def _task(name: str) -> str:
    return (EXAMPLES / name / "task.txt").read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
