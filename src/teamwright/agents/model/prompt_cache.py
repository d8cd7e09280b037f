"""Prompt caching: where a request asks its provider to keep the prompt that it has read.

A provider keeps a prompt up to a cache point and charges less for it when a later prompt begins the same; writing costs
somewhat more than reading it uncached. So a point must stand before whatever changes, and only where the prefix will
probably be read again. Points are no part of the digest of a request: they change its price, not its content.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from pydantic_ai.messages import CachePoint, ModelMessage, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import CacheConfig, ModelSettings

from teamwright.values.specs.manifest import CacheMode
from teamwright.values.turns.turn import Turn

LOOKBACK = 20
"""How many blocks before a cache point a provider looks for a prefix that it has."""


class CachePlan(NamedTuple):
    """What a turn asks its provider to cache: by settings, and by a point at the end of the shared messages."""

    settings: ModelSettings
    marks_shared: bool


NO_CACHE = CachePlan(ModelSettings(), False)


def plan_cache(
    profile: ModelProfile, mode: CacheMode, settings: ModelSettings, turn: Turn, name: str, *, has_tools: bool
) -> CachePlan:
    """Plan the caching of a turn of the member `name`; nothing if the provider needs no points or the user objects.

    Instructions and tools are cached always. The messages are cached if they will probably be sent again: with results
    of tools, or in a later turn of a member that has spoken before. If the turn ends with `Your turn, NAME.`, a later
    turn shares the messages before that line, else all of them.
    """
    if mode == "off" or "cache" in settings or not profile.get("supports_cache"):
        return NO_CACHE
    repeats = has_tools or any(message.name == name and message.role != "user" for message in turn.history)
    extends = has_tools or (repeats and turn.since is None)
    return CachePlan(
        ModelSettings(cache=True if extends else CacheConfig(messages=False)), repeats and turn.since is not None
    )


def add_cache_points(messages: list[ModelMessage]) -> None:
    """Add a cache point at the end of these messages, with which a later turn of the member begins.

    Its turn before had the point just before its last reply. If that is further back than a provider looks, the point
    is set there again.
    """
    end = len(messages)
    own = next((place for place in range(end - 1, -1, -1) if isinstance(messages[place], ModelResponse)), 0)
    for place in (_last_request(messages, end), _last_request(messages, own) if end - own > LOOKBACK else None):
        if place is not None:
            messages[place] = _with_point(messages[place])


def _last_request(messages: Sequence[ModelMessage], before: int) -> int | None:
    return next((place for place in range(before - 1, -1, -1) if isinstance(messages[place], ModelRequest)), None)


def _with_point(message: ModelMessage) -> ModelMessage:
    assert isinstance(message, ModelRequest)
    *before, last = message.parts
    if not isinstance(last, UserPromptPart):
        return message
    content = [last.content] if isinstance(last.content, str) else list(last.content)
    return replace(message, parts=[*before, replace(last, content=[*content, CachePoint()])])
