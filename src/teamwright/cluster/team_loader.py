"""Builds the team of a recorded run on a worker: from its manifest, its files, and the code that the worker has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
from pydantic import ValidationError

from teamwright.agents.clients.models import Models
from teamwright.cluster.needs import VARIABLE, CodeFolder, missing_here, needs_of, place_in_code
from teamwright.cluster.permissions import Permissions
from teamwright.errors import NotResumable
from teamwright.journal.codec import decode_body
from teamwright.journal.protocol import Journal
from teamwright.teams.load import team_from_source
from teamwright.teams.preflight import check_ready
from teamwright.teams.run_files import FileCache
from teamwright.teams.team import Team
from teamwright.values.events.run import RunStarted
from teamwright.values.specs.manifest import Manifest, McpSpec, Source, ToolSpec
from teamwright.values.text.validation_messages import misfits_of

NOTHING = Permissions()


@dataclass(frozen=True, slots=True)
class Lacks:
    """What this worker lacks of a run's needs, in words that follow "waits for a worker with"."""

    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"waits for a worker with {', '.join(self.reasons)}"


class TeamLoader:
    """Builds teams of recorded runs. `code` are the folders with code that this worker has, `allow` what else runs may
    use of it.
    """

    def __init__(
        self,
        journal: Journal,
        models: Models,
        *,
        code: Sequence[CodeFolder] = (),
        allow: Permissions = NOTHING,
        cache: FileCache | None = None,
    ) -> None:
        self._journal, self._models, self._allow = journal, models, allow
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
        code = self._code.get(started.code)
        local = source_on_worker(source, folder, code, self._allow.roots)
        team = await anyio.to_thread.run_sync(partial(team_from_source, local, self._models, recorded=True))
        team.permit = partial(self._allow.check, None if code is None else code.folder)
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
        missing = await anyio.to_thread.run_sync(self._missing, started, source.manifest)
        return Lacks(missing) if missing else None

    def _missing(self, started: RunStarted, manifest: Manifest) -> tuple[str, ...]:
        """Return what is not allowed, or else what is not there: looking for it may import packages."""
        code, needs = self._code.get(started.code), needs_of(started, manifest)
        if started.code and code is None:
            return missing_here(needs, None)
        refused = self._allow.refusals(manifest, None if code is None else code.folder)
        return tuple(map(str, refused)) or missing_here(needs, code)


def source_on_worker(source: Source, folder: Path, code: CodeFolder | None, roots: Sequence[str] | None = ()) -> Source:
    """The source with its files in `folder`, its modules in the folder with code, and commands beside the code.

    The folders that its record allows are those of another machine, as its submitter claims; `roots` replace them.
    """
    update: dict[str, object] = {"base": str(folder), "modules": "", "roots": roots}
    if code is not None:
        update["modules"] = str(code.folder)
        if (beside := place_in_code(source)) is not None:
            update["manifest"] = _with_commands_in(source.manifest, code.folder / beside)
            update["roots"] = None if roots is None else (*roots, str(code.folder))
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
