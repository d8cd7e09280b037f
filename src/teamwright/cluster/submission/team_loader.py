"""Builds the team of a recorded run on a worker: from its manifest, its files, and the code that the worker has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from teamwright.agents.clients.models import Models
from teamwright.cluster.submission.code_folder import CodeFolder
from teamwright.cluster.submission.file_cache import FileCache
from teamwright.cluster.submission.needs import missing_here, needs_of
from teamwright.cluster.submission.packed_source import VARIABLE
from teamwright.cluster.submission.team_code import place_in_code
from teamwright.errors import NotResumable, UsageError
from teamwright.history.record.run_record import RunRecord
from teamwright.journal.protocol import JournalReader
from teamwright.teams.load import team_from_source
from teamwright.teams.preflight import check_ready
from teamwright.teams.team import Team
from teamwright.values.specs.manifest import Manifest, McpSpec, Source, ToolSpec


@dataclass(frozen=True, slots=True)
class Lacks:
    """What this worker lacks of a run's needs, in words that follow "waits for a worker with"."""

    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"waits for a worker with {', '.join(self.reasons)}"


class TeamLoader:
    """Builds teams of recorded runs. `code` are the folders with code that this worker has."""

    def __init__(
        self, journal: JournalReader, models: Models, *, code: Sequence[CodeFolder] = (), cache: FileCache | None = None
    ) -> None:
        self._journal, self._models = journal, models
        self._code = {one.digest: one for one in code}
        self._cache = cache or FileCache()

    async def load(self, record: RunRecord) -> Team | Lacks:
        """Build the team of a run, or return what this worker lacks; the run itself is not touched."""
        started, source = record.start, record.source()
        needs = needs_of(started, source.manifest)
        code = self._code.get(started.code)
        missing = await anyio.to_thread.run_sync(missing_here, needs, code)
        if missing:
            return Lacks(missing)
        folder = await self._cache.unpack(started.files, self._journal.bodies)
        local = _on_this_machine(source, folder, code)
        try:
            team = await anyio.to_thread.run_sync(partial(team_from_source, local, self._models, recorded=True))
            await check_ready(team, self._models)
        except (UsageError, NotResumable) as error:  # nothing has been driven: another worker may be able to
            return Lacks((f"another setup: {' '.join(str(error).split())}",))
        return team


def _on_this_machine(source: Source, folder: Path, code: CodeFolder | None) -> Source:
    """The source with its files in `folder`, its modules in the folder with code, and commands beside the code."""
    update: dict[str, object] = {"base": str(folder), "modules": ""}
    if code is not None:
        update["modules"] = str(code.folder)
        if (beside := place_in_code(source)) is not None:
            update["manifest"] = _with_commands_in(source.manifest, code.folder / beside)
            update["roots"] = None if source.roots is None else (*source.roots, str(code.folder))
    return source.model_copy(update=update)


def _with_commands_in(manifest: Manifest, folder: Path) -> Manifest:
    """Let the commands of MCP servers start below `folder`, where their programs are."""
    tools = {name: _tool_in(tool, folder) for name, tool in manifest.tools.items()}
    agents = {
        name: agent.model_copy(update={"tools": tuple(_tool_in(tool, folder) for tool in agent.tools)})
        for name, agent in manifest.agents.items()
    }
    return manifest.model_copy(update={"tools": tools, "agents": agents})


def _tool_in(tool: str | ToolSpec, folder: Path) -> str | ToolSpec:
    if not isinstance(tool, McpSpec) or tool.mcp.cwd is None or VARIABLE in tool.mcp.cwd:
        return tool
    return McpSpec(mcp=tool.mcp.model_copy(update={"cwd": str(folder / tool.mcp.cwd)}))
