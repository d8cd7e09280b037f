"""The counting server of the soak: answers every member and model the same whenever the same is asked."""

from __future__ import annotations

import re
import threading
from collections import Counter
from random import Random

from pydantic import JsonValue

from teamwright.testing.model_server import CallTools, ChatAnswer, ChatRequest, ModelServer, Say, SayJson, ToolCall

LONGEST_DELAY = 0.6
"""Seconds before an answer, at most: long enough to be stopped in the middle of it."""
DECISIONS: tuple[JsonValue, ...] = (
    {"action": "delegate", "delegations": [{"specialist": "a", "task": "one"}, {"specialist": "b", "task": "two"}]},
    {"action": "delegate", "delegations": [{"specialist": "a", "task": "three"}]},
)


class CountingServer:
    """A model server that knows which run asked, by the key that the run was given."""

    def __init__(self, seed: int) -> None:
        self._random, self._lock = Random(seed), threading.Lock()
        self._keyed: Counter[str] = Counter()
        self._models: Counter[str] = Counter()
        self._arrived: Counter[str] = Counter()
        self.fixed: set[str] = set()
        """Keys of runs that are answered without delay."""
        self.server = ModelServer(self._answer)

    @property
    def url(self) -> str:
        return self.server.call_url

    def calls(self, idempotency_key: str) -> int:
        """How often an effect with this idempotency key has arrived."""
        with self._lock:
            return self._keyed[idempotency_key]

    def model_requests(self, key: str) -> int:
        """How many model requests have come from the run with this key."""
        with self._lock:
            return self._models[key]

    def arrived(self, key: str) -> int:
        """How many requests of any kind have come from the run with this key."""
        with self._lock:
            return self._arrived[key]

    def close(self) -> None:
        self.server.close()

    def _answer(self, request: ChatRequest) -> ChatAnswer:
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        with self._lock:
            self._arrived[key] += 1
            if request.idempotency_key:
                self._keyed[request.idempotency_key] += 1
            elif request.path != "/call":
                self._models[key] += 1
            delay = 0.0 if key in self.fixed else self._random.random() ** 2 * LONGEST_DELAY
        return _said(request, delay)


def _said(request: ChatRequest, delay: float) -> ChatAnswer:
    if request.path != "/call":
        used = sum(bool(one.tool_calls) for one in request.messages)
        if request.tools and not used:
            word = ToolCall(name="look_up", args={"word": "one"}), ToolCall(name="look_up", args={"word": "two"})
            return CallTools(calls=word, delay=delay)
        return Say(text="The model has an answer.", delay=delay)
    if request.model == "boss":
        found = re.search(r"This is decision (\d+)", request.prompt)
        place = int(found[1]) - 1 if found else len(DECISIONS)
        last: JsonValue = {"action": "synthesize", "synthesis": "All done."}
        return SayJson(data=DECISIONS[place] if place < len(DECISIONS) else last, delay=delay)
    return Say(text=f"{request.model} has done its part", delay=delay)
