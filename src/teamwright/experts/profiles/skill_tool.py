"""The tool `skills`: an agent knows the names and descriptions of its skills, and reads their files when it needs them.

The docstring of `read_skill`, the catalogue and the messages of `ToolError` are part of prompts: changing one changes
effect hashes, and recorded runs would no longer resume.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from teamwright.agents.contract.context import Context
from teamwright.agents.tools.context import ToolContext
from teamwright.agents.tools.kind import BuildOptions, ToolKind
from teamwright.agents.tools.methods import MethodSource
from teamwright.agents.tools.protocol import ToolSource
from teamwright.documents.nodes import Fields, ProblemReport
from teamwright.errors import ToolError, UsageError, nearest
from teamwright.experts.profiles.skill import (
    SKILL_FILE,
    Skill,
    SkillFolders,
    is_inside,
    pin_skills,
    read_text_of,
    skill_body,
)
from teamwright.values.specs.manifest import CustomTool, ToolSpec

SKILLS, READ_SKILL, FOLDERS, PINNED = "skills", "read_skill", "folders", "pinned"
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
    """`{skills: {folders: […]}}`."""

    name = SKILLS
    model = SkillFolders

    def build(self, settings: SkillFolders, options: BuildOptions) -> ToolSource:
        """Create the source; skills that were not pinned when a manifest was loaded are pinned now."""
        if settings.pinned is None:
            return read_skills(*settings.folders)
        return SkillSource(settings.pinned, options.spec)

    def tool_names(self, fields: Fields | None, name: str) -> Sequence[str] | None:
        """Return the names of the group and its tool."""
        return [SKILLS, READ_SKILL]

    def check(self, fields: Fields, owner: str, report: ProblemReport) -> None:
        """Report folders that have no skills."""
        for written, place in fields.texts(SKILLS, FOLDERS):
            if VARIABLE not in written:
                report.collect(place, owner, pin_skills, [(written, Path(place.file).parent / written)])

    def relocate(self, settings: JsonValue, move: Callable[[str], str]) -> JsonValue:
        """Move the folders."""
        match settings:
            case {"folders": list() as folders}:
                return {**settings, FOLDERS: [move(one) if isinstance(one, str) else one for one in folders]}
            case _:
                return settings

    def pin(self, settings: JsonValue, folder: Callable[[str], Path]) -> JsonValue:
        """Add the names, descriptions and digests of the skills."""
        match settings:
            case {"folders": list() as folders} if not any(VARIABLE in str(one) for one in folders):
                pinned = pin_skills([(str(one), folder(str(one))) for one in folders])
                return {**settings, PINNED: [skill.model_dump(mode="json") for skill in pinned]}
            case _:
                return settings

    def resolve(self, spec: ToolSpec, folder: Callable[[str], Path]) -> ToolSpec:
        """Make the folders absolute."""
        settings = SkillFolders.model_validate((spec.model_extra or {})[SKILLS])
        skills = [one.model_copy(update={"folder": str(folder(one.folder))}) for one in settings.pinned or ()]
        return _spec([str(folder(one)) for one in settings.folders], skills or None)


def _spec(folders: Sequence[str], skills: Sequence[Skill] | None) -> ToolSpec:
    data: dict[str, JsonValue] = {FOLDERS: list[JsonValue](folders)}
    if skills is not None:
        data[PINNED] = [cast("JsonValue", skill.model_dump(mode="json")) for skill in skills]
    return CustomTool.model_validate({SKILLS: data})
