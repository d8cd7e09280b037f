"""The lines of a view about tool calls: one for each call that has returned, or all of its arguments and its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import JsonValue

from teamwright.cli.text.tool_calls import ToolCalls, event_texts, folded_line, folded_texts, whole_text, with_texts
from teamwright.history.wording import note_text
from teamwright.values.events.agent import AgentAsked, AgentReturned
from teamwright.values.text.display import cut, seconds_text

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal
    from teamwright.values.events.event import Event

WIDEST_ARGUMENTS = 60
SYMBOL, RETURNED = "⚙", "→"


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
