"""Followers in other processes see what is written, and no transport can hold up or change a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from teamwright import Engine, RunResult, Team
from teamwright.agents.agent import Agent, Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime import event_publisher as relay_module
from teamwright.runtime.event_publisher import Bus, Relay, followers_channel
from teamwright.runtime.transport import InProcessTransport, LiveSignal, Traffic, Transport
from teamwright.values.events.event import Delta, Event
from teamwright.values.turns.turn import Reply, Turn
from teamwright.values.usage_and_prices import Usage

USAGE = Usage(requests=1, input_tokens=5, output_tokens=5)
FOLLOW = LiveSignal(type="follow", run_id="r")


class Speaker(Agent):
    """A member that says words, each when the test lets it, and whether anyone followed the request."""

    kind = "model"

    def __init__(self, name: str = "speaker") -> None:
        self.name = name
        self.words: asyncio.Queue[str | None] = asyncio.Queue()
        self.was_followed: list[bool] = []

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        returned = await ctx.effect("request", Effect("model", "m", "request", self._call, 84, 1, 100, None))
        return Reply.of(self.name, str(returned.value))

    async def _call(self, attempt: Attempt) -> Returned:
        self.was_followed.append(attempt.is_followed)
        said: list[str] = []
        while (word := await self.words.get()) is not None:
            attempt.delta(word)
            said.append(word)
        return Returned("".join(said), USAGE)

    def say(self, *words: str | None) -> None:
        for word in words:
            self.words.put_nowait(word)


class Follower:
    """Follows a run in the background, and keeps what it sees."""

    def __init__(self, engine: Engine) -> None:
        self.seen: list[Event | Delta] = []
        self._engine = engine
        self._arrived = asyncio.Event()

    async def follow(self) -> None:
        async for item in self._engine.runs.follow("r"):
            self.seen.append(item)
            self._arrived.set()

    async def sees(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                self._arrived.clear()
                await self._arrived.wait()

    @property
    def text(self) -> str:
        return "".join(one.text for one in self.seen if isinstance(one, Delta))

    @property
    def numbers(self) -> list[int]:
        return [one.number for one in self.seen if isinstance(one, Event)]


async def is_followed(driver: Engine, wanted: bool = True) -> None:
    async with asyncio.timeout(20):
        while driver.bus.is_followed("r") is not wanted:  # noqa: ASYNC110 - another engine causes it
            await asyncio.sleep(0.01)


@asynccontextmanager
async def two_engines(
    folder: Path, one: Transport | str, other: Transport | str | None = None
) -> AsyncGenerator[tuple[Engine, Engine]]:
    """A driver and an engine that follows, as in two processes over one journal."""
    async with (
        Engine(folder / "journal.db", transport=one) as driver,
        Engine(folder / "journal.db", transport=other or one) as elsewhere,
    ):
        yield driver, elsewhere


async def driven(driver: Engine, speaker: Speaker) -> asyncio.Task[RunResult]:
    handle = await driver.start(Team("t", members=[speaker]), "go", run_id="r")
    return asyncio.create_task(handle.result())


async def test_a_follower_in_another_process_sees_words_as_they_are_written(tmp_path: Path) -> None:
    speaker = Speaker()
    async with two_engines(tmp_path, InProcessTransport()) as (driver, elsewhere):
        result = await driven(driver, speaker)
        follower = Follower(elsewhere)
        following = asyncio.create_task(follower.follow())
        await is_followed(driver)
        speaker.say("Hel")
        await follower.sees(lambda: follower.text == "Hel")
        speaker.say("lo", None)
        assert (await result).output == "Hello"
        await following
        assert follower.text == "Hello"
        assert follower.numbers == [event.number for event in await driver.journal.read("r")]
        first = next(index for index, one in enumerate(follower.seen) if isinstance(one, Delta))
        kinds = [one.kind for one in follower.seen]
        assert kinds.index("agent.called") < first < kinds.index("agent.returned")


async def test_who_comes_in_the_middle_of_a_reply_sees_it_from_its_beginning(tmp_path: Path) -> None:
    speaker = Speaker()
    async with two_engines(tmp_path, InProcessTransport()) as (driver, elsewhere):
        result = await driven(driver, speaker)
        speaker.say("The ", "key ")
        followers: list[tuple[Follower, asyncio.Task[None]]] = []
        for engine, word in ((elsewhere, "is "), (driver, "sk-a1b2"), (elsewhere, "c3d4 "), (driver, "end")):
            follower = Follower(engine)
            followers.append((follower, asyncio.create_task(follower.follow())))
            before = follower.seen
            await follower.sees(lambda before=before: any(isinstance(one, Delta) for one in before))
            speaker.say(word)
        speaker.say(None)
        whole = "The key is sk-a1b2c3d4 end"
        assert (await result).output == whole
        for follower, following in followers:
            await following
            assert follower.text == whole
            pieces = [one for one in follower.seen if isinstance(one, Delta)]
            assert [one.offset for one in pieces].count(0) == 1
            kinds = [one.kind for one in follower.seen]
            assert kinds.index("agent.called") < kinds.index("delta.text") < kinds.index("agent.returned")
        assert driver.bus.written("r") == []


async def test_a_run_without_a_follower_sends_nothing_and_need_not_stream(tmp_path: Path) -> None:
    sent: list[LiveSignal] = []

    class Counting(InProcessTransport):
        async def send(self, channel: str, signal: LiveSignal) -> None:
            sent.append(signal)
            await super().send(channel, signal)

    speaker = Speaker()
    speaker.say("word", None)
    async with two_engines(tmp_path, Counting()) as (driver, _):
        await (await driven(driver, speaker))
    assert speaker.was_followed == [False]
    assert not sent


async def test_a_follower_elsewhere_causes_the_next_request_to_be_streamed(tmp_path: Path) -> None:
    one, other = Speaker("one"), Speaker("other")
    async with two_engines(tmp_path, InProcessTransport()) as (driver, elsewhere):
        handle = await driver.start(Team("t", members=[one, other]), "go", run_id="r")
        follower = Follower(elsewhere)
        following = asyncio.create_task(follower.follow())
        await is_followed(driver)
        one.say("a", None)
        other.say("b")
        await follower.sees(lambda: follower.text.endswith("b"))
        other.say(None)
        await handle.result()
        await following
        assert (one.was_followed, other.was_followed) == ([False], [True])


async def test_a_follower_that_is_gone_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "FOLLOWED_SECONDS", 0.0)
    speaker, transport = Speaker(), InProcessTransport()
    async with two_engines(tmp_path, transport) as (driver, _):
        result = await driven(driver, speaker)
        await transport.send(followers_channel("r"), FOLLOW)
        assert driver.bus.is_followed("r")
        speaker.say("a", None)
        await result
        assert not driver.bus.is_followed("r")


async def test_a_transport_that_fails_or_hangs_never_holds_up_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "MOST_UNSENT", 20)

    class Bad(InProcessTransport):
        async def send(self, channel: str, signal: LiveSignal) -> None:
            if signal.number % 2:
                raise ZeroDivisionError
            await asyncio.Event().wait()

    speaker, transport = Speaker(), Bad()
    async with two_engines(tmp_path, transport) as (driver, _):
        result = await driven(driver, speaker)
        await transport.offer(followers_channel("r"), FOLLOW)
        speaker.say(*["w"] * 120, None)
        assert (await asyncio.wait_for(result, 30)).status == "completed"
        assert driver.driver.relay.dropped >= 100


async def test_a_long_piece_travels_in_several(tmp_path: Path) -> None:
    speaker = Speaker()
    async with two_engines(tmp_path, InProcessTransport()) as (driver, elsewhere):
        result = await driven(driver, speaker)
        follower = Follower(elsewhere)
        following = asyncio.create_task(follower.follow())
        await is_followed(driver)
        speaker.say("x" * 50_000)
        await follower.sees(lambda: follower.text == "x" * 50_000)
        speaker.say(None)
        await result
        await following


async def test_a_journal_in_memory_uses_no_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAMWRIGHT_REDIS", "unix:///nowhere")
    async with Engine(MemoryJournal()) as engine:
        assert engine.driver.relay.hear("r", _ignore) is None


async def _ignore(signal: LiveSignal) -> None:
    del signal


async def test_what_was_dropped_before_the_transport_is_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "MOST_UNSENT", 1)
    relay = Relay(Bus())
    assert relay.traffic is None
    with relay.over(transport := InProcessTransport()):
        transport.traffic.dropped = 2
        for _ in range(3):
            relay.offer("r", FOLLOW)
        assert relay.traffic == Traffic(dropped=4)
