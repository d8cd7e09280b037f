"""Builds the team of a recorded run on a worker: from its manifest, its files, and the code that the worker has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
from pydantic import ValidationError

from teamwright.agents.clients.models import Models
from teamwright.cluster.submission.code_folder import CodeFolder
from teamwright.cluster.submission.needs import VARIABLE, missing_here, needs_of
from teamwright.cluster.submission.team_code import place_in_code
from teamwright.errors import NotResumable
from teamwright.journal.decoder import decode_body
from teamwright.journal.protocol import JournalReader
from teamwright.teams.file_cache import FileCache
from teamwright.teams.load import team_from_source
from teamwright.teams.preflight import check_ready
from teamwright.teams.team import Team
from teamwright.values.events.run import RunStarted
from teamwright.values.specs.manifest import Manifest, McpSpec, Source, ToolSpec
from teamwright.values.text.validation_messages import misfits_of


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

    async def lacks(self, run_id: str) -> Lacks | None:
        """Return what this worker lacks of a run's needs, or `None` if it has all of them."""
        return await self._lacks(*await self._read(run_id))

    async def load(self, run_id: str) -> Team | Lacks:
        """Build the team of a run, or return what this worker lacks; the run itself is not touched.

        Raises `UsageError` for a team that can't be built here although nothing is known to be missing.
        """
        started, source = await self._read(run_id)
        if (lacks := await self._lacks(started, source)) is not None:
            return lacks
        folder = await self._cache.unpack(started.files, self._journal.bodies)
        local = source_on_worker(source, folder, self._code.get(started.code))
        team = await anyio.to_thread.run_sync(partial(team_from_source, local, self._models, recorded=True))
        await check_ready(team, self._models)
        return team

    async def _read(self, run_id: str) -> tuple[RunStarted, Source]:
        """The start of a run and its source, without the rest of its record."""
        first = next(iter(await self._journal.read(run_id, limit=1)), None)
        if first is None or not isinstance(first.fact, RunStarted):
            raise NotResumable(f"Run {run_id!r} has no start event in the journal.")
        started = first.fact
        recorded = decode_body((await self._journal.bodies([started.manifest]))[started.manifest])
        try:
            return started, Source.model_validate(recorded)
        except ValidationError as error:
            wrong = "; ".join(map(str, misfits_of(error, recorded)))
            raise NotResumable(f"The team of run {run_id!r} can't be read from its record: {wrong}") from error

    async def _lacks(self, started: RunStarted, source: Source) -> Lacks | None:
        code = self._code.get(started.code)
        missing = await anyio.to_thread.run_sync(lambda: missing_here(needs_of(started, source.manifest), code))
        return Lacks(missing) if missing else None


def source_on_worker(source: Source, folder: Path, code: CodeFolder | None) -> Source:
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
