"""Model agents: a language model with tools, behind the agent protocol.

pydantic-ai takes seconds to import, so it is imported at the first turn and never before.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Unpack, cast

from teamwright.agents.agent import Agent, Context, same_name_fallbacks
from teamwright.agents.clients.client_pool import SHARED_MODELS, Models
from teamwright.agents.clients.providers import (
    check_model,
    check_provider,
    is_own_model,
    own_secrets,
    undeclared_reason,
)
from teamwright.agents.constructor_arguments import Mistakes, check_arguments, check_instance, checked_call, listed
from teamwright.agents.functions.instructions import (
    AnyInstructions,
    Checks,
    make_guardrails,
    split_instructions,
    with_warnings,
)
from teamwright.agents.json_schema import check_input
from teamwright.agents.settings import ModelKeywords, shared_settings
from teamwright.agents.tools.registry import ToolLike
from teamwright.agents.tools.toolbox import Toolbox
from teamwright.errors import UsageError
from teamwright.values.call_limits import IDLE_SECONDS, MOST_REQUESTS
from teamwright.values.names import check_name
from teamwright.values.specs.manifest import AgentSpec
from teamwright.values.specs.model_settings import ModelSettings, check_settings
from teamwright.values.specs.models import AnyModel, CacheMode, NamedModel, PrescribedMode, model_key
from teamwright.values.specs.tools import MemorySpec, memory_specs
from teamwright.values.turns.turn import Reply, Turn
from teamwright.values.typed_data import is_data_type

if TYPE_CHECKING:
    from teamwright.agents.clients.model_client import ModelClient
    from teamwright.agents.clients.providers import OwnModel
    from teamwright.agents.model.request_template import RequestTemplate


IN_SETTINGS = {name: f"write  settings={{{name!r}: …}}" for name in ModelSettings.__annotations__}
"""What to write for settings of a model that users expect by keyword."""


class ModelAgent(Agent):
    """An agent that answers with a language model.

    `model` is `provider:name` (as in pydantic-ai), `local`, `local:/path.gguf`, or a server of your own; the long forms
    `NamedModel` and `ServerModel` also set the rate limit of the model for the whole engine. An instance of a model of
    pydantic-ai brings a client of your own; a run of such an agent resumes only with its team passed.
    `economy` is the model that replaces it when the team saves budget, for members of lower `priority` first, and
    `stronger` the one that tries a step again that failed.
    `settings` are those of its requests, such as `temperature`, spelled as in pydantic-ai; `output_mode` is how an
    answer with a schema is given, and `max_requests` bounds the requests of a turn (50).
    `timeout` bounds a whole reply (default 600 seconds) and each tool call; a tenth of it, at least 60 seconds, bounds
    the silence within a stream. `max_bytes` bounds the size of a reply and of a tool's result (4 MB).
    `memory` gives it tools for notes that it keeps across runs: its own, those of its `team`, or a shared name.
    `compact` says when older messages are replaced by a summary, before the context window of the model is full.
    `instructions` are a text, a `Template`, or a function `(ctx) -> str` that is called in each turn. `check` is
    `{"input": function, "output": function}`, of functions `(text, ctx)` that return a `Verdict` or `None`.
    `cache` says whether providers that have to be asked are asked to cache prompts that will be sent again.
    The agent uses the clients of `models` or of the engine that runs it; without either, it opens one for each turn.
    """

    kind = "model"
    last_request_template: RequestTemplate | None = None
    """The template of the last turn's requests; most turns have the same."""

    @checked_call(
        "agent", ModelKeywords.__optional_keys__, kind="a model", fields=AgentSpec.model_fields, hints=IN_SETTINGS
    )
    def __init__(
        self,
        name: str,
        *,
        model: AnyModel | OwnModel,
        instructions: AnyInstructions = "",
        check: Checks | None = None,
        tools: Sequence[ToolLike] = (),
        memory: str | None = None,
        max_tokens: int | None = None,
        settings: ModelSettings | None = None,
        models: Models | None = None,
        **keywords: Unpack[ModelKeywords],
    ) -> None:
        self.name, owner, mistakes = check_name("agent", name), f"The agent {name!r}", Mistakes()
        collect = mistakes.collect
        self.model = collect(check_model, name, model)
        self._own_model = model if is_own_model(model) else None
        self.instructions, self.dynamic_instructions = collect(split_instructions, name, instructions) or ("", None)
        self.guardrails = collect(make_guardrails, name, check)
        shared = shared_settings(name, keywords, mistakes, {"max_tokens": max_tokens})
        collect(check_instance, owner, "models", models, Models)
        self.settings = collect(check_settings, f"the agent {name!r}", settings)
        self.input_schema, self.output_schema, own = shared.input_schema, shared.output_schema, shared.policy
        collect(check_provider, name, own.economy)
        collect(check_provider, name, own.stronger)
        all_tools = (*(collect(listed, owner, "tools", tools) or ()), *(collect(_memory_tools, owner, memory) or ()))
        self.toolbox = collect(Toolbox, all_tools, own.confirm, name, own.reply_bytes)
        mistakes.raise_all()
        self.description, self.capabilities, self.timeout = shared.description, shared.capabilities, shared.timeout
        data_type: object = keywords.get("output_schema")
        self.output_type = cast("type[object]", data_type) if is_data_type(data_type) else None
        self.max_tokens = max_tokens
        self.output_mode = keywords.get("output_mode")
        self.cache: CacheMode = keywords.get("cache", "auto")
        self.max_requests = keywords.get("max_requests") or MOST_REQUESTS
        self.idle_seconds = IDLE_SECONDS if self.timeout is None else max(IDLE_SECONDS, self.timeout / 10)
        self.tool_agents, self._models = self.toolbox.agents, models
        self.policy = self.toolbox.extend(own)

    @property
    def spec(self) -> AgentSpec:
        """The agent as a declaration, without a model of one's own and tools that can't be imported by name."""
        declared: dict[str, object] = {
            "model": None if self._has_own_model else self.model,
            "instructions": self.instructions,
            **self._declared_functions(),
            "description": self.description,
            "tools": self.toolbox.specs,
            "capabilities": self.capabilities,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "max_tokens": self.max_tokens,
            "settings": self.settings,
            "output_mode": self.output_mode,
            "max_requests": None if self.max_requests == MOST_REQUESTS else self.max_requests,
            "timeout": self.timeout,
            "cache": None if self.cache == "auto" else self.cache,
            **self.policy.declared(self.name),
        }
        return AgentSpec.model_validate({name: value for name, value in declared.items() if value})

    @property
    def secrets(self) -> frozenset[str]:
        """The secrets of a model of the caller's own, which no declaration has."""
        return frozenset() if self._own_model is None else frozenset(own_secrets(self._own_model))

    @property
    def _has_own_model(self) -> bool:
        """Whether a model object of the caller answers, also as a fallback: then no record can rebuild the agent."""
        models = (self, *same_name_fallbacks(self))
        return any(isinstance(one, ModelAgent) and one._own_model is not None for one in models)

    def undeclared_models(self) -> list[str]:
        """Return why names among its models are no models: a manifest may declare them elsewhere, Python can't."""
        written = (None if self._own_model is not None else self.model, self.policy.economy, self.policy.stronger)
        names = [one.model if isinstance(one, NamedModel) else one for one in written]
        return [text for name in names if isinstance(name, str) and (text := undeclared_reason(name))]

    def settings_for(self, model: AnyModel) -> ModelSettings:
        """Return the settings of its requests to a model; its own take precedence over the model's."""
        of_model = None if isinstance(model, str) else model.settings
        given = cast("ModelSettings", {**(of_model or {}), **(self.settings or {})})
        if self.max_tokens is not None:
            given["max_tokens"] = self.max_tokens
        return given

    def output_mode_for(self, model: AnyModel) -> PrescribedMode | None:
        """Return the mode of answers that it, or else its model, prescribes; `None` if the model's own is used."""
        chosen = self.output_mode or (None if isinstance(model, str) else model.output_mode)
        return None if chosen == "auto" else cast("PrescribedMode | None", chosen)

    def _declared_functions(self) -> dict[str, object]:
        """The declaration of the functions around a turn; without a model if one can't be imported by name."""
        declared: dict[str, object] = {} if self.guardrails is None else {"check": self.guardrails.declared}
        if self.dynamic_instructions is not None:
            declared["instructions"] = self.dynamic_instructions.spec
        importable = self.guardrails is None or self.guardrails.is_importable
        return declared if importable and None not in declared.values() else {**declared, "model": None}

    def __repr__(self) -> str:
        return f"ModelAgent({self.name!r}, model={model_key(self.model)!r})"

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Answer the turn with the model; each model request and each tool call is one effect."""
        if self.input_schema is not None:
            check_input(self.input_schema, turn.task, f"The task of {self.name!r}")
        warnings: tuple[str, ...] = ()
        if self.guardrails is not None:
            turn, warnings = await self.guardrails.admit(turn, ctx)
        dynamic = self.dynamic_instructions
        instructions = self.instructions if dynamic is None else await dynamic.render(turn, ctx)
        model = self.policy.model_at(turn.tier) or self.model
        async with self._client(model) as client:
            from teamwright.agents.model.turn import run_turn

            points = client.supports_tools and turn.has_pointers
            async with self.toolbox.open(
                ctx, allow=turn.tools, seconds=self.timeout, points=points, purpose=turn.purpose, handoffs=turn.handoffs
            ) as tools:
                reply = await run_turn(self, model, turn, ctx, client, tools, instructions)
        return with_warnings(reply, warnings) if warnings else reply

    def summariser(self, model: AnyModel) -> ModelAgent:
        """Return an agent with this model of the agent and without tools, which summarises conversations."""
        return ModelAgent(
            self.name,
            model=self._own_model if self._own_model is not None and model == self.model else model,
            timeout=self.timeout,
            settings=self.settings,
            cache=self.cache,
            max_bytes=self.policy.max_bytes,
            retry=self.policy.retry,
            models=self._models,
        )

    async def preflight(self, models: Models) -> list[str]:
        """Return configuration problems (a missing extra, key or model) without making a request."""
        found = self.toolbox.problems()
        for model in (self.model, self.policy.economy, self.policy.stronger):
            if model is not None:
                try:
                    await (await self.client_of(model, models)).check()
                except UsageError as error:
                    found.append(str(error))
        return found

    @asynccontextmanager
    async def _client(self, model: AnyModel) -> AsyncGenerator[ModelClient]:
        if models := self._models or SHARED_MODELS.get():
            yield await self.client_of(model, models)
            return
        async with Models() as models:
            yield await self.client_of(model, models)

    async def client_of(self, model: AnyModel, models: Models) -> ModelClient:
        """Return the client of one of its models."""
        if self._own_model is not None and model is self.model:
            return await models.own_client(self._own_model)
        return await models.client(model)


def _memory_tools(owner: str, memory: str | None) -> tuple[MemorySpec, ...]:
    check_arguments(owner, AgentSpec, memory=memory)
    return memory_specs(memory)
