"""The teams that a server may run: those in the folders that it was given, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from teamwright.errors import ManifestError, Problem, TeamwrightError, UnknownName, UsageError

if TYPE_CHECKING:
    from teamwright.teams.team import Team
    from teamwright.values.specs.manifest import AgentSpec

MANIFESTS = ("team.yaml", "team.yml")


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
        members: list[JsonValue] = [{"name": one.name, "description": one.description} for one in self.team.members]
        return {
            "id": self.id,
            "name": self.team.name,
            "description": self.team.description,
            "strategy": self.team.strategy.name,
            "members": members,
        }


class Catalogue:
    """Finds teams by id: the path of their folder within the one that the server was given."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = [folder.resolve() for folder in folders]

    def entries(self) -> list[TeamEntry]:
        """Return all teams, by id. Each is loaded, which takes a while: call it in a thread."""
        return [_entry(id_, path) for id_, path in sorted(dict(self._manifests()).items())]

    def ids(self) -> list[str]:
        """Return the ids of all teams, also of those that can't be loaded."""
        return sorted(dict(self._manifests()))

    def load(self, id_: str) -> Team:
        """Return the team with this id; raises `UnknownName`, or `ManifestError` with every mistake.

        Messages have paths within the team's folder, and none of this machine.
        """
        from teamwright.teams.load import load_team

        path = self._find(id_)
        try:
            return load_team(path)
        except ManifestError as error:
            raise ManifestError([_relative(one, path, id_) for one in error.problems]) from error
        except UsageError as error:
            raise UsageError(_within(str(error), path, id_)) from error

    def agent(self, id_: str, name: str) -> AgentSpec:
        """Return the declaration of an agent in the manifest with this id; raises `UnknownName` if there is none."""
        from teamwright.teams.load import read_manifest

        agents = read_manifest([self._find(id_)]).manifest.agents
        if name not in agents:
            raise UnknownName("agent", name, agents)
        return agents[name]

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


def _entry(id_: str, path: Path) -> TeamEntry:
    from teamwright.teams.load import load_team

    try:
        return TeamEntry(id_, path, load_team(path))
    except TeamwrightError as error:
        return TeamEntry(id_, path, problem=_within(str(error), path, id_))


def _relative(problem: Problem, path: Path, id_: str) -> Problem:
    message, file, suggestion = (
        _within(text, path, id_) for text in (problem.message, problem.file, problem.suggestion)
    )
    return replace(problem, message=message, file=file, suggestion=suggestion)


def _within(text: str, path: Path, id_: str) -> str:
    """Return a text with paths relative to the folder of a team."""
    return text.replace(f"{path.parent}/", "").replace(str(path.parent), id_)
