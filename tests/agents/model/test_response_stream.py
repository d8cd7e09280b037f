"""Pieces that arrive together are passed on as one, in order, and none is lost."""

from __future__ import annotations

import asyncio

from teamwright.agents.effect import REPLY, THINKING, ReplyPart
from teamwright.agents.model.response_stream import MOMENT, PacedDeltas


class Seen(list[tuple[str, str]]):
    def publish(self, text: str, part: ReplyPart) -> None:
        self.append((part.kind, text))


async def test_the_first_piece_comes_at_once_and_those_of_the_same_moment_as_one() -> None:
    seen = Seen()
    paced = PacedDeltas(seen.publish)
    for text in "abcd":
        paced.add(text, REPLY)
    assert seen == [("text", "a")]
    await asyncio.sleep(2 * MOMENT)
    assert seen == [("text", "a"), ("text", "bcd")]


async def test_pieces_at_the_usual_pace_of_a_model_come_one_by_one() -> None:
    seen = Seen()
    paced = PacedDeltas(seen.publish)
    for text in "abc":
        paced.add(text, REPLY)
        await asyncio.sleep(1.5 * MOMENT)
    assert seen == [("text", "a"), ("text", "b"), ("text", "c")]


async def test_parts_are_not_mixed_and_keep_their_order() -> None:
    seen = Seen()
    paced = PacedDeltas(seen.publish)
    for text, part in (("Hm", THINKING), ("m.", THINKING), ("Ye", REPLY), ("s.", REPLY), ("So", THINKING)):
        paced.add(text, part)
    paced.flush()
    assert seen == [("thinking", "Hm"), ("thinking", "m."), ("text", "Yes."), ("thinking", "So")]


async def test_after_the_end_nothing_is_passed_on_twice() -> None:
    seen = Seen()
    paced = PacedDeltas(seen.publish)
    paced.add("a", REPLY)
    paced.add("b", REPLY)
    paced.flush()
    paced.flush()
    await asyncio.sleep(2 * MOMENT)
    assert seen == [("text", "a"), ("text", "b")]
