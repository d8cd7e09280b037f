"""The back ends of sandboxes: each holds what the suite tries, and is chosen by what the machine and the settings say.

A back end that this machine lacks is skipped, with the reason.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from teamwright.agents import sandbox as port, sandbox_back_ends as back_ends
from teamwright.agents.sandbox import Sandbox, start_process
from teamwright.agents.sandbox_back_ends import Bubblewrap, Sandlock, Unconfined, find_sandbox, named_sandbox
from teamwright.errors import AgentError, UnknownName, UsageError
from teamwright.testing.sandbox import FILES, PROCESSES, SandboxConformance
from teamwright.values.specs.tools import SandboxSettings
from teamwright.wings import Registered
from tests.kit.effects import is_gone, wait_until

PLAIN = SandboxSettings(seconds=30.0)


def usable(sandbox: Sandbox) -> Sandbox:
    """The sandbox; skips the test where this machine lacks what it needs."""
    if (problem := sandbox.problem(PLAIN)) is not None:
        pytest.skip(problem)
    return sandbox


class TestBubblewrap(SandboxConformance):
    def make(self) -> Sandbox:
        return usable(Bubblewrap())


class TestSandlock(SandboxConformance):
    def make(self) -> Sandbox:
        return usable(Sandlock())


class Nothing(SandboxConformance):
    """Confines nothing, so that its attempts say whether they try anything."""

    def make(self) -> Sandbox:
        return Unconfined()


async def test_the_attempts_of_the_suite_get_out_where_nothing_holds_them(tmp_path: Path) -> None:
    outside = tmp_path / "folder" / "outside"
    outside.parent.mkdir()
    outside.write_text("seen")
    values = {"outside": str(outside), "folder": str(outside.parent)}
    harmless = ("read", "write", "create", "mode", "time", "list", "read by a link", "write by a link", "leave by dots")
    assert await Nothing().attempt({one: FILES[one] for one in harmless}, tmp_path / "in", values) == list(harmless)
    with subprocess.Popen(["sleep", "30"]) as other:
        harmless = ("signal", "environment", "arguments", "root", "descriptors", "limits", "priority", "cores")
        attempts = {one: PROCESSES[one] for one in harmless}
        worked = await Nothing().attempt(attempts, tmp_path / "in", {"driver": other.pid})
        other.kill()
    assert worked == list(harmless)


@pytest.mark.parametrize("sandbox", [Unconfined(), Bubblewrap(), Sandlock()], ids=lambda one: one.name)
async def test_a_command_leaves_room_on_the_disk(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usable(sandbox)
    disk = os.statvfs(tmp_path)
    monkeypatch.setattr(back_ends, "KEEP_FREE", disk.f_bavail * disk.f_frsize - (32 << 20))
    monkeypatch.setattr(back_ends, "_free", lambda _folder: 1 << 62)
    outcome = await sandbox.run(["sh", "-c", "while true; do cat /usr/bin/* >> full; done"], tmp_path, PLAIN)
    assert outcome.excess == "disk"


async def test_hosts_are_reached_by_name_alone(tmp_path: Path) -> None:
    sandlock = usable(Sandlock())
    with socket.create_server(("127.0.0.1", 0)) as allowed, socket.create_server(("127.0.0.1", 0)) as other:
        ports = allowed.getsockname()[1], other.getsockname()[1]
        code = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3); print('reached')"
        settings = PLAIN.model_copy(update={"network": (f"localhost:{ports[0]}",)})
        found = [
            await sandlock.run(["python3", "-c", code, "localhost", str(one)], tmp_path, settings) for one in ports
        ]
    assert [one.output.endswith("reached\n") for one in found] == [True, False]


async def test_all_of_the_network_is_given_by_a_star(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 3); print('reached')"
        for sandbox in (usable(Bubblewrap()), usable(Sandlock())):
            settings = PLAIN.model_copy(update={"network": ("*",)})
            assert (await sandbox.run(["python3", "-c", code], tmp_path, settings)).output == "reached\n"


def test_hosts_by_name_are_refused_by_a_back_end_that_knows_none() -> None:
    usable(Bubblewrap())
    with pytest.raises(UsageError, match=r"'bubblewrap' knows no hosts by name.*backend: sandlock"):
        find_sandbox(SandboxSettings(backend="bubblewrap", network=("example.com",)))


def test_auto_takes_what_the_machine_has_and_never_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bubblewrap, "problem", lambda *_: "no bwrap")
    monkeypatch.setattr(Sandlock, "problem", lambda *_: None)
    assert find_sandbox(PLAIN).name == "sandlock"
    monkeypatch.setattr(Sandlock, "problem", lambda *_: "no Landlock")
    with pytest.raises(UsageError, match=r"no bwrap; no Landlock\. To run without one, write  sandbox: none"):
        find_sandbox(PLAIN)
    assert find_sandbox(SandboxSettings(backend="none")).name == "none"


class OfAnotherPackage(Unconfined):
    """A back end that another package registers."""

    name = "theirs"


def test_another_package_brings_a_back_end_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("theirs", f"{__name__}:OfAnotherPackage", back_ends.GROUP)
    registered = Registered([point])
    monkeypatch.setattr(back_ends, "_registered", lambda: registered)
    assert isinstance(find_sandbox(SandboxSettings(backend="theirs")), OfAnotherPackage)
    assert back_ends.sandbox_names()[-1] == "theirs"


def test_an_unknown_sandbox_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UnknownName, match="bubblewrap"):
        named_sandbox("bubblewarp")


async def test_a_sandbox_that_cannot_be_used_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bubblewrap, "problem", lambda *_: "no bwrap")
    with pytest.raises(AgentError, match="no bwrap"):
        await Bubblewrap().run(["touch", str(tmp_path / "made")], tmp_path, PLAIN)
    assert not (tmp_path / "made").exists()


def test_programs_are_searched_where_a_command_may_read() -> None:
    path = port.search_path(PLAIN, {"PATH": "/secret/bin:/usr/bin:/mine/bin"}).split(":")
    assert "/usr/bin" in path
    assert not {"/secret/bin", "/mine/bin"} & set(path)


async def test_a_process_whose_start_is_cancelled_ends_with_what_it_has_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    async def start_slowly() -> asyncio.subprocess.Process:
        script = f"sleep 60 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait"
        process = await asyncio.create_subprocess_exec("sh", "-c", script, start_new_session=True)
        while not pids.exists():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.005)
        starting.cancel()
        await asyncio.sleep(0)
        return process

    async def end(process: asyncio.subprocess.Process) -> None:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

    starting = asyncio.ensure_future(start_process(start_slowly(), end))
    with pytest.raises(asyncio.CancelledError):
        await starting
    first, *others = map(int, pids.read_text().split())
    with pytest.raises(ProcessLookupError):  # it was waited for, so that not even its exit status is left
        os.kill(first, 0)
    for pid in others:
        await wait_until(partial(is_gone, pid))
