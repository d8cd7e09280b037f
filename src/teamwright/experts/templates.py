"""Templates of experts: settings of an agent and a profile in a YAML file, found by name in the package or a folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from pydantic import Field, JsonValue, ValidationError

from teamwright.documents.nodes import (
    Entry,
    Fields,
    Items,
    Node,
    Place,
    ProblemReport,
    Scalar,
    described,
    place_at,
    plain,
    shown,
    sort_problems,
)
from teamwright.documents.reader import mapping_form, read_file, yaml_text
from teamwright.documents.schema_check import Schema, SchemaCheck
from teamwright.errors import ManifestError, Problem, UnknownName, UsageError
from teamwright.teams.manifests.declarations import expand_tools
from teamwright.teams.manifests.schema import definitions, part
from teamwright.values.names import variables_of
from teamwright.values.specs.manifest import AgentSpec
from teamwright.values.specs.members import ExpertName, ExpertProfile
from teamwright.values.text.validation_messages import misfits_of
from teamwright.values.value import Value

NAME, TEMPLATE, EXPERT, SKILLS = "name", "template", "expert", "skills"
PROFILE_FIELDS = tuple(field for field in ExpertProfile.model_fields if field != TEMPLATE)

FORM = mapping_form(
    (NAME, *PROFILE_FIELDS, *AgentSpec.model_fields),
    "This is not a template: a template is a mapping with the fields of an expert",
)


class ExpertTemplate(Value):
    """A reusable expert: register it, or keep it as a YAML file in the folder `experts` beside a manifest.

    `agent` has the settings of an agent, with the method of the expert as its instructions. Paths of skills are
    absolute; others are relative to the manifest that uses the template.
    """

    name: ExpertName
    profile: ExpertProfile = ExpertProfile.model_construct()
    agent: AgentSpec = AgentSpec.model_construct()
    built_in: bool = False
    file: str = Field(default="", description="the file that it was read from")

    @property
    def description(self) -> str:
        return self.agent.description

    def to_json(self) -> dict[str, JsonValue]:
        """The template as it is written in a file, with its name, its file, and whether it is built in."""
        own = self.agent.model_dump(mode="json", exclude_unset=True)
        profile = self.profile.model_dump(mode="json", exclude_unset=True, exclude={TEMPLATE})
        return {NAME: self.name, "built_in": self.built_in, "file": self.file or None, **own, **profile}


def read_template(path: Path, report: ProblemReport, *, built_in: bool = False) -> ExpertTemplate | None:
    """Read a template from a file; returns `None` if a mistake was reported."""
    before = len(report.problems)
    documents = read_file(path, report, form=FORM)
    if len(documents) != 1:
        if len(report.problems) == before:
            report.problem(Place(str(path)), "A template is one document", "put each template into a file of its own")
        return None
    fields = _checked(documents[0], path, report)
    if fields is None or len(report.problems) > before:
        return None
    return _template(fields, path, report, built_in=built_in)


def _checked(node: Node, path: Path, report: ProblemReport) -> Fields | None:
    """Check a document against the schema of templates; its name is that of its file."""
    if not isinstance(node, Fields):
        report.problem(node.place, f"A template is a mapping with the fields of an expert, not {described(node)}")
        return None
    words = f"template {shown(path.stem)}"
    node = expand_tools(node)
    SchemaCheck(words, report, definitions()).check(node, _schema())
    written = node.text(NAME)
    if written is not None and written.value != path.stem:
        report.problem(
            written.place, f"{words} is called {shown(str(written.value))}", "a template has its file's name"
        )
    if isinstance(node.get("instructions"), Fields):
        report.problem(node.key_place("instructions"), f"{words}: the instructions of a template are a text")
    return node.without(NAME)


def _template(fields: Fields, path: Path, report: ProblemReport, *, built_in: bool) -> ExpertTemplate | None:
    data = cast("dict[str, JsonValue]", plain(fields))
    profile = {field: data.pop(field) for field in PROFILE_FIELDS if field in data}
    if isinstance(skills := profile.get(SKILLS), list):
        profile[SKILLS] = [str(path.parent.resolve() / str(one)) for one in skills]
    made = {NAME: path.stem, "profile": profile, "agent": data, "built_in": built_in, "file": str(path)}
    try:
        return ExpertTemplate.model_validate(made)
    except ValidationError as error:
        for one in misfits_of(error, made):
            at = one.at[1:] if one.at[:1] in (("profile",), ("agent",)) else ()
            report.problem(place_at(fields, at), f"template {shown(path.stem)}: {'.'.join(map(str, at))}: {one.text}")
        return None


@cache
def _schema() -> Schema:
    """The schema of a template: the fields of an agent and of a profile, and a name."""
    agent = cast("dict[str, JsonValue]", part(definitions(), "AgentSpec", "properties"))
    profile = cast("dict[str, JsonValue]", part(definitions(), "ExpertProfile", "properties"))
    own = {field: value for field, value in agent.items() if field != EXPERT}
    known = {NAME: {"type": "string"}, **own, **{field: profile[field] for field in PROFILE_FIELDS}}
    return {"type": "object", "properties": cast("JsonValue", known), "additionalProperties": False}


def as_node(value: JsonValue, place: Place) -> Node:
    """Return plain data as a node at one place."""
    match value:
        case list():
            return Items(tuple(as_node(item, place) for item in value), place)
        case dict():
            return Fields({key: Entry(key, place, as_node(item, place)) for key, item in value.items()}, place)
        case _:
            return Scalar(value, place)


BUILT_IN = Path(__file__).parent / "built_in"
FOLDER = "experts"
"""The folder beside a manifest whose YAML files are its templates."""
SUFFIXES = {".yaml", ".yml"}
WORD = re.compile(r"[^\W_]+")
COMMON = frozenset(
    WORD.findall(
        "a an and are as at be but by can do for from how in into is it its of on or our that the their they this to us"
        " we what which who will with you your"
    )
)
"""Words that say nothing about a task."""


class ExpertTemplates:
    """Templates by name. One that is registered or loaded later replaces one of the same name."""

    def __init__(self, *folders: Path | str, built_in: bool = True) -> None:
        self._known: dict[str, ExpertTemplate | Path] = {}
        if built_in:
            self._known |= _files(BUILT_IN)
        for folder in folders:
            self.load(folder)

    def register(self, template: ExpertTemplate) -> ExpertTemplate:
        if not isinstance(template, ExpertTemplate):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped code
            raise UsageError(f"Only an ExpertTemplate can be registered, not {template!r:.100}.")
        self._known[template.name] = template
        return template

    def load(self, folder: Path | str) -> list[str]:
        """Add every YAML file of a folder as a template of the file's name, and return the names."""
        try:
            found = _files(Path(folder))
        except OSError as error:
            raise UsageError(f"The folder {str(folder)!r} can't be read: {error.strerror}.") from error
        self._known |= found
        return list(found)

    def names(self) -> list[str]:
        """Return the names of all templates, sorted, without reading them."""
        return sorted(self._known)

    def get(self, name: str) -> ExpertTemplate:
        """Return the template of this name; raises `UnknownName`, or `ManifestError` with the mistakes in its file."""
        report = ProblemReport()
        found = self.find(name, report)
        if found is None:
            if report.problems:
                raise ManifestError(report.problems)
            raise UnknownName("expert template", name, self._known)
        return found

    def find(self, name: str, report: ProblemReport) -> ExpertTemplate | None:
        """Return the template of this name; `None` if there is none, or if a mistake in its file was reported."""
        known = self._known.get(name)
        if not isinstance(known, Path):
            return known
        made = read_template(known, report, built_in=known.parent == BUILT_IN)
        if made is not None:
            self._known[name] = made
        return made

    def list(self) -> tuple[ExpertTemplate, ...]:
        """Return all templates, sorted by name; raises `ManifestError` with every mistake in their files."""
        found, problems = self.list_readable()
        if problems:
            raise ManifestError(problems)
        return found

    def list_readable(self) -> tuple[tuple[ExpertTemplate, ...], tuple[Problem, ...]]:
        """Return the templates that can be read, sorted by name, and every mistake in the files of the others."""
        report = ProblemReport()
        found = [self.find(name, report) for name in self.names()]
        return tuple(one for one in found if one is not None), tuple(sort_problems(report.problems, ()))

    def search(self, query: str) -> tuple[ExpertTemplate, ...]:
        """Return the templates that fit the words of a query, the best first; those with mistakes are left out.

        A word in the name counts most, then one among the capabilities, then one in the description.
        """
        wanted = words_of(query)
        scored = [(_score(one, wanted), one) for one in self.list_readable()[0]]
        found = [pair for pair in scored if pair[0]]
        return tuple(one for _, one in sorted(found, key=lambda pair: (-pair[0], pair[1].name)))

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __len__(self) -> int:
        return len(self._known)


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text without case, without the plural's s, and without those that say nothing."""
    return frozenset(_stem(word.casefold()) for word in WORD.findall(text)) - COMMON


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _score(template: ExpertTemplate, wanted: Iterable[str]) -> int:
    name = words_of(template.name)
    capabilities = words_of(" ".join(template.agent.capabilities))
    described = words_of(template.description)
    return sum(8 * (word in name) + 3 * (word in capabilities) + (word in described) for word in wanted)


def _files(folder: Path) -> dict[str, ExpertTemplate | Path]:
    return {
        path.stem: path
        for path in sorted(folder.iterdir())
        if path.suffix in SUFFIXES and not path.name.startswith(".") and path.is_file()
    }


def templates_beside(base: Path, report: ProblemReport) -> ExpertTemplates:
    """Return the built-in templates and those of the folder `experts` in `base`."""
    found = ExpertTemplates()
    folder = base / FOLDER
    try:
        if folder.is_dir():
            found.load(folder)
    except UsageError as error:
        report.problem(Place(str(folder)), str(error))
    return found


def save_template(base: Path, name: str, fields: Mapping[str, JsonValue], *, is_new: bool = False) -> ExpertTemplate:
    """Write these fields of a template into the folder `experts` in `base`; other fields stay, and empty ones go.

    A built-in template is copied first. A text may name no environment variable that it did not name before: the client
    that sent it need not be allowed to read it. Raises `RefusedFields`, or `ManifestError` with the mistakes; one that
    is to be new also `TemplateExists`, where the name belongs to another one.
    """
    ExpertTemplate(name=name)  # refuses an invalid name
    folder = base / FOLDER
    if folder.exists() and not folder.resolve().is_relative_to(base.resolve()):
        raise UsageError(f"The folder {FOLDER!r} is a link to another place, and is not written.")
    own = _files(folder) if folder.is_dir() else {}
    source = own.get(name) or _files(BUILT_IN).get(name)
    if is_new and source is not None:
        raise TemplateExists(name, is_built_in=name not in own)
    before = _written(source) if isinstance(source, Path) else {}
    given = {field: value for field, value in fields.items() if value not in ("", [], None)}
    added = {field: text for field, value in given.items() if (text := _new_variables(value, before.get(field)))}
    if wrong := _misfits(name, given) | added:
        raise RefusedFields(wrong)
    kept = {field: value for field, value in {**before, **fields}.items() if field not in fields or field in given}
    text = yaml_text(kept)
    file = own.get(name)
    return _replace_file(file if isinstance(file, Path) else folder / f"{name}.yaml", text)


class TemplateExists(UsageError):
    """A template that was to be new has the name of another one."""

    def __init__(self, name: str, *, is_built_in: bool) -> None:
        kind = "built-in template" if is_built_in else "template"
        super().__init__(f"There is a {kind} {name!r} already: edit that one, or choose another name.")


class RefusedFields(UsageError):
    """Fields of a template that can't be saved, with why."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self.fields = dict(fields)
        super().__init__(" ".join(self.fields.values()))


def _written(file: Path) -> dict[str, JsonValue]:
    """The fields of a template as its file has them; raises `ManifestError` if it can't be read."""
    report = ProblemReport()
    documents = read_file(file, report, form=FORM)
    if report.problems or len(documents) != 1 or not isinstance(documents[0], Fields):
        raise ManifestError(report.problems)
    return cast("dict[str, JsonValue]", plain(documents[0].without(NAME)))


def _misfits(name: str, fields: Mapping[str, JsonValue]) -> dict[str, str]:
    """What is wrong with these fields of a template, by field."""
    profile = {field: value for field, value in fields.items() if field in PROFILE_FIELDS}
    agent = {field: value for field, value in fields.items() if field not in PROFILE_FIELDS}
    made = {NAME: name, "profile": profile, "agent": agent}
    try:
        ExpertTemplate.model_validate(made)
    except ValidationError as error:
        return {str(one.at[1]): one.text for one in misfits_of(error, made) if len(one.at) > 1}
    return {}


def _new_variables(value: JsonValue, before: JsonValue) -> str:
    known = set(variables_of(str(before)))
    added = [one for one in variables_of(str(value)) if one not in known]
    if not added:
        return ""
    return f"A template that is saved here can't read {added[0]!r}: write $${{{added[0]}}} for the text itself."


def _replace_file(file: Path, text: str) -> ExpertTemplate:
    """Replace a template by one that can be read, as a whole."""
    try:
        file.parent.mkdir(exist_ok=True)
        with TemporaryDirectory(dir=file.parent, prefix=".saving-") as folder:
            draft, report = Path(folder) / file.name, ProblemReport()
            draft.write_text(text, encoding="utf-8")
            if read_template(draft, report) is None:
                raise ManifestError([replace(one, file=file.name) for one in report.problems])
            draft.replace(file)
    except OSError as error:
        raise UsageError(f"The template {file.stem!r} can't be written: {error.strerror}.") from error
    saved = read_template(file, ProblemReport())
    assert saved is not None  # it was read before
    return saved
