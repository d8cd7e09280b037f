"""One turn of a model agent: requests, tool calls and corrections, until the model has answered.

Imported at the first model call. Each request and each tool call is one effect; nothing else may reach the outside
world, and between two effects the loop depends on nothing but their results.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from pydantic import JsonValue
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.settings import ModelSettings

from teamwright.agents.agent import Context
from teamwright.agents.clients.model_client import ModelClient
from teamwright.agents.clients.providers import profile_of
from teamwright.agents.compaction import TurnCompaction, compaction_of
from teamwright.agents.functions.instructions import Mend, Refuse, with_verdict, with_warnings
from teamwright.agents.model.conversation import ModelConversation, ToolResult, tool_use_of
from teamwright.agents.model.messages import response_text, sent_arguments
from teamwright.agents.model.request_template import (
    AnswerSchema,
    answer_modes,
    answer_schema,
    make_request_template,
    plan_cache,
)
from teamwright.agents.model.requests import ModelRequests
from teamwright.agents.model.tool_calls import call_tools, correction_of, in_order, unknown_call, unknown_text
from teamwright.agents.prompt_notices import low_budget_notice, note_instructions
from teamwright.agents.tools.built_in import final_response, transfer_message
from teamwright.agents.tools.toolbox import Tools
from teamwright.errors import ContextTooLong, InvalidOutput, Refused
from teamwright.values.call_limits import output_cut_warning, reply_cut_warning
from teamwright.values.specs.models import AnyModel
from teamwright.values.specs.tools import TERMINATE
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Reply, Signal, ToolUse, Turn

if TYPE_CHECKING:
    from teamwright.agents.model.agent import ModelAgent

MOST_CORRECTIONS = 2
"""How often a model may correct an answer that can't be used."""
MOST_REJECTED_CALLS = 3
"""How often a model may correct its calls of one tool."""
NO_DATA = "The reply of {name!r} has no data: it called terminate with a text that does not fit its output_schema"


class ModelTurn:
    """One turn: asks the model until it has answered, and calls its tools in between."""

    def __init__(
        self,
        agent: ModelAgent,
        model: AnyModel,
        turn: Turn,
        ctx: Context,
        client: ModelClient,
        tools: Tools,
        instructions: str,
    ) -> None:
        self._agent, self._turn, self._ctx, self._client, self._tools = agent, turn, ctx, client, tools
        self._answer: AnswerSchema | None = None
        if agent.output_schema is not None or turn.output_schema is not None:
            self._answer = answer_schema(agent.name, agent.output_schema, agent.output_type, turn)
        settings, has_tools = self._settings(model), bool(tools.definitions)
        cache = plan_cache(profile_of(client.model), agent.cache, settings, turn, agent.name, has_tools=has_tools)
        self._conversation = ModelConversation.of_turn(turn, agent.name, marks_shared=cache.marks_shared)
        self._requests = ModelRequests(agent, model, ctx, client, _output_cap(agent, model, turn, client), self._answer)
        prescribed = agent.output_mode_for(model)
        agent.last_request_template = self._template = make_request_template(
            _instructions(agent, model, turn, client, self._answer, (instructions, *tools.context)),
            tools.definitions,
            settings | cache.settings,
            self._answer,
            answer_modes(client.model, self._answer, native=client.native_output, prescribed=prescribed),
            prescribed,
            agent.last_request_template,
        )
        self.compaction: TurnCompaction | None = None
        self._corrections = 0
        self._rejected: Counter[str] = Counter()
        self._results: list[ToolResult] = []
        self._uses: list[ToolUse] = []
        self._refusals = 0

    async def run(self) -> Reply:
        most = self._agent.max_requests
        while self._requests.count < most:
            response = await self._send()
            reply = await self._handle(response)
            silent = reply is not None and reply.transfer_to is not None and not reply.messages
            if reply is not None and self._agent.guardrails is not None and not silent:
                reply = await self._guard(reply, response)
            if reply is not None:
                return reply
        raise InvalidOutput(f"{self._agent.name!r} made {most} requests and still had no answer; raise  max_requests")

    async def _send(self) -> ModelResponse:
        """Send the next request, after compacting the work of this turn if it would fill the model's window."""
        if self.compaction is None:
            return await self._requests.send(self._conversation, self._template)
        if self.compaction.is_due(self.prompt_bytes):
            await self.compaction.compact(self._conversation, self._turn.number)
        size, before = self.prompt_bytes, self._requests.usage.input_tokens
        try:
            response = await self._requests.send(self._conversation, self._template)
        except ContextTooLong:
            if not await self.compaction.compact(self._conversation, self._turn.number):
                raise
            return await self._requests.send(self._conversation, self._template)
        self.compaction.measure(size, self._requests.usage.input_tokens - before)
        return response

    @property
    def prompt_bytes(self) -> int:
        """The size of the next request."""
        return self._conversation.prompt_bytes + self._template.prompt_bytes

    async def _handle(self, response: ModelResponse) -> Reply | None:
        """Call the tools of a response; return the reply if the response ends the turn."""
        text = response_text(response)
        calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
        if not calls:
            return self._take_text(text, response)
        ending = [call for call in calls if self._ends_turn(call)]
        self._results = results = await call_tools(
            self._tools, [call for call in calls if not self._ends_turn(call)], self._requests.tool_keys
        )
        if self._turn.keeps_tool_uses:
            self._uses += (tool_use_of(one) for one in results if one.outcome != "retried")
        terminate = next((call for call in ending if call.tool_name == TERMINATE), None)
        transfers = [call for call in ending if call.tool_name in self._tools.transfers]
        if transfers and terminate is None:
            return self._hand_over(transfers[0], text)
        for call in ending:
            if call.tool_name == TERMINATE or call.tool_name in self._tools.transfers:
                continue
            try:
                return self._take_data(sent_arguments(call), "terminate" if terminate else None)
            except InvalidOutput as error:
                results.append(ToolResult(call, str(error), "retried"))
        if terminate is not None:
            return self._terminate(final_response(terminate.args) or text)
        self._conversation.add_results(in_order(results, calls))
        if ending:
            return self._count_correction(results[-1].content, sent_arguments(ending[-1]))
        self._check_rejected(results)
        return None

    async def _guard(self, reply: Reply, response: ModelResponse) -> Reply | None:
        """Return the reply as its `check` leaves it, or ask for a correction if it refuses the reply."""
        guardrails = self._agent.guardrails
        assert guardrails is not None
        verdict = await guardrails.judge(reply.text, self._turn, self._ctx, self._refusals + 1)
        if isinstance(verdict, Refuse):
            self._refusals += 1
            if self._refusals > MOST_CORRECTIONS:
                raise guardrails.refusal(verdict)
            self._send_back(f"Your answer was refused: {verdict.reason}", response)
            return None
        checked = with_verdict(reply, verdict, self._agent.name)
        if isinstance(verdict, Mend) and self._answer is not None:
            data = self._answer.parse_text(verdict.text)
            if data is None and not self._answer.preferred:
                raise InvalidOutput(
                    f"The answer of {self._agent.name!r} as its check mended it does not fit its schema"
                )
            checked = checked.changed(data=data)
        return checked

    def _send_back(self, correction: str, response: ModelResponse) -> None:
        """Answer a response that was to end the turn with a correction, as the result of its call if it made one."""
        calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
        if not calls:
            self._conversation.add_user(correction)
            return
        made = {one.call.tool_call_id: one for one in self._results}
        results = [made.get(call.tool_call_id) or ToolResult(call, correction, "retried") for call in calls]
        self._conversation.add_results(results)

    def _terminate(self, content: str) -> Reply:
        """Return the reply that ends the team, with a warning if it lacks the data that the agent declares."""
        answer = self._answer
        reply = self._reply(content, answer and answer.parse_text(content), "terminate")
        if answer is None or answer.preferred or reply.data is not None:
            return reply
        return with_warnings(reply, (NO_DATA.format(name=self._agent.name),))

    def _hand_over(self, call: ToolCallPart, text: str) -> Reply:
        """Return the reply that hands the turn to another member."""
        return self._reply(transfer_message(call.args, text), transfer_to=self._tools.transfers[call.tool_name])

    def _ends_turn(self, call: ToolCallPart) -> bool:
        if call.tool_name == TERMINATE:
            return self._tools.may_terminate
        if call.tool_name in self._tools.transfers:
            return True
        return call.tool_name == self._template.answer_tool and self._requests.mode == "tool"

    def _take_text(self, text: str, response: ModelResponse) -> Reply | None:
        """Take a response without tool calls as the answer, or ask for a correction."""
        answer = self._answer
        if not text:
            self._check_empty(response)
            by_tool = self._requests.mode == "tool"
            wanted = f"call the tool {self._template.answer_tool!r}" if by_tool else "answer with text"
            either = " or call a tool" if self._tools.definitions and not by_tool else ""
            return self._correct(f"Your reply was empty; please {wanted}{either}.", text)
        offered = self._template.tool_names(self._requests.mode)
        if offered and (correction := correction_of(text, offered)) is not None:
            return self._correct(correction, "")
        if answer is None:
            wrong = unknown_call(text, offered) if offered and not self._corrections else None
            return self._reply(text) if wrong is None else self._correct(unknown_text(wrong, offered), text)
        if self._requests.mode == "text" or answer.is_settled_by(text):
            return self._reply(text, answer.parse_text(text))
        try:
            return self._take_data(text)
        except InvalidOutput as error:
            if answer.preferred and self._requests.truncated:  # the next one would be cut as well
                return self._reply(text, answer.parse_text(text))
            return self._correct(str(error), text)

    def _take_data(self, text: str, signal: Signal | None = None) -> Reply:
        """Return the reply with the data of an answer in JSON; raises `InvalidOutput` if it does not fit."""
        assert self._answer is not None
        data = self._answer.parse_json(text)
        return self._reply(json.dumps(data, ensure_ascii=False), data, signal)

    def _correct(self, correction: str, text: str) -> Reply | None:
        self._conversation.add_user(correction)
        return self._count_correction(correction, text)

    def _count_correction(self, correction: JsonValue, text: str) -> Reply | None:
        """Count a correction; after the last one, return an answer that was only preferred as text, or fail."""
        self._corrections += 1
        if self._corrections <= MOST_CORRECTIONS:
            return None
        if self._answer is not None and self._answer.preferred and text:
            return self._reply(text, self._answer.parse_text(text))
        raise self._not_corrected(correction)

    def _check_rejected(self, results: Sequence[ToolResult]) -> None:
        """Fail the turn if the model does not correct its calls of a tool."""
        corrections = {one.call.tool_name: one.content for one in results if one.outcome == "retried"}
        self._rejected.update(corrections.keys())
        for name, correction in corrections.items():
            if self._rejected[name] > MOST_REJECTED_CALLS:
                raise self._not_corrected(correction)

    def _not_corrected(self, correction: JsonValue) -> InvalidOutput:
        return InvalidOutput(
            f"The model {self._client.name!r} gave no usable answer: it did not correct its mistake: {correction}"
        )

    def _check_empty(self, response: ModelResponse) -> None:
        """Fail the turn if a further request would be as empty."""
        if response.finish_reason == "length":
            raise InvalidOutput(
                f"The model {self._client.name!r} gave no usable answer: it reached its output limit first;"
                f" {self._requests.limit.remedy if self._requests.limit else 'raise  max_tokens'}"
            )
        if response.finish_reason == "content_filter":
            raise Refused(f"The model {self._client.name!r} refused to answer: its content filter stopped the reply")

    def _settings(self, model: AnyModel) -> ModelSettings:
        """Return what each request sends; its output cap is added when the budget has granted it."""
        given = self._agent.settings_for(model)
        settings = cast("ModelSettings", {name: value for name, value in given.items() if name != "max_tokens"})
        if self._client.retries:
            settings["max_retries"] = 0
        return settings

    def _reply(
        self, content: str, data: JsonValue = None, signal: Signal | None = None, transfer_to: str | None = None
    ) -> Reply:
        agent, requests = self._agent, self._requests
        cut: tuple[str, ...] = ()
        if requests.capped is not None:
            cut = (reply_cut_warning(agent.name, requests.capped),)
        elif requests.limit is not None:
            cut = (output_cut_warning(agent.name, requests.limit),)
        ends_early = signal is not None or transfer_to is not None
        return Reply(
            messages=() if ends_early and not content else (Message(name=agent.name, content=content),),
            data=data,
            usage=requests.usage + self._tools.spent,
            signal=signal,
            truncated=requests.truncated,
            warnings=(*self._tools.warnings, *cut, *(self.compaction.warnings if self.compaction else ())),
            transfer_to=transfer_to,
            tool_uses=tuple(self._uses),
        )


async def run_turn(
    agent: ModelAgent,
    model: AnyModel,
    turn: Turn,
    ctx: Context,
    client: ModelClient,
    tools: Tools,
    instructions: str,
) -> Reply:
    """Answer one turn with this model and these instructions, and return the reply."""
    model_turn = ModelTurn(agent, model, turn, ctx, client, tools, instructions)
    compact = agent.policy.compact or turn.compact
    if compact is not None and (compaction := await compaction_of(agent, model, compact, ctx)) is not None:
        if compaction.is_due(model_turn.prompt_bytes):
            model_turn = ModelTurn(agent, model, await compaction.shorten(turn), ctx, client, tools, instructions)
        model_turn.compaction = compaction
    return await model_turn.run()


def _output_cap(agent: ModelAgent, model: AnyModel, turn: Turn, client: ModelClient) -> int | None:
    """Return the output cap of each request, if the agent, its model or the asker sets one.

    What a model thinks counts as its output, so an asker that coordinates caps no model that may think.
    """
    own = agent.settings_for(model).get("max_tokens")
    if own or turn.max_output is None or turn.purpose != "coordinate":
        return own or turn.max_output
    return None if profile_of(client.model).get("supports_thinking") else turn.max_output


def _instructions(
    agent: ModelAgent,
    model: AnyModel,
    turn: Turn,
    client: ModelClient,
    answer: AnswerSchema | None,
    context: Sequence[str],
) -> str:
    """Join the agent's instructions and their context, those for a note beside text, and the budget notice."""
    note = note_instructions(turn.envelope_limits) if turn.envelope_limits is not None and answer is None else ""
    little = ""
    if turn.left is not None:
        little = low_budget_notice(turn, model, "\n\n".join(context), _output_cap(agent, model, turn, client))
    return "\n\n".join(filter(None, (*context, note, little))).strip()
