"""The guests of each framework. A framework is imported when its guest is first asked, and nowhere else."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from typing_extensions import override

from teamwright.errors import AgentError, UsageError
from teamwright.guests.guest import Framework, Guest, GuestAnswer, total_usage
from teamwright.guests.turn import GuestTurn
from teamwright.values.limits import Usage
from teamwright.values.specs.models import AnyModel, ServerModel

if TYPE_CHECKING:
    from agent_framework import BaseChatClient
    from langchain_core.language_models import BaseChatModel

MESSAGES, INTERRUPT = "messages", "__interrupt__"


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
