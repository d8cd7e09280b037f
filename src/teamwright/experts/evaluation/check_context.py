"""What a check may know of the work besides its text: the task, the author, data, files, and what is expected.

A function gets it as its second argument; a program finds it in the folder that it works in.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pydantic import JsonValue
from pydantic_core import to_json

from teamwright.agents.contract.context import Context
from teamwright.values.specs.evaluation import Criterion
from teamwright.values.turns.turn import EvaluatedWork

CONTEXT = "context"
CONTEXT_FILE, FILES = "context.json", "files"
NO_WORK = EvaluatedWork("")
MOST_NAME_BYTES = 200


@dataclass(frozen=True, slots=True)
class CheckFile:
    """A file that went with the task or with the reply."""

    name: str
    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The task of the author and its name, the data of its reply, files, and what the criterion expects."""

    task: str = ""
    member: str = ""
    data: JsonValue = None
    files: tuple[CheckFile, ...] = ()
    expected: JsonValue = None

    def write_to(self, folder: Path) -> None:
        """Write the context to a folder: `context.json`, and each file under its own name in `files/`."""
        names: list[JsonValue] = []
        taken: set[str] = set()  # without case, as some file systems compare
        for number, file in enumerate(self.files, start=1):
            name = _plain_name(file.name) or f"file-{number}"
            while name.casefold() in taken:
                name = f"{number}-{name}"
            taken.add(name.casefold())
            place = folder / FILES / name
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(file.content)
            names.append(f"{FILES}/{place.name}")
        found = {"task": self.task, "member": self.member, "data": self.data, "expected": self.expected, FILES: names}
        (folder / CONTEXT_FILE).write_bytes(to_json(found, indent=1))


async def open_context(task: str, work: EvaluatedWork, criterion: Criterion, ctx: Context) -> CheckContext:
    """Return the context of a check, with the content of the files."""
    files: list[CheckFile] = []
    for one in work.files:
        content = await ctx.workspace.open(one)
        raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        files.append(CheckFile(one.name, one.media_type, raw))
    return CheckContext(task, work.member, work.data, tuple(files), criterion.expected)


def takes_context(function: Callable[..., object]) -> bool:
    """Whether a function takes a context after the text: a second parameter without a default, or called `context`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a built-in function without a signature
        return False
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return len(positional) > 1 and (positional[1].default is inspect.Parameter.empty or positional[1].name == CONTEXT)


def _plain_name(name: str) -> str:
    """Return the last part of a name, without what leads out of a folder, and no longer than a file system takes."""
    last = PurePosixPath(name.replace("\\", "/")).name.replace("\0", "")
    return "" if last in (".", "..") else last.encode(errors="replace")[:MOST_NAME_BYTES].decode(errors="ignore")
