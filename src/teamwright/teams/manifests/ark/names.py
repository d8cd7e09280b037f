"""Native names of ARK documents. In a cluster, names are unique per kind and namespace; agents and teams share ours.

On a conflict, a team keeps its name, and the others get a longer one with a warning. References follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from teamwright.documents.nodes import Fields, ProblemReport, Scalar, shown
from teamwright.values.names import suggest_name

DEFAULT_NAMESPACE = "default"
ORDER = ("team", "agent", "model", "query")
"""The kinds by their priority on a conflict."""
LONGEST = 64

Key = tuple[str, str, str]
"""Kind, namespace and name."""


def namespace_of(root: Fields) -> str:
    """The namespace of a document."""
    given = root.text("metadata", "namespace")
    return str(given.value) if given and given.value else DEFAULT_NAMESPACE


@dataclass(slots=True)
class ArkNames:
    """The native names of all documents that are loaded together."""

    _names: dict[Key, str] = field(default_factory=dict[Key, str])
    _namespaces: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    _taken: dict[tuple[str, str], Key] = field(default_factory=dict[tuple[str, str], Key])
    _numbers: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """The last number that was appended to a name, so that none is tried twice."""

    @classmethod
    def of(cls, documents: Iterable[Fields], report: ProblemReport) -> ArkNames:
        """Assign each document a name, and warn about those that can't keep theirs."""
        names = cls()
        found: list[tuple[str, str, Scalar]] = []
        for root in documents:
            kind, name = root.text("kind"), root.text("metadata", "name")
            if kind and name and str(kind.value).lower() in ORDER:
                found.append((str(kind.value).lower(), namespace_of(root), name))
        late: list[tuple[Key, Scalar]] = []
        for kind, namespace, name in sorted(found, key=lambda one: ORDER.index(one[0])):
            key = (kind, namespace, str(name.value))
            names._namespaces.setdefault((kind, key[2]), namespace)
            if key not in names._names and not names._claim(key):
                late.append((key, name))
        for key, name in late:
            if key not in names._names:
                names._rename(key, name, report)
        return names

    def resolve(self, kind: str, namespace: str, name: str) -> str:
        """The native name of a referenced document: of the one in this namespace, else in the first that has it."""
        for key in ((kind, namespace, name), (kind, self._namespaces.get((kind, name), namespace), name)):
            if key in self._names:
                return self._names[key]
        return name

    def _claim(self, key: Key) -> bool:
        """Let a document keep its name if it is free, and return whether it was."""
        place = (_family(key), key[2])
        if self._taken.setdefault(place, key) is not key:
            return False
        self._names[key] = key[2]
        return True

    def _rename(self, key: Key, place: Scalar, report: ProblemReport) -> None:
        kind, namespace, name = key
        rival = self._taken[_family(key), name]
        same = rival[1] == namespace
        chosen = self._free(_family(key), f"{name}-{kind}" if same else suggest_name(f"{namespace}.{name}"))
        owner = f"{rival[0]} {shown(name)}" + ("" if same else f" of namespace {shown(rival[1])}")
        message = f"{kind} {shown(name)} is renamed to {shown(chosen)}, because {owner} has the name"
        report.warning(place.place, message)
        self._names[key] = chosen
        self._taken[_family(key), chosen] = key

    def _free(self, family: str, wanted: str) -> str:
        chosen, stem = wanted[:LONGEST], wanted[: LONGEST - 6]
        while (family, chosen) in self._taken:
            self._numbers[family, stem] += 1
            chosen = f"{stem}-{self._numbers[family, stem] + 1}"
        return chosen


def _family(key: Key) -> str:
    """The native namespace of a kind: agents and teams share one."""
    return "member" if key[0] in {"team", "agent"} else key[0]
