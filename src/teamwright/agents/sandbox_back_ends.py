"""The back ends of this package, and how one is found by name, or by what the machine and the settings allow.

Each starts a guard (`sandbox_guard.py`), which is a process of its own, so that nothing of a command outlives this one.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from teamwright.agents.sandbox import (
    ALWAYS,
    NAMES,
    WITHOUT_NAMESPACES,
    Sandbox,
    system_call_filter,
    system_folders,
)
from teamwright.agents.sandbox_guard import FILTER, TMP
from teamwright.errors import MissingExtra, UnknownName, UsageError
from teamwright.values.specs.tools import ANY_HOST, AUTO, NONE, SandboxSettings
from teamwright.wings import Registered, entry_points_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "teamwright.sandboxes"
GUARD = str(Path(__file__).with_name("sandbox_guard.py"))
KEEP_FREE = 256 << 20
"""How much of the disk a command leaves free, or half of what is free when it starts."""
LANDLOCK_ABI = 6
"""The least version of Landlock: with it, a program can't send signals to others."""
CREATE_RULESET, VERSION_FLAG = 444, 1


def guarded(
    command: Sequence[str], workspace: Path, settings: SandboxSettings, report: int | None, **more: object
) -> list[str]:
    """Return the command that runs a guard over this one; `more` is what the guard does besides watching.

    Of the command, the first `options` are those of a program that confines. Without a `home`, the command gets a
    folder that goes with it.
    """
    spec: dict[str, object] = {
        "parent": os.getpid(),
        "workspace": workspace,
        "memory": settings.megabytes << 20,
        "processes": settings.processes,
        "keep_free": min(KEEP_FREE, _free(workspace) // 2),
        "writable": "\n".join(settings.writable),
        "report": "" if report is None else report,
        "options": 0,
        "tmp": "",
        "home": "",
        "filter": "",
        "sandlock": "",
        "packages": "",
        **more,
    }
    return [sys.executable, "-I", "-S", GUARD, *(f"{name}={value}" for name, value in spec.items()), "--", *command]


def _free(folder: Path) -> int:
    return shutil.disk_usage(folder).free if folder.is_dir() else 0


class Bubblewrap(Sandbox):
    """Namespaces of Linux, by the program `bwrap`: the command sees no file, process or network but its own."""

    name = "bubblewrap"

    def problem(self, settings: SandboxSettings) -> str | None:
        """Return what is missing, or that hosts are named, which a network of its own can't tell apart."""
        if (missing := _bubblewrap_problem()) is not None:
            return missing
        if settings.network not in ((), (ANY_HOST,)):
            return (
                "the sandbox 'bubblewrap' knows no hosts by name: it gives a command all of the network or none of it;"
                " write  network: ['*']  or  backend: sandlock"
            )
        return None

    def confined(
        self, command: Sequence[str], workspace: Path, settings: SandboxSettings, report: int | None = None
    ) -> list[str]:
        """Return the command within a guard and `bwrap`."""
        program = [
            *("bwrap", "--unshare-user", "--unshare-all", "--disable-userns", "--die-with-parent", "--new-session"),
            *("--cap-drop", "ALL", "--dev", "/dev", "--proc", "/proc"),
            *(("--share-net",) if settings.network else ()),
        ]
        shown = [*system_folders(), *(NAMES if settings.network else ()), *settings.readable]
        program += ["--bind", TMP, "/tmp", "--bind", TMP, "/dev/shm"]
        # The user of a container is root, whom files of the kernel know whatever its capabilities are.
        program += ["--remount-ro", "/dev", "--remount-ro", "/proc"]
        for one in shown:
            program += _shown(one)
        for one in (*settings.writable, str(workspace)):
            program += ["--bind", one, one, *_protected(one, settings)]
        system_calls = system_call_filter(namespaces=True)
        program += ["--seccomp", FILTER] if system_calls else []
        program += ["--chdir", str(workspace), "--remount-ro", "/", "--"]
        found = system_calls.hex() if system_calls else ""
        more = {"options": len(program), "tmp": "/tmp", "filter": found}
        return guarded([*program, *command], workspace, settings, report, **more)


def _shown(path: str) -> list[str]:
    """Return the options that show a file or a folder; a link of the system, such as `/bin`, stays one."""
    if os.path.islink(path) and os.path.dirname(path) == "/":  # noqa: PTH114, PTH120 - as text
        return ["--symlink", os.readlink(path), path]  # noqa: PTH115
    return ["--ro-bind-try", path, path]


def _protected(folder: str, settings: SandboxSettings) -> list[str]:
    """Return the options that protect what is protected in a folder."""
    found = [os.path.join(folder, one) for one in settings.protected]  # noqa: PTH118
    return [part for one in found for part in ("--ro-bind-try", one, one)]


@cache
def _bubblewrap_problem() -> str | None:
    if shutil.which("bwrap") is None:
        return "there is no program 'bwrap' for the sandbox 'bubblewrap'; install the package bubblewrap of your system"
    tried = subprocess.run(
        ["bwrap", "--unshare-user", "--unshare-all", "--disable-userns", "--ro-bind", "/", "/", "--", "true"],
        capture_output=True,
        check=False,
        text=True,
        timeout=30,
    )
    if tried.returncode == 0:
        return None
    why = (tried.stderr.strip().splitlines() or ["it failed"])[-1]
    return f"the sandbox 'bubblewrap' does not work here ({why}); it needs user namespaces and bubblewrap 0.8 or newer"


class Sandlock(Sandbox):
    """Landlock and seccomp of Linux, by the package `sandlock`: no namespaces, no root, and hosts by name."""

    name = "sandlock"

    def problem(self, settings: SandboxSettings) -> str | None:
        """Return what is missing: the package, or Landlock in the kernel."""
        if find_spec("sandlock") is None:
            return str(MissingExtra("sandbox", "The sandbox 'sandlock'"))
        if system_call_filter(namespaces=False) is None or (version := landlock_version()) is None:
            return "the sandbox 'sandlock' needs Linux with Landlock, on x86_64 or aarch64"
        if version < LANDLOCK_ABI:
            return f"the sandbox 'sandlock' needs Landlock {LANDLOCK_ABI}, that of Linux 6.12, and finds {version}"
        return None

    def confined(
        self, command: Sequence[str], workspace: Path, settings: SandboxSettings, report: int | None = None
    ) -> list[str]:
        """Return the command within a guard, which is the supervisor of `sandlock`."""
        system_calls, found = system_call_filter(namespaces=False), find_spec("sandlock")
        if system_calls is None or found is None or found.origin is None:
            raise UsageError(self.problem(settings) or "the sandbox 'sandlock' can't be used")
        devices = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"]
        readable = [*system_folders(), *devices, *(NAMES if settings.network else ()), *settings.readable]
        writable = [*settings.writable, str(workspace)]
        protected = [os.path.join(folder, one) for folder in writable for one in settings.protected]  # noqa: PTH118
        policy: dict[str, JsonValue] = {
            "fs_readable": [one for one in readable if os.path.exists(one)],  # noqa: PTH110
            "fs_writable": [*writable, "/dev/null"],
            "fs_denied": [one for one in protected if os.path.exists(one)],  # noqa: PTH110
            "net_allow": [*settings.network],
            "cwd": str(workspace),
            "max_processes": settings.processes,
            "extra_deny_syscalls": [*ALWAYS, *WITHOUT_NAMESPACES],
            "no_coredump": True,
        }
        packages = str(Path(found.origin).parent.parent)
        return guarded(
            command,
            workspace,
            settings,
            report,
            filter=system_calls.hex(),
            sandlock=json.dumps(policy),
            packages=packages,
        )


@cache
def landlock_version() -> int | None:
    """Return the version of Landlock in this kernel; `None` if it has none."""
    if sys.platform != "linux":
        return None
    version = ctypes.CDLL(None).syscall(CREATE_RULESET, None, 0, VERSION_FLAG)
    return version if version > 0 else None


class Unconfined(Sandbox):
    """No sandbox, asked for by name: the command has the rights of this process, and its limits are kept."""

    name = NONE

    def problem(self, settings: SandboxSettings) -> str | None:
        """Return nothing: it promises nothing."""
        return None

    def confined(
        self, command: Sequence[str], workspace: Path, settings: SandboxSettings, report: int | None = None
    ) -> list[str]:
        """Return the command within a guard."""
        return guarded(command, workspace, settings, report)


OWN: tuple[Sandbox, ...] = (Bubblewrap(), Sandlock(), Unconfined())
"""The back ends of this package, in the order in which `auto` tries them; it never takes the last."""


@cache
def _registered() -> Registered:
    return Registered(entry_points_of(GROUP))


def sandbox_names() -> list[str]:
    """Return the names of all back ends, those of this package first."""
    return [*(one.name for one in OWN), *_registered().here]


def named_sandbox(name: str) -> Sandbox:
    """Return the back end of this name; raises `UnknownName`."""
    for one in OWN:
        if one.name == name:
            return one
    if (point := _registered().here.get(name)) is None:
        raise UnknownName("sandbox", name, [AUTO, *sandbox_names()])
    return _load(point)


@cache
def _load(point: EntryPoint) -> Sandbox:
    try:
        made: Sandbox = point.load()()
    except Exception as error:  # third-party code may raise anything
        raise UsageError(f"The sandbox {point.name!r} ({point.value}) can't be loaded: {error}") from error
    return made


def find_sandbox(settings: SandboxSettings) -> Sandbox:
    """Return the back end that does what the settings ask; raises `UsageError` if none on this machine does."""
    if settings.backend != AUTO:
        found = named_sandbox(settings.backend)
        if (problem := found.problem(settings)) is not None:
            raise UsageError(f"{problem[0].upper()}{problem[1:]}.")
        return found
    problems: list[str] = []
    for one in OWN:
        problem = one.problem(settings) if one.name != NONE else None
        if problem is None and one.name != NONE:
            return one
        problems += [problem] if problem else []
    why = "; ".join(problems)
    raise UsageError(f"No sandbox of this machine does what is asked: {why}. To run without one, write  sandbox: none")


def sandbox_problem(settings: SandboxSettings) -> str | None:
    """Return why no sandbox of this machine does what the settings ask; `None` if one does."""
    try:
        find_sandbox(settings)
    except UsageError as error:
        return str(error)
    return None
