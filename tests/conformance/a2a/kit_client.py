"""A plugin for the kit's own pytest: what its clients lack that call a server of ours.

Each test shows a token of its own, since the kit gives different messages the same id, which with the same token would
be the same task. The text of a message begins with its id, by which the kit names the scenario that it wants. With
`KIT_KILL`, the server is killed before every so many requests about a task that exists.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import pytest

EVERY = int(os.environ.get("KIT_KILL", "0"))
plain = httpx.Client.build_request


class Shown:
    """The token of the present test, and how many requests about tasks there were."""

    tokens: Iterator[str] = cycle(json.loads(os.environ["KIT_TOKENS"]))
    token = next(tokens)
    requests = 0


def kill() -> None:
    """Kill the server, and wait until another one answers."""
    file = Path(os.environ["KIT_SERVER"])
    before = file.read_text()
    os.kill(int(before), signal.SIGKILL)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            if file.read_text() != before:
                httpx.get(f"{os.environ['KIT_URL']}/api/session")
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise RuntimeError("the server does not come back")


def is_about_task(method: str, url: str, body: Any) -> bool:
    """Whether a request is about a task that an earlier one has started."""
    called = str(body.get("method", "")) if isinstance(body, dict) else ""
    return called in {"GetTask", "CancelTask", "SubscribeToTask", "ListTasks"} or "/tasks" in url


def build_request(self: httpx.Client, method: str, url: Any, **given: Any) -> httpx.Request:
    """Build a request with a token and with the scenario in its message."""
    body = given.get("json")
    if EVERY and is_about_task(method, str(url), body):
        Shown.requests += 1
        if Shown.requests % EVERY == 0:
            kill()
    if isinstance(body, dict):
        body = json.loads(json.dumps(body))
        params = body.get("params", body)
        message = params.get("message") if isinstance(params, dict) else None
        if isinstance(message, dict) and (parts := message.get("parts")) and "text" in parts[0]:
            parts[0]["text"] = f"{message.get('messageId')} {parts[0]['text']}"
        given["json"] = body
    request = plain(self, method, url, **given)
    request.headers.setdefault("Authorization", f"Bearer {Shown.token}")
    return request


httpx.Client.build_request = build_request


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Show another token in each test."""
    assert item.nodeid
    Shown.token = next(Shown.tokens)
