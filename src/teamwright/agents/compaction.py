"""Compaction of a model's conversation: older messages become a summary before the context window is full.

The model itself writes the summaries, in asks of their own, so they are recorded, budgeted and counted as coordination.
Whether a conversation is compacted depends on its recorded texts, the recorded usage and the model's window alone. A
history that no longer fits a model is summarised in the same words; they are part of prompts: changing one changes the
digests of recorded turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from teamwright.agents.agent import Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.prices import published_window
from teamwright.values.call_limits import Compact, text_size
from teamwright.values.events.agent import AgentCompacted
from teamwright.values.specs.models import AnyModel, DeclaredModel, NamedModel, ServerModel, model_key
from teamwright.values.turns.messages import History, Message, transcript
from teamwright.values.turns.turn import Failure, Turn

if TYPE_CHECKING:
    from teamwright.agents.model.agent import ModelAgent
    from teamwright.agents.model.conversation import ModelConversation


CHUNK = 12_000
"""Characters of a conversation that are summarised at once; small enough for any model."""
SUMMARISE = (
    "Summarise this part of a conversation for somebody who has to go on with it. Keep names, figures, decisions and"
    " open questions; leave out everything else.\n\n"
)
SUMMARY = "summary"
"""The author of a summary in a history."""


def summary_turn(part: str, number: int) -> Turn:
    """Return the turn that asks for the summary of one part of a conversation."""
    return Turn(SUMMARISE + part, number=number, purpose="coordinate")


def summary_message(summaries: Sequence[str]) -> Message:
    """Return the summaries of the parts of a conversation as one message."""
    return Message(name=SUMMARY, content="\n\n".join(summaries), role="user")


def with_summary(turn: Turn, kept: int, summary: Message) -> Turn:
    """Return the turn with a summary in place of its history, except the last `kept` messages."""
    history = turn.history
    earlier = len(history) - kept
    since = None if turn.since is None else max(1, turn.since - earlier + 1)
    return replace(turn, history=History.of([summary, *history[earlier:]]), since=since)


def split_transcript(messages: Sequence[Message], *, chunk: int = CHUNK) -> Iterator[str]:
    """Yield the messages, under the names of their authors, in chunks of bounded length."""
    return split_texts((transcript((message,)) for message in messages), chunk)


def split_texts(texts: Iterator[str], chunk: int = CHUNK) -> Iterator[str]:
    """Yield the texts in chunks of bounded length."""
    text = ""
    for one in texts:
        said = one + "\n\n"
        if text and len(text) + len(said) > chunk:
            yield text.strip()
            text = ""
        while len(said) > chunk:
            yield said[:chunk].strip()
            said = said[chunk:]
        text += said
    if text.strip():
        yield text.strip()


BYTES_PER_TOKEN = 3.0
"""The size of a token until a response has reported the size of its prompt: fewer bytes than in most texts."""
MOST_BYTES_PER_TOKEN = 6.0
"""The largest plausible size: a server may report too few tokens."""
CHUNK_PART = 0.4
"""The part of the window that one summary is made of."""
WINDOW = "context-window"
"""The key of the effect that reads the published size of the window."""
NOT_COMPACTED = "The conversation of {name!r} was not compacted, since its summary failed; its prompts stay long"
"""The warning is the same in every turn, so that a run shows it once."""
SO_FAR = "Your work on this turn so far, as a summary:\n\n"


class TurnCompaction:
    """Compacts the conversation of one turn of one agent."""

    def __init__(self, agent: ModelAgent, model: AnyModel, compact: Compact, window: int, ctx: Context) -> None:
        self._agent, self._model, self._compact, self._ctx = agent, model, compact, ctx
        self._window = window
        self._bytes_per_token = BYTES_PER_TOKEN
        self._count = 0
        self.warnings: tuple[str, ...] = ()

    def is_due(self, prompt_bytes: int) -> bool:
        """Whether a prompt of this size fills more of the window than it may."""
        return prompt_bytes / self._bytes_per_token > self._compact.threshold * self._window

    def measure(self, prompt_bytes: int, tokens: int) -> None:
        """Learn the size of a token from the reported size of a prompt."""
        if tokens > 0 and prompt_bytes > 0:
            self._bytes_per_token = min(prompt_bytes / tokens, MOST_BYTES_PER_TOKEN)

    async def shorten(self, turn: Turn) -> Turn:
        """Return the turn with a summary of its older messages; the turn itself if there are none, or that fails."""
        kept = self._kept(turn)
        earlier = turn.history[: len(turn.history) - kept]
        if not earlier:
            return turn
        summaries = await self._summarise(list(split_transcript(earlier, chunk=self._chunk)), turn.number)
        if summaries is None:
            return turn
        summary = summary_message(summaries)
        await self._ctx.emit(
            AgentCompacted(
                member=self._agent.name,
                messages=len(earlier),
                kept=kept,
                digest=History.of(earlier).digest,
                summary=summary.content,
            )
        )
        return with_summary(turn, kept, summary)

    async def compact(self, conversation: ModelConversation, number: int) -> bool:
        """Replace older requests of this turn and their tool calls by a summary; returns whether that was done.

        A tool call and its result stay together.
        """
        start, length = conversation.prompt_length, len(conversation.messages)
        cut = conversation.next_response(max(start, length - self._compact.keep))
        if cut <= start or cut >= length:
            return False
        parts = list(split_texts(conversation.texts(start, cut), self._chunk))
        summaries = await self._summarise(parts, number)
        if summaries is None:
            return False
        summary = "\n\n".join(summaries)
        await self._ctx.emit(
            AgentCompacted(member=self._agent.name, messages=cut - start, kept=length - cut, digest="", summary=summary)
        )
        conversation.compact(cut, SO_FAR + summary)
        return True

    def _kept(self, turn: Turn) -> int:
        """How many messages of the history stay: as many as are set, as long as they leave room."""
        room, kept = self._compact.threshold * self._window * self._bytes_per_token / 2, 0
        for message in reversed(turn.history):
            room -= text_size(message.content)
            if kept == self._compact.keep or room < 0:
                break
            kept += 1
        return kept

    @property
    def _chunk(self) -> int:
        return max(CHUNK, int(CHUNK_PART * self._window * BYTES_PER_TOKEN))

    async def _summarise(self, parts: Sequence[str], number: int) -> list[str] | None:
        """Ask the model for a summary of each part; if it gives none, add a warning and return `None`."""
        self._count += 1
        summariser = self._agent.summariser(self._model)
        summaries: list[str] = []
        for index, part in enumerate(parts, start=1):
            turn = summary_turn(part, number)
            reply = await self._ctx.ask(summariser, turn, key=f"compact-{self._count}/summary-{index}")
            if isinstance(reply, Failure):
                self.warnings = (NOT_COMPACTED.format(name=self._agent.name),)
                return None
            summaries.append(reply.text)
        return summaries


async def compaction_of(agent: ModelAgent, model: AnyModel, compact: Compact, ctx: Context) -> TurnCompaction | None:
    """Return what compacts the conversation of a turn; `None` if the window of the model is not known."""
    window = compact.context or declared_window(model) or await _recorded_window(model, ctx)
    return None if window is None else TurnCompaction(agent, model, compact, window, ctx)


def declared_window(model: AnyModel) -> int | None:
    """Return the context window that the declaration of a model gives, in tokens."""
    return model.context if isinstance(model, DeclaredModel) else None


async def _recorded_window(model: AnyModel, ctx: Context) -> int | None:
    """Return the published window of a model. It is recorded: other versions of the data may have another one."""

    async def call(_: Attempt) -> Returned:
        return Returned(window_of(model))

    effect = Effect(kind="function", name=WINDOW, request=model_key(model), call=call)
    return cast("int | None", (await ctx.effect(WINDOW, effect)).value)


def window_of(model: AnyModel) -> int | None:
    """Return the size of a model's context window in tokens: as declared, else as published; `None` if unknown."""
    match model:
        case str():
            return published_window(model.rpartition(":")[2], model.rpartition(":")[0].rpartition("/")[2])
        case NamedModel():
            return model.context or window_of(model.model)
        case ServerModel():
            return model.context or published_window(model.name, url=model.url)
