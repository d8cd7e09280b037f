"""A guest: an agent of another framework, whose loop is its own, as a member of a team.

With a model of ours, each request of its loop is an effect: its cost is reserved before and its answer recorded. A
guest that calls models of its own takes its whole turn as one effect, for which a ceiling is reserved. A framework is
imported when its guest is first asked, and nowhere else.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, Unpack, cast
from uuid import uuid4

from msgspec import convert
from pydantic import JsonValue
from typing_extensions import override

from teamwright.agents.agent import Context
from teamwright.agents.clients.client_pool import Models
from teamwright.agents.constructor_arguments import Mistakes, check_instance
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.prices import cost_of
from teamwright.agents.settings import AgentKeywords
from teamwright.errors import AgentError, UsageError
from teamwright.guests.turn import GuestSettings, GuestTurn
from teamwright.install_command import installer
from teamwright.values.call_limits import MAX_BYTES, MOST_REQUESTS
from teamwright.values.limits import Spend
from teamwright.values.specs.models import AnyModel, ServerModel
from teamwright.values.turns.turn import Reply, Turn
from teamwright.values.usage_and_prices import NOTHING, Usage

if TYPE_CHECKING:
    from agent_framework import BaseChatClient
    from langchain_core.language_models import BaseChatModel


T = TypeVar("T")
Options = Mapping[str, Any]
MESSAGES, INTERRUPT = "messages", "__interrupt__"
TURN_SECONDS = 600.0
"""How long a turn as one effect may take, unless the guest has a `timeout`."""


class Framework(NamedTuple):
    """A framework: the package that installs it, the module and class of its agents, and what one is called.

    `gap` says what of our promises does not hold for its guests, though their requests go to a model of ours.
    """

    package: str
    module: str
    type: str
    what: str
    gap: str = ""


class GuestAnswer(NamedTuple):
    """What a guest answered, and what its own models reported of their usage; `None` if nothing did."""

    value: object
    usage: Usage | None = None


class Guest(FunctionAgent):
    """An agent of another framework as a member.

    `model` is the model of its requests, as for a `ModelAgent`. Without it the guest calls models of its own, and its
    turn reserves the tokens and the money of `ceiling`. `input` makes of the turn what the guest is given, by default
    the text of the turn; `output` makes the reply of what it returns; and `options` are passed to each of its runs.
    `max_requests` bounds the requests of a turn (50).
    """

    kind = "guest"
    framework: ClassVar[Framework]

    def __init__(
        self,
        name: str,
        guest: Any,
        *,
        model: AnyModel | None = None,
        ceiling: Spend | None = None,
        input: Callable[[Turn], Any] | None = None,
        output: Callable[[Any], Any] | None = None,
        options: Options | None = None,
        max_requests: int | None = None,
        **settings: Unpack[AgentKeywords],
    ) -> None:
        super().__init__(name, self._respond, **settings)
        owner, mistakes = f"The guest {name!r}", Mistakes()
        mistakes.collect(_check_guest, owner, guest, self.framework)
        mistakes.collect(check_instance, owner, "ceiling", ceiling, Spend)
        mistakes.collect(_check_payer, owner, model, ceiling)
        self.max_requests = max_requests or MOST_REQUESTS
        self.model_agent: ModelAgent | None = None
        if model is not None:
            self.model_agent = mistakes.collect(self.agent_of, model)
        mistakes.raise_all()
        self.guest: Any = guest
        self.options = dict(options or {})
        self.ceiling, self.input, self.output = ceiling, input, output

    @property
    def secrets(self) -> frozenset[str]:
        """The keys of its model, which no declaration has."""
        if self.model_agent is None:
            return frozenset()
        model = self.model_agent.model
        key = model.api_key if isinstance(model, ServerModel) else None
        return self.model_agent.secrets | ({key} if key else frozenset())

    async def preflight(self, models: Models) -> list[str]:
        """Return what its model lacks, without a request."""
        return [] if self.model_agent is None else await self.model_agent.preflight(models)

    def agent_of(self, model: AnyModel) -> ModelAgent:
        """Return an agent that makes the requests of this guest to a model."""
        return ModelAgent(
            self.name, model=model, timeout=self._timeout, retry=self.policy.retry, max_bytes=self.policy.max_bytes
        )

    @abstractmethod
    async def run(self, given: Any, turn: GuestTurn) -> GuestAnswer:
        """Run the loop of the guest; with a model of ours, its requests go through the turn."""
        ...

    def given(self, turn: Turn) -> Any:
        """What the guest is given for a turn."""
        return turn.prompt if self.input is None else self.input(turn)

    async def _respond(self, turn: Turn, ctx: Context) -> Reply | JsonValue:
        if self.ceiling is None:
            return cast("JsonValue", (await self._take_turn(turn, ctx)).value)
        effect = Effect(
            kind="function",
            name=self.name,
            request=turn.digest,
            call=partial(self._call_whole, turn, ctx),
            retry=self.policy.retry,
            timeout=self._timeout,
            default_timeout=TURN_SECONDS,
            max_bytes=self.policy.max_bytes or MAX_BYTES,
            ceiling=self.ceiling,
        )
        returned = await ctx.effect("call", effect)
        return convert(returned.value, Reply) if returned.form == "reply" else returned.value

    async def _call_whole(self, turn: Turn, ctx: Context, _: Attempt) -> Returned:
        try:
            answer = await self._take_turn(turn, ctx)
        except AgentError as error:
            error.unknown_cost = True
            raise
        usage = answer.usage or NOTHING
        value = self._recordable(answer.value)
        if isinstance(value, Reply):
            return Returned(self._jsonable(value), value.usage + usage, form="reply")
        return Returned(value, usage, form="data")

    async def _take_turn(self, turn: Turn, ctx: Context) -> GuestAnswer:
        settings = GuestSettings(self.name, self.framework.what, self.model_agent, self.agent_of, self.max_requests)
        async with GuestTurn(settings, ctx) as guest_turn:
            try:
                answer = await self.run(self.given(turn), guest_turn)
            except (Exception, SystemExit) as error:
                raise guest_turn.failure(error) from error
            guest_turn.check()
        value = answer.value if self.output is None else self.output(answer.value)
        return answer._replace(value=value)


def total_usage(tokens: Mapping[str, tuple[int, int]]) -> Usage | None:
    """Return the usage of models by their names, of input and output tokens each; `None` if nothing was reported.

    It has a price if that of each model is known.
    """
    total = NOTHING
    for model, (input_tokens, output_tokens) in tokens.items():
        used = Usage(requests=1, input_tokens=input_tokens, output_tokens=output_tokens)
        total += used.changed(usd=cost_of(model, used))
    if any(cost_of(model, Usage(1, *used)) is None for model, used in tokens.items()):
        total = total.changed(usd=None)
    return total if tokens else None


def _check_guest(owner: str, guest: object, framework: Framework) -> None:
    """Raise `UsageError` unless the object is what the framework makes."""
    package, module, name, what, _ = framework
    if module.partition(".")[0] not in sys.modules and not find_spec(module.partition(".")[0]):
        raise UsageError(f"{owner} needs the package {package!r}: run  {installer(by_uv=False)} {package}")
    made = getattr(sys.modules.get(module), name, None)  # who has an object of it has imported it
    if not isinstance(made, type) or not isinstance(guest, made):
        raise UsageError(f"{owner} must be {what}, not {guest!r:.100}.")


def _check_payer(owner: str, model: object, ceiling: Spend | None) -> None:
    if model is None and (ceiling is None or (ceiling.tokens is None and ceiling.usd is None)):
        raise UsageError(
            f"{owner} needs a model, such as  model='openai:gpt-5-mini', or if it calls models of its own the most that"
            " one turn may cost:  ceiling=Limits(tokens=…, usd=…)"
        )
    if model is not None and ceiling is not None:
        raise UsageError(f"{owner} has a model and a ceiling: each request to the model is bounded; keep one of them.")


class PydanticAIGuest(Guest):
    """An agent of pydantic-ai as a member; `model` replaces its own.

    An agent that its tools run is billed to the turn if they pass it the model: `other.run(…, model=ctx.model)`.
    """

    framework = Framework(
        "pydantic-ai-slim",
        "pydantic_ai.agent",
        "AbstractAgent",
        "an agent of pydantic-ai",
        "agents that its tools run have models of their own, unless they are given that of the turn",
    )

    @override
    async def run(self, given: Any, turn: GuestTurn) -> GuestAnswer:
        agent, options = self.guest, self.options
        if self.model_agent is None:
            result = await agent.run(given, **options)
            used: Any = result.usage
            return GuestAnswer(result.output, Usage(used.requests, used.input_tokens, used.output_tokens))
        from teamwright.guests.model_requests import TurnModel

        model = TurnModel(turn, (await turn.client()).model)
        return GuestAnswer((await agent.run(given, model=model, **options)).output)


class LangGraphGuest(Guest):
    """A compiled graph of LangGraph as a member. With a `model`, its nodes call `chat_model()`.

    A graph whose state has `messages` is given the turn as a message and answers with its last one. Any other needs
    `input`, which makes its first state; its reply is its last state, or what `output` makes of it.
    """

    framework = Framework(
        "langgraph",
        "langgraph.pregel",
        "Pregel",
        "a compiled graph of LangGraph",
        "a synchronous node that is cancelled goes on in its thread until its next request",
    )

    @override
    async def run(self, given: Any, turn: GuestTurn) -> GuestAnswer:
        from langchain_core.callbacks import UsageMetadataCallbackHandler

        state = {MESSAGES: [("user", given)]} if self.input is None else given
        used = UsageMetadataCallbackHandler()
        watch: list[Any] = [used]
        if self.model_agent is not None:
            from teamwright.guests.langchain_chat_model import OnlyOurs

            watch.append(OnlyOurs())
        options = dict(self.options)
        config = dict(options.pop("config", None) or {})
        config["callbacks"] = [*(config.get("callbacks") or ()), *watch]
        # A turn that a crash has ended begins again: its requests are in our record, and not in a checkpoint.
        config["configurable"] = {"thread_id": uuid4().hex, **(config.get("configurable") or {})}
        result = await self.guest.ainvoke(state, config=config, **options)
        usage = {name: (one["input_tokens"], one["output_tokens"]) for name, one in used.usage_metadata.items()}
        return GuestAnswer(self._reply_of(result), total_usage(usage))

    def _reply_of(self, result: Any) -> Any:
        if not isinstance(result, dict):
            return result
        if INTERRUPT in result:
            raise AgentError(
                f"The graph of {self.name!r} waits for a person (interrupt), which a guest can't: ask in the team"
            )
        if self.output is not None or not result.get(MESSAGES):
            return result
        return str(result[MESSAGES][-1].text)


def chat_model(model: AnyModel | None = None) -> BaseChatModel:
    """Return a chat model of LangChain for the nodes of a guest: the model of the guest, or another one of ours."""
    from teamwright.guests.langchain_chat_model import TurnChatModel

    _check_without_key("A chat_model()", model)
    return TurnChatModel(turn_model=model)


class OpenAIAgentsGuest(Guest):
    """An agent of OpenAI Agents as a member; `model` replaces that of every agent of a run, after handoffs too.

    Nothing is traced to OpenAI.
    """

    framework = Framework(
        "openai-agents",
        "agents",
        "Agent",
        "an agent of OpenAI Agents",
        "a synchronous tool that is cancelled goes on in its thread",
    )

    @override
    async def run(self, given: Any, turn: GuestTurn) -> GuestAnswer:
        from agents import RunConfig, Runner

        options: dict[str, Any] = {"max_turns": self.max_requests, **self.options}
        config = replace(options.pop("run_config", None) or RunConfig(), tracing_disabled=True)
        if self.model_agent is not None:
            from teamwright.guests.openai_agents_model import RunnerModel

            config = replace(config, model=RunnerModel(turn))
        result = await Runner.run(self.guest, given, run_config=config, **options)
        used = result.context_wrapper.usage
        return GuestAnswer(result.final_output, Usage(used.requests, used.input_tokens, used.output_tokens))


class AgentFrameworkGuest(Guest):
    """An agent of Microsoft Agent Framework as a member; `model` replaces its chat client.

    Agents among its tools and in its workflow are part of the turn if they have a `chat_client()`.
    """

    framework = Framework(
        "agent-framework-core",
        "agent_framework",
        "BaseAgent",
        "an agent of Microsoft Agent Framework",
        "agents among its tools and in its workflow have models of their own, unless they have a chat_client()",
    )

    @override
    async def run(self, given: Any, turn: GuestTurn) -> GuestAnswer:
        agent = self.guest
        if self.model_agent is not None and hasattr(agent, "client"):
            agent = copy(agent)
            agent.client = chat_client()
        result = await agent.run(given, **self.options)
        used: Any = result.usage_details or {}
        tokens = (used.get("input_token_count") or 0, used.get("output_token_count") or 0)
        usage = Usage(1, *tokens) if any(tokens) else None
        return GuestAnswer(result.text if result.value is None else result.value, usage)


def chat_client(model: AnyModel | None = None) -> BaseChatClient:
    """Return a chat client of Microsoft Agent Framework: the model of the guest, or another one of ours."""
    from teamwright.guests.agent_framework_client import TurnChatClient

    _check_without_key("A chat_client()", model)
    return TurnChatClient(model)


class CrewAIGuest(Guest):
    """A crew of CrewAI as a member; `model` replaces those of its agents, its manager and its planning.

    Its tasks find the text of the turn as `{task}`, or what `input` returns. CrewAI sends telemetry of its own unless
    `CREWAI_DISABLE_TELEMETRY=true` is set.
    """

    framework = Framework(
        "crewai",
        "crewai",
        "Crew",
        "a crew of CrewAI",
        "memory and knowledge call models of their own, and a synchronous tool that is cancelled goes on in its thread",
    )

    @override
    async def run(self, given: Any, turn: GuestTurn) -> GuestAnswer:
        crew = self.guest.copy()
        if self.model_agent is not None:
            from teamwright.guests.crewai_llm import TurnLLM

            for agent in (*crew.agents, *([crew.manager_agent] if crew.manager_agent else ())):
                agent.llm = TurnLLM(model="teamwright")
            crew.manager_llm = crew.manager_llm and TurnLLM(model="teamwright")
            crew.planning_llm = crew.planning_llm and TurnLLM(model="teamwright")
        inputs = {"task": given} if self.input is None else given
        result = await crew.akickoff(inputs=inputs, **self.options)
        used: Any = result.token_usage
        usage = Usage(used.successful_requests, used.prompt_tokens, used.completion_tokens)
        return GuestAnswer(result.pydantic or result.json_dict or result.raw, usage if usage.total_tokens else None)


GUESTS: tuple[type[Guest], ...] = (
    PydanticAIGuest, LangGraphGuest, OpenAIAgentsGuest, AgentFrameworkGuest, CrewAIGuest,
)  # fmt: skip
"""The guests of every framework that is known here."""


def _check_without_key(what: str, model: AnyModel | None) -> None:
    if isinstance(model, ServerModel) and model.api_key:
        raise UsageError(f"{what} with a key is not known to the run, which masks keys: give its model to the guest.")
