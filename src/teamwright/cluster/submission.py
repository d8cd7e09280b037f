"""A team on its way to a worker: what travels with its run, what a worker must have, and building the team there.

Scripts and the folders of tools travel. Attachments need not, because the start of a run records their contents.
Secrets and settings stay names of environment variables, which the worker resolves.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory

import anyio
from pydantic import JsonValue, ValidationError

from teamwright.agents.clients.client_pool import Models
from teamwright.cluster.permissions import ROOTLESS, Permissions
from teamwright.cluster.queue_client import QueueClient
from teamwright.cluster.run_requirements import VARIABLE, CodeFolder, check_code, missing_here, needs_of, place_in_code
from teamwright.errors import NotResumable, UsageError
from teamwright.journal.codec import decode_body
from teamwright.journal.protocol import Batch, Journal, commit
from teamwright.teams.manifests.environment_variables import lenient_environment, resolve_secrets
from teamwright.teams.manifests.manifest_loader import LOCAL, SCRIPTED, relocate
from teamwright.teams.preflight import check_declared, check_ready
from teamwright.teams.run_files import LARGEST_FILE, LARGEST_TOTAL, MOST_FILES, FileCache, check_files
from teamwright.teams.team import Team
from teamwright.teams.team_loader import team_from_source
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunEnded, RunPaused, RunQueued, RunStarted
from teamwright.values.specs.manifest import Manifest, Source
from teamwright.values.specs.tools import FILES, McpSpec, ToolSpec
from teamwright.values.text.secrets import without_secrets
from teamwright.values.text.validation_messages import misfits_of
from teamwright.values.turns.messages import digest
from teamwright.values.turns.results import FINAL

NOTHING = Permissions()
MCP = "mcp"
_SECTIONS = {"agents": "agent", "models": "model", "tools": "tool"}
_SKIPPED = {"__pycache__", "node_modules"}


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
    if not isinstance(tool, McpSpec) or tool.mcp.folder is None or VARIABLE in tool.mcp.folder:
        return tool
    return McpSpec(mcp=tool.mcp.model_copy(update={"folder": str(folder / tool.mcp.folder)}))


@dataclass(frozen=True, slots=True)
class PackedSource:
    """A source whose paths are below its base, and the files at these paths."""

    source: Source
    files: Mapping[str, bytes]


def pack(source: Source, *, allow: Sequence[Path] = (), secrets: Collection[str] = ()) -> PackedSource:
    """Read the files that a source names, and return it with the paths under which they travel.

    Files outside the base must be in a folder that the source or `allow` allows. Raises `UsageError` for what can't
    travel, such as a file that contains one of the `secrets`.
    """
    packer = _Packer(Path(source.base).resolve(), source.roots, [one.resolve() for one in allow])
    data = source.manifest.model_dump(mode="json", exclude_unset=True)
    for section, kind in _SECTIONS.items():
        declared: dict[str, JsonValue] = data.get(section, {})
        for name, value in declared.items():
            declared[name] = relocate(kind, value, packer.move, packer.original)
    check_files(packer.files)
    _check_secrets(packer.files, secrets)
    return PackedSource(source.model_copy(update={"manifest": Manifest.model_validate(data)}), packer.files)


@dataclass(slots=True)
class _Packer:
    base: Path
    roots: Sequence[str] | None
    allow: Sequence[Path]
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    _originals: dict[str, Path] = field(default_factory=dict[str, Path])
    _size: int = 0

    def move(self, kind: str, written: str) -> str:
        """Add what is at a path, and return the path under which it travels."""
        if VARIABLE in written or kind == MCP:  # the worker resolves it; the folder of a command is one of its own
            return written
        if kind in {FILES, LOCAL}:
            return _check_absolute(kind, written)
        place = Path(self.base, written)
        try:
            found = place.resolve(strict=True)
        except (OSError, ValueError, RuntimeError) as error:
            if kind != SCRIPTED:  # a tool may name what it creates
                return written
            raise UsageError(f"The file {written!r} of scripted replies can't be read: {error}.") from error
        name = self._name(found, written)
        self._originals[name] = found
        if found.is_dir():
            self._add_folder(found, name)
        else:
            self._add(name, found)
        return name

    def original(self, moved: str) -> Path:
        return self._originals.get(moved) or Path(self.base, moved)

    def _name(self, found: Path, written: str) -> str:
        if found.is_relative_to(self.base):
            return found.relative_to(self.base).as_posix()
        allowed = [*self.allow, *map(Path, self.roots or ())]
        if self.roots is not None and not any(found.is_relative_to(one) for one in allowed):
            raise UsageError(
                f"{written!r} is outside the folder of the manifest, and would travel with the run; if you trust it,"
                f" allow it with  --allow-root {quote(str(found.parent))}"
            )
        return f"outside-{digest(str(found.parent))[:8]}/{found.name}"

    def _add_folder(self, folder: Path, name: str) -> None:
        """Add the files below a folder, without hidden ones and links that lead out of it."""
        for parent, folders, names in os.walk(folder):
            folders[:] = sorted(one for one in folders if not one.startswith(".") and one not in _SKIPPED)
            for one in sorted(names):
                place = Path(parent, one)
                if not one.startswith(".") and place.is_file() and place.resolve().is_relative_to(folder):
                    inside = place.relative_to(folder).as_posix()
                    self._add(inside if name == "." else f"{name}/{inside}", place)

    def _add(self, name: str, place: Path) -> None:
        if name in self.files:
            return
        content = _read(place)
        self._size += len(content)
        self.files[name] = content
        if len(self.files) > MOST_FILES or self._size > LARGEST_TOTAL + LARGEST_FILE:
            check_files(self.files)  # says which limit is exceeded, before the rest is read


def _check_absolute(kind: str, written: str) -> str:
    if Path(written).is_absolute():
        return written
    what = "The files tool" if kind == FILES else "The model"
    raise UsageError(
        f"{what} names {written!r}, which does not travel with a run: a worker would not find it. Name an absolute path"
        " that every worker has, such as one on a shared disk."
    )


def _read(place: Path) -> bytes:
    """Read a regular file within the limits. A pipe or a device is never read: it may block, or never end."""
    try:
        handle = os.open(place, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        with os.fdopen(handle, "rb") as opened:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise UsageError(f"{str(place)!r} is no regular file, so it can't travel with a run.")
            return opened.read(LARGEST_FILE + 1)
    except OSError as error:
        raise UsageError(f"The file {str(place)!r} can't be read: {error.strerror}.") from error


def _check_secrets(files: Mapping[str, bytes], secrets: Collection[str]) -> None:
    for path, content in files.items():
        if any(secret.encode() in content for secret in secrets if secret.strip()):
            raise UsageError(
                f"The file {path!r} contains a secret of the manifest, and files travel with the run as they are;"
                " remove it from the file."
            )


@dataclass(frozen=True, slots=True)
class PreparedTeam:
    """A team, the files that travel with its run, and the digest of its code; empty if it needs no folder with code."""

    team: Team
    files: Mapping[str, bytes]
    code: str = ""
    options: tuple[str, ...] = ()
    """The options that workers need to drive the run, because it uses more than models."""


def prepare_team(
    source: Source, models: Models, *, code: CodeFolder | None = None, allow: Sequence[Path] = ()
) -> PreparedTeam:
    """Build the team of a source as workers will; raises `UsageError` for what they could not build.

    Environment variables and keys of models are those of the workers, so they need not be set here.
    `allow` are folders outside the manifest's whose files may travel, besides those of the source.
    """
    if code is not None:
        source = source.model_copy(update={"modules": str(code.folder)})
    check_code(source, code)
    team = team_from_source(source, models, environment=lenient_environment(source.manifest))
    team.secrets = frozenset(one for one in team.secrets if VARIABLE not in one)
    check_declared(team.everyone())
    packed = pack(source, allow=allow, secrets=team.secrets)
    _check_resumable(packed.source)
    _check_elsewhere(packed, models, code)
    team.declared = packed.source
    refused = Permissions().refusals(packed.source.manifest, None if code is None else code.folder)
    if ROOTLESS in refused:
        raise UsageError(
            "The files tool has no root, and workers have no folder for it: name an absolute path that each one has,"
            " such as  files: {folder: /srv/shared}"
        )
    return PreparedTeam(team, packed.files, "" if code is None else code.digest, tuple(one.option for one in refused))


def _check_elsewhere(packed: PackedSource, models: Models, code: CodeFolder | None) -> None:
    """Raise `UsageError` for a team that can be built here alone: build it from what travels, in another folder."""
    with TemporaryDirectory(prefix="teamwright-") as folder:
        for path, content in packed.files.items():
            place = Path(folder, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        local = source_on_worker(packed.source, Path(folder), code, packed.source.roots)
        try:
            team_from_source(local, models, environment=lenient_environment(local.manifest), recorded=True)
        except UsageError as error:
            raise UsageError(f"No worker could drive this team, since it has another folder there: {error}") from error


def _check_resumable(source: Source) -> None:
    """Raise `UsageError` for a secret in the manifest itself: records store none, so that no worker would have it."""
    recorded = Source.model_validate(without_secrets(source.to_json()))
    try:
        resolve_secrets(recorded.manifest, lenient_environment(recorded.manifest))
    except NotResumable as error:
        raise UsageError(
            "The manifest contains a secret itself, and records store no secrets: write it as ${NAME}, which workers"
            " read from their environment."
        ) from error


async def record_wait(journal: Journal, run_id: str, queue: str, lacks: Lacks | None = None) -> None:
    """Record for what a run waits, unless its last event says so; raises `RunIsLive` if another process drives it."""
    async with journal.drive(run_id):
        events = await journal.read(run_id)
        last, fact = events[-1], RunQueued(queue=queue, waits_for=() if lacks is None else lacks.reasons)
        if isinstance(last.fact, RunQueued) and lacks is None:
            fact = fact.changed(starts=last.fact.starts)
        if last.fact != fact and not any(isinstance(one.fact, RunEnded) for one in events):
            await _record(journal, last, fact)


async def record_pause(journal: Journal, run_id: str, why: str) -> None:
    """Record why a run is paused until it is resumed by hand; raises `RunIsLive` if another process drives it."""
    async with journal.drive(run_id):
        events = await journal.read(run_id)
        if events and not any(isinstance(one.fact, RunEnded) for one in events):
            await _record(journal, events[-1], RunPaused(stop_reason="pause", why=why))


async def _record(journal: Journal, last: Event, fact: RunPaused | RunQueued) -> None:
    event = Event(last.run_id, last.number + 1, max(time.time(), last.time), "", "", fact)
    await commit(journal, Batch([event], {}))


async def resubmit(journal: Journal, client: QueueClient, run_id: str) -> str:
    """Put a run that has no driver back into its queue, and return the name of the queue; both must be open.

    Raises `RunIsLive` if a process drives it, and `NotResumable` if it has ended or is in no queue.
    """
    entry, run = await client.find(run_id), await journal.find(run_id)
    if entry is None or run is None or run.status in FINAL:
        raise NotResumable(
            f"Run {run_id!r} is in no queue: it has ended, or it was never submitted. What is interrupted or paused"
            f" continues in this process with  teamwright runs resume {run_id}"
        )
    await record_wait(journal, run_id, entry.queue)
    if entry.state == "parked":
        await client.enqueue(entry)
    return entry.queue
