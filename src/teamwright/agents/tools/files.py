"""The built-in tools `files`, which read, write, edit, list and search files below one folder and nothing outside it,
and `shell`, a command in one folder, in a sandbox that holds it there.

If steps own keys, a step may write only what it owns. Docstrings of the public methods of `Files` and `Shell` and the
messages of `ToolError` are part of prompts: changing one changes effect hashes, and recorded runs would no longer
resume.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from errno import EISDIR
from itertools import islice
from pathlib import Path, PurePosixPath

from pydantic import JsonValue

from teamwright.agents.agent import Context
from teamwright.agents.sandbox import CommandOutcome, excess_text
from teamwright.agents.sandbox_back_ends import find_sandbox, sandbox_problem
from teamwright.agents.tools.protocol import BuildOptions, CallPolicy, ToolContext, ToolDefinition, ToolKind, ToolSource
from teamwright.agents.tools.python import MethodSource
from teamwright.documents.nodes import Fields
from teamwright.errors import ToolError
from teamwright.values.owned_paths import Owned, covers
from teamwright.values.specs.tools import (
    AUTO,
    FILES,
    NONE,
    SHELL,
    FilesSpec,
    FilesTool,
    SandboxSettings,
    ShellSpec,
    ShellTool,
    ToolSpec,
    moved_folders,
    resolved_folders,
    sandbox_settings,
)
from teamwright.values.text.display import cut

FILE_TOOLS = ("read_file", "write_file", "edit_file", "list_files", "search_files")

MOST_LINES = 2000
MOST_LISTED = 500
MOST_FOUND = 100
LONGEST_LINE = 300
LINE_ENDS = ("\n", "\r")
REPOSITORIES = (".git", ".hg", ".svn")
"""Folders whose files say which programs the user's own tools run."""
NO_FILE = "is no regular file, but a pipe, a socket or a device, which these tools leave alone."
NEVER_BLOCK = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
BINARY = getattr(os, "O_BINARY", 0)
MOST_EDITED = 4 << 20
MAX_READ_CHARACTERS = 1 << 20
"""How many characters are read at once: a longer line counts as several."""


class Files:
    """The tools' methods, for one call. Their docstrings are the descriptions that a model sees."""

    def __init__(self, root: Path | None, owned: Owned, idempotency_key: str = "") -> None:
        self._root = (root or Path.cwd()).resolve()
        self._owned, self._key = owned, idempotency_key

    def read_file(self, path: str, first_line: int = 1, lines: int = MOST_LINES) -> JsonValue:
        """Read a text file. Of a long one you get some lines, and the number of the next line to read on from."""
        first, count = max(1, first_line), min(max(1, lines), MOST_LINES)
        shown, room, number = list[str](), MAX_READ_CHARACTERS, 0
        for number, line in enumerate(self._lines(self._resolve(path)), start=1):
            if number == first + len(shown) and len(shown) < count and len(line) <= room:
                shown.append(line)
                room -= len(line)
        content, following = "".join(shown), first + len(shown)
        if first == 1 and following > number:
            return content
        return {"content": content, "lines": number, "next_line": following if following <= number else None}

    def write_file(self, path: str, content: str) -> JsonValue:
        """Write a whole text file, in place of what was there. Folders on the way are made."""
        return self._write(self._resolve(path), content)

    def edit_file(self, path: str, old: str, new: str) -> JsonValue:
        """Replace one part of a text file. `old` has to stand there once: give enough lines around it.

        Args:
            path: the file
            old: the text that goes, exactly as it stands there
            new: the text that takes its place
        """
        place = self._resolve(path)
        if not old:
            raise ToolError("There is nothing to replace: give the text that goes, or write the file with write_file.")
        if old == new:
            raise ToolError(
                "The text that goes and the one that takes its place are the same, so nothing would change."
            )
        content, name = self._content(place), self._name(place)
        found = content.count(old)
        if not found:
            raise ToolError(f"{name!r} does not contain the text that is to go; read it, and give that text exactly.")
        if found > 1:
            raise ToolError(f"{name!r} contains the text {found} times; give more lines around the one that is to go.")
        return self._write(place, content.replace(old, new))

    def _content(self, place: Path) -> str:
        """Return the whole text of a file that is small enough to be edited."""
        pieces, size = list[str](), 0
        for line in self._lines(place):
            size += len(line)
            if size > MOST_EDITED:
                raise ToolError(f"{self._name(place)!r} is too large to be edited.")
            pieces.append(line)
        return "".join(pieces)

    def _write(self, place: Path, content: str) -> JsonValue:
        name = self._name(place)
        if not self._owned.may_write(name):
            raise ToolError(self._owned.refusal(name))
        if any(part.casefold() in REPOSITORIES for part in PurePosixPath(name).parts):
            raise ToolError(f"{name!r} is part of a repository's own data, which these tools leave alone.")
        if place.is_dir():
            raise ToolError(f"{name!r} is a folder; write a file in it.")
        if place.exists() and not place.is_file():
            raise ToolError(f"{name!r} {NO_FILE}")
        try:
            size = len(encoded := content.encode())
            with _open_folder(self._root, place, make=True) as folder:
                _write_atomically(place, folder, encoded, self._key)
        except (FileExistsError, NotADirectoryError) as error:
            raise ToolError(f"{name!r} can't be written: something on the way to it is a file.") from error
        except UnicodeEncodeError as error:
            raise ToolError(f"What is to stand in {name!r} is no text: {error.reason}.") from error
        except OSError as error:
            raise ToolError(f"{name!r} can't be written: {error.strerror}.") from error
        return {"path": name, "bytes": size}

    def list_files(self, pattern: str = "**") -> JsonValue:
        """List files by a pattern such as src/**/*.py; ** stands for any folders. Hidden ones must be named."""
        found = [self._name(place) for place in self._matching(pattern)]
        if len(found) <= MOST_LISTED:
            return list[JsonValue](found)
        return {"files": list[JsonValue](found[:MOST_LISTED]), "more": len(found) - MOST_LISTED}

    def search_files(self, text: str, pattern: str = "**") -> JsonValue:
        """Find the lines that hold a text, in files that a pattern such as src/**/*.py names."""
        if not text:
            raise ToolError("There is nothing to search for: give a text.")
        hits: list[JsonValue] = []
        for place in self._matching(pattern):
            with suppress(ToolError):  # skip files that are not text
                hits += list(islice(self._hits(place, text), MOST_FOUND - len(hits)))
            if len(hits) == MOST_FOUND:
                return {"found": hits, "more": True}
        return hits

    def _hits(self, place: Path, text: str) -> Iterator[JsonValue]:
        before = ""
        for number, line in enumerate(self._lines(place), start=1):
            if text in before + line:
                yield {"path": self._name(place), "line": number, "text": line.strip()[:LONGEST_LINE]}
            # The rest of an overlong line follows, and a match may span both parts.
            before = "" if line.endswith(LINE_ENDS) else line[max(0, len(line) - len(text) + 1) :]

    def _resolve(self, path: str) -> Path:
        """Resolve a path with its links; raises `ToolError` if it leads out of the folder."""
        parts = PurePosixPath(path.replace("\\", "/")).parts
        try:
            place = self._root.joinpath(*parts).resolve() if path and ".." not in parts else None
        except (OSError, ValueError, RuntimeError):
            place = None
        if place is None or Path(path).is_absolute() or not place.is_relative_to(self._root):
            raise ToolError(f"{path!r} is no path below the folder of these tools; write it from there, without '..'.")
        return place

    def _name(self, place: Path) -> str:
        return place.relative_to(self._root).as_posix()

    def _lines(self, place: Path) -> Iterator[str]:
        """Yield the lines of a text file unchanged, one by one, so that a file of any size can be read."""
        name = self._name(place)
        try:
            with os.fdopen(_open_file(self._root, place, name), encoding="utf-8", newline="") as opened:
                while line := opened.readline(MAX_READ_CHARACTERS):
                    yield line
        except FileNotFoundError as error:
            raise ToolError(f"There is no file {name!r}; list_files says which there are.") from error
        except UnicodeDecodeError as error:
            raise ToolError(f"{name!r} is no text.") from error
        except OSError as error:
            raise ToolError(f"{name!r} can't be read: {error.strerror}.") from error

    def _matching(self, pattern: str) -> Iterator[Path]:
        """Yield the files that match a pattern, sorted by name; links that lead out of the folder are not followed."""
        hidden = any(part.startswith(".") for part in PurePosixPath(pattern).parts)
        for folder, folders, names in os.walk(self._root):
            if not hidden:
                folders[:] = [one for one in folders if not one.startswith(".")]
            folders.sort()
            for name in sorted(names):
                place = Path(folder, name)
                shown = hidden or not name.startswith(".")
                if shown and covers(pattern, self._name(place)) and self._is_inside(place):
                    yield place

    def _is_inside(self, place: Path) -> bool:
        return place.is_file() and place.resolve().is_relative_to(self._root)


class FilesSource(MethodSource):
    """The `files` tools for one folder; by default the member's own tree where its team has a workspace of files, else
    the current folder of the process that drives the run.
    """

    name = kind = FILES
    tool_names = FILE_TOOLS
    methods = Files

    def __init__(self, settings: FilesTool, spec: str | ToolSpec | None = None) -> None:
        self.settings, self.uses_tree = settings, settings.folder is None
        self.spec = spec if spec is not None else FilesSpec(files=settings)

    def bind(self, context: ToolContext) -> Files:
        """Create the tools of one call below the root."""
        root = Path(self.settings.folder) if self.settings.folder else context.folder
        return Files(root, context.owned, context.idempotency_key)


class FilesKind(ToolKind[FilesTool]):
    """`files`, or `{files: {folder: …}}`."""

    name = FILES
    model = FilesTool
    built_in = True

    def build(self, settings: FilesTool, options: BuildOptions) -> ToolSource:
        """Create the source; its tools keep their names under any name of the source."""
        return FilesSource(settings, options.spec)

    def tool_names(self, fields: Fields | None, name: str) -> Sequence[str] | None:
        """Return the names of the group and its tools."""
        return [FILES, *FILE_TOOLS]

    def relocate(self, settings: JsonValue, move: Callable[[str], str]) -> JsonValue:
        """Move the root."""
        return moved_folders(settings, "folder", move)

    def resolve(self, spec: ToolSpec, folder: Callable[[str], Path]) -> ToolSpec:
        """Make the root absolute."""
        return FilesSpec(files=resolved_folders(spec.files, "folder", folder)) if isinstance(spec, FilesSpec) else spec


@contextmanager
def _open_folder(root: Path, place: Path, *, make: bool = False) -> Generator[int | None]:
    """Hold the folder of a file open, and open each folder on the way without following a link.

    The path was resolved before, so a link on it was put there since. `None` where the system has no such calls.
    """
    if os.open not in os.supports_dir_fd:
        if make:
            place.parent.mkdir(parents=True, exist_ok=True)
        yield None
        return
    folder = os.open(root, FOLDER)
    try:
        for part in place.relative_to(root).parts[:-1]:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
            inner = os.open(part, FOLDER | NEVER_BLOCK, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _open_file(root: Path, place: Path, name: str) -> int:
    """Open a regular file for reading; raises `ToolError` for a pipe, socket or device, which might block forever."""
    if not place.is_dir() and place.exists() and not place.is_file():
        raise ToolError(f"{name!r} {NO_FILE}")
    with _open_folder(root, place) as folder:
        opened = os.open(place if folder is None else place.name, os.O_RDONLY | NEVER_BLOCK, dir_fd=folder)
    try:
        # The file may have been replaced since the check.
        if not stat.S_ISREG(mode := os.fstat(opened).st_mode):
            raise (
                IsADirectoryError(EISDIR, os.strerror(EISDIR))
                if stat.S_ISDIR(mode)
                else ToolError(f"{name!r} {NO_FILE}")
            )
    except BaseException:
        os.close(opened)
        raise
    return opened


def _write_atomically(place: Path, folder: int | None, content: bytes, key: str) -> None:
    """Write a file atomically; the temporary file that a crash leaves has a name that the same call reuses."""
    draft_name = f".{place.name[:40]}.{key[:12] or 'draft'}.tmp"
    draft, final = (place.with_name(draft_name), place) if folder is None else (Path(draft_name), Path(place.name))
    try:
        mode = os.stat(final, dir_fd=folder, follow_symlinks=False).st_mode & 0o777
    except FileNotFoundError:
        mode = None
    try:
        # Created exclusively, so that it can't be a pipe or a link that was planted under this name.
        with suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=folder)
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o666, dir_fd=folder)
        with os.fdopen(opened, "wb") as file:
            file.write(content)
            file.flush()
            if mode is not None and folder is not None:
                os.fchmod(opened, mode)
            os.fsync(file.fileno())
        os.replace(draft, final, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=folder)
        raise


SHELL_TOOLS = ("run_command",)
GRACE_SECONDS = 30.0
"""How much longer than its command a call may take."""
REFUSED = (
    "permission denied", "read-only file system", "operation not permitted", "network is unreachable",
    "no such file or directory: '/", "could not resolve host", "name resolution", "protocol not supported",
)  # fmt: skip
"""What a program says that was refused something."""
NOT_FOUND = (": no such file", ": directory nonexistent")
"""What it says of a path that is not there: one outside of its folder may be hidden from it."""
OUTSIDE = ("/", "../", "'/", "'../")
MOST_SEARCHED, LONGEST_SEARCHED = 100_000, 1_000
"""How much of an output is searched for such a line, from its end, and how much of each line."""
LONGEST_SHOWN = 200


class Shell:
    """The tool's method, for one call. Its docstring is the description that a model sees."""

    def __init__(self, folder: Path, settings: SandboxSettings, context: ToolContext) -> None:
        self._folder, self._settings, self._context = folder, settings, context

    async def run_command(self, command: str) -> JsonValue:
        """Run a command of the shell (sh) in the folder of your work, and get its exit code and its output.

        It runs in a sandbox: it can change files in this folder alone, and what it starts ends with it.

        Args:
            command: the command, which may have several lines
        """
        if not command.strip() or "\0" in command:
            raise ToolError("There is nothing to run: give a command.")
        settings, sandbox = self._settings, find_sandbox(self._settings)
        outcome = await sandbox.run(["sh", "-c", command], self._folder, settings)
        if outcome.excess is not None:
            why = excess_text(outcome.excess, settings)
            self._context.log(f"a command was ended, because {why}: {cut(command, LONGEST_SHOWN)}", "warning")
            raise ToolError(f"The command was ended, because {why}. Its output until then: {outcome.output}")
        result: dict[str, JsonValue] = {"exit_code": outcome.exit_code, "output": outcome.output}
        if outcome.sandbox == NONE:
            result["sandbox"] = NONE
        elif (line := refused_line(outcome)) is not None:
            self._context.log(f"the sandbox {outcome.sandbox!r} refused a command something: {line}", "warning")
            result["sandbox"] = rights_text(settings)
        return result


def refused_line(outcome: CommandOutcome) -> str | None:
    """Return the line with which a command that failed says that it was refused something."""
    lines = outcome.output[-MOST_SEARCHED:].splitlines() if outcome.exit_code else []
    return next((cut(line.strip(), LONGEST_SHOWN) for line in lines if _is_refusal(line[:LONGEST_SEARCHED])), None)


def _is_refusal(line: str) -> bool:
    text = line.casefold()
    named = [words[-1] for phrase in NOT_FOUND if phrase in text and (words := text.partition(phrase)[0].split())]
    return any(phrase in text for phrase in REFUSED) or any(path.startswith(OUTSIDE) for path in named)


def rights_text(settings: SandboxSettings) -> str:
    """Return what a command may do, for a model whose command was refused something."""
    more = "".join(f", {one}" for one in settings.writable)
    hosts = ", ".join(settings.network) or "no network"
    return (
        f"A command may write in its folder and in $TMPDIR{more}, but not in {', '.join(settings.protected)}; it may"
        f" reach {hosts}, and no process but its own."
    )


class ShellSource(MethodSource):
    """The `shell` tool for one folder; by default the member's own tree where its team has a workspace of files, else
    the current folder of the process that drives the run.
    """

    name = kind = SHELL
    tool_names = SHELL_TOOLS
    methods = Shell

    def __init__(self, settings: ShellTool, spec: str | ToolSpec | None = None) -> None:
        self.settings, self.uses_tree = settings, settings.folder is None
        self.sandbox: SandboxSettings | None = sandbox_settings(settings.sandbox or AUTO)
        self._confined = self.sandbox
        self.spec = spec if spec is not None else ShellSpec(shell=settings)

    def problems(self) -> Sequence[str]:
        """Return why there is no sandbox here that does what is asked, or that the folder is missing."""
        found = list(filter(None, [sandbox_problem(self._confined)]))
        if self.settings.folder is not None and not Path(self.settings.folder).is_dir():
            found.append(f"there is no folder {self.settings.folder!r} for the tool 'shell'; create it")
        return found

    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        """Return the definition of its method; a call may take as long as its command."""
        policy = CallPolicy(timeout=self._confined.seconds + GRACE_SECONDS)
        return [replace(one, policy=policy) for one in await super().definitions(ctx)]

    def bind(self, context: ToolContext) -> Shell:
        """Create the tool of one call in the folder."""
        folder = Path(self.settings.folder) if self.settings.folder else context.folder or Path.cwd()
        return Shell(folder.resolve(), self._confined, context)


class ShellKind(ToolKind[ShellTool]):
    """`shell`, or `{shell: {folder: …, sandbox: …}}`."""

    name = SHELL
    model = ShellTool
    built_in = True

    def build(self, settings: ShellTool, options: BuildOptions) -> ToolSource:
        """Create the source; its tool keeps its name under any name of the source."""
        return ShellSource(settings, options.spec)

    def tool_names(self, fields: Fields | None, name: str) -> Sequence[str] | None:
        """Return the names of the group and its tool."""
        return [SHELL, *SHELL_TOOLS]

    def relocate(self, settings: JsonValue, move: Callable[[str], str]) -> JsonValue:
        """Move the root, and the folders of the sandbox."""
        return moved_folders(settings, "folder", move)

    def resolve(self, spec: ToolSpec, folder: Callable[[str], Path]) -> ToolSpec:
        """Make the folders absolute."""
        return ShellSpec(shell=resolved_folders(spec.shell, "folder", folder)) if isinstance(spec, ShellSpec) else spec

    def code(self, settings: ShellTool) -> Iterable[tuple[str, str]]:
        """Return that a model writes the commands, and what confines them."""
        yield "commands of a model in the sandbox", sandbox_settings(settings.sandbox or AUTO).backend
