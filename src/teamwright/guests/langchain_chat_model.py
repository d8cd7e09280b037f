"""A chat model of LangChain whose requests are effects of a guest's turn, and what a graph tells of other models."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, BaseCallbackHandler, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.base import LangSmithParams
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from teamwright.agents.model.messages import response_text, sent_arguments
from teamwright.errors import UsageError
from teamwright.guests.model_requests import messages_of, parameters_of, settings_of
from teamwright.guests.turn import current_turn

PROVIDER = "teamwright"


class TurnChatModel(BaseChatModel):
    """The model of the turn in which it is called, or another model of ours by its name."""

    turn_model: Any = None

    @property
    def _llm_type(self) -> str:
        return PROVIDER

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return LangSmithParams(ls_provider=PROVIDER, ls_model_type="chat")

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | Any],
        *,
        tool_choice: Any = None,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the model with these tools, in any form that LangChain knows."""
        offered = [convert_to_openai_tool(one, strict=strict) for one in tools]
        return self.bind(tools=offered, tool_choice=tool_choice, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        turn = current_turn("A chat_model()")
        return _result(turn.request_in_thread(*_request(messages, stop, kwargs), self.turn_model))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        turn = current_turn("A chat_model()")
        return _result(await turn.request(*_request(messages, stop, kwargs), self.turn_model))


class OnlyOurs(BaseCallbackHandler):
    """Refuses requests to other models, which no budget of ours would see."""

    raise_error = True
    run_inline = True

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Raise `UsageError` unless the model is ours."""
        provider = (metadata or {}).get("ls_provider", "unknown")
        if provider != PROVIDER:
            raise UsageError(
                f"The graph calls a model of its own ({provider}): build it with  chat_model()  of teamwright.guests,"
                " or give its guest a  ceiling  in place of a model"
            )


def _request(
    messages: list[BaseMessage], stop: list[str] | None, fields: dict[str, Any]
) -> tuple[list[ModelMessage], ModelSettings, ModelRequestParameters]:
    given: dict[str, Any] = {**fields, "stop": stop}
    tools, answer = given.pop("tools", ()), given.pop("response_format", None)
    chat = convert_to_openai_messages(messages)
    return messages_of(chat), settings_of(given), parameters_of(tools, answer)


def _result(response: ModelResponse) -> ChatResult:
    used = response.usage
    calls, invalid = list[Any](), list[Any]()
    for part in response.parts:
        if isinstance(part, ToolCallPart):
            written, named = sent_arguments(part), {"name": part.tool_name, "id": part.tool_call_id}
            try:
                calls.append({**named, "args": json.loads(written), "type": "tool_call"})
            except ValueError as error:
                invalid.append({**named, "args": written, "error": str(error), "type": "invalid_tool_call"})
    message = AIMessage(
        content=response_text(response),
        tool_calls=calls,
        invalid_tool_calls=invalid,
        usage_metadata={
            "input_tokens": used.input_tokens,
            "output_tokens": used.output_tokens,
            "total_tokens": used.input_tokens + used.output_tokens,
        },
        response_metadata={"model_name": response.model_name, "finish_reason": response.finish_reason},
    )
    return ChatResult(generations=[ChatGeneration(message=message)])
