"""Stands in for the calls of a run: each gets its recorded reply, by its exact key, at its second of the run.

What is sent is compared with what was sent then. Nothing is called, but what a test asks for live.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import anyio
from msgspec import Struct
from pydantic_core import to_json

from teamwright.agents.attachments import Attachment
from teamwright.agents.effect import (
    Attempt,
    Effect,
    Returned,
    SentRequest,
)
from teamwright.errors import AgentError, ToolError
from teamwright.runtime.run_state import ReplayObserver
from teamwright.testing.case_file import CaseFinding, text_difference
from teamwright.testing.recorded_case import CallResult, FailedAttempt, RecordedReply, Recording, SentPrompt
from teamwright.testing.recorded_replies import CALL, Cleaner
from teamwright.values.events.agent import AgentCallFailed, AgentReturned
from teamwright.values.events.event import Event
from teamwright.values.retries import recorded_error
from teamwright.values.run_keys import parent_key
from teamwright.values.turns.artifacts import Artifact, content_of
from teamwright.values.value import JsonValue

if TYPE_CHECKING:
    from teamwright.agents.agent import Agent
    from teamwright.values.turns.turn import Turn


Call = Callable[[Attempt], Awaitable[Returned]]
END_OF_RECORD = 10.0**9
"""Seconds after which a run ends that waits for what was never recorded; every deadline comes before it."""
MOST_COMPARED = 2_000
"""How many characters of prompts are compared to find the nearest call."""


class LiveCalls(Struct, frozen=True):
    """What is called for real: models, or tools and functions."""

    models: bool = False
    tools: bool = False

    @property
    def is_any(self) -> bool:
        """Whether anything is, so that time is real."""
        return self.models or self.tools


NOTHING_LIVE = LiveCalls()


class Player(ReplayObserver):
    """Plays the recording of one case to one run, from its start or from a record that a crash has left."""

    def __init__(
        self, recording: Recording, cleaner: Cleaner, live: LiveCalls = NOTHING_LIVE, record: Sequence[Event] = ()
    ) -> None:
        self._recording, self._cleaner, self._live = recording, cleaner, live
        self.commit = "" if live.is_any else recording.start.commit
        self.findings: list[CaseFinding] = []
        self.sent: dict[str, SentPrompt] = {}
        """What the calls of the run have sent, by key."""
        self.halted = asyncio.Event()
        """Set when the run can't go on."""
        self.seconds: Callable[[], float] = lambda: 0.0
        """Returns how many seconds the run has taken."""
        self._turns: dict[str, Turn] = {}
        self._attempts = Counter(event.key for event in record if isinstance(event.fact, AgentCallFailed))
        self._returned = {event.key for event in record if isinstance(event.fact, AgentReturned)}
        self._uses: Counter[str] = Counter()

    def unasked(self) -> Iterator[CaseFinding]:
        """Yield the recorded replies that the run did not ask for."""
        for key, reply in self._recording.replies.items():
            if reply.is_answered and key not in self.sent:
                yield CaseFinding(key, f"no call asked for the recorded reply of {_called(reply)}")
            elif self._attempts[key] < len(reply.failures) + (reply.result is not None) and not self._live.is_any:
                yield CaseFinding(
                    key, f"{_called(reply)} was asked {self._attempts[key]} times, and recorded more often"
                )

    async def begin(self, key: str) -> None:
        """Let a turn begin when it began then: what it knows of the budget depends on what was spent."""
        await self._wait_until(self._recording.turns.get(key, 0.0))

    async def turn(self, key: str, member: Agent, turn: Turn) -> None:
        """Keep what a member is asked, which is all that a function is sent."""
        self._turns[key] = turn

    async def call(self, key: str, effect: Effect, *, is_recorded: bool) -> None:
        """Compare what a call sends with what was sent then, and let it begin when it began then.

        A call that the case does not know ends the run.
        """
        self.sent[key] = sent = self._prompt(key, effect)
        if is_recorded or self._is_live(effect) or self._live.models:
            return
        reply = self._recording.replies.get(key)
        if reply is None:
            await self._halt(self._unknown(key, effect, sent))
        if reply.began is not None:
            await self._wait_until(reply.began)
        if reply.name != effect.name and effect.kind == "tool":
            self.findings.append(CaseFinding(key, f"the tool {effect.name!r} is called, and {reply.name!r} was then"))
        elif not self._is_same(reply, sent):
            difference = text_difference(_text(self._recording.prompt(reply)), _text(sent.texts))
            self.findings.append(CaseFinding(key, f"{_called(reply)} is sent something else", difference))

    def call_of(self, key: str, effect: Effect) -> Call:
        """Return what makes a call: the effect itself where it is live, else its recorded reply."""
        if key in self._returned:
            self.findings.append(
                CaseFinding(key, f"the call of {effect.name!r} is made again, and its result is recorded")
            )
        if self._is_live(effect):
            return effect.call
        if self._live.models:
            return partial(self._reply_to_same, effect)
        reply = self._recording.replies.get(key)
        return effect.call if reply is None else partial(self._reply, reply)

    async def place(self, *, is_recorded: bool) -> None:
        """Let the team change as it did."""

    def _is_live(self, effect: Effect) -> bool:
        return self._live.models if effect.kind == "model" else self._live.tools

    async def _reply(self, reply: RecordedReply, _: Attempt) -> Returned:
        """Return or raise the next recorded outcome of a call, when it is due."""
        outcomes: tuple[FailedAttempt | CallResult, ...] = reply.failures
        if reply.result is not None:
            outcomes = (*outcomes, reply.result)
        number = self._attempts[reply.key]
        self._attempts[reply.key] += 1
        if number < len(outcomes):
            outcome = outcomes[number]
            await self._wait_until(outcome.at)
            if isinstance(outcome, FailedAttempt):
                raise _failure(outcome)
            return self._returned_value(outcome)
        if outcomes:
            await self._halt(CaseFinding(reply.key, f"{_called(reply)} is asked once more than was recorded"))
        await anyio.sleep(END_OF_RECORD)  # a deadline or another branch stops it, as it did then
        return await self._halt(CaseFinding(reply.key, f"{_called(reply)} never replied, and nothing stops the wait"))

    async def _reply_to_same(self, effect: Effect, _: Attempt) -> Returned:
        """Return the recorded result of a tool or function that was called with the same; models are live."""
        arguments = self._cleaner.value(effect.arguments)
        same = [
            one
            for one in self._recording.replies.values()
            if (one.effect, one.name) == (effect.kind, effect.name)
            and (one.request == effect.request or (effect.kind == "tool" and one.arguments == arguments))
        ]
        if not same:
            raise ToolError(
                f"The case has no result of {effect.name!r} with these arguments, and it is not called for real without"
                " --live all"
            )
        reply = same[min(self._uses[effect.request], len(same) - 1)]
        self._uses[effect.request] += 1
        if reply.result is None:
            raise _failure(reply.failures[-1]) if reply.failures else AgentError("the recorded call never returned")
        return self._returned_value(reply.result)

    def _returned_value(self, result: CallResult) -> Returned:
        return Returned(
            result.value,
            result.usage,
            result.mark,
            result.truncated,
            result.form,
            result.capped,
            files=tuple(map(self.file, result.artifacts)),
            partial_usage=result.partial_usage,
        )

    def file(self, artifact: Artifact) -> Attachment:
        """Return a recorded file with its content."""
        content = content_of(self._recording.files[artifact.hash])
        return Attachment(content, artifact.name, artifact.media_type)

    async def _wait_until(self, second: float) -> None:
        """Wait until this second of the run, so that all happens in the order of the record."""
        if not self._live.is_any and (wait := second - self.seconds()) > 0.0:
            await anyio.sleep(wait)

    async def _halt(self, finding: CaseFinding) -> NoReturn:
        self.findings.append(finding)
        self.halted.set()
        await anyio.sleep_forever()
        raise AssertionError("a run that is halted is interrupted")

    def _prompt(self, key: str, effect: Effect) -> SentPrompt:
        """Return what a call sends, without secrets and paths of this machine."""
        arguments = self._cleaner.value(effect.arguments)
        texts: tuple[str, ...] = ()
        if effect.describe is not None:
            texts = tuple(_parts(effect.describe()))
        elif effect.arguments is not None:
            texts = (_json(arguments),)
        elif (turn := self._turns.get(parent_key(key))) is not None and key.endswith(f"/{CALL}"):
            texts = (turn.prompt,)
        request = "" if effect.method else effect.request  # which server lists its tools is not what is tested
        return SentPrompt(request, tuple(map(self._cleaner.text, texts)), arguments)

    def _is_same(self, reply: RecordedReply, sent: SentPrompt) -> bool:
        """Whether a call sends what was sent then, but for what is not in the case: secrets, paths of a machine."""
        if not reply.prompt:
            return not reply.request or reply.request == sent.request
        if tuple(self._recording.prompt(reply)) != sent.texts:
            return False
        return reply.request == sent.request or any(map(self._cleaner.has_removed, sent.texts))

    def _unknown(self, key: str, effect: Effect, sent: SentPrompt) -> CaseFinding:
        near = self._nearest(key, effect, sent)
        text = f"the case has no reply to this call of {effect.kind} {effect.name!r}"
        if near is None:
            return CaseFinding(key, text, text_difference("", _text(sent.texts)))
        difference = text_difference(_text(self._recording.prompt(near)), _text(sent.texts))
        then = "it is sent the same" if not difference else "it was sent"
        return CaseFinding(key, f"{text}; the nearest is {_called(near)} at {near.key!r}, {then}", difference)

    def _nearest(self, key: str, effect: Effect, sent: SentPrompt) -> RecordedReply | None:
        """Return the recorded call that is most alike, one that was not asked for yet if there is any."""
        alike = [one for one in self._recording.replies.values() if one.effect == effect.kind]
        left = [one for one in alike if one.key not in self.sent] or alike
        if same := next((one for one in left if one.request == sent.request), None):
            return same
        text = _text(sent.texts)[-MOST_COMPARED:]

        def likeness(one: RecordedReply) -> float:
            prompt = _text(self._recording.prompt(one))[-MOST_COMPARED:]
            ratio = SequenceMatcher(None, prompt, text, autojunk=False).quick_ratio()
            return ratio + SequenceMatcher(None, one.key, key, autojunk=False).ratio()

        return max(left, key=likeness, default=None)


def _called(reply: RecordedReply) -> str:
    """Name a call in messages."""
    if reply.effect == "model":
        return f"the model of {reply.member!r}"
    return f"the {reply.effect} {reply.name!r}"


def _failure(attempt: FailedAttempt) -> AgentError:
    error = recorded_error(attempt.error, attempt.message)
    error.unknown_cost, error.mark = attempt.charged, attempt.mark
    if attempt.usage.input_tokens or attempt.usage.output_tokens:
        error.arrived = attempt.usage.input_tokens, attempt.usage.output_tokens
    return error


def _parts(sent: SentRequest) -> Iterator[str]:
    """Yield the parts of a request as texts for readers."""
    if sent.instructions:
        yield f"# instructions\n{sent.instructions}"
    for one in sent.messages:
        content = one.content if isinstance(one.content, str) else _json(one.content)
        yield f"# {one.role}{f' {one.tool}' if one.tool else ''}\n{content}"
    if sent.tools:
        offered: list[JsonValue] = [[one.name, one.description, one.parameters] for one in sent.tools]
        yield "# tools\n" + "\n".join(map(_json, offered))
    settings: Mapping[str, JsonValue] = {"settings": sent.settings, "output_schema": sent.output_schema}
    for name, value in settings.items():
        if value:
            yield f"# {name}\n{_json(value)}"


def _json(value: JsonValue) -> str:
    return to_json(value).decode()


def _text(texts: Collection[str]) -> str:
    return "\n".join(texts)
