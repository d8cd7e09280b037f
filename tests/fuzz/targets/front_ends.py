"""What front ends send to the door of AG-UI: inputs of runs and answers, whole, mutated and broken."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, ClassVar, cast

import httpx2
from pydantic import JsonValue

from tests.fuzz.case import Outcome, Violation
from tests.fuzz.mutation import mutated_json
from tests.fuzz.targets.protocol import check_words
from tests.fuzz.targets.served import ONE, ROLES, ServedTarget

GATED = "agents: {a: {model: scripted:replies.yaml, confirm: {after: true}}}\nteams: {two: {members: [a]}}\n"
TOKENS = ('"resume": []', '"runId": ""', '"role": "tool"', "}{", "[", "\\ud800", "null", "1" * 5000, "INTERRUPT")
PATHS = ("/agui/one", "/agui/two")
INTERRUPT = "INTERRUPT"
"""What stands for the id of a question that waits."""
TERMINAL = frozenset(("RUN_FINISHED", "RUN_ERROR"))


class FrontEnds(ServedTarget):
    """The door of AG-UI. A request never breaks the server, and who may not run a team starts nothing."""

    name: ClassVar[str] = "agui"
    teams: ClassVar[Mapping[str, str]] = {"one": ONE, "two": GATED}

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._waiting, self._threads = "", 0

    def corpus(self) -> list[JsonValue]:
        return [{"text": text, "role": role, "path": path} for text in self._texts for role in ROLES for path in PATHS]

    def draw(self, random: Random) -> JsonValue:
        text = random.choice(self._texts)
        text = mutated_json(random, text, TOKENS, self._texts)
        return {"text": text, "role": random.choice((*ROLES, "run", "run")), "path": random.choice(PATHS)}

    def run(self, payload: JsonValue) -> Outcome:
        given = cast("dict[str, str]", payload)
        if INTERRUPT in given["text"]:
            waiting = self._interrupt()
            thread = f'"threadId": "waiting-{self._threads}"'
            text = given["text"].replace(INTERRUPT, waiting).replace('"threadId": "waiting"', thread)
            given = {**given, "text": text}
        self._threads += 1
        # not the same run again
        fresh = given["text"].replace('": "r-', f'": "r-{self._threads}-').replace('": "t-', f'": "t-{self._threads}-')
        return self.send(given["role"], fresh, partial(self._send, given["path"], fresh))

    def _interrupt(self) -> str:
        """The id of a question of a run that waits."""
        self._threads += 1
        ids = {"threadId": f"waiting-{self._threads}", "runId": f"waiting-{self._threads}"}
        body = json.dumps({**ids, "messages": [{"id": "u", "role": "user", "content": "Go"}]})
        answer = self._portal.call(self._send, PATHS[1], body, self._tokens["run"])
        return str(_events(answer.text)[-1]["outcome"]["interrupts"][0]["id"])

    async def _send(self, path: str, text: str, token: str) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        return await self._http.post(path, content=text.encode("utf-8", "surrogatepass"), headers=headers)

    def check(self, answer: httpx2.Response, given: str) -> None:
        super().check(answer, given)
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            check_stream(answer.text, given)


def check_stream(stream: str, given: str) -> None:
    """A stream begins and ends with the run, and what it says is in words of ours."""
    events = _events(stream)
    if events[0]["type"] != "RUN_STARTED" or events[-1]["type"] not in TERMINAL:
        raise Violation("cut off", "the stream is not whole", stream[:1000])
    for one in events:
        if one["type"] == "RUN_ERROR" and one.get("code") == "internal":
            raise Violation("broken", "the error is one of the server itself", json.dumps(one)[:1000])
        if one["type"] in {"CUSTOM", "RUN_ERROR"}:
            check_words(str(one.get("message") or one["value"]["message"]), given)


def _events(stream: str) -> list[dict[str, Any]]:
    return [json.loads(one.removeprefix("data: ")) for one in stream.split("\n\n") if one and not one.startswith(":")]
