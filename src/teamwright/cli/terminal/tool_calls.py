"""Tool calls as text: their arguments and results, folded to one line or whole, and the lines of a view about them.

A folded text takes time and space in proportion to what is shown, however large the value is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from pydantic import JsonValue

from teamwright.cli.terminal.output import clean
from teamwright.history.event_wording import note_text
from teamwright.history.recorded_asks import RecordedBodies, bodies_of, texts_of
from teamwright.values.events.agent import (
    AgentAsked,
    AgentCalled,
    AgentCallFailed,
    AgentCallRejected,
    AgentFailed,
    AgentReplied,
    AgentReturned,
    McpMethod,
)
from teamwright.values.events.event import Event
from teamwright.values.run_keys import nearest_key
from teamwright.values.text.display import count_text, cut, seconds_text
from teamwright.values.text.secrets import mask_value

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal


FOLDED = 120
"""The characters of a folded value."""
MOST_ITEMS = 20
"""The items of a folded list or object."""
DEEPEST = 4
MOST_CLEANED = 64 * 1024
"""How much of a text is searched for secrets and control characters before it is cut: no secret is nearly as long."""
BATCH = 50
MORE = "…"


LISTS = "lists the tools of"
"""What a member does with an MCP server besides calling its tools."""
WIDEST_ARGUMENTS = 60
SYMBOL, RETURNED = "⚙", "→"


class PendingCall(NamedTuple):
    """A tool call that has not returned yet, or another request to an MCP server, which is the `tool` then."""

    tool: str
    began: float
    event: Event
    method: McpMethod | None = None

    @property
    def title(self) -> str:
        """The tool, or what the server is asked for."""
        return self.tool if self.method is None else f"{LISTS} {self.tool}"

    def shown(self, result: JsonValue) -> JsonValue:
        """The result for a line of text: of a list of tools, their names."""
        return result if self.method is None else tool_names(result)


class ToolCalls:
    """The tool calls of a run that have not returned yet, by key, and its open asks."""

    def __init__(self) -> None:
        self._open: dict[str, PendingCall] = {}
        self._asks: dict[str, AgentAsked] = {}

    def apply(self, event: Event) -> None:
        match event.fact:
            case AgentCalled(effect="tool", name=name, method=method):
                self._open[event.key] = PendingCall(name, event.time, event, method)
            case AgentReturned() | AgentCallFailed(retry_in=None):
                self._open.pop(event.key, None)
            case AgentAsked() as fact:
                self._asks[event.key] = fact
            case AgentReplied() | AgentFailed():
                self._asks.pop(event.key, None)
            case _:
                pass

    def of(self, event: Event) -> PendingCall | None:
        """The call that an event ends; ask before the event is applied."""
        return self._open.get(event.key) if isinstance(event.fact, AgentReturned | AgentCallFailed) else None

    def asker_of(self, event: Event) -> str | None:
        """The member, no team, that asks another one in its turn, as a tool; `None` for other events."""
        around = self._asks.get(nearest_key(event.scope, self._asks)) if isinstance(event.fact, AgentAsked) else None
        return None if around is None or around.member_kind == "team" else around.member

    def is_about(self, event: Event) -> bool:
        """Whether an event begins, ends or rejects a tool call, or asks an agent as a tool."""
        if isinstance(event.fact, AgentCalled):
            return event.fact.effect == "tool"
        if isinstance(event.fact, AgentAsked):
            return self.asker_of(event) is not None
        return isinstance(event.fact, AgentCallRejected) or self.of(event) is not None


def call_text(called: AgentCalled) -> str:
    """What a member calls, as a sentence about it; a tool call in doubt is not always made again."""
    what = f"calls the {called.effect}" if called.method is None else LISTS
    if called.in_doubt and called.effect == "tool" and called.method is None:
        what = "returns to its interrupted call of the tool"
    return f"{what} {called.name}{f', attempt {called.attempt}' if called.attempt > 1 else ''}"


def tool_names(listed: JsonValue) -> JsonValue:
    """The names in a list of tools; anything else stays as it is."""
    names = [one.get("name") for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return ", ".join(map(str, names)) or listed


async def event_texts(journal: Journal, *events: Event) -> dict[int, dict[str, JsonValue]]:
    """The texts of events, by their numbers."""
    hashes = {body for event in events for body in bodies_of(event)}
    bodies = RecordedBodies(await journal.bodies(hashes) if hashes else {})
    return {event.number: texts_of(event, bodies) for event in events}


async def tool_texts(journal: Journal, events: Iterable[Event], *, full: bool) -> dict[int, dict[str, JsonValue]]:
    """The arguments and results in the events of tool calls, by number; folded unless `full`."""
    calls, about = ToolCalls(), list[Event]()
    for event in events:
        if calls.is_about(event):
            about.append(event)
        calls.apply(event)
    found: dict[int, dict[str, JsonValue]] = {}
    for start in range(0, len(about), BATCH):
        texts = await event_texts(journal, *about[start : start + BATCH])
        found |= texts if full else {number: folded_texts(one) for number, one in texts.items()}
    return found


def folded_texts(texts: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Texts by name, each folded."""
    return {name: folded_value(value) for name, value in texts.items()}


def folded_value(value: JsonValue, depth: int = 0) -> JsonValue:
    """The value with long texts cut, and only the first items of long and deeply nested lists and objects."""
    match value:
        case str():
            return _cut(value)
        case list() | dict() if depth == DEEPEST and value:
            return MORE
        case list():
            shown = [folded_value(item, depth + 1) for item in value[:MOST_ITEMS]]
            return [*shown, MORE] if len(value) > MOST_ITEMS else shown
        case dict():
            first = [(name, value[name]) for name, _ in zip(value, range(MOST_ITEMS), strict=False)]
            shown = {_cut(name): folded_value(item, depth + 1) for name, item in first}
            return {**shown, MORE: MORE} if len(value) > MOST_ITEMS else shown
        case _:
            return value


def folded_line(value: JsonValue) -> str:
    """The value as one line, cut; text is shown as it is, and anything else as JSON."""
    return _line(folded_value(value))


def whole_text(value: JsonValue) -> str:
    """The whole value: text as it is, and anything else as JSON, indented if it is longer than a line."""
    if isinstance(value, str):
        return clean(value)
    masked = mask_value(value)
    text = json.dumps(masked, ensure_ascii=False)
    return clean(text if len(text) <= FOLDED else json.dumps(masked, ensure_ascii=False, indent=2))


def with_texts(sentence: str, texts: Mapping[str, JsonValue], *, full: bool) -> str:
    """A sentence about a tool call with its arguments or its result, which are folded already unless `full`.

    A whole value that is longer than a line begins on a line of its own.
    """
    ends = sentence.endswith((".", "?"))
    for value in texts.values():
        if value == {}:
            continue
        text = whole_text(value).strip("\n") if full else _line(value)
        if "\n" in text or (full and len(text) > FOLDED):
            sentence += f"{'' if ends else ':'}\n{text}"
        else:
            sentence += f" ({text})" if ends else f": {text}"
    return sentence


def _line(folded: JsonValue) -> str:
    masked = mask_value(folded)
    if isinstance(masked, str):
        return " ".join(masked.split()) or "(empty)"
    return cut(clean(json.dumps(masked, ensure_ascii=False)), FOLDED, f" {MORE}")


def _cut(text: str) -> str:
    """A text without control characters and secrets, cut, with its length if it is much longer."""
    if len(text) <= FOLDED:
        return clean(text)
    start = clean(text[:MOST_CLEANED])
    return start if len(start) <= FOLDED else f"{start[:FOLDED]} {MORE} ({count_text(len(text), 'character')})"


class ToolLines:
    """Folds events into lines about tool calls; with `full`, values are whole."""

    def __init__(self, journal: Journal, *, full: bool = False) -> None:
        self._journal, self._full = journal, full
        self._calls = ToolCalls()

    def apply(self, event: Event) -> None:
        """Apply the next event, after its lines were asked for."""
        self._calls.apply(event)

    async def lines(self, event: Event) -> list[str]:
        """The lines about the tool call that an event ends with a result, or an agent that is asked as a tool."""
        if isinstance(event.fact, AgentAsked):
            return await self._ask_lines(event, event.fact)
        call = self._calls.of(event)
        if call is None or not isinstance(event.fact, AgentReturned):
            return []
        texts = await event_texts(self._journal, call.event, event)
        arguments, result = texts[call.event.number].get("arguments"), texts[event.number].get("result")
        took = seconds_text(event.time - call.began)
        if self._full:
            shown = [] if arguments is None else whole_text(arguments).splitlines()
            first, *rest = whole_text(result).splitlines() or ["(empty)"]
            return [f"{SYMBOL} {call.title}  {took}", *(f"  {line}" for line in (*shown, f"{RETURNED} {first}", *rest))]
        return [f"{SYMBOL} {_call(call.title, arguments)} {RETURNED} {folded_line(call.shown(result))}  {took}"]

    async def _ask_lines(self, event: Event, asked: AgentAsked) -> list[str]:
        """The lines about an agent that a member asks as a tool, with the task."""
        if self._calls.asker_of(event) is None:
            return []
        if asked.purpose == "judge" and not self._full:  # the prompts of judges begin alike
            return [f"{SYMBOL} asks {asked.member} to judge"]
        task = (await event_texts(self._journal, event))[event.number].get("task")
        first, *rest = (whole_text(task).splitlines() or ["(empty)"]) if self._full else [folded_line(task)]
        return [f"{SYMBOL} asks {asked.member}: {first}", *(f"  {line}" for line in rest)]

    async def note(self, event: Event) -> str | None:
        """The note about a tool call that failed or was rejected, with its arguments; none for other events."""
        note, call = note_text(event), self._calls.of(event)
        if note is None or not self._calls.is_about(event):
            return None
        texts = (await event_texts(self._journal, call.event if call is not None else event)).popitem()[1]
        if call is None:
            return with_texts(note, folded_texts(texts), full=False)
        arguments = texts.get("arguments")
        return f"{_call(call.title, arguments)}: {note}" if arguments or call.method else note


def _call(tool: str, arguments: JsonValue) -> str:
    return f"{tool} {cut(folded_line(arguments), WIDEST_ARGUMENTS, ' …')}" if arguments else tool
