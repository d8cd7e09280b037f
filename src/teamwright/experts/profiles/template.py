"""A template of an expert: the settings of an agent and a profile, read from a YAML file of its name."""

from __future__ import annotations

from functools import cache
from pathlib import Path
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
)
from teamwright.documents.reader import mapping_form, read_file
from teamwright.documents.schema_check import Schema, SchemaCheck
from teamwright.teams.manifests.native import expand_tools
from teamwright.teams.manifests.schema import definitions, part
from teamwright.values.models import Value
from teamwright.values.specs.expert import ExpertName, ExpertProfile
from teamwright.values.specs.manifest import AgentSpec
from teamwright.values.text.validation_messages import misfits_of

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
        """What the expert does, in a sentence."""
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
