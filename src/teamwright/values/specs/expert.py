"""The profile of an expert, and how a team of experts was formed. Both are recorded with a run."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from teamwright.values.text.display import cut
from teamwright.values.value import Value

EXPERT_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
EXPERT_NAME_FORM = "use letters, digits, '_' and '-', at most 64"
COLOR = re.compile("#[0-9A-Fa-f]{6}")


def check_expert_name(name: str) -> str:
    """Return the name of an expert or a template if it is valid; raises `ValueError` otherwise."""
    if isinstance(name, str) and EXPERT_NAME.fullmatch(name):  # pyright: ignore[reportUnnecessaryIsInstance]
        return name
    raise ValueError(f"{cut(str(name), 60)!r} is no name of an expert: {EXPERT_NAME_FORM}")


def _check_color(color: str) -> str:
    if COLOR.fullmatch(color):
        return color
    raise ValueError(f"{cut(color, 60)!r} is no colour: write it as '#' and six hexadecimal digits, such as '#0f766e'")


ExpertName = Annotated[
    str, AfterValidator(check_expert_name), Field(json_schema_extra={"pattern": "^[A-Za-z0-9_-]{1,64}$"})
]
Color = Annotated[str, AfterValidator(_check_color), Field(json_schema_extra={"pattern": "^#[0-9A-Fa-f]{6}$"})]


class ExpertProfile(Value):
    """What makes an agent an expert: who it is, how it thinks and works with others, and how a page shows it."""

    template: ExpertName | None = Field(default=None, description="the template that it is made from")
    persona: str = Field(default="", description="who the expert is")
    thinking_style: str = Field(default="", description="how it thinks")
    collaboration_strategy: str = Field(default="", description="how it works with the other experts")
    skills: tuple[str, ...] = Field(
        default=(), description="folders with SKILL.md, or folders of such folders, relative to this file"
    )
    avatar: str = Field(default="", max_length=64, description="a picture for a page: an emoji or the name of an icon")
    color: Color | None = Field(default=None, description="a colour for a page, such as '#0f766e'")
    is_lead: bool = Field(default=False, description="whether it leads its team")


RoleOrigin = Literal["template", "written", "made_up"]
"""Where a role comes from: a template, written for the run by a model, or made up from its name alone."""


class FormedRole(Value):
    """One expert of a formed team, and why it is in it."""

    name: str
    origin: RoleOrigin
    template: str | None = None
    reason: str = ""


class Formation(Value):
    """How a team of experts was formed: from names that the user gave, or automatically for the task."""

    how: Literal["named", "automatic"]
    roles: tuple[FormedRole, ...]
    warnings: tuple[str, ...] = ()
