"""Replay in journal order, drawn from a real run with two branches that is interrupted and resumed in memory."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import anyio

from teamwright import Agent, Context, Engine, Event, FunctionAgent, Strategy, Team, Turn
from teamwright.events import AgentAsked, AgentReplied, RunInterrupted
from teamwright.journal import MemoryJournal
from teamwright.strategies import Members, Outcome, Settings, Task, TeamConversation
from tools.pictures.svg import (
    AMBER,
    BLUE,
    MARGIN,
    MUTED,
    RED,
    TEAL,
    TITLE_HEIGHT,
    badge,
    box,
    document,
    line,
    text,
)  # fmt: skip

WIDTH, LANE, BAR = 960.0, 56.0, 20.0
LEFT, STEP = 116.0, 46.0
BRANCHES = ("tides", "wind")
ASKS = ("draft", "check")


class TwoBranches(Strategy):
    """Asks each member twice, in its own branch."""

    name = "two_branches"
    version = 1

    def __init__(self, delivered: list[str]) -> None:
        self._delivered = delivered

    def problems(self, settings: Settings, members: Members) -> list[str]:
        """Accept any members."""
        return []

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Start one branch for each member."""
        talk = TeamConversation(task)
        async with ctx.branches(limit=len(members)) as branches:
            for member in members:
                branches.start(member.name, partial(self._ask, member, talk))
        return talk.ended("done")

    async def _ask(self, member: Agent, talk: TeamConversation, ctx: Context) -> None:
        for number, key in enumerate(ASKS, 1):
            await ctx.ask(member, talk.turn(number), key=key)
            self._delivered.append(f"{member.name}/{key}")


@dataclass(slots=True)
class Drive:
    """The calls that one driver made, and the results in the order of delivery."""

    calls: list[str] = field(default_factory=list[str])
    delivered: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Recording:
    """The events of the run, and the calls and deliveries of its two drivers."""

    events: list[Event]
    first: Drive
    second: Drive


async def record() -> Recording:
    """Interrupt a run while the last call of one branch is in flight, then resume it."""
    journal = MemoryJournal()
    first, second = Drive(), Drive()
    wind_drafted, never = anyio.Event(), anyio.Event()

    async def slow_tides(call: str) -> None:
        if call == "tides/draft":
            await wind_drafted.wait()

    async def stuck_wind(call: str) -> None:
        if call == "wind/check":
            wind_drafted.set()
            await never.wait()

    async with Engine(journal) as engine:
        handle = await engine.start(_team(first, {"tides": slow_tides, "wind": stuck_wind}), "Sail?", run_id="replay")
        async for event in engine.runs.follow("replay"):
            if isinstance(event, Event) and event.key.endswith("tides/check") and event.kind == "agent.replied":
                break
        handle.interrupt()
    async with Engine(journal) as engine:
        await engine.resume("replay", team=_team(second, {}))
        return Recording(list((await engine.runs.history("replay")).events), first, second)


def _team(drive: Drive, pauses: dict[str, Callable[[str], Awaitable[None]]]) -> Team:
    def member(name: str) -> FunctionAgent:
        async def respond(turn: Turn) -> str:
            call = f"{name}/{ASKS[turn.number - 1]}"
            drive.calls.append(call)
            if name in pauses:
                await pauses[name](call)
            return call

        return FunctionAgent(name, respond)

    return Team("crew", members=[member(name) for name in BRANCHES], strategy=TwoBranches(drive.delivered))


def draw(recording: Recording) -> str:
    """The journal as an axis; the first driver above it, the second below."""
    cut = next(event.number for event in recording.events if isinstance(event.fact, RunInterrupted))
    asked, replied = _numbers(recording.events, AgentAsked), _numbers(recording.events, AgentReplied)
    top = TITLE_HEIGHT + 34
    axis = top + 2 * LANE + 40
    lower = axis + 74
    parts = [*_axis(recording.events, axis, cut, top - 26, lower + 2 * LANE + 4)]
    parts += _heading("First driver", len(recording.first.calls), top - 12)
    parts += _lanes(top)
    parts += _heading("Second driver", len(recording.second.calls), lower - 12)
    parts += _lanes(lower)
    for call in sorted(recording.first.calls):
        parts += _call(call, top, asked[call], replied[call], cut)
    for call in recording.second.delivered:
        parts += _replayed(call, lower, asked[call], replied[call], recording, cut)
    subtitle = "The strategy runs again from its first line. Recorded replies return in journal order, without a call."
    return document(WIDTH, lower + 2 * LANE + 62, "Replay in journal order", subtitle, [*parts, *_legend(lower)])


def _numbers(events: list[Event], kind: type[AgentAsked] | type[AgentReplied]) -> dict[str, int]:
    found = (event for event in events if isinstance(event.fact, kind))
    return {event.key.removeprefix("crew/"): event.number for event in found}


def _x(number: int) -> float:
    return LEFT + (number - 1) * STEP


def _heading(name: str, calls: int, y: float) -> list[str]:
    return [
        text(MARGIN, y, name, weight=700),
        text(MARGIN + 110, y, f"{calls} call{'s' * (calls != 1)} made", fill=MUTED),
    ]


def _lanes(top: float) -> list[str]:
    parts: list[str] = []
    for row, name in enumerate(BRANCHES):
        y = top + row * LANE + LANE / 2 + 6
        parts += [text(MARGIN, y + 4.5, name, size=13, mono=True, fill=MUTED), line(LEFT - 16, y, WIDTH - MARGIN, y)]
    return parts


def _axis(events: list[Event], y: float, cut: int, top: float, bottom: float) -> list[str]:
    parts = [text(MARGIN, y + 4.5, "journal", weight=700)]
    parts.append(line(LEFT - 16, y, WIDTH - MARGIN, y, stroke=MUTED, width=2))
    replies = {event.number for event in events if isinstance(event.fact, AgentReplied)}
    for event in events:
        colour = TEAL if event.number in replies and event.key.count("/") == 2 else MUTED
        parts.append(badge(_x(event.number), y, str(event.number), colour=colour, hollow=colour == MUTED))
    x = _x(cut) - STEP / 2
    return [
        line(x, top, x, bottom, stroke=RED, width=1.6, dashes="6 4"),
        text(x + 8, top + 11, "the first driver is interrupted", size=13, fill=RED),
        *parts,
    ]


def _call(call: str, top: float, start: int, end: int, cut: int) -> list[str]:
    y = top + BRANCHES.index(call.partition("/")[0]) * LANE + (LANE - BAR) / 2 + 6
    lost = end > cut
    right = _x(cut) - STEP / 2 if lost else _x(end)
    colour = AMBER if lost else BLUE
    return [
        box(_x(start), y, right - _x(start), BAR, colour=colour),
        text(_x(start) + 1, y - 6, call.partition("/")[2], size=12.5, fill=colour, mono=True),
    ]


def _replayed(call: str, top: float, start: int, end: int, recording: Recording, cut: int) -> list[str]:
    branch, _, name = call.partition("/")
    y = top + BRANCHES.index(branch) * LANE + (LANE - BAR) / 2 + 6
    made = call in recording.second.calls
    left = _x(cut) + STEP / 2 if made else _x(start)
    colour = BLUE if made else TEAL
    place = recording.second.delivered.index(call) + 1
    return [
        box(left, y, _x(end) - left, BAR, colour=colour, dashed=not made),
        text(left + 1, y - 6, name, size=12.5, fill=colour, mono=True),
        badge(_x(end), y + BAR / 2, _nth(place), colour=colour),
    ]


def _nth(place: int) -> str:
    return "abcd"[place - 1]


def _legend(lower: float) -> list[str]:
    y = lower + 2 * LANE + 20
    entries = (
        (BLUE, False, "call made", 110.0),
        (AMBER, False, "in doubt: made again on resume", 270.0),
        (TEAL, True, "from the record, no call", 180.0),
    )
    parts: list[str] = []
    x = MARGIN
    for colour, dashed, label, width in entries:
        parts += [box(x, y, 22, 16, colour=colour, dashed=dashed, radius=3), text(x + 30, y + 13, label, size=13)]
        x += width + 30
    return [*parts, text(x, y + 13, "a b c d: order of delivery", size=13, fill=MUTED)]
