"""A language model of CrewAI whose requests are effects of a guest's turn."""

from __future__ import annotations

from typing import Any

from crewai import BaseLLM
from pydantic import BaseModel
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from teamwright.guests.model_requests import chat_message_of, messages_of, parameters_of, settings_of
from teamwright.guests.turn import current_turn

FIELDS = ("temperature", "top_p", "max_tokens", "seed", "frequency_penalty", "presence_penalty")


class TurnLLM(BaseLLM):
    """The model of the turn in which it is called."""

    def call(
        self,
        messages: str | list[Any],
        tools: list[Any] | None = None,
        callbacks: list[Any] | None = None,
        available_functions: dict[str, Any] | None = None,
        from_task: Any = None,
        from_agent: Any = None,
        response_model: type[BaseModel] | None = None,
    ) -> Any:
        """Make a request from a thread of the crew."""
        turn = current_turn("The model of a crew")
        response = turn.request_in_thread(*self._request(messages, tools, response_model))
        return self._answer(response, response_model)

    async def acall(
        self,
        messages: str | list[Any],
        tools: list[Any] | None = None,
        callbacks: list[Any] | None = None,
        available_functions: dict[str, Any] | None = None,
        from_task: Any = None,
        from_agent: Any = None,
        response_model: type[BaseModel] | None = None,
    ) -> Any:
        """Make a request from a task of the crew."""
        turn = current_turn("The model of a crew")
        response = await turn.request(*self._request(messages, tools, response_model))
        return self._answer(response, response_model)

    def supports_function_calling(self) -> bool:
        """Offer tools to the model, in place of a prompt about them."""
        return True

    def get_input_tokens_count(
        self, messages: str | list[Any], tools: list[Any] | None = None, response_model: type[BaseModel] | None = None
    ) -> int:
        """Estimate a prompt as CrewAI does, without its warning."""
        return len(str(messages)) // 4

    def supports_stop_words(self) -> bool:
        """Pass on where a reply has to stop."""
        return True

    def _request(
        self, messages: str | list[Any], tools: list[Any] | None, response_model: type[BaseModel] | None
    ) -> tuple[list[ModelMessage], ModelSettings, ModelRequestParameters]:
        chat = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        fields = {name: getattr(self, name) for name in FIELDS} | {"stop": self.stop_sequences or None}
        form = None
        if response_model is not None:
            form = {"json_schema": {"name": response_model.__name__, "schema": response_model.model_json_schema()}}
        return messages_of(chat), settings_of(fields), parameters_of(tools or (), form)

    def _answer(self, response: ModelResponse, response_model: type[BaseModel] | None) -> Any:
        """Return the calls of a response, which the crew makes, or else its text."""
        message, used = chat_message_of(response), response.usage
        self._track_token_usage_internal(
            {
                "prompt_tokens": used.input_tokens,
                "completion_tokens": used.output_tokens,
                "total_tokens": used.total_tokens,
            }
        )
        if calls := message.get("tool_calls"):
            return calls
        text = message["content"] or ""
        return text if response_model is None else self._validate_structured_output(text, response_model)
