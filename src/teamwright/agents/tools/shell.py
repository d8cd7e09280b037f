"""The built-in tool `shell`: a command in one folder, in a sandbox that holds it there.

The docstring of the public method of `Shell` and the messages of `ToolError` are part of prompts: changing one changes
effect hashes, and recorded runs would no longer resume.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import JsonValue

from teamwright.agents.contract.agent import Context
from teamwright.agents.sandbox.back_ends import find_sandbox, sandbox_problem
from teamwright.agents.sandbox.port import CommandOutcome, excess_text
from teamwright.agents.tools.protocol import BuildOptions, CallPolicy, ToolContext, ToolDefinition, ToolKind, ToolSource
from teamwright.agents.tools.python import MethodSource
from teamwright.documents.nodes import Fields
from teamwright.errors import ToolError
from teamwright.values.specs.sandbox import (
    AUTO,
    NONE,
    SandboxSettings,
    moved_folders,
    resolved_folders,
    sandbox_settings,
)
from teamwright.values.specs.tools import SHELL, ShellSpec, ShellTool, ToolSpec
from teamwright.values.text.display import cut

NAMES = ("run_command",)
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
    tool_names = NAMES
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
        return [SHELL, *NAMES]

    def relocate(self, settings: JsonValue, move: Callable[[str], str]) -> JsonValue:
        """Move the root, and the folders of the sandbox."""
        return moved_folders(settings, "folder", move)

    def resolve(self, spec: ToolSpec, folder: Callable[[str], Path]) -> ToolSpec:
        """Make the folders absolute."""
        return ShellSpec(shell=resolved_folders(spec.shell, "folder", folder)) if isinstance(spec, ShellSpec) else spec

    def code(self, settings: ShellTool) -> Iterable[tuple[str, str]]:
        """Return that a model writes the commands, and what confines them."""
        yield "commands of a model in the sandbox", sandbox_settings(settings.sandbox or AUTO).backend
