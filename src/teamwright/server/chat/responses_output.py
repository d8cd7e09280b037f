"""The output of a response: what members say as messages, one after the other, and the answer of the team as the last.

Messages are in the order in which members were asked, not that in which they write, so that a stream, a record that is
read later and a stream that begins again have the same messages at the same places. A message is commentary unless its
text is the answer; which of the last two it is, is known when the run ends.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from teamwright.server.chat.chat_completions import rest_of
from teamwright.server.driven_runs import digest_of_parts
from teamwright.server.frames import Frame, WithheldEnding

Json = dict[str, Any]
Phase = Literal["commentary", "final_answer"]
Status = Literal["completed", "incomplete"]
TEAM = "team"
ANSWER_PART = "the answer"
"""What the id of an answer is made from that no member has said so."""


@dataclass(slots=True)
class _MemberTurn:
    """A turn of a member: what it is writing, what it has `said` for good, and the message that is open for it.

    What was said is a text for each message; an empty one stands for what was passed on of the open message, of which
    the record has nothing: it is left `incomplete`.
    """

    key: str
    member: str
    waiting: str = ""
    ending: WithheldEnding = field(default_factory=WithheldEnding)
    said: deque[str] = field(default_factory=deque[str])
    has_ended: bool = False
    message: _OpenMessage | None = None
    messages: int = 0


@dataclass(slots=True)
class _OpenMessage:
    """A message that has begun: its item and what was passed on of its text."""

    item: Json
    place: int
    passed: list[str] = field(default_factory=list[str])


class OutputMessages:
    """Folds the frames of a run into events of its output; what happened up to the event `after` is left out.

    `answering` is the member whose turn, as it is written, is the answer, where that is known before the end.
    """

    def __init__(self, run_id: str, after: int = 0, answering: str | None = None) -> None:
        self.items: list[Json] = []
        """The finished messages."""
        self._run_id, self._after, self._answering = run_id, after, answering
        self._turns: dict[str, _MemberTurn] = {}
        self._queue: deque[_MemberTurn] = deque()
        self._held: _OpenMessage | None = None
        self._begun = 0

    def take(self, frame: Frame) -> Iterator[Json]:
        """Take the next frame, and yield the events that follow from it."""
        is_before = frame.number is not None and frame.number <= self._after
        match frame.kind:
            case "agent.asked":
                self._ask(json.loads(frame.text))
            case "delta.text":
                self._write(json.loads(frame.text))
            case "agent.returned" if not is_before:
                self._return(json.loads(frame.text))
            case "agent.replied" | "agent.failed":
                self._end(json.loads(frame.text), is_before=is_before)
            case _:
                return
        yield from self._flush()

    def _ask(self, item: Json) -> None:
        if item["member_kind"] != TEAM and item["purpose"] == "work" and item["key"] not in self._turns:
            turn = self._turns[item["key"]] = _MemberTurn(item["key"], item["member"])
            self._queue.append(turn)

    def _write(self, item: Json) -> None:
        turn = self._turns.get(item["key"])
        if turn is None or item["output"] is not None:
            return
        if item["offset"] == 0:
            turn.waiting, turn.ending = "", WithheldEnding()
            if turn.message is not None:  # another attempt: what was passed on is a message of its own
                turn.said.append("")
        turn.waiting += turn.ending.pass_on(item["text"])

    def _return(self, item: Json) -> None:
        """Take what a model says beside the calls of tools: a message of its own, which the reply does not repeat."""
        turn, texts = self._turns.get(item["scope"]), item.get("texts", {})
        if turn is not None and texts.get("calls") and str(texts.get("response", "")).strip():
            turn.waiting = ""
            turn.said.append(texts["response"])

    def _end(self, item: Json, *, is_before: bool) -> None:
        turn = self._turns.pop(item["key"], None)
        if turn is None:  # a team, which repeats what its members have said, or a judge
            return
        if is_before:
            self._queue.remove(turn)
            return
        said = "\n\n".join(
            one["content"] for one in item.get("texts", {}).get("messages", ()) if one.get("role") != "user"
        )
        turn.has_ended, turn.waiting = True, ""
        turn.said.append(said)

    def _flush(self) -> Iterator[Json]:
        """Yield what is new in the messages of the turn that is first, then of those after it as it ends."""
        while self._queue:
            turn = self._queue[0]
            yield from self._close_all(turn)
            if turn.waiting.strip() or (turn.waiting and turn.message is not None):
                yield from self._write_on(turn, turn.waiting)
                turn.waiting = ""
            if not turn.has_ended:
                return
            self._queue.popleft()

    def _write_on(self, turn: _MemberTurn, text: str) -> Iterator[Json]:
        message = turn.message
        if message is None:
            phase = None if self._answering is None else _phase(is_answer=turn.member == self._answering)
            yield from self._begin(self._id(turn.key, turn.messages), phase, turn.member)
            message = turn.message = self._open
        message.passed.append(text)
        yield self._event("response.output_text.delta", message, delta=text, logprobs=[])

    def _close_all(self, turn: _MemberTurn) -> Iterator[Json]:
        """End the messages of a turn with what was said: by the record, or else what was passed on."""
        while turn.said:
            said = turn.said.popleft()
            if turn.message is not None and (not said or rest_of(said, turn.message.passed) is None):
                yield from self._close(turn, turn.message, "incomplete")
            if not said.strip():
                continue
            passed = [] if turn.message is None else turn.message.passed
            if rest := rest_of(said, passed):
                yield from self._write_on(turn, rest)
            assert turn.message is not None
            yield from self._close(turn, turn.message, "completed")

    def _close(self, turn: _MemberTurn, message: _OpenMessage, status: Status) -> Iterator[Json]:
        yield from self._finish(message, "".join(message.passed), status)
        turn.message, turn.messages = None, turn.messages + 1

    def _begin(self, id_: str, phase: Phase | None, member: str) -> Iterator[Json]:
        yield from self._release("commentary")
        item: Json = {"id": id_, "type": "message", "status": "in_progress", "role": "assistant", "content": []}
        if phase is not None:
            item["phase"] = phase
        if member:
            item["member"] = member
        self._open = _OpenMessage(item, self._begun)
        self._begun += 1
        yield {"type": "response.output_item.added", "output_index": self._open.place, "item": {**item}}
        yield self._event("response.content_part.added", self._open, part=_part(""))

    def _finish(self, message: _OpenMessage, text: str, status: Status = "completed") -> Iterator[Json]:
        """End the text of a message. The message itself is held until it is known whether it is the answer."""
        message.item |= {"status": status, "content": [_part(text)]}
        yield self._event("response.output_text.done", message, text=text, logprobs=[])
        yield self._event("response.content_part.done", message, part=_part(text))
        self._held = message

    def _release(self, phase: Phase | None, **more: Any) -> Iterator[Json]:
        if self._held is not None:
            message, self._held = self._held, None
            if phase is not None:
                message.item["phase"] = phase
            message.item |= more
            self.items.append(message.item)
            yield {"type": "response.output_item.done", "output_index": message.place, "item": message.item}

    def finish(self, answer: str | None, *, is_whole: bool) -> Iterator[Json]:
        """Yield the end of the output: what is still open, and the answer, unless the last message is it already."""
        for turn in self._queue:
            if turn.message is not None and not turn.said:  # it was being written when the run stopped
                turn.said.append("")
            yield from self._close_all(turn)
        self._queue.clear()
        if answer is None:
            yield from self._release("commentary")
            return
        status = {"status": "completed" if is_whole else "incomplete"}
        if self._held is not None and _text_of(self._held.item).strip() == answer.strip():
            yield from self._release("final_answer", **status)
            return
        yield from self.say(ANSWER_PART, answer, "final_answer", **status)

    def say(self, name: str, text: str, phase: Phase | None, **more: Any) -> Iterator[Json]:
        """Yield a whole message that no member has written: the answer, or a question."""
        yield from self._begin(self._id(name, self._after), phase, "")
        message = self._open
        message.passed.append(text)
        if text:
            yield self._event("response.output_text.delta", message, delta=text, logprobs=[])
        yield from self._finish(message, text)
        yield from self._release(phase, **more)

    def _id(self, name: str, number: int) -> str:
        return f"msg_{digest_of_parts(self._run_id, name, str(number))}"

    def _event(self, kind: str, message: _OpenMessage, **more: Any) -> Json:
        ids = {"item_id": message.item["id"], "output_index": message.place, "content_index": 0}
        return {"type": kind, **ids, **more}


def _phase(*, is_answer: bool) -> Phase:
    return "final_answer" if is_answer else "commentary"


def _part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _text_of(item: Json) -> str:
    return item["content"][0]["text"]
