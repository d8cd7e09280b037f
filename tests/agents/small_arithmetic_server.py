"""Tools of `arithmetic_server` without the MCP library, for tests in which a server starts, ends or crashes."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from tests.kit.mcp_stdio import DECLARED, Tool, serve

notes = Path(sys.argv[1])


def note(line: object) -> None:
    with notes.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def add(arguments: dict[str, Any], key: str | None) -> int:
    note({"tool": "add", "key": key})
    return arguments["a"] + arguments["b"]


def fail(arguments: dict[str, Any], key: str | None) -> str:
    raise RuntimeError("out of order")


def crash(arguments: dict[str, Any], key: str | None) -> str:
    note("crash")
    if notes.read_text().count('"crash"') <= arguments.get("times", 99):
        print("out of memory", file=sys.stderr, flush=True)
        os._exit(3)
    return "survived"


def wait(arguments: dict[str, Any], key: str | None) -> str:
    note(os.getpid())
    while '"go"' not in notes.read_text():
        time.sleep(0.02)
    return "went"


def where(arguments: dict[str, Any], key: str | None) -> dict[str, object]:
    found: dict[str, object] = {
        "pid": os.getpid(),
        "cwd": str(Path.cwd()),
        "env": sorted(os.environ),
        "declared": DECLARED,
    }
    note({"where": found})
    return found


def shout(arguments: dict[str, Any], key: str | None) -> str:
    return "x" * arguments["size"]


note("started")
serve(
    "arithmetic",
    {
        "add": Tool("Add two numbers.", add, {"a": "integer", "b": "integer"}),
        "fail": Tool("Never work.", fail),
        "crash": Tool("Take the whole server down, up to so many times.", crash),
        "shout": Tool("Return a text of this size.", shout, {"size": "integer"}),
        "wait": Tool('Answer once "go" is in the notes.', wait),
        "where": Tool("Return the process, its folder and the names of its variables.", where),
    },
)
