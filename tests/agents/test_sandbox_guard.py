"""The guard removes what a command has left, whatever it is."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.agents.sandbox_guard import WritablePlace, is_memory, remove_folder, room

FILL = """
import asyncio, sys
from pathlib import Path
from teamwright.agents.sandbox_back_ends import Unconfined
from teamwright.values.specs.tools import SandboxSettings
settings = SandboxSettings(seconds=30.0, writable=(sys.argv[1],))
outcome = asyncio.run(Unconfined().run(["sh", "-c", sys.argv[3]], Path(sys.argv[2]), settings))
print(outcome.excess, outcome.output)
"""
MOUNT = """
mount -t tmpfs none /tmp && mkdir -p "$1" "$2" && mount -t tmpfs -o size=64m,nr_inodes=1000 none "$1" || exit
shift 2
exec "$@"
"""


def in_own_mounts(tmp_path: Path, command: str) -> str:
    """Run a command in a sandbox on a machine with a small file system, and whose /tmp is memory."""
    if Path(sys.prefix).is_relative_to("/tmp"):
        pytest.skip("the environment of the tests is in /tmp, which is hidden here")
    small, inside = tmp_path / "small", tmp_path / "inside"
    own = ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*own, "mount", "-t", "tmpfs", "none", "/tmp"], check=False).returncode:
        pytest.skip("this machine has no user namespaces")
    program = [sys.executable, "-c", FILL, str(small), str(inside), command]
    command_line = [*own, "sh", "-c", MOUNT, "sh", str(small), str(inside), *program]
    return subprocess.run(command_line, check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.parametrize(
    "command",
    ["cat /dev/zero > {small}/full; sleep 20", "cd {small}; for one in $(seq 2000); do echo > $one; done; sleep 20"],
    ids=["bytes", "files"],
)
def test_room_is_left_wherever_a_command_may_write(tmp_path: Path, command: str) -> None:
    assert in_own_mounts(tmp_path, command.format(small=tmp_path / "small")).startswith("disk")


def test_temporary_files_are_on_a_disk_where_tmp_is_memory(tmp_path: Path) -> None:
    assert in_own_mounts(tmp_path, "echo $TMPDIR").startswith("None /var/tmp/teamwright-")


def test_a_place_is_full_when_too_little_room_is_left(tmp_path: Path) -> None:
    free, files = room(str(tmp_path))
    assert not WritablePlace(str(tmp_path), free // 2).is_full()
    assert WritablePlace(str(tmp_path), free * 2).is_full()
    assert files == 0 or 0 < WritablePlace(str(tmp_path), 0).keep_files < files
    assert not WritablePlace(str(tmp_path / "missing"), 0).is_full()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="kinds of file systems of Linux")
def test_folders_in_memory_are_known(tmp_path: Path) -> None:
    libc = ctypes.CDLL(None)
    assert is_memory(libc, "/dev/shm")
    assert not is_memory(libc, "/proc")
    assert not is_memory(libc, str(tmp_path / "missing"))


def test_a_folder_is_removed_with_deep_unreadable_and_linked_ones(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    (outside / "kept").touch()
    for name in ("one", "two", "closed"):
        (folder / name / "inner").mkdir(parents=True)
        (folder / name / "file").touch()
    (folder / "link").symlink_to(outside)
    (folder / "closed").chmod(0o500)
    (folder / "two").chmod(0)
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1100):  # deeper than Python's own function goes, and than a path may be long
        os.mkdir("deeper", dir_fd=here)
        inner = os.open("deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    remove_folder(str(folder))
    assert [one.name for one in tmp_path.iterdir()] == ["outside"]
    assert (outside / "kept").exists()


def test_a_folder_that_is_a_link_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    with pytest.raises(OSError, match="link"):
        remove_folder(str(tmp_path / "link"))
    assert (tmp_path / "kept").exists()
