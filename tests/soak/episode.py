"""One run and its forks, disturbed at random and resumed until it has ended; then checked against the laws."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import anyio

from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.values.turns.results import FINAL
from tests.soak.laws import Seen, check_calls, check_limits, check_record, comparable, look, model_calls
from tests.soak.processes import GRACE, LONGEST, SLOWNESS, Process
from tests.soak.report import Report
from tests.soak.server import CountingServer
from tests.soak.teams import SoakTeam

TASK = "Say who has done what."
STOPS: Mapping[str, tuple[signal.Signals, ...]] = {
    "kill": (signal.SIGKILL,),
    "int": (signal.SIGINT,),
    "term": (signal.SIGTERM,),
    "int twice": (signal.SIGINT, signal.SIGINT),
    "term twice": (signal.SIGTERM, signal.SIGTERM),
    "term, kill": (signal.SIGTERM, signal.SIGKILL),
}
ACTIONS = ("kill", "kill", "kill", *STOPS, "cancel", "pause", "pause", "second driver")
MOST_DRIVERS = 15
STARTUP = 2.0
"""Seconds that a process takes before it does anything, about."""
WINDOW = 1.5
"""Seconds after the first call of a driver within which it is disturbed."""
EARLY = 0.2
"""The share of disturbances that may come while the process still starts."""
ENDINGS = {0, 3, 4, 6, 7, 130, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT}
"""Exit codes of a driver: its run's, or how it was stopped."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a soak: one journal and one server for all its runs."""

    folder: Path
    server: CountingServer
    report: Report
    teams: Mapping[str, Path]
    references: Mapping[str, Any]
    environment: Mapping[str, str]

    @property
    def journal(self) -> Path:
        return self.folder / "home" / "journal.db"


@dataclass(slots=True)
class Episode:
    """The run with this number, and what was done to it; the same for the same seed and number, but for timing."""

    place: Place
    team: SoakTeam
    number: int
    random: Random
    deadline: float
    """When disturbances end, so that the run can finish."""
    cancelled: set[str] = field(default_factory=set[str])
    family: list[str] = field(default_factory=list[str])
    started: int = 0

    @property
    def key(self) -> str:
        return f"soak-{self.place.report.seed}-{self.number}"

    def play(self) -> None:
        """Run, disturb, resume and check; then perhaps fork, and the same again."""
        run_id = f"{self.team.name}-{self.number}"
        start = ("run", str(self.place.teams[self.team.name]), TASK, "--run-id", run_id, "--no-input", "--quiet")
        seen = self._drive(run_id, start)
        if seen is not None and self.random.random() < 0.4 and time.monotonic() < self.deadline:
            fork = f"{run_id}-fork"
            at = ("--at", str(self.random.randint(1, len(seen.events)))) if self.random.random() < 0.7 else ()
            self.place.report.count(self.team.name, "fork")
            self._drive(fork, ("runs", "fork", run_id, *at, "--run-id", fork, "--no-input", "--quiet"))
        self._check_family()

    def _drive(self, run_id: str, start: tuple[str, ...]) -> Seen | None:
        """Drive a run to its end, through whatever happens to its drivers."""
        resume = ("runs", "resume", run_id, "--no-input", "--quiet")
        left, seen = self.random.choice((0, 1, 1, 2, 2, 3, 4)), None
        for _ in range(MOST_DRIVERS):
            process = self._start(*(start if seen is None else resume))
            try:
                if left and time.monotonic() < self.deadline:
                    left -= 1
                    self._disturb(run_id, process)
                code = process.wait(LONGEST)
                if code is None:
                    self._breach(run_id, f"a driver did not end in {LONGEST:.0f} s", process)
                    return None
                if code == 2 and seen is None and start[1] == "fork":
                    return None  # no point of the run at which a fork can begin
                self._check_process(run_id, process, code)
            finally:
                process.end()
            seen = self._look(run_id)
            if seen is not None and seen.result.status in FINAL:
                self._check_end(run_id, seen)
                return seen
            if seen is not None:
                self.place.report.breach(run_id, *check_record(seen))
                self._answer(run_id, seen)
        self._breach(run_id, f"it has not ended after {MOST_DRIVERS} drivers")
        return None

    def _disturb(self, run_id: str, process: Process) -> None:
        """Do something to a run at a random moment."""
        action = self.random.choice(ACTIONS)
        self._await_moment(process)
        if not process.running:
            return
        self.place.report.count(self.team.name, action)
        if action in STOPS:
            self._stop(run_id, process, STOPS[action])
        elif action == "second driver":
            self._finish("runs", "resume", run_id, "--no-input", "--quiet")
        elif self._finish("runs", action, run_id) == 0:
            if action == "cancel":
                self.cancelled.add(run_id)
            self._await_stop(run_id, process, f"a {action}")

    def _await_moment(self, process: Process) -> None:
        """Wait for a random moment: mostly one after the driver's first call, else any after its start."""
        server, early = self.place.server, self.random.random() < EARLY
        before, wait = server.arrived(self.key), self.random.random() * (STARTUP if early else WINDOW)
        while process.running and not early and server.arrived(self.key) == before:
            time.sleep(0.01)
        end = time.monotonic() + wait
        while process.running and time.monotonic() < end:
            time.sleep(0.005)

    def _stop(self, run_id: str, process: Process, signals: Sequence[signal.Signals]) -> None:
        for number in signals:
            process.send(number)
            if len(signals) > 1:
                time.sleep(self.random.random() * 0.2)
        self._await_stop(run_id, process, signals[-1].name)

    def _await_stop(self, run_id: str, process: Process, what: str) -> None:
        since = time.monotonic()
        if process.wait(GRACE + SLOWNESS) is None:
            self._breach(run_id, f"it did not stop {GRACE:.0f} s after {what}", process)
            process.send(signal.SIGKILL)
        self.place.report.stopped(time.monotonic() - since)

    def _answer(self, run_id: str, seen: Seen) -> None:
        for key in seen.questions:
            self.place.report.count(self.team.name, "answer")
            self._finish("runs", "answer", run_id, "--key", key, "approve")

    def _start(self, *arguments: str) -> Process:
        self.started += 1
        log = self.place.folder / "logs" / f"{self.team.name}-{self.number}-{self.started}.txt"
        if arguments[:2] == ("runs", "resume"):
            self.place.report.count(self.team.name, "resume")
        return Process(arguments, {**self.place.environment, "SOAK_KEY": self.key}, log)

    def _finish(self, *arguments: str) -> int | None:
        """Run a command that acts on the run, to its end."""
        process = self._start(*arguments)
        try:
            code = process.wait(LONGEST)
            if code is None:
                self._breach(arguments[2], f"`{' '.join(arguments[:2])}` did not end in {LONGEST:.0f} s", process)
            elif "Traceback" in (text := process.text()) or "unexpected " in text:
                self._breach(arguments[2], f"`{' '.join(arguments[:2])}` broke", process)
            return code
        finally:
            process.end()

    def _look(self, run_id: str) -> Seen | None:
        if not self.place.journal.exists():
            return None
        return anyio.run(look, SqliteJournal(self.place.journal), run_id)

    def _check_process(self, run_id: str, process: Process, code: int) -> None:
        text = process.text()
        if code not in ENDINGS:
            self._breach(run_id, f"a driver ended with {code}", process)
        elif code != -signal.SIGINT and ("Traceback" in text or "unexpected " in text):
            # Python itself ends so, with its own traceback, before the program begins.
            self._breach(run_id, "a driver broke", process)
        if process.left_behind():
            self._breach(run_id, f"a driver that ended with {code} left processes behind", process)

    def _check_end(self, run_id: str, seen: Seen) -> None:
        """The laws of a run that has ended."""
        self.family.append(run_id)
        team, report = self.team, self.place.report
        report.ended(team.name, seen.result.status)
        report.breach(run_id, *check_record(seen), *check_calls(run_id, seen, self.place.server))
        report.breach(run_id, *check_limits(seen, team))
        if seen.driven:
            report.breach(run_id, "its lock is still held")
        if run_id in self.cancelled and seen.result.status == "cancelled":
            return
        wanted = self.place.references[team.name]
        if team.repeatable and (came := comparable(seen.result, team)) != wanted:
            report.breach(run_id, f"it came to something else than undisturbed: {came} and not {wanted}")

    def _check_family(self) -> None:
        """Requests of models carry no idempotency key, so a run and its forks are counted together."""
        every = [seen for run_id in self.family if (seen := self._look(run_id)) is not None]
        announced, made = sum(map(model_calls, every)), self.place.server.model_requests(self.key)
        if every and made > announced:
            law = f"{made} model requests reached the server and {announced} were announced"
            self.place.report.breach(self.family[0], law)

    def _breach(self, run_id: str, law: str, process: Process | None = None) -> None:
        said = "" if process is None else f" (see {process.log.name}: {process.text()[-400:].strip()})"
        self.place.report.breach(run_id, law + said)
