"""The content of a manifest as values: agents, teams, and the experts of a team.

A run records its manifest in this form, and is rebuilt from it.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Literal

from pydantic import Field, JsonValue

from teamwright.values.call_limits import Compact
from teamwright.values.limits import Degradation
from teamwright.values.people import Notify
from teamwright.values.retries import Recovery
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.specs.members import (
    AcpCommand,
    AgentSettings,
    ExpertName,
    ExpertProfile,
    FallbackModel,
    MemberSettings,
    RemoteAddress,
    Share,
    TeamWorkspace,
)
from teamwright.values.specs.models import OUTPUT_MODE, SETTINGS, AnyModel, CacheMode, CheckedSettings, OutputChoice
from teamwright.values.specs.simulation import Simulation
from teamwright.values.specs.tools import AgentName, AnySandbox, DeclaredTool, Name
from teamwright.values.turns.messages import EnvelopeSettings
from teamwright.values.value import Value

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


EVALUATE = "how its work is evaluated before it counts: a rubric, judges, revisions"
EXPERT = "a template of an expert by name, or {template, persona, thinking_style, collaboration_strategy, skills, …}"

JsonSchema = dict[str, JsonValue]


class InstructionsTemplate(Value):
    """Instructions that are rendered in each turn."""

    template: str = Field(description="Jinja over task, member, turn, history and state")


class InstructionsByFunction(Value):
    """Instructions that a function returns in each turn."""

    function: str = Field(description="module:function, called with the turn's context")


class Guards(Value):
    """The functions that check what goes into an agent and what comes out of it."""

    input: str | None = Field(default=None, description="module:function that checks the task before the model")
    output: str | None = Field(default=None, description="module:function that checks each answer of the model")

    @property
    def paths(self) -> dict[str, str]:
        """The import paths that are given, by what they check."""
        return {name: path for name, path in self if path is not None}


class AgentSpec(AgentSettings):
    """One agent: a `model` or a `function`, or the default model of the manifest."""

    description: str = ""
    instructions: str | InstructionsTemplate | InstructionsByFunction = Field(
        default="", description="a text, or {template: …} or {function: …} that makes it in each turn"
    )
    check: Guards | None = Field(default=None, description="functions that check the task, or each answer")
    model: AnyModel | None = Field(default=None, description="a name from `models`, or a model")
    function: str | None = Field(default=None, description="module:function")
    a2a: RemoteAddress | None = Field(default=None, description="a remote agent of A2A that answers: its URL")
    acp: AcpCommand | None = Field(
        default=None, description="a coding agent that speaks the Agent Client Protocol: its command"
    )
    tools: tuple[str | DeclaredTool, ...] = Field(
        default=(), description="names from `tools`, `terminate`, `workspace`, `files`, or tools written here"
    )
    memory: Name | None = Field(default=None, description="notes across runs: `own`, `team`, or a shared name")
    capabilities: tuple[str, ...] = ()
    input_schema: JsonSchema | None = None
    output_schema: JsonSchema | None = None
    max_tokens: int | None = Field(default=None, ge=1, description="output cap of each request")
    settings: CheckedSettings | None = Field(
        default=None, description=f"{SETTINGS}; they take precedence over the model's"
    )
    output_mode: OutputChoice | None = Field(default=None, description=f"{OUTPUT_MODE}; that of its model by default")
    max_requests: int | None = Field(
        default=None,
        ge=1,
        description="the most requests of one turn, 50 by default; a turn without an answer by then fails",
    )
    timeout: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="seconds of one call, 600 for a model's reply by default; limits.seconds bounds a turn",
    )
    cache: CacheMode = Field(default="auto", description="ask providers to cache prompts that will be sent again")
    fallback: AgentName | FallbackModel | None = Field(
        default=None, description="an agent or team that is asked when this one fails, or {model: …} for another model"
    )
    isolate: Literal["thread", "process"] = Field(default="thread", description="where a synchronous function runs")
    sandbox: AnySandbox | None = Field(
        default=None,
        description="the sandbox of its process, with `isolate: process` or `acp`: a back end by name, or settings;"
        " that of the team by default",
    )
    evaluate: Evaluate | None = Field(default=None, description=EVALUATE)
    expert: ExpertName | ExpertProfile | None = Field(default=None, description=EXPERT)
    simulation: Simulation | None = Field(default=None, description="its behaviour in a simulation")

    @property
    def instructions_text(self) -> str:
        """The instructions as written; empty where a function makes them."""
        match self.instructions:
            case str() as text:
                return text
            case InstructionsTemplate(template=text):
                return text
            case InstructionsByFunction():
                return ""


class TeamSpec(Recovery, MemberSettings):
    """One team. Its `retry`, `fallback` and `too_long` are for members that set none."""

    description: str = ""
    strategy: str = Field(default="sequential", description="a strategy by name, or one of your own: `module:Class`")
    members: tuple[str, ...] = Field(description="names of agents and teams")
    share: Share | None = Field(
        default=None,
        description="what members see of each other's replies; `transcript`, unless the strategy has another default",
    )
    envelope: EnvelopeSettings | None = Field(default=None, description="envelope settings, with share: a2a_lite")
    degradation: Degradation = Field(
        default="none",
        description="what happens when the budget will not last: none, auto, aggressive, or ask a person first",
    )
    max_turns: int | None = Field(default=None, ge=1)
    on_max_turns: Literal["stop", "fail"] = "stop"
    output_schema: JsonSchema | None = Field(default=None, description="the JSON Schema of the team's answer")
    options: dict[str, JsonValue] = Field(
        default={},
        description="options of a strategy given as module:Class; others have a block with their name",
    )
    compact: Compact | None = Field(
        default=None, description="when older messages are replaced by a summary, for members that do not set it"
    )
    attachments: tuple[str, ...] = Field(
        default=(), description="files that go with the task of a run of this team, relative to the manifest"
    )
    notify: Notify | None = Field(
        default=None, description="the webhook that is called when a run of this team waits for a person"
    )
    evaluate: Evaluate | None = Field(default=None, description=EVALUATE)
    sandbox: AnySandbox | None = Field(
        default=None,
        description="the sandbox of what its members start that has none: commands, servers, functions, checks",
    )
    workspace: TeamWorkspace | None = Field(
        default=None, description="the files that a run of this team works on, each member on a tree of its own"
    )
    simulation: Simulation | None = Field(
        default=None, description="the behaviour of members that have no `simulation` themselves"
    )


class Manifest(Value):
    """All declarations of a file or folder, by name."""

    agents: dict[Name, AgentSpec] = {}
    teams: dict[Name, TeamSpec] = {}
    models: dict[Name, AnyModel] = {}
    tools: dict[Name, DeclaredTool] = {}


class Source(Value):
    """The source of a team, from which it can be rebuilt: recorded with every run, without secrets."""

    manifest: Manifest
    team: str
    base: str = ""
    roots: tuple[str, ...] | None = Field(
        default=None,
        description="folders outside the base that its file tools may use; None where it was never asked",
    )
    modules: str | None = Field(
        default=None, description="the folder of its Python modules, empty for none; that of the manifest by default"
    )
    bundle: dict[str, JsonValue] | None = Field(
        default=None, description="how the topology was chosen automatically, with its schedule"
    )
    formation: Formation | None = Field(default=None, description="how a team of experts was formed for the run")

    @property
    def module_folder(self) -> str:
        """The folder whose Python modules are found before installed ones; empty if there is none."""
        return self.base if self.modules is None else self.modules

    def moved(self, folder: str) -> Source:
        """Return the source of a manifest whose folder was moved or renamed."""

        def new_path(path: str) -> str:
            below = path and PurePath(path).is_relative_to(self.base)
            return str(PurePath(folder, PurePath(path).relative_to(self.base))) if below else path

        return self.model_copy(
            update={
                "base": folder,
                "roots": None if self.roots is None else tuple(map(new_path, self.roots)),
                "modules": None if self.modules is None else new_path(self.modules),
            }
        )

    def to_json(self) -> dict[str, JsonValue]:
        """The fields that are set, as JSON data. Agents without settings, most of thousands, take a fast path."""
        agents = self.manifest.agents
        unset = {name for name, spec in agents.items() if not spec.model_fields_set}
        said = self.model_dump(mode="json", exclude_unset=True, exclude={"manifest": {"agents": unset}})
        if unset:
            said["manifest"]["agents"] = {name: said["manifest"]["agents"].get(name, {}) for name in agents}
        return said
