"""Skills in the Agent Skills format: a folder with `SKILL.md`, whose front matter has a name and a description.

A skill is pinned when its team is loaded: its name, its description and a digest of each file. A file that changes
afterwards is noticed, and never read silently. Nothing in a skill is executed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import Field

from teamwright.documents.nodes import Fields, Place, ProblemReport
from teamwright.documents.reader import parse_documents
from teamwright.errors import UsageError
from teamwright.values.models import Value
from teamwright.values.text.display import cut

SKILL_FILE = "SKILL.md"
LARGEST_FILE = 1 << 20
MOST_FILES = 1000
SKIPPED = {"__pycache__", "node_modules"}
FRONT_MATTER = re.compile(r"\A\ufeff?\s*+---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
SKILL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
FIELD = re.compile(r"^(name|description):[ \t]*(?:[|>][-+]?[ \t]*\r?$)?(.*(?:\n[ \t]+.*)*)$", re.MULTILINE)
"""A field with the indented lines after it, without the sign of a block."""


class Skill(Value):
    """One skill as it was when its team was loaded; `files` maps each path in its folder to a digest."""

    name: str
    description: str
    folder: str
    files: dict[str, str]


class SkillFolders(Value):
    """The settings of the tool `skills`. `pinned` is added when a manifest is loaded, and recorded."""

    folders: tuple[str, ...] = Field(
        min_length=1, description="folders with SKILL.md, or folders of such folders, relative to this file"
    )
    pinned: tuple[Skill, ...] | None = Field(default=None, description="filled in when the manifest is loaded")


def pin_skills(folders: Sequence[tuple[str, Path]]) -> tuple[Skill, ...]:
    """Read the skills of folders, each given as it is written and where it is; raises `UsageError`."""
    found: dict[str, Skill] = {}
    for written, place in folders:
        for name, folder in _skill_folders(written, place):
            skill = read_skill(folder, name)
            if skill.name in found:
                raise UsageError(f"two skills are called {skill.name!r}: {found[skill.name].folder!r} and {name!r}.")
            found[skill.name] = skill
    return tuple(found.values())


def _skill_folders(written: str, place: Path) -> Iterator[tuple[str, Path]]:
    """The folder itself if it is a skill, else the skills in it, sorted by name."""
    if (place / SKILL_FILE).is_file():
        yield written, place
        return
    try:
        inside = [one for one in sorted(place.iterdir()) if (one / SKILL_FILE).is_file()]
    except OSError as error:
        raise UsageError(f"the folder of skills {written!r} can't be read: {error.strerror}.") from error
    if not inside:
        raise UsageError(f"{written!r} is no skill and has none in it: a skill is a folder with a file {SKILL_FILE}.")
    for one in inside:
        yield f"{written.rstrip('/')}/{one.name}", one


def read_skill(place: Path, written: str) -> Skill:
    """Read the name and description of a skill, and the digests of its files; raises `UsageError`."""
    text, _ = read_text_of(place, SKILL_FILE, written)
    fields = _front_matter(text, written)
    folder = place.resolve().name  # by the specification the same as the name, but names in use are also titles
    given = fields.get("name", folder)
    name, description = given if SKILL_NAME.fullmatch(given) else folder, fields.get("description", "")
    if not SKILL_NAME.fullmatch(name):
        raise UsageError(f"the skill {written!r} is called {cut(given, 60)!r}: use letters, digits, '.', '_' and '-'.")
    if not description:
        raise UsageError(f"the skill {written!r} has no description; its front matter in {SKILL_FILE} needs one.")
    files = {path: _digest_of(place, path, written) for path in _paths(place, written)}
    return Skill(name=name, description=description, folder=written, files=files)


def skill_body(text: str) -> str:
    """Return the instructions of a skill: its `SKILL.md` without the front matter."""
    found = FRONT_MATTER.match(text)
    return (text[found.end() :] if found else text).strip()


def _front_matter(text: str, written: str) -> dict[str, str]:
    """The texts among the fields; a header that is no YAML, as with a colon in a description, is read line by line."""
    found = FRONT_MATTER.match(text)
    if found is None:
        raise UsageError(f"{SKILL_FILE} of the skill {written!r} has no front matter: begin it with  ---")
    report = ProblemReport()
    documents = parse_documents(found[1], Place(written), report)
    if report.problems:
        return {key: " ".join(value.split()).strip("\"'") for key, value in FIELD.findall(found[1])}
    fields = documents[0] if documents else None
    if not isinstance(fields, Fields):
        return {}
    texts = {key: fields.text(key) for key in ("name", "description")}
    return {key: " ".join(str(one.value).split()) for key, one in texts.items() if one is not None}


def _paths(place: Path, written: str) -> list[str]:
    """The files of a skill, without hidden ones and links that lead out of its folder."""
    found: list[str] = []
    for folder, folders, names in os.walk(place):
        folders[:] = sorted(one for one in folders if not one.startswith(".") and one not in SKIPPED)
        for name in sorted(names):
            path = Path(folder, name)
            if not name.startswith(".") and is_inside(path, place):
                found.append(path.relative_to(place).as_posix())
        if len(found) > MOST_FILES:
            raise UsageError(f"the skill {written!r} has more than {MOST_FILES} files.")
    return found


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a path is a regular file within a folder, after links are followed."""
    return path.is_file() and path.resolve().is_relative_to(folder.resolve())


def read_text_of(place: Path, path: str, written: str) -> tuple[str, str]:
    """Return the text of a file of a skill, and the digest of its content; raises `UsageError`."""
    with _reading(path, written), (place / path).open("rb") as file:
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise UsageError(f"{path!r} of the skill {written!r} is larger than {LARGEST_FILE >> 20} MiB.")
    try:
        return content.decode("utf-8"), hashlib.sha256(content).hexdigest()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path!r} of the skill {written!r} is no text.") from error


def _digest_of(place: Path, path: str, written: str) -> str:
    """Return the digest of a file of any size, read piece by piece."""
    with _reading(path, written), (place / path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _reading(path: str, written: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path!r} of the skill {written!r} can't be read: {error.strerror}.") from error
