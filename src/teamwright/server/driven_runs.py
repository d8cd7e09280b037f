"""The runs that a server drives. A file beside the journal says which, so that it resumes them after a restart.

A run is in the file before it starts, and leaves it when it has ended: at a crash in between, it is resumed. Runs that
other programs drive are never taken over.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import anyio

from teamwright.errors import NotResumable, RunIsLive, TeamwrightError, UsageError
from teamwright.journal.location import FILE_MODE, make_folder
from teamwright.runtime.background_tasks import BackgroundTasks
from teamwright.runtime.driver.driver_lock import driver_lock
from teamwright.runtime.driver.run_id import new_run_id
from teamwright.runtime.engine import Engine
from teamwright.values.results import FINAL
from teamwright.values.secrets.patterns import mask_text

if TYPE_CHECKING:
    from teamwright.runtime.handle import Handle
    from teamwright.teams.team import Team
    from teamwright.values.limits.limits import Limits
    from teamwright.values.results import RunResult
    from teamwright.values.turns.messages import Message

LOG = logging.getLogger("teamwright")
LOCK = "!server"
"""The name of the lock that keeps a second server off the journal; no run can have it."""
RESUMED_INTERVAL = 0.05
"""Seconds between two looks at a run that is about to be resumed."""
State = Literal["driven", "paused", "ended"]


class DrivenFile:
    """An append-only file of states, the last of each run counts. A line that a crash cut off is ignored.

    `requests` has the identity of the request that started a run, where the same request has to find it again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.states: dict[str, State] = {}
        self.requests: dict[str, str] = {}

    def load(self) -> None:
        """Read the file and write it again without ended runs."""
        self.states, self.requests = {}, {}
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    entry = json.loads(line)
                    self.states[entry["run"]] = entry["state"]
                    if "request" in entry:
                        self.requests[entry["run"]] = str(entry["request"])
                except (ValueError, KeyError, TypeError):
                    continue
        self.states = {run: state for run, state in self.states.items() if state != "ended"}
        self.requests = {run: request for run, request in self.requests.items() if run in self.states}
        make_folder(self._path.parent)
        part = self._path.with_suffix(".part")
        part.unlink(missing_ok=True)
        self._append(part, "".join(self._line(run, state) for run, state in self.states.items()))
        part.replace(self._path)

    def write(self, run_id: str, state: State, request: str = "") -> None:
        """Set the state of a run; it is on the disk when this returns."""
        self.states[run_id] = state
        if request:
            self.requests[run_id] = request
        elif state == "ended":
            self.requests.pop(run_id, None)
        self._append(self._path, self._line(run_id, state))

    def _line(self, run_id: str, state: State) -> str:
        entry = {"run": run_id, "state": state}
        if run_id in self.requests:
            entry["request"] = self.requests[run_id]
        return json.dumps(entry) + "\n"

    def _append(self, path: Path, text: str) -> None:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, FILE_MODE)
        try:
            os.write(file, text.encode())
            os.fsync(file)
        finally:
            os.close(file)


class DrivenRuns:
    """Starts and resumes runs for clients, and keeps track of them."""

    def __init__(self, engine: Engine, file: Path) -> None:
        self._engine, self._file = engine, DrivenFile(file)
        self._handles: dict[str, Handle] = {}
        self._not_resumed: set[str] = set()
        self._tasks = BackgroundTasks()

    def __contains__(self, run_id: object) -> bool:
        return isinstance(run_id, str) and self._file.states.get(run_id) == "driven"

    @property
    def requests(self) -> Mapping[str, str]:
        """The identity of the request that started each run, of those that have not ended."""
        return self._file.requests

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """Drive runs within this block; at its end they are interrupted, and resumed when it is entered again."""
        try:
            lock = driver_lock(self._engine.journal, LOCK)
            await lock.__aenter__()
        except RunIsLive:
            raise UsageError("Another server uses this journal; stop it, or name another with --journal.") from None
        try:
            await anyio.to_thread.run_sync(self._file.load)
            await self._tasks.open()
            self._tasks.group().start_soon(self._resume_all)
            yield
        finally:
            await self._tasks.close()
            await lock.__aexit__(None, None, None)

    async def start(
        self,
        team: Team,
        task: str,
        *,
        run_id: str | None = None,
        history: Sequence[Message] = (),
        continues: str | None = None,
        conversation: str | None = None,
        limits: Limits | None = None,
        budget: str | None = None,
        request: str = "",
    ) -> Handle:
        """Start a run, which this server drives from now on; with the id of a run that exists, nothing is started.

        `request` is the identity of a request that is to find the run again, also after a restart.
        """
        if run_id is not None and await self._engine.runs.find(run_id) is not None:
            return await self._engine.start(
                team, task, run_id=run_id, history=history, continues=continues, conversation=conversation
            )
        identity = run_id or new_run_id(time.time())
        await self._write(identity, "driven", request)
        try:
            handle = await self._engine.start(
                team,
                task,
                run_id=identity,
                history=history,
                continues=continues,
                conversation=conversation,
                limits=limits,
                budget=budget,
            )
        except BaseException:
            with anyio.CancelScope(shield=True):
                if await self._engine.journal.find(identity) is None:
                    await self._write(identity, "ended")
            raise
        return self._watch(handle)

    async def fork(
        self,
        run_id: str,
        *,
        at: int | str | None = None,
        retry: bool = False,
        task: str | None = None,
        limits: Limits | None = None,
    ) -> Handle:
        """Start a fork of a run, which this server drives from now on."""
        identity = new_run_id(time.time())
        await self._write(identity, "driven")
        try:
            handle = await self._engine.start_fork(
                run_id, at=at, retry=retry, task=task, new_id=identity, limits=limits
            )
        except TeamwrightError:
            await self._write(identity, "ended")
            raise
        return self._watch(handle)

    async def resume(self, run_id: str) -> Handle:
        """Resume a run, which this server drives from now on; raises `RunIsLive` if it is driven already."""
        before = self._file.states.get(run_id, "ended")
        await self._write(run_id, "driven")
        try:
            handle = await self._engine.start_resume(run_id)
        except RunIsLive:
            if run_id not in self._handles:
                await self._write(run_id, before)
            raise
        except TeamwrightError:
            await self._write(run_id, before)
            raise
        return self._watch(handle)

    async def wait(self, run_id: str) -> RunResult:
        """Wait until a run has ended or paused; one that this server is about to resume counts as driven."""
        while True:
            result = await self._engine.runs.wait(run_id)
            if result.status != "interrupted" or run_id not in self or run_id in self._not_resumed:
                return result
            await anyio.sleep(RESUMED_INTERVAL)

    async def resume_if_paused(self, run_id: str) -> bool:
        """Resume a run of this server that paused, now that it is answered; returns whether it was resumed."""
        if self._file.states.get(run_id) != "paused":
            return False
        try:
            await self.resume(run_id)
        except (RunIsLive, NotResumable):
            return False
        return True

    async def _resume_all(self) -> None:
        """Resume what this server was driving when it stopped, and paused runs that were answered meanwhile."""
        for run_id, state in list(self._file.states.items()):
            try:
                summary = await self._engine.runs.find(run_id)
                if summary is None:  # it never began, or a server over another journal beside this one drives it
                    continue
                if summary.status in FINAL:
                    await self._write(run_id, "ended")
                elif state == "driven" or await self._engine.runs.answers(run_id):
                    await self.resume(run_id)
            except TeamwrightError as error:
                self._not_resumed.add(run_id)
                LOG.warning("run %s can't be resumed: %s", run_id, mask_text(str(error)))

    def _watch(self, handle: Handle) -> Handle:
        if handle.drives:
            self._handles[handle.run_id] = handle
            self._tasks.group().start_soon(self._wait, handle)
        return handle

    async def _wait(self, handle: Handle) -> None:
        """Wait for the end of a run; when the server stops, the run is interrupted and stays in the file."""
        run_id = handle.run_id
        try:
            result = await handle.result()
        except TeamwrightError as error:
            LOG.warning("run %s stopped: %s", run_id, mask_text(str(error)))
        except Exception:
            LOG.exception("run %s stopped", run_id)
        else:
            if result.status in FINAL:
                await self._write(run_id, "ended")
            elif result.status == "paused":
                await self._write(run_id, "paused")
        finally:
            if self._handles.get(run_id) is handle:
                del self._handles[run_id]

    async def _write(self, run_id: str, state: State, request: str = "") -> None:
        if self._file.states.get(run_id, "ended") != state:
            await anyio.to_thread.run_sync(self._file.write, run_id, state, request)
