"""Skills in the Agent Skills format, and the tool `skills`, with which an agent reads their files when it needs them.

A skill is pinned when its team is loaded: its name, its description and a digest of each file. A file that changes
afterwards is noticed, and never read silently. Nothing in a skill is executed. The docstring of `read_skill`, the
catalogue and the messages of `ToolError` are part of prompts: a change of one changes the hashes of effects.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from pydantic import Field, JsonValue
from pydantic.json_schema import SkipJsonSchema

from teamwright.agents.agent import Context
from teamwright.agents.tools.protocol import BuildOptions, ToolContext, ToolKind, ToolSource
from teamwright.agents.tools.python import MethodSource
from teamwright.documents.nodes import Fields, Place, ProblemReport
from teamwright.documents.reader import parse_documents
from teamwright.errors import ToolError, UsageError, nearest
from teamwright.values.specs.tools import CustomTool, ToolSpec
from teamwright.values.text.display import cut
from teamwright.values.value import Value

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

    folder: tuple[str, ...] = Field(
        min_length=1, description="folders with SKILL.md, or folders of such folders, relative to this file"
    )
    pinned: SkipJsonSchema[tuple[Skill, ...] | None] = None


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


SKILLS, READ_SKILL, FOLDER, PINNED = "skills", "read_skill", "folder", "pinned"
VARIABLE = "${"


class SkillMethods:
    """The tool's method, for one call. Its docstring is the description that a model sees."""

    def __init__(self, skills: Sequence[Skill]) -> None:
        self._skills = {skill.name: skill for skill in skills}

    def read_skill(self, skill: str, file: str = SKILL_FILE) -> JsonValue:
        """Read a skill before you use it: its instructions and the list of its files, or one of these files.

        Args:
            skill: the name of the skill
            file: a file that the skill names; without it, you get its instructions
        """
        found = self._skills.get(skill)
        if found is None:
            raise ToolError(f"There is no skill {skill!r}; {nearest(skill, self._skills)}")
        path = file.removeprefix("./")
        if path not in found.files:
            raise ToolError(f"The skill {skill!r} has no file {file!r}; {nearest(path, found.files)}")
        text = _unchanged_text(found, path)
        if path != SKILL_FILE:
            return text
        others = [one for one in found.files if one != SKILL_FILE]
        return {"instructions": skill_body(text), "files": list[JsonValue](others)}


def _unchanged_text(skill: Skill, path: str) -> str:
    """Read a file of a skill; raises `ToolError` if it is not the one that was pinned."""
    place = Path(skill.folder)
    if not is_inside(place / path, place):
        raise ToolError(f"The file {path!r} of the skill {skill.name!r} is gone; it was there when the run began.")
    try:
        text, digest = read_text_of(place, path, skill.name)
    except UsageError as error:
        raise ToolError(f"The skill can't be read: {error}") from error
    if digest != skill.files[path]:
        raise ToolError(
            f"The file {path!r} of the skill {skill.name!r} has changed since the run began, so it is not used."
        )
    return text


class SkillSource(MethodSource):
    """The tool `read_skill` over pinned skills; the agent's instructions list them."""

    name = kind = SKILLS
    tool_names = (READ_SKILL,)
    methods = SkillMethods
    has_context = True

    def __init__(self, skills: Sequence[Skill], spec: str | ToolSpec | None = None) -> None:
        self.skills = tuple(skills)
        self.spec = _spec([skill.folder for skill in skills], skills) if spec is None else spec

    def bind(self, context: ToolContext) -> SkillMethods:
        """Create the tool of one call."""
        return SkillMethods(self.skills)

    async def context(self, ctx: Context) -> Sequence[str]:
        """Return the catalogue of skills, for the instructions of the agent."""
        listed = "\n".join(f"- {skill.name}: {skill.description}" for skill in self.skills)
        return [f"Skills that you have. Before you do what one is for, read it with {READ_SKILL}.\n\n{listed}"]


def read_skills(*folders: Path | str) -> SkillSource:
    """Return the tool that reads the skills in these folders: each is a skill, or a folder of skills."""
    if not folders:
        raise UsageError("There are no skills: name at least one folder with a file SKILL.md.")
    try:
        return SkillSource(pin_skills([(str(Path(one).resolve()), Path(one)) for one in folders]))
    except UsageError as error:
        raise UsageError(f"The skills can't be used: {error}") from error


class SkillsKind(ToolKind[SkillFolders]):
    """`{skills: {folder: […]}}`."""

    name = SKILLS
    model = SkillFolders

    def build(self, settings: SkillFolders, options: BuildOptions) -> ToolSource:
        """Create the source; skills that were not pinned when a manifest was loaded are pinned now."""
        if settings.pinned is None:
            return read_skills(*settings.folder)
        return SkillSource(settings.pinned, options.spec)

    def tool_names(self, fields: Fields | None, name: str) -> Sequence[str] | None:
        """Return the names of the group and its tool."""
        return [SKILLS, READ_SKILL]

    def check(self, fields: Fields, owner: str, report: ProblemReport) -> None:
        """Report folders that have no skills."""
        for written, place in fields.texts(SKILLS, FOLDER):
            if VARIABLE not in written:
                report.collect(place, owner, pin_skills, [(written, Path(place.file).parent / written)])

    def relocate(self, settings: JsonValue, move: Callable[[str], str]) -> JsonValue:
        """Move the folders."""
        match settings:
            case {"folder": list() as folders}:
                return {**settings, FOLDER: [move(one) if isinstance(one, str) else one for one in folders]}
            case _:
                return settings

    def pin(self, settings: JsonValue, folder: Callable[[str], Path]) -> JsonValue:
        """Add the names, descriptions and digests of the skills."""
        match settings:
            case {"folder": list() as folders} if not any(VARIABLE in str(one) for one in folders):
                pinned = pin_skills([(str(one), folder(str(one))) for one in folders])
                return {**settings, PINNED: [skill.model_dump(mode="json") for skill in pinned]}
            case _:
                return settings

    def resolve(self, spec: ToolSpec, folder: Callable[[str], Path]) -> ToolSpec:
        """Make the folders absolute."""
        settings = SkillFolders.model_validate((spec.model_extra or {})[SKILLS])
        skills = [one.model_copy(update={"folder": str(folder(one.folder))}) for one in settings.pinned or ()]
        return _spec([str(folder(one)) for one in settings.folder], skills or None)


def _spec(folders: Sequence[str], skills: Sequence[Skill] | None) -> ToolSpec:
    data: dict[str, JsonValue] = {FOLDER: list[JsonValue](folders)}
    if skills is not None:
        data[PINNED] = [cast("JsonValue", skill.model_dump(mode="json")) for skill in skills]
    return CustomTool.model_validate({SKILLS: data})
