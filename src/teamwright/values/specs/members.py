"""Settings of members, agents and teams, which manifests declare and the engine reads."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from teamwright.values.call_limits import LEAST_MAX_BYTES, MOST_MAX_BYTES, Compact
from teamwright.values.limits import Limits
from teamwright.values.names import is_web_address
from teamwright.values.people import Confirm
from teamwright.values.retries import DEFAULT_RETRY, RetryPolicy, TooLong
from teamwright.values.specs.models import AnyModel
from teamwright.values.specs.tools import Command
from teamwright.values.text.display import cut
from teamwright.values.value import Value

Share = Literal["transcript", "output", "a2a_lite"]
OPTIONAL = "a failure of this member is skipped, with a warning"
CRITICAL = "a failure of this member pauses the run"
CONFIRM = "what a person confirms before it happens"

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


class FallbackModel(Value):
    """A fallback to another model of the same agent."""

    model: AnyModel = Field(description="a name from `models`, or a model")


class MemberSettings(Value):
    """Settings of every member, agent or team."""

    limits: Limits | None = None
    confirm: Confirm | None = Field(default=None, description=CONFIRM)
    optional: bool = Field(default=False, description=OPTIONAL)
    critical: bool = Field(default=False, description=CRITICAL)


class TeamWorkspace(Value):
    """The files that a team works on: each member on its own tree, with its changes applied to a branch of the run."""

    git: str | None = Field(
        default=None,
        description="the folder of a Git repository, relative to the manifest; its HEAD is the start",
    )
    folder: str | None = Field(
        default=None, description="a plain folder, relative to the manifest, which the team works on a copy of"
    )
    agent: str | None = Field(
        default=None, description="the member that resolves conflicts; the author of the changes by default"
    )
    revisions: int = Field(
        default=2, ge=0, le=10, description="how often refused changes are given back before the work fails"
    )

    def mistakes(self) -> Iterable[str]:
        """Return that not exactly one source is named."""
        if (self.git is None) == (self.folder is None):
            yield "name either a `git` repository or a `folder`"

    @property
    def path(self) -> str:
        """The folder that the team begins with."""
        return self.git or self.folder or ""

    def moved_to(self, path: str) -> TeamWorkspace:
        """Return the same workspace at another path."""
        return self.model_copy(update={"git" if self.git is not None else "folder": path})


class RemoteAddress(Value):
    """Where a remote A2A agent is, and what its server wants to be shown."""

    url: str = Field(description="the address of the agent, below which its card is")
    headers: dict[str, str] = Field(default={}, description="such as `Authorization: Bearer ${TOKEN}`")

    def mistakes(self) -> Iterable[str]:
        """Return an address that is invalid."""
        if not is_web_address(self.url):
            yield f"url: {self.url!r} is not an http address"


class AcpCommand(Value):
    """How a coding agent is started, which speaks the Agent Client Protocol over its input and output."""

    command: Command = Field(description="the program and its arguments, such as `gemini --acp`")
    env: dict[str, str] = Field(
        default={}, description="variables of the agent, besides a short list that it inherits; ${NAME} passes one on"
    )
    idempotent: bool = Field(
        default=True, description="whether a turn is taken again that failed or that a crash left in doubt"
    )

    def mistakes(self) -> Iterable[str]:
        """Return a command that is invalid."""
        if not self.command[0]:
            yield "command: is empty"


class AgentSettings(MemberSettings):
    """Settings of every kind of agent, declared once for manifests and for `Policy`."""

    economy: AnyModel | None = Field(
        default=None, description="a cheaper model for a tight budget; `economy` of `models` by default"
    )
    stronger: AnyModel | None = Field(
        default=None,
        description="a model for steps that failed with the regular one; `stronger` of `models` by default",
    )
    priority: int = Field(
        default=0, description="members below the highest priority of their team get the cheaper model first"
    )
    max_bytes: int | None = Field(
        default=None,
        ge=LEAST_MAX_BYTES,
        le=MOST_MAX_BYTES,
        description="bytes of a reply or tool result, 4000000 by default; longer text is truncated, JSON rejected",
    )
    handoffs: tuple[str, ...] | bool = Field(
        default=(), description="the members that it may hand its turn to; true for all others"
    )
    retry: RetryPolicy = DEFAULT_RETRY
    too_long: TooLong | None = Field(
        default=None,
        description="what to do when the conversation no longer fits the model: summarise, fallback or fail",
    )
    compact: Compact | None = Field(
        default=None, description="when older messages are replaced by a summary; the team's setting by default"
    )
