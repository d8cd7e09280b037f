"""What a selector is told when it has to choose: who may speak, the conversation, the task.

What its prompt does not hold itself, the conversation or the task, stands before it as messages. So by default no turn
holds a copy of what was said.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from teamwright.strategies.conversation.selector_answer import selection_schema
from teamwright.strategies.expressions.template import Template
from teamwright.strategies.introduction import introduction
from teamwright.strategies.protocol import Members, Task
from teamwright.values.turns.messages import EMPTY, Conversation, History, Message
from teamwright.values.turns.transcript import quoted, transcript, under_name
from teamwright.values.turns.turn import Reply, Turn

PROMPT = """\
You lead the conversation above and decide who speaks next. These may speak: {{ roles }}.

Choose the one who can now bring the task forward most. Answer with one of these names and nothing else: \
{{ participants }}"""

ARK_FIELDS = {"Participants": "participants", "Roles": "roles", "History": "history"}
NAMES = (*ARK_FIELDS.values(), "task")
MOST_HISTORY = 200_000
"""Characters of the conversation that a prompt holds; of a longer one, the latest."""


def prompt_problem(prompt: str) -> str | None:
    """What is wrong with a prompt; asked before anything runs."""
    return Template(prompt, ARK_FIELDS).problem(NAMES)


class Briefing:
    """The questions of one conversation. With `share: output` the conversation is what the one before said."""

    def __init__(self, task: Task, members: Members, prompt: str) -> None:
        self._task, self._members = task, members
        self._prompt = Template(prompt, ARK_FIELDS)
        self._shown = self._prompt.uses
        self._whole = task.settings.share != "output"
        self._latest: tuple[Message, ...] = ()
        self._before = self._opening(task.history)

    def take(self, reply: Reply) -> None:
        """Take in what a member said."""
        self._latest = reply.messages[-1:]
        if not self._whole:
            self._before = self._opening(EMPTY)
        if "history" not in self._shown:
            self._before.extend(reply.messages if self._whole else self._latest)

    def turn(self, candidates: Sequence[str], number: int, said: History) -> Turn:
        """What the one who chooses among these is told."""
        values: dict[str, JsonValue] = {
            "participants": ", ".join(candidates),
            "roles": ", ".join(introduction(self._members.named(name)) for name in candidates),
            "history": self._text(said) if "history" in self._shown else "",
            "task": self._own_text(),
        }
        return Turn(
            self._prompt.render(values),
            self._before.history(),
            number,
            purpose="coordinate",
            output_schema=selection_schema(candidates),
            quoting="history" if "history" in self._shown else "all",
        )

    def _opening(self, history: History) -> Conversation:
        """What stands before the prompt at first: as much of the conversation and the task as the prompt leaves out."""
        made = Conversation()
        if "history" not in self._shown:
            made.extend(history)
        if "task" not in self._shown:
            made.append(Message(name="user", content=self._task.text, role="user"))
        return made

    def _text(self, said: History) -> str:
        """The conversation as text, as much of its end as a prompt may hold."""
        pieces: list[str] = []
        left = MOST_HISTORY
        for message in reversed(said if self._whole or not self._latest else self._latest):
            piece = self._piece(message)
            left -= len(piece)
            if left < 0:
                pieces.append("(what was said before is left out)")
                break
            pieces.append(piece)
        return "\n\n".join(reversed(pieces))

    def _piece(self, message: Message) -> str:
        if not self._task.quotes:
            return transcript((message,), quote=False)
        return under_name(message.name, message.content, self._members.names)

    def _own_text(self) -> str:
        """The task; where the conversation stands in the prompt as well, nothing in the task looks like part of it."""
        shared = self._task.quotes and "history" in self._shown
        return quoted(self._task.text, self._members.names) if shared else self._task.text
