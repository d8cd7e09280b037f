"""Git as a subprocess that runs no code of a repository: no hooks, no filters, no monitors, no configuration of a user.

Every command names its repository and its tree. Nothing that a member writes into a tree, a `.git` included, says where
Git reads or writes.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from teamwright.agents.functions.threads import finish
from teamwright.errors import AgentError, UsageError
from teamwright.values.text.display import size_text

LEAST_VERSION = (2, 38)
"""The first version that merges without a tree."""
NEEDS_GIT = "A team with `workspace` needs Git {least} or newer: {found}. Install it, for example  apt install git"
SAFE_OPTIONS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.autocrlf": "false",
    "core.quotePath": "false",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "protocol.allow": "never",
    "submodule.recurse": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "advice.addEmbeddedRepo": "false",
}
"""They take precedence over the settings of a repository; filters and drivers of ours have no commands at all."""
LONGEST_ERROR = 400
CHUNK = 1 << 20


class GitFailed(AgentError):
    """A command of Git failed."""


class TooMuchOutput(GitFailed):
    """A command of Git has printed more than it may."""


class Git:
    """Commands on one repository. With `tree` and `index`, also on a folder of files."""

    def __init__(self, repository: Path, tree: Path | None = None, index: Path | None = None) -> None:
        self.repository, self._tree, self._index = repository, tree, index

    def on(self, tree: Path | None, index: Path) -> Git:
        """Return the same repository with a folder of files, and the index that describes it."""
        return Git(self.repository, tree, index)

    async def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        also: Sequence[int] = (),
        env: Mapping[str, str] | None = None,
        trusts: Path | None = None,
        most: int = sys.maxsize,
    ) -> bytes:
        """Return the output of a command; raises `GitFailed` unless it exits with 0 or one of the codes in `also`.

        `trusts` is a folder that the user has named, which another user may own. Output of more than `most` bytes
        raises `TooMuchOutput`.
        """
        code, output, error = await self.call(*arguments, stdin=stdin, env=env, trusts=trusts, most=most)
        if code != 0 and code not in also:
            said = error.decode("utf-8", "replace").strip() or output.decode("utf-8", "replace").strip()
            raise GitFailed(f"git {arguments[0]} exited with {code}: {said[:LONGEST_ERROR]}")
        return output

    async def call(
        self,
        *arguments: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        trusts: Path | None = None,
        most: int = sys.maxsize,
    ) -> tuple[int, bytes, bytes]:
        """Return the exit code of a command, its output and its errors."""
        options = dict(SAFE_OPTIONS)
        if trusts is not None:
            options["safe.directory"] = str(trusts)
        settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        places = [f"--git-dir={self.repository}"]
        if self._tree is not None:
            places.append(f"--work-tree={self._tree}")
        process = await asyncio.create_subprocess_exec(
            git_program(),
            *settings,
            *places,
            *arguments,
            cwd=self._tree or self.repository,
            env={**environment(), **({"GIT_INDEX_FILE": str(self._index)} if self._index else {}), **(env or {})},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            _, output, error = await asyncio.gather(
                _write(process, stdin), _read(process, process.stdout, most), process.stderr.read()
            )
            await process.wait()
        except BaseException:
            if process.returncode is None:
                process.kill()
                await finish(process.wait())
            raise
        assert process.returncode is not None
        if len(output) > most:
            raise TooMuchOutput(f"git {arguments[0]} printed more than {size_text(most)}")
        return process.returncode, output, error

    async def text(self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> str:
        """Return the output of a command as one line of text."""
        return (await self.run(*arguments, stdin=stdin, env=env)).decode("utf-8", "replace").strip()

    async def has(self, commit: str) -> bool:
        """Whether the repository has this commit."""
        code, _, _ = await self.call("cat-file", "-e", f"{commit}^{{commit}}")
        return code == 0


async def _write(process: asyncio.subprocess.Process, content: bytes) -> None:
    assert process.stdin is not None
    with suppress(OSError):  # it may end without having read its input
        process.stdin.write(content)
        await process.stdin.drain()
    process.stdin.close()


async def _read(process: asyncio.subprocess.Process, output: asyncio.StreamReader, most: int) -> bytes:
    """Return an output; kills the process once it is longer than it may be, and returns what came until then."""
    chunks, size = list[bytes](), 0
    while chunk := await output.read(CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if size > most:
            process.kill()
            break
    return b"".join(chunks)


def git_program() -> str:
    """Return the path of Git; raises `UsageError` if it is not installed."""
    found = shutil.which("git")
    if found is None:
        raise UsageError(NEEDS_GIT.format(least=".".join(map(str, LEAST_VERSION)), found="there is no `git` here"))
    return found


def environment() -> dict[str, str]:
    """Return the environment of every command: no configuration of the system or a user, no prompts, no network."""
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "TMPDIR", "TEMP") if name in os.environ}
    return {
        **kept,
        "HOME": os.devnull,
        "XDG_CONFIG_HOME": os.devnull,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "false",
        "GIT_ASKPASS": "false",
        "GIT_SSH_COMMAND": "false",
    }


async def check_git() -> str:
    """Return the version of Git; raises `UsageError` unless one is installed that merges without a tree."""
    process = await asyncio.create_subprocess_exec(
        git_program(), "--version", env=environment(), stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
    )
    output, _ = await finish(process.communicate())
    said = output.decode("utf-8", "replace").strip()
    found = re.search(r"(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < LEAST_VERSION:
        raise UsageError(NEEDS_GIT.format(least=".".join(map(str, LEAST_VERSION)), found=f"this is {said or 'none'}"))
    return said
