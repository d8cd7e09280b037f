"""A model of OpenAI Agents whose requests are effects of a guest's turn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from agents import Handoff, Model, ModelResponse, ModelSettings, ModelTracing, Tool, TResponseInputItem, Usage
from agents.agent_output import AgentOutputSchemaBase
from agents.items import TResponseStreamEvent
from agents.models.chatcmpl_converter import Converter
from openai.types.chat import ChatCompletionMessage
from pydantic_ai.messages import ModelResponse as Response

from teamwright.errors import UsageError
from teamwright.guests.model_requests import chat_message_of, messages_of, parameters_of, settings_of
from teamwright.guests.turn import GuestTurn

FIELDS = (
    "temperature", "top_p", "frequency_penalty", "presence_penalty", "tool_choice", "parallel_tool_calls", "max_tokens",
    "verbosity", "extra_body", "extra_headers",
)  # fmt: skip


class RunnerModel(Model):
    """The model of the turn, as agents of OpenAI Agents see it."""

    def __init__(self, turn: GuestTurn) -> None:
        self._turn = turn

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        prompt: Any = None,
    ) -> ModelResponse:
        if previous_response_id or conversation_id or prompt:
            raise UsageError("A model of ours keeps no conversation or prompt at OpenAI; leave their ids out.")
        chat: list[Any] = [{"role": "system", "content": system_instructions}] if system_instructions else []
        chat += Converter.items_to_messages(input)
        offered: list[Any] = [Converter.tool_to_openai(one) for one in tools]
        offered += [Converter.convert_handoff_tool(one) for one in handoffs]
        fields = {name: getattr(model_settings, name) for name in FIELDS}
        if model_settings.reasoning is not None:
            fields["reasoning_effort"] = model_settings.reasoning.effort
        if not offered:
            fields["tool_choice"] = fields["parallel_tool_calls"] = None
        answer = Converter.convert_response_format(output_schema)
        parameters = parameters_of(offered, answer if isinstance(answer, dict) else None)
        response = await self._turn.request(messages_of(chat), settings_of(fields), parameters)
        message = ChatCompletionMessage.model_validate(chat_message_of(response))
        return ModelResponse(Converter.message_to_output_items(message), _usage(response), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[TResponseStreamEvent]:
        """Refuse to stream: observers of the run see the response arrive, and the guest gets it whole."""
        raise UsageError("A guest gets whole responses: call  Runner.run, not  Runner.run_streamed")


def _usage(response: Response) -> Usage:
    used = response.usage
    return Usage(
        requests=1,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        total_tokens=used.input_tokens + used.output_tokens,
    )
