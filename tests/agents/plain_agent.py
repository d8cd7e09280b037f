"""A coding agent of a few lines: it does what the last line of its prompt says, commands between semicolons."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

cwd, asked, loads = "", 0, os.environ.get("LOADS") == "yes"


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    return json.loads(line)


def update(name: str, **fields: Any) -> None:
    send(method="session/update", params={"sessionId": "s1", "update": {"sessionUpdate": name, **fields}})


def ask(method: str, **params: Any) -> Any:
    """Send a request and return its result; its error is a text."""
    global asked  # noqa: PLW0603
    asked += 1
    send(id=f"a{asked}", method=method, params={"sessionId": "s1", **params})
    while (found := receive()).get("id") != f"a{asked}":
        if found.get("method") == "session/cancel":
            raise KeyboardInterrupt
    return found.get("result") if "error" not in found else f"refused: {found['error']['message']}"


def say(text: str) -> None:
    update("agent_message_chunk", content={"type": "text", "text": text})


def permission(kind: str, title: str) -> str:
    options = [{"optionId": one, "name": one, "kind": one} for one in ("allow_once", "reject_once")]
    call = {"toolCallId": "t1", "kind": kind, "title": title, "rawInput": {"what": title}}
    return ask("session/request_permission", toolCall=call, options=options)["outcome"].get("optionId", "cancelled")


def do(command: str, rest: str, told: dict[str, Any]) -> None:  # noqa: PLR0912
    match command:
        case "say":
            say(rest)
        case "plan":
            entries = [
                {"content": "look", "priority": "high", "status": "completed"},
                {"content": "write", "priority": "high", "status": "in_progress"},
            ]
            update("plan", entries=entries)
        case "call":
            update("tool_call", toolCallId="t", title=rest, kind="edit", status="pending")
        case "ask":
            say(permission("edit", rest))
        case "run":
            say(permission("execute", rest))
        case "write":
            name, _, content = rest.partition(" ")
            say(str(ask("fs/write_text_file", path=str(Path(cwd, name)), content=content)))
        case "read":
            said = ask("fs/read_text_file", path=str(Path(cwd, rest)))
            say(said["content"] if isinstance(said, dict) else said)
        case "touch":
            Path(cwd, rest).write_text("made\n")
        case "count":
            with Path(os.environ["COUNT"]).open("a") as file:
                file.write(f"{os.getpid()}\n")
        case "child":
            child = subprocess.Popen(["sleep", "600"], start_new_session=True, stdin=subprocess.DEVNULL)
            Path(os.environ["PIDS"]).write_text(f"{os.getpid()} {child.pid}")
        case "sleep":
            time.sleep(float(rest))
        case "die":
            sys.stderr.write("it hurts\n")
            os._exit(3)
        case "raw":
            sys.stdout.write(rest.replace("\\n", "\n"))
            sys.stdout.flush()
        case "flood":
            while True:
                sys.stdout.write("x" * 65536 if rest == "line" else "x\n" * 10000)
        case "shout":
            for _ in range(int(rest)):
                say("x" * 10_000)
        case "error":
            raise RuntimeError(rest)
        case "wait":
            while receive().get("method") != "session/cancel":
                pass
            raise KeyboardInterrupt
        case "ignore":
            while True:
                receive()
        case _:
            report(command, rest, told)


def ask_model(requests: int, told: dict[str, Any]) -> None:
    """Ask the model at `MODEL` so many times, say its last answer, and report what that has used."""
    address = urlsplit(os.environ["MODEL"])
    used, text = [0, 0], ""
    for number in range(requests):
        asked = {"model": "coder", "messages": [{"role": "user", "content": f"{text} {number}"}]}
        connection = HTTPConnection(str(address.hostname), address.port)
        connection.request("POST", f"{address.path}/chat/completions", json.dumps(asked))
        answer = json.load(connection.getresponse())
        connection.close()
        text = answer["choices"][0]["message"]["content"]
        used = [used[0] + answer["usage"]["prompt_tokens"], used[1] + answer["usage"]["completion_tokens"]]
    say(text)
    report("tokens", f"{used[0]} {used[1]}", told)


def report(command: str, rest: str, told: dict[str, Any]) -> None:
    """Say what it has used, or why it stops."""
    match command:
        case "tokens":
            inputs, outputs = map(int, rest.split())
            told["usage"] = {"inputTokens": inputs, "outputTokens": outputs, "totalTokens": inputs + outputs}
        case "cost":
            update("usage_update", used=1, size=2, cost={"amount": float(rest), "currency": "USD"})
        case "stop":
            told["stopReason"] = rest
        case "model":
            ask_model(int(rest), told)
        case _:
            say(f"? {command}")


def prompted(params: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {"stopReason": "end_turn"}
    text = params["prompt"][-1]["text"]
    if text.startswith("You asked"):
        text = f"say {text.split('. ')[1]}"
    try:
        for one in text.splitlines()[-1].split(";"):
            command, _, rest = one.strip().partition(" ")
            do(command, rest, told)
    except KeyboardInterrupt:
        told["stopReason"] = "cancelled"
    return told


def main() -> None:
    global cwd  # noqa: PLW0603
    while True:
        message = receive()
        method, params = message.get("method"), message.get("params", {})
        match method:
            case "initialize":
                send(id=message["id"], result={"protocolVersion": 1, "agentCapabilities": {"loadSession": loads}})
            case "session/new" | "session/load":
                cwd = params["cwd"]
                if method == "session/load":
                    say("what was said before")
                send(id=message["id"], result={"sessionId": "s1"})
            case "session/prompt":
                try:
                    send(id=message["id"], result=prompted(params))
                except RuntimeError as error:
                    send(id=message["id"], error={"code": -32603, "message": str(error)})
            case _:
                pass


main()
