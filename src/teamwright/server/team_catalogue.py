"""The teams that a server may run: those in the folders that it was given, and no others.

A team is loaded once, and again after its folder or the environment has changed. One that is too large to look
through, or that names files elsewhere, is loaded each time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from teamwright.errors import ManifestError, Problem, TeamwrightError, UnknownName, UsageError
from teamwright.server.page.page_state import pictures_of
from teamwright.values.specs.models import ServerModel, model_key

if TYPE_CHECKING:
    from teamwright.teams.team import Team
    from teamwright.values.specs.manifest import AgentSpec, Manifest
    from teamwright.values.specs.models import AnyModel

MANIFESTS = ("team.yaml", "team.yml")
MOST_ENTRIES = 500
"""Files and folders that are looked at for changes of a team."""
ELSEWHERE = re.compile(r"^[~/\\]|\.\.[/\\]|:[/\\](?!/)|\$\{[^}]*\}[/\\]")
"""What a text matches that may name a file outside of a team's folder: up, absolute, or where a variable says."""
FILE_PROVIDERS = ("local", "scripted")
"""What a model that is named by a file begins with."""
Version = tuple[object, ...]
"""What changes whenever a team may load to something else."""


@dataclass(frozen=True, slots=True)
class TeamEntry:
    """A manifest in one of the folders; `problem` says why it can't be loaded, where that is so."""

    id: str
    path: Path
    team: Team | None = None
    problem: str = ""

    def to_json(self) -> dict[str, JsonValue]:
        """The entry for clients, without paths of this machine."""
        if self.team is None:
            return {"id": self.id, "problem": self.problem}
        source = self.team.source
        return {
            "id": self.id,
            "name": self.team.name,
            "description": self.team.description,
            "strategy": self.team.strategy.name,
            "members": pictures_of(source.to_json(), (one.name for one in self.team.members)),
            "models": list(_shown_models(source.manifest)),
        }


class Catalogue:
    """Finds teams by id: the path of their folder within the one that the server was given."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = [folder.resolve() for folder in folders]
        self._loaded: dict[Path, tuple[Version, Team]] = {}

    def entries(self) -> list[TeamEntry]:
        """Return all teams, by id. Each is loaded, which takes a while: call it in a thread."""
        return [self._entry(id_, path) for id_, path in sorted(dict(self._manifests()).items())]

    def ids(self) -> list[str]:
        """Return the ids of all teams, also of those that can't be loaded."""
        return sorted(dict(self._manifests()))

    def id_of(self, name: str) -> str | None:
        """Return the id of a team by its own name; `None` if there is none, or several have it."""
        known = dict(self._manifests())
        if name in known and self._is_named(known[name], name):
            return name
        found = [id_ for id_, path in known.items() if self._is_named(path, name)]
        return found[0] if len(found) == 1 else None

    def load(self, id_: str) -> Team:
        """Return the team with this id; raises `UnknownName`, or `ManifestError` with every mistake.

        Messages have paths within the team's folder, and none of this machine.
        """
        path = self._find(id_)
        try:
            return self._load(path)
        except ManifestError as error:
            raise ManifestError([_relative(one, path, id_) for one in error.problems]) from error
        except UsageError as error:
            raise UsageError(_within(str(error), path, id_)) from error

    def agent(self, id_: str, name: str) -> AgentSpec:
        """Return the declaration of an agent in the manifest with this id; raises `UnknownName` if there is none."""
        from teamwright.teams.team_loader import read_manifest

        agents = read_manifest([self._find(id_)]).manifest.agents
        if name not in agents:
            raise UnknownName("agent", name, agents)
        return agents[name]

    def folder(self, id_: str) -> Path:
        """Return the folder of the manifest with this id; raises `UnknownName` if there is none."""
        return self._find(id_).parent

    def public_text(self, id_: str, text: str) -> str:
        """Return a text with paths within the folder of a team, and none of this machine."""
        return _within(text, self._find(id_), id_)

    def model(self, id_: str, key: str | None) -> tuple[AnyModel, Path]:
        """Return a model that the manifest with this id names, by default its first, and the folder of the manifest.

        `key` is its name as `TeamEntry` shows it, or what identifies it in a record.
        """
        from teamwright.teams.team_loader import read_manifest

        path = self._find(id_)
        manifest = read_manifest([path]).manifest
        shown = _shown_models(manifest)
        if not shown:
            raise UsageError(f"The team {id_!r} names no model; choose a team that does.")
        found = key if key is not None else next(iter(shown))
        known = _models(manifest) | shown
        if found not in known:
            raise UnknownName("model", found, shown)
        return known[found], path.parent

    def _load(self, path: Path) -> Team:
        """Return the team of a manifest, from memory if nothing has changed since it was loaded."""
        version = _version(path.parent)  # before it is loaded: a change meanwhile makes it load again
        known = self._loaded.get(path)
        if known is not None and version is not None and known[0] == version:
            return known[1]
        from teamwright.teams.team_loader import load_team

        team = load_team(path)
        if version is not None and not _names_files_elsewhere(team):
            self._loaded[path] = version, team
        return team

    def _is_named(self, path: Path, name: str) -> bool:
        try:
            return self._load(path).name == name
        except TeamwrightError:
            return False

    def _entry(self, id_: str, path: Path) -> TeamEntry:
        try:
            return TeamEntry(id_, path, self._load(path))
        except TeamwrightError as error:
            return TeamEntry(id_, path, problem=_within(str(error), path, id_))

    def _find(self, id_: str) -> Path:
        known = dict(self._manifests())
        if id_ not in known:
            raise UnknownName("team", id_, known)
        return known[id_]

    def _manifests(self) -> Iterator[tuple[str, Path]]:
        for folder in self._folders:
            for name in MANIFESTS:
                for file in (folder / name, *sorted(folder.glob(f"*/{name}"))):
                    if file.is_file() and file.resolve().is_relative_to(folder):  # a link may lead anywhere
                        yield file.parent.name, file


def _models(manifest: Manifest) -> dict[str, AnyModel]:
    """Return the models that the agents of a manifest name, themselves or by a name of its `models`, by their keys."""
    written = [one.model for one in manifest.agents.values()]
    declared = [manifest.models.get(one, one) if isinstance(one, str) else one for one in written if one is not None]
    return {model_key(model): model for model in (*declared, *manifest.models.values())}


def _shown_models(manifest: Manifest) -> dict[str, AnyModel]:
    """Return the models that the agents of a manifest name by what every client may see of them.

    The address of a model's own server and the folders of this machine are left out; a number tells equal names apart.
    """
    found: dict[str, AnyModel] = {}
    for key, model in _models(manifest).items():
        provider, _, file = key.partition(":")
        name = f"{provider}:{Path(file).name}" if provider in FILE_PROVIDERS and Path(file).is_absolute() else key
        name = model.name if isinstance(model, ServerModel) else name
        number = sum(1 for one in found if one == name or one.startswith(f"{name} (")) + 1
        found[name if number == 1 else f"{name} ({number})"] = model
    return found


def _version(folder: Path) -> Version | None:
    """Return what identifies the state of a folder and of the environment; `None` if that takes too long.

    A link to another folder could hide changes, so that there is none then, either.
    """
    found: list[object] = [hash(frozenset(os.environ.items()))]
    folders = [str(folder)]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name == "__pycache__":  # loading the team writes there
                    continue
                is_folder = entry.is_dir()
                if len(found) > MOST_ENTRIES or (is_folder and entry.is_symlink()):
                    return None
                if is_folder:
                    folders.append(entry.path)
                    found.append(entry.path)
                    continue
                with suppress(OSError):  # a link that leads nowhere
                    one = entry.stat()
                    found.append((entry.path, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns))
    return tuple(found)


def _names_files_elsewhere(team: Team) -> bool:
    """Whether a team may name files outside of its folder, whose changes the version of the folder does not show."""
    manifest = team.source.to_json()["manifest"]
    return any(ELSEWHERE.search(text) for text in _texts(manifest))


def _texts(value: JsonValue) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case dict():
            for item in value.values():
                yield from _texts(item)
        case _:
            return


def _relative(problem: Problem, path: Path, id_: str) -> Problem:
    message, file, suggestion = (
        _within(text, path, id_) for text in (problem.message, problem.file, problem.suggestion)
    )
    return replace(problem, message=message, file=file, suggestion=suggestion)


def _within(text: str, path: Path, id_: str) -> str:
    """Return a text with paths relative to the folder of a team."""
    return text.replace(f"{path.parent}/", "").replace(str(path.parent), id_)
