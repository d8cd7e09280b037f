"""The prompt of a selector: the candidates, the conversation and the task.

The conversation or the task precedes the prompt as messages if the template does not contain it. So by default no turn
contains a copy of the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from teamwright.strategies.conversation.selector_answer import selection_schema
from teamwright.strategies.expressions.conditions_and_templates import Template
from teamwright.strategies.member_introduction import introduction
from teamwright.strategies.protocol import Members, Task
from teamwright.values.turns.messages import EMPTY, Conversation, History, Message
from teamwright.values.turns.transcript import quote_headers, with_header
from teamwright.values.turns.turn import Reply, Turn

PROMPT = """\
You lead the conversation above and decide who speaks next. These may speak: {{ roles }}.

Choose the one who can now bring the task forward most. Answer with one of these names and nothing else: \
{{ participants }}"""

ARK_FIELDS = {"Participants": "participants", "Roles": "roles", "History": "history"}
NAMES = (*ARK_FIELDS.values(), "task")
MOST_HISTORY = 200_000
"""How many characters of the conversation a prompt contains; a longer one is cut at its start."""


def prompt_problem(prompt: str) -> str | None:
    """Return what is wrong with a prompt template. Called before a run."""
    return Template(prompt, ARK_FIELDS).problem(NAMES)


class SelectorPrompt:
    """The prompts of one conversation. With `share: output`, the conversation is only the previous reply."""

    def __init__(self, task: Task, members: Members, prompt: str) -> None:
        self._task, self._members = task, members
        self._template = Template(prompt, ARK_FIELDS)
        self._fields = self._template.uses
        self._shares_all = task.settings.share != "output"
        self._latest: tuple[Message, ...] = ()
        self._messages = self._initial_messages(task.history)

    def add(self, reply: Reply) -> None:
        """Add the reply of a member."""
        self._latest = reply.messages[-1:]
        if not self._shares_all:
            self._messages = self._initial_messages(EMPTY)
        if "history" not in self._fields:
            self._messages.extend(reply.messages if self._shares_all else self._latest)

    def turn(self, candidates: Sequence[str], number: int, history: History) -> Turn:
        """Return the turn in which the selector chooses among these candidates."""
        values: dict[str, JsonValue] = {
            "participants": ", ".join(candidates),
            "roles": ", ".join(introduction(self._members.named(name)) for name in candidates),
            "history": self._history_text(history) if "history" in self._fields else "",
            "task": self._task_text(),
        }
        return Turn(
            self._template.render(values),
            self._messages.history(),
            number,
            purpose="coordinate",
            output_schema=selection_schema(candidates),
            quotes_task="history" not in self._fields,
            attachments=self._task.attachments if "task" in self._fields else (),
        )

    def _initial_messages(self, history: History) -> Conversation:
        """Return the messages before the first prompt: conversation and task, unless the template contains them."""
        messages = Conversation()
        if "history" not in self._fields:
            messages.extend(history)
        if "task" not in self._fields:
            messages.append(self._task.message)
        return messages

    def _history_text(self, history: History) -> str:
        """Return the end of the conversation as text, as much as a prompt may contain."""
        pieces: list[str] = []
        remaining = MOST_HISTORY
        for message in reversed(history if self._shares_all or not self._latest else self._latest):
            piece = self._message_text(message)
            remaining -= len(piece)
            if remaining < 0:
                pieces.append("(what was said before is left out)")
                break
            pieces.append(piece)
        return "\n\n".join(reversed(pieces))

    def _message_text(self, message: Message) -> str:
        return with_header(message.name, message.content, self._members.names)

    def _task_text(self) -> str:
        """Return the task, quoted if the prompt also contains the conversation, so that it cannot imitate a message."""
        if "history" not in self._fields:
            return self._task.text
        return quote_headers(self._task.text, self._members.names)
