"""What a coding agent tells while it works: its text as a stream, its plan and its tool calls as events, and its usage.

A part of a turn keeps no more text than a reply may have, and records no more events than readers can use.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

from pydantic import JsonValue

from teamwright.agents.acp.connection import Json, items_at, part_at, text_at
from teamwright.agents.contract.effect import REPLY, THINKING, Attempt
from teamwright.values.events.agent import AgentProgressed
from teamwright.values.events.run import RunLogged
from teamwright.values.limits import Usage
from teamwright.values.text.display import cut

MOST_EVENTS = 200
"""How many events one part of a turn records."""
LONGEST_TEXT = 500
DONE, DOING = "completed", "in_progress"


class PartUpdates:
    """The updates of one part of a turn."""

    def __init__(self, attempt: Attempt, most: int) -> None:
        self._attempt, self._room = attempt, most
        self._pieces: list[str] = []
        self.is_cut = False
        """Whether the agent has said more than is kept."""
        self._is_apart = False
        """Whether something else came since the last piece of text."""
        self._events, self._plan = 0, ""
        self._usd: float | None = None
        self._kinds: dict[str, Callable[[Json], None]] = {
            "agent_message_chunk": self._add_text,
            "agent_thought_chunk": self._add_thought,
            "plan": self._add_plan,
            "tool_call": self._add_call,
            "tool_call_update": self._add_result,
            "usage_update": self._add_cost,
        }

    @property
    def text(self) -> str:
        """What the agent has said, as much as a reply may have."""
        return "".join(self._pieces)

    def add(self, update: Json) -> None:
        """Take over one update; one of a kind that is not known here is left out."""
        if (take := self._kinds.get(text_at(update, "sessionUpdate"))) is not None:
            take(update)

    def _add_text(self, update: Json) -> None:
        piece = text_at(update, "content", "text")
        if not piece or self.is_cut:
            return
        if self._is_apart and self._pieces:
            piece = f"\n\n{piece}"
        self._is_apart = False
        if (size := len(content := piece.encode("utf-8", "replace"))) > self._room:
            self.is_cut, piece = True, content[: self._room].decode("utf-8", "ignore")
        self._room -= size
        self._pieces.append(piece)
        self._attempt.delta(piece, REPLY)

    def _add_thought(self, update: Json) -> None:
        if piece := text_at(update, "content", "text"):
            self._attempt.delta(piece, THINKING)

    def _add_plan(self, update: Json) -> None:
        """Record how far the plan of the agent is, and what it does now."""
        entries = items_at(update, "entries")
        states = [text_at(one, "status") for one in entries]
        now = next((text_at(one, "content") for one in entries if text_at(one, "status") == DOING), "")
        text = f"plan: {states.count(DONE)} of {len(entries)} done" + (f", {now}" if now else "")
        if entries and text != self._plan and self._has_room():
            self._plan = text
            done = states.count(DONE) / len(entries)
            self._attempt.emit(AgentProgressed(name="plan", text=cut(text, LONGEST_TEXT), done=done))

    def _add_call(self, update: Json) -> None:
        self._is_apart = True
        kind, title = text_at(update, "kind") or "other", text_at(update, "title")
        if title and self._has_room():
            self._attempt.emit(AgentProgressed(name=cut(kind, 40), text=cut(title, LONGEST_TEXT)))

    def _add_result(self, update: Json) -> None:
        self._is_apart = True
        if text_at(update, "status") == "failed" and self._has_room():
            title = text_at(update, "title") or text_at(update, "toolCallId")
            self._attempt.emit(RunLogged(text=cut(f"a tool call failed: {title}", LONGEST_TEXT), level="warning"))

    def _add_cost(self, update: Json) -> None:
        cost = part_at(update, "cost")
        if text_at(cost, "currency").upper() == "USD":
            self._usd = amount(cost.get("amount")) or self._usd

    def _has_room(self) -> bool:
        self._events += 1
        return self._events <= MOST_EVENTS

    def usage(self, result: JsonValue) -> Usage | None:
        """Return what the session has used so far, as its agent says; `None` if it says nothing plausible.

        `result` is that of the prompt, once there is one. Gemini CLI counts in `_meta`.
        """
        input_tokens, output_tokens = token_counts(result)
        if not input_tokens and not output_tokens and self._usd is None:
            return None
        try:
            used = Usage(requests=1, input_tokens=input_tokens, output_tokens=output_tokens, usd=self._usd)
        except ValueError:
            return None
        return used if used.is_plausible else None


def token_counts(result: JsonValue) -> tuple[int, int]:
    """Return the tokens of input and of output, which together are all that an agent reports."""
    used = part_at(result, "usage")
    if not used:
        counted = part_at(result, "_meta", "quota", "token_count")
        return count(counted.get("input_tokens")), count(counted.get("output_tokens"))
    names = ("inputTokens", "outputTokens", "thoughtTokens", "cachedReadTokens", "cachedWriteTokens")
    inputs, outputs, thoughts, *cached = (count(used.get(name)) for name in names)
    total = count(used.get("totalTokens"))
    if total >= inputs + outputs + thoughts + sum(cached):  # thoughts are no part of the output
        outputs += thoughts
    return max(inputs, total - outputs), outputs


def count(value: JsonValue) -> int:
    """Return a number of tokens; 0 for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def amount(value: JsonValue) -> float | None:
    """Return an amount of money; `None` for what is none."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
        return None
    return float(value) if value >= 0 else None
