"""The work of a child process: drive a run of a scenario, and die at a given journal write."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

from teamwright.journal.location import is_url
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.runtime.engine import Engine
from teamwright.testing.model_server import ChatAnswer, ChatRequest, ModelServer
from teamwright.values.people import Intervention
from teamwright.values.turns.results import FINAL, RunResult
from tests.kit.killing_journal import KillingJournal, When
from tests.kit.postgres_commits import watch_commits
from tests.laws.crash import scenarios
from tests.laws.crash.approvals import answer_to

RUN_ID = "crashed"
SEED = 4711


class KillingPostgres(PostgresJournal):
    """A journal in Postgres whose process dies by SIGKILL before or after its nth commit."""

    def __init__(self, url: str, write: int | None = None, when: When = "before") -> None:
        super().__init__(url)
        self._fatal, self._when = write, when
        self.writes = 0

    async def open(self) -> None:
        """Connect, and count the commits from now on."""
        await super().open()
        watch_commits(self._begin_write, lambda: self._die("after"))

    def _begin_write(self) -> None:
        self.writes += 1
        self._die("before")

    async def send(self, run_id: str, intervention: Intervention) -> None:
        """Send an intervention, which counts as a write."""
        self._begin_write()
        await super().send(run_id, intervention)
        self._die("after")

    def _die(self, when: When) -> None:
        if self.writes == self._fatal and when == self._when:
            os.kill(os.getpid(), signal.SIGKILL)


def warm_up(scenario: str, **_: Any) -> None:
    """Drive the scenario once before the fork, so that children repeat no imports and build no models of pydantic."""
    _drive_once(scenario)


@cache
def _drive_once(scenario: str) -> None:
    made, seen = scenarios.SCENARIOS[scenario], Counter[str | None]()

    def answer(request: ChatRequest) -> ChatAnswer:
        seen[request.idempotency_key] += 1
        return made.answer(request, times=seen[request.idempotency_key])

    with ModelServer(answer) as server, TemporaryDirectory() as folder:
        drive(scenario, server.call_url, f"{folder}/journal.db")


def drive(
    scenario: str,
    url: str,
    journal: str,
    *,
    resume: bool = False,
    write: int | None = None,
    when: When = "before",
    locked: bool = True,
) -> dict[str, Any]:
    """Run or resume a scenario, answer its questions, and return its result if the child survives."""
    made: KillingJournal | KillingPostgres
    if is_url(journal):
        made = KillingPostgres(journal, write, when)
    else:
        made = KillingJournal(journal, write, when, locked=locked)
    return asyncio.run(_drive(scenario, url, made, resume=resume))


async def _drive(scenario: str, url: str, journal: KillingJournal | KillingPostgres, *, resume: bool) -> dict[str, Any]:
    made = scenarios.SCENARIOS[scenario]
    team = made.team(url)
    # The seed determines what the clock draws, so every run of a scenario draws the same.
    async with Engine(journal, seed=lambda: SEED) as engine:
        if not resume:
            sent = [item.intervention for item in await journal.inbox(RUN_ID)]
            for one in made.inbox[len(sent) :]:
                await journal.send(RUN_ID, one)
            result = await engine.run(team, scenarios.TASK, run_id=RUN_ID, attachments=made.attachments)
        elif (recorded := await engine.runs.result(RUN_ID)).status in FINAL:
            result = recorded
        else:
            result = await engine.resume(RUN_ID, team=team)
        while result.status == "paused":
            for key, question in (await engine.runs.history(RUN_ID)).questions().items():
                await engine.runs.answer(RUN_ID, key, answer_to(key, question))
            result = await engine.resume(RUN_ID, team=team)
    return comparable(result) | {"writes": journal.writes}


def comparable(result: RunResult) -> dict[str, Any]:
    """The result without its times, which differ after a resume."""
    return {name: value for name, value in result.to_json().items() if name not in {"started_at", "seconds"}}
