"""A model of pydantic-ai whose requests are effects of a guest's turn; those of other frameworks end up here, too."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import CompletedStreamedResponse, Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext
from typing_extensions import override

from teamwright.agents.model.conversation import ModelConversation
from teamwright.agents.model.request_template import given_template
from teamwright.agents.model.requests import ModelRequests
from teamwright.guests.turn import GuestTurn
from teamwright.values.key import REQUEST
from teamwright.values.specs.models import model_key
from teamwright.values.turns.messages import digest

if TYPE_CHECKING:
    from teamwright.agents.model.agent import ModelAgent


class TurnModel(WrapperModel):
    """The model of the turn, as an agent of pydantic-ai sees it."""

    def __init__(self, turn: GuestTurn, model: Model) -> None:
        super().__init__(model)
        self._turn = turn

    @override
    async def __aenter__(self) -> TurnModel:
        return self  # the engine opens and closes the client

    @override
    async def __aexit__(self, *exception: object) -> None:
        return None

    @override
    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        return await self._turn.request(messages, model_settings, model_request_parameters)

    @override
    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Make the request and replay its response; observers of the run have seen it arrive."""
        response = await self.request(messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(response, model_request_parameters=model_request_parameters, replay_events=True)


async def send_request(
    turn: GuestTurn,
    agent: ModelAgent,
    messages: list[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
) -> ModelResponse:
    """Make a request as an effect of the turn; while others of the turn are in flight, observers see none of it."""
    client = await turn.client(agent.model)
    given = {**agent.settings_for(agent.model), **(settings or {})}
    most = cast("int | None", given.pop("max_tokens", None))
    if client.retries:
        given["max_retries"] = 0
    conversation = ModelConversation.of_messages(messages)
    template = given_template(cast("ModelSettings", given), parameters)
    requests = ModelRequests(agent, agent.model, turn.ctx, client, most)
    requests.is_quiet = turn.in_flight > 1
    content = digest(model_key(agent.model), conversation.digest, template.digest)
    return await requests.send(conversation, template, turn.place(REQUEST, content))
