"""The content of a manifest as values. A run records its manifest in this form, and is rebuilt from it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, JsonValue, StringConstraints, model_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticKnownError

from teamwright.values.call_limits import (
    DEFAULT_RETRY,
    LEAST_MAX_BYTES,
    MOST_MAX_BYTES,
    Compact,
    Recovery,
    RetryPolicy,
    TooLong,
)
from teamwright.values.limits import ConfirmAbove, Degradation, Limits, Pace, Price
from teamwright.values.names import is_web_address
from teamwright.values.people import Approve, Notify
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.specs.expert import ExpertName, ExpertProfile, Formation
from teamwright.values.specs.model_settings import CheckedSettings, OutputChoice
from teamwright.values.specs.simulation import Simulation
from teamwright.values.turns.envelope import EnvelopeSettings
from teamwright.values.value import Value

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
AgentName = Annotated[str, Field(json_schema_extra={"names": "agent"})]
"""A name of an agent or team in the options of a strategy; one that is no member becomes a helper."""

MemberName = Annotated[str, Field(json_schema_extra={"names": "member"})]
"""A name of a member of the team in the options of a strategy."""

TERMINATE = "terminate"
"""The built-in tool with which a member ends its team."""

WORKSPACE = "workspace"
"""The built-in tools with which a member reads and writes the workspace of the run."""

FILES = "files"
"""The built-in tools with which a member reads and writes files below one folder."""

MEMORY = "memory"
"""The built-in tools with which a member keeps notes across runs."""

OPTIONAL = "a failure of this member is skipped, with a warning"
CRITICAL = "a failure of this member pauses the run"
EVALUATE = "how its work is evaluated before it counts: a rubric, judges, rounds"
EXPERT = "a template of an expert by name, or {template, persona, thinking_style, collaboration_strategy, skills, …}"
APPROVE = "where a person has to approve before the member continues"

Share = Literal["transcript", "output", "a2a_lite"]
JsonSchema = dict[str, JsonValue]


SETTINGS = "settings of its requests, as pydantic-ai spells them: top_p, seed, thinking, openai_reasoning_effort …"
OUTPUT_MODE = (
    "how a model gives an answer that has a schema: native (the provider's JSON mode), tool, prompt, or auto,"
    " which takes the next one where a server refuses one"
)
CONTEXT = "tokens of its context window, for `compact`; the published number by default"
PRICE = "US dollars per million tokens; the public price of the model by default"
TOKENIZER = "its tokenizer, which counts prompts under a limit (extra `tokens`); by default known from its name"
BYTES_PER_TOKEN = "UTF-8 bytes of a prompt that count as one token under a limit, if no tokenizer is known"

TokenizerName = Literal["o200k_base", "cl100k_base"]
"""The tokenizers that are known offline."""


class NamedModel(Pace):
    """A model by name, with its rate limits and price."""

    model: str = Field(description="provider:name, local, local:FILE or scripted:FILE")
    price: Price | None = Field(default=None, description=PRICE)
    settings: CheckedSettings | None = Field(default=None, description=SETTINGS)
    output_mode: OutputChoice | None = Field(default=None, description=OUTPUT_MODE)
    context: int | None = Field(default=None, ge=1, description=CONTEXT)
    tokenizer: TokenizerName | None = Field(default=None, description=TOKENIZER)
    bytes_per_token: float | None = Field(default=None, ge=1, le=16, description=BYTES_PER_TOKEN)


class ServerModel(Pace):
    """A model behind an OpenAI-compatible server."""

    url: str = Field(description="base URL, for example http://localhost:8000/v1")
    name: str = Field(description="the model's name at that server")
    api_key: str | None = Field(default=None, description="${NAME} reads the environment")
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = Field(
        default="max_completion_tokens", description="the name of the output cap at the server"
    )
    price: Price | None = Field(default=None, description=PRICE)
    settings: CheckedSettings | None = Field(default=None, description=SETTINGS)
    output_mode: OutputChoice | None = Field(default=None, description=OUTPUT_MODE)
    context: int | None = Field(default=None, ge=1, description=CONTEXT)
    tokenizer: TokenizerName | None = Field(default=None, description=TOKENIZER)
    bytes_per_token: float | None = Field(default=None, ge=1, le=16, description=BYTES_PER_TOKEN)

    def mistakes(self) -> Iterable[str]:
        """Return an address that is none."""
        return () if is_web_address(self.url) else (f"url: {self.url!r} is not an http address",)


CacheMode = Literal["auto", "off"]
"""Whether requests ask their provider to cache prompts, where it has to be asked."""

AnyModel = str | NamedModel | ServerModel


def model_key(model: AnyModel) -> str:
    """Return the identity of a model: all ways to declare it share its rate limits."""
    match model:
        case str():
            return model
        case NamedModel():
            return model.model
        case ServerModel():
            return f"{model.name} at {model.url}"


NOT_IMPORTABLE = "<created in Python>"
"""Recorded in place of the import path of a tool that has none, such as a lambda or a closure."""


UNSAFE_RETRIES = "retries repeat a call that must not be made twice"
SAFE_RETRIES = "add  check  or  idempotent: true"


class FunctionTool(Value):
    """A Python function, by import path."""

    function: str = Field(description="module:function")
    name: Name | None = Field(default=None, description="the name of the tool; that of the function by default")
    description: str | None = None
    timeout: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="seconds of one call; the agent's `timeout` by default"
    )
    retries: int = Field(default=0, ge=0, le=20, description="how often a failed call is repeated")
    idempotent: bool | None = Field(
        default=None, description="whether a call that a crash left in doubt is made again; yes, unless `once` is set"
    )
    once: tuple[str, ...] = Field(
        default=(), description="the parameters that identify an action, which is not made twice in a run or its forks"
    )
    check: str | None = Field(
        default=None,
        description="module:function that returns the result of a call in doubt, None if it was not made",
    )

    @model_validator(mode="after")
    def _retries_are_safe(self) -> Self:
        """Reject retries of a call that must not be made twice."""
        if self.retries and self.check is None and not self.idempotent and (self.once or self.idempotent is False):
            raise ValueError(f"{UNSAFE_RETRIES}: {SAFE_RETRIES}")
        return self


MCP_NEEDS = {"args": "command", "cwd": "command", "env": "command", "env_allow": "command", "headers": "url"}
"""Settings of an MCP server that have an effect only with another one."""


class McpTool(Value):
    """An MCP server, by command or URL."""

    command: str | None = None
    args: tuple[str, ...] = ()
    cwd: str | None = Field(
        default=None, description="the folder in which the command starts; that of the manifest by default"
    )
    env: dict[str, str] = Field(default={}, description="variables of the server")
    env_allow: tuple[str, ...] = Field(
        default=(), description="variables that the server inherits, besides a short list without secrets"
    )
    url: str | None = None
    headers: dict[str, str] = {}
    allow: tuple[str, ...] | None = Field(default=None, description="the tools that the agent may use; all by default")
    share: Literal["run", "engine"] = Field(default="run", description="how long the server lives")
    resources: tuple[str, ...] = Field(default=(), description="URIs that are read into the agent's instructions")
    prompts: dict[str, dict[str, str]] = Field(
        default={}, description="prompts, with their arguments, that are added to the agent's instructions"
    )

    def mistakes(self) -> Iterable[str]:
        """Return settings that have no effect, and an address that is none."""
        for name, needs in MCP_NEEDS.items():
            if getattr(self, name) and getattr(self, needs) is None:
                yield f"{name}: goes with {needs!r}, which is not there"
        if self.url is not None and not is_web_address(self.url):
            yield f"url: {self.url!r} is not an http address"


class McpSpec(Value):
    """The tool form `{mcp: {...}}`."""

    mcp: McpTool


class FilesTool(Value):
    """File tools below one folder; without a root, below the current folder of the driver's process."""

    root: str | None = Field(default=None, description="the folder, relative to that of the manifest")


class FilesSpec(Value):
    """The tool form `{files: {...}}`."""

    files: FilesTool


class MemoryTool(Value):
    """Notes that an agent keeps across runs."""

    name: Name = Field(
        default="own", description="`own`, `team` for all members of the team, or a name that other teams may share"
    )
    notes: int = Field(default=1000, ge=1, description="notes that the memory can hold")
    bytes: int = Field(default=4000, ge=1, description="bytes of one note")


class MemorySpec(Value):
    """The tool form `{memory: {...}}`."""

    memory: MemoryTool


def memory_specs(memory: str | MemoryTool | None) -> tuple[MemorySpec, ...]:
    """Return the tool of an agent's memory, given by name or with its settings, if it has one."""
    if memory is None:
        return ()
    return (MemorySpec(memory=MemoryTool(name=memory) if isinstance(memory, str) else memory),)


class AgentTool(Value):
    """An agent or a team as a tool: the model asks it, and its answer is the result."""

    agent: AgentName = Field(description="the agent or team that is asked")
    name: str | None = Field(default=None, description="the name of the tool; that of the agent by default")
    description: str | None = Field(default=None, description="what the model is told; that of the agent by default")


class CustomTool(Value):
    """The tool form `{kind: settings}`, for a kind that another package registers."""

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        """Reject a built-in kind, whose own class reports its mistakes."""
        if len(self.model_extra or ()) != 1 or not OWN_TOOL_KINDS.isdisjoint(self.model_extra or ()):
            raise PydanticKnownError("model_type", {"class_name": "CustomTool"})
        return self


OWN_TOOL_KINDS = frozenset({"function", "mcp", "files", "agent", "memory"})
ToolSpec = FunctionTool | McpSpec | FilesSpec | AgentTool | MemorySpec | CustomTool
"""A declared tool; the name of its field is its kind."""

DeclaredTool = FunctionTool | McpSpec | FilesSpec | AgentTool | MemorySpec | SkipJsonSchema[CustomTool]
"""The type of a field for tools; schemas of kinds of other packages are added where they are known."""


class FallbackModel(Value):
    """A fallback to another model of the same agent."""

    model: AnyModel = Field(description="a name from `models`, or a model")


class MemberSettings(Value):
    """Settings of every member, agent or team."""

    limits: Limits | None = None
    approve: Approve | None = Field(default=None, description=APPROVE)
    optional: bool = Field(default=False, description=OPTIONAL)
    critical: bool = Field(default=False, description=CRITICAL)


class AgentSettings(MemberSettings):
    """Settings of every kind of agent, declared once for manifests and for `Policy`."""

    economy: AnyModel | None = Field(
        default=None, description="a cheaper model for a tight budget; `economy` of `models` by default"
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


class InstructionsTemplate(Value):
    """Instructions that are rendered in each turn."""

    template: str = Field(description="Jinja over task, member, turn, history and state")


class InstructionsByFunction(Value):
    """Instructions that a function returns in each turn."""

    function: str = Field(description="module:function, called with the turn's context")


class AgentSpec(AgentSettings):
    """One agent: exactly one of `model`, `function` and `scripted` is set."""

    description: str = ""
    instructions: str | InstructionsTemplate | InstructionsByFunction = Field(
        default="", description="a text, or {template: …} or {function: …} that makes it in each turn"
    )
    check_input: str | None = Field(default=None, description="module:function that checks the task before the model")
    check_output: str | None = Field(default=None, description="module:function that checks each answer of the model")
    model: AnyModel | None = Field(default=None, description="a name from `models`, or a model")
    function: str | None = Field(default=None, description="module:function")
    scripted: str | None = Field(default=None, description="a file of scripted replies")
    tools: tuple[str | DeclaredTool, ...] = Field(
        default=(), description="names from `tools`, `terminate`, `workspace`, `files`, or tools written here"
    )
    memory: Name | MemoryTool | None = Field(
        default=None, description="notes across runs: `own`, `team`, a shared name, or {name, notes, bytes}"
    )
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
        description="seconds of one call, 600 for a model's reply by default; limits.seconds bounds a turn",
    )
    idle_timeout: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="seconds of silence within a model's stream; 60 by default",
    )
    cache: CacheMode = Field(default="auto", description="ask providers to cache prompts that will be sent again")
    fallback: AgentName | FallbackModel | None = Field(
        default=None, description="an agent or team that is asked when this one fails, or {model: …} for another model"
    )
    isolate: Literal["thread", "process"] = Field(default="thread", description="where a synchronous function runs")
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


class TeamSpec(MemberSettings):
    """One team."""

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
    recovery: Recovery | None = Field(default=None, description="how the team recovers from failures of members")
    notify: Notify | None = Field(
        default=None, description="the webhook that is called when a run of this team waits for a person"
    )
    confirm_above: ConfirmAbove | None = Field(
        default=None,
        description="a person confirms a run of this team before it spends anything if its forecast p90 is above this",
    )
    evaluate: Evaluate | None = Field(default=None, description=EVALUATE)
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
