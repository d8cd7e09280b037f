"""HTTP replies and sockets: a real model agent calls a loopback server that answers with hostile bytes or stalls."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import ClassVar, cast

import anyio
from pydantic import JsonValue

from teamwright.agents.clients.client_pool import HEAVY
from teamwright.agents.model.agent import ModelAgent
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.runtime.engine import Engine
from teamwright.runtime.people.webhook import TIMEOUT, Webhook, post
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.retries import RetryPolicy, RetryWaits
from teamwright.values.specs.models import ServerModel
from teamwright.values.turns.results import RunResult
from tests.fuzz.case import Outcome, Violation
from tests.fuzz.hostile_server import HostileServer, Step
from tests.fuzz.model_answers import (
    body_answer,
    chunks,
    cut_answer,
    events,
    head,
    hostile_answer,
    hostile_body,
    whole_answer,
)
from tests.fuzz.mutation import mutated_bytes
from tests.fuzz.targets.protocol import CORPUS, check_size, check_words

PATIENCE = 1.0
"""Seconds that one request may take."""
ALL_THE_TIME = 15.0
"""The same for a right answer, which has to be taken on a busy machine as well."""
RETRY = RetryPolicy(times=1, backoff=RetryWaits(min=0.01, max=0.02))
SCHEMA: JsonValue = {"type": "object", "required": ["score"], "properties": {"score": {"type": "integer"}}}
MOST_REPLY = 5 << 20
RUN = "run"


def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word[:20]} is a word"


class Replies:
    """Bodies of a server that does not mean well: cut, garbled, huge, endless, of wrong types, oddly framed."""

    name: ClassVar[str] = "replies"
    weight: ClassVar[float] = 3.0
    seconds: ClassVar[float] = 25.0
    load: ClassVar[float] = 0.25
    heavy: ClassVar[str] = HEAVY

    def __init__(self, folder: Path) -> None:
        self._folder, self._server, self._number = folder, HostileServer(), 0

    def corpus(self) -> list[JsonValue]:
        return cast("list[JsonValue]", json.loads((CORPUS / f"{self.name}.json").read_text()))

    def draw(self, random: Random) -> JsonValue:
        shape = random.choice(("plain", "plain", "tools", "schema"))
        roll = random.random()
        if random.random() < 0.5:
            if roll < 0.04:
                return {**_payload([body_answer(random)], "plain", "completed"), "whole": True}
            return {**_payload([hostile_body(random) for _ in range(random.choice((1, 2, 4)))], shape), "whole": True}
        if roll < 0.04:
            return _payload([whole_answer(random)], "plain", "completed")
        if roll < 0.14:
            return _payload([cut_answer(random)], "plain", "failed")
        return _payload([hostile_answer(random) for _ in range(random.choice((1, 2, 4)))], shape)

    def run(self, payload: JsonValue) -> Outcome:
        given = cast("dict[str, JsonValue]", payload)
        scripts = cast("list[list[Step]]", given["scripts"])
        self._server.play(scripts, early=bool(given.get("early")))
        if given["shape"] == "webhook":
            return self._notify()
        self._number += 1
        file = self._folder / f"journal-{self._number}.db"
        try:
            url = str(given.get("url") or self._server.url)
            patience = ALL_THE_TIME if given.get("wanted") == "completed" else PATIENCE
            result, recorded = anyio.run(_ask, file, url, str(given["shape"]), patience, bool(given.get("whole")))
        finally:
            self._server.hang_up()
            for one in self._folder.glob(f"{file.name}*"):
                one.unlink(missing_ok=True)
        _check(result, recorded, json.dumps(scripts))
        wanted = given.get("wanted")
        if wanted is not None and result.status != wanted:
            said = result.output or (result.failure.message if result.failure else "")
            raise Violation("status", f"a reply that had to be {wanted} is {result.status}", said[:500])
        return "accepted" if result.status in {"completed", "degraded"} else "refused"

    def close(self) -> None:
        self._server.close()

    def _notify(self) -> Outcome:
        """Call a webhook on the server: it succeeds, or reports a reason, in time."""
        webhook = Webhook(f"http://127.0.0.1:{self._server.port}/hook", None, allow_private=True)
        since = time.monotonic()
        response = post(webhook, "msg_1", 1, b"{}")
        if (took := time.monotonic() - since) > 2 * TIMEOUT:
            raise Violation("slow", "a webhook was waited for too long", took)
        if response.error is not None:
            check_size(response.error)
        return "accepted" if response.error is None else "refused"


class Sockets(Replies):
    """Connections that are slow, silent, reset or half closed, at any byte of a right answer."""

    name: ClassVar[str] = "sockets"
    weight: ClassVar[float] = 2.0
    seconds: ClassVar[float] = 25.0
    load: ClassVar[float] = 0.25
    heavy: ClassVar[str] = HEAVY

    def corpus(self) -> list[JsonValue]:
        return [_payload([[("hold", 9)]]), {**_payload([[]]), "url": "http://127.0.0.1:9/v1"}]

    def draw(self, random: Random) -> JsonValue:
        text = head() + events(chunks(random)).encode("utf-8", "surrogatepass").decode("latin-1")
        scripts = [_connection(random, text) for _ in range(random.choice((1, 1, 2)))]
        shape = "webhook" if random.random() < 0.15 else "plain"
        return {**_payload(scripts, shape), "early": random.random() < 0.05}


def _payload(scripts: list[list[Step]], shape: str = "plain", wanted: str | None = None) -> dict[str, JsonValue]:
    plain = cast("JsonValue", [[list(step) for step in script] for script in scripts])
    return {"scripts": plain, "shape": shape, "wanted": wanted}


def _connection(random: Random, text: str) -> list[Step]:
    place = random.randrange(len(text) + 1)
    before, after = text[:place], text[place:]
    garbage = bytes(random.randrange(256) for _ in range(200)).decode("latin-1")
    ways: tuple[list[Step], ...] = (
        [("send", before), ("reset", 0)],
        [("send", before), ("half", random.choice((0.0, 0.1, 5.0)))],
        [("send", before), ("hold", 5.0)],
        [("send", before), ("pause", random.choice((0.05, 0.3, 2.0))), ("send", after)],
        [("drip", text[:400]), ("send", text[400:])],
        [("drip", text)],
        [("reset", 0)],
        [("send", mutated_bytes(random, text.encode("latin-1")).decode("latin-1"))],
        [("send", garbage), ("hold", 0.1)],
    )
    return random.choice(ways)


async def _ask(file: Path, url: str, shape: str, patience: float, whole: bool) -> tuple[RunResult, list[Event]]:
    """Run one agent on the server, with a journal on disk; then read it again as another process would.

    A run is followed, so that replies are streamed, unless they are to be `whole`.
    """
    agent = ModelAgent(
        "m",
        model=ServerModel(url=url, name="m"),
        tools=[look_up, "terminate"] if shape == "tools" else (),
        output_schema=cast("dict[str, JsonValue]", SCHEMA) if shape == "schema" else None,
        timeout=patience,
        retry=RETRY,
        max_tokens=50 if shape == "schema" else None,
    )
    async with Engine(SqliteJournal(file)) as engine:
        with nullcontext() if whole else engine.bus.listening(lambda _: None):
            result = await engine.run(Team("t", members=[agent]), "Say something.", run_id=RUN)
    async with Engine(SqliteJournal(file)) as engine:
        again, recorded = await engine.runs.result(RUN), await engine.journal.read(RUN)
    if again.to_json() != result.to_json():
        raise Violation("record", "the record tells another result", f"{result!r} and then {again!r}")
    return result, recorded


def _check(result: RunResult, recorded: list[Event], given: str) -> None:
    if [one.number for one in recorded] != list(range(1, len(recorded) + 1)):
        raise Violation("gap", "the numbers of events have a gap")
    if [one.kind for one in recorded].count("run.ended") != 1 or recorded[-1].kind != "run.ended":
        raise Violation("ending", "a run has not exactly one ending, as its last event")
    told = json.dumps(result.to_json())
    if len(result.output or "") > MOST_REPLY:
        raise Violation("size", "a reply is longer than any may be", len(result.output or ""))
    check_size(told)
    for name, figure in result.usage.to_json().items():
        if figure is not None and not 0 <= cast("float", figure) < 1e15:
            raise Violation("usage", f"{name} is out of bounds", figure)
    if result.failure is not None:
        check_words(result.failure.message, given)
        if result.failure.error == "error":
            raise Violation("kind", "a failure of no known kind", result.failure.message[:1000])
