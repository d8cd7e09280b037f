"""The size caps of results and replies: a text is cut at its cap (`max_bytes`), and larger JSON fails the call.

The default is `MAX_BYTES` in `values/call_limits.py`.
"""

from __future__ import annotations

import json

from msgspec import structs
from pydantic_core import PydanticSerializationError, to_json

from teamwright.agents.effect import Effect, Returned
from teamwright.errors import AgentError, InvalidOutput, ToolError
from teamwright.values.call_limits import cut_text, fits, reply_cut_warning, text_size
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Reply
from teamwright.values.usage_and_prices import NOTHING, Usage
from teamwright.values.value import JsonValue

WHOLE_REPLY = 100
"""How many times the cap a whole reply may be as the result of a call, before its parts are cut."""


def within_cap(returned: Returned, effect: Effect) -> Returned:
    """Return the result with a text cut at the cap of its effect; larger JSON fails the call.

    Usage figures that are impossible count as not reported.
    """
    if returned.__class__ is not Returned:
        raise _no_result(returned, effect)
    if returned.usage is not NOTHING:
        if returned.usage.__class__ is not Usage:
            raise _no_result(returned, effect)
        if not returned.usage.is_plausible:
            returned = structs.replace(returned, usage=Usage(requests=min(1, returned.usage.requests)))
    if (wrong := returned.misfit()) is not None:
        raise AgentError(f"The call {effect.name!r} returned what can't be recorded: {wrong}")
    value, cap = returned.value, effect.max_bytes
    if isinstance(value, str):
        if len(value) * 4 <= cap or fits(value, cap):
            return returned
        return structs.replace(returned, value=cut_text(value, cap), truncated=True, capped=cap)
    if returned.form == "reply":  # `reply_within_cap` checks its texts and its data
        cap *= WHOLE_REPLY
    if isinstance(value, dict | list) and (size := json_size(value)) > cap:
        raise _too_large(effect, size)
    return returned


def reply_within_cap(reply: Reply, name: str, cap: int) -> Reply:
    """Return the reply of a member with its texts cut at the cap; raises `InvalidOutput` for larger JSON."""
    if reply.data is not None and isinstance(reply.data, dict | list) and (size := json_size(reply.data)) > cap:
        raise InvalidOutput(f"{name!r} replied with JSON of {size} bytes; at most {cap} are taken (max_bytes)")
    if sum(len(one.content) for one in reply.messages) * 4 <= cap:
        return reply
    messages = _cut(reply.messages, cap)
    if messages == reply.messages:
        return reply
    warning = reply_cut_warning(name, cap)
    return reply.changed(messages=messages, truncated=True, warnings=(*reply.warnings, warning))


def json_size(value: JsonValue) -> int:
    """Return the bytes of a value as JSON; a lone surrogate, which UTF-8 can't encode, counts as three."""
    try:
        return len(to_json(value))
    except PydanticSerializationError:
        return text_size(json.dumps(value, ensure_ascii=False))


def _cut(messages: tuple[Message, ...], cap: int) -> tuple[Message, ...]:
    kept: list[Message] = []
    for message in messages:
        content = cut_text(message.content, cap)
        cap -= text_size(content)
        kept.append(message if content == message.content else message.changed(content=content))
        if cap <= 0:
            break
    return tuple(kept)


def _no_result(returned: object, effect: Effect) -> AgentError:
    return AgentError(f"The call {effect.name!r} must return a Returned, and gave {returned!r:.200}")


def _too_large(effect: Effect, size: int) -> AgentError:
    text = f"{size} bytes of JSON came back; at most {effect.max_bytes} are taken (max_bytes)"
    if effect.kind == "tool":
        return ToolError(f"The result of {effect.name!r} is too large: {text}")
    return InvalidOutput(f"{effect.name!r}: {text}")
