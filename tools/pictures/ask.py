"""The life of an ask, drawn from the events of a real run in memory: a retry, a tool call, a reply."""

from teamwright import Engine, Event, Limits, RetryPolicy, Rule, ScriptedAgent, Team
from teamwright.events import AgentAsked, AgentCalled, AgentCallFailed, AgentReplied, AgentReturned, BudgetOpened
from tools.pictures.svg import (
    AMBER,
    BLUE,
    INK,
    MARGIN,
    MUTED,
    RED,
    RULE,
    SLATE,
    TEAL,
    TITLE_HEIGHT,
    arrow,
    badge,
    box,
    document,
    line,
    text,
)  # fmt: skip

WIDTH, ROW = 1030.0, 40.0
STRATEGY, ASK_DOOR, AGENT, EFFECT_DOOR, WORLD = 84.0, 174.0, 264.0, 354.0, 444.0
RECORD, KEY, NOTE = 516.0, 690.0, 788.0
COLOURS = {"agent.call_failed": RED, "budget.opened": SLATE, "agent.returned": TEAL, "agent.replied": TEAL}


def tide_table(day: str) -> str:
    """Times of high water on a day."""
    return f"{day}: 06:12 and 18:40"


async def record() -> list[Event]:
    """The events of one ask: its first request is refused once, its second answer calls a tool."""
    rules = [
        Rule(error="rate_limit", times=1),
        Rule.model_validate({"tool": {"name": "tide_table", "args": {"day": "today"}}, "times": 1}),
        Rule(reply="High water at 06:12."),
    ]
    limits = Limits(tokens=2000)
    retry = RetryPolicy(backoff=0)
    tides = ScriptedAgent("tides", rules, tools=[tide_table], retry=retry, limits=limits, max_tokens=100)
    team = Team("harbour", members=[tides])
    async with Engine("memory") as engine:
        stream = engine.stream(team, "When is high water?", run_id="ask")
        return [item async for item in stream if isinstance(item, Event) and item.key.startswith("harbour/step-1")]


def draw(events: list[Event]) -> str:
    """One row for each event: its arrow and its line in the journal."""
    top = TITLE_HEIGHT + 44
    bottom = top + len(events) * ROW
    parts = [*_columns(top, bottom)]
    for row, event in enumerate(events):
        parts += _row(event, top + row * ROW + ROW / 2)
    subtitle = "Every arrow passes the context (ctx), which makes its event durable first. Recorded from a real run."
    return document(WIDTH, bottom + MARGIN - 8, "Life of an ask", subtitle, parts)


def _columns(top: float, bottom: float) -> list[str]:
    parts: list[str] = []
    for x, name in ((STRATEGY, "strategy"), (AGENT, "agent"), (WORLD, "world")):
        parts += [
            box(x - 40, top - 40, 80, 28, colour=BLUE),
            text(x, top - 21, name, weight=700, fill=BLUE, anchor="middle"),
            line(x, top - 12, x, bottom, stroke=MUTED, width=1.3),
        ]
    for x in (ASK_DOOR, EFFECT_DOOR):
        parts += [
            text(x, top - 21, "ctx", size=13, fill=MUTED, anchor="middle", mono=True),
            line(x, top - 12, x, bottom, dashes="2 4"),
        ]
    heads = ((RECORD, "journal"), (KEY, "key"), (NOTE, "meaning"))
    return [*parts, *(text(x, top - 21, name, weight=700) for x, name in heads), _rule(top - 12)]


def _rule(y: float) -> str:
    return line(RECORD, y, WIDTH - MARGIN, y, stroke=RULE)


def _row(event: Event, y: float) -> list[str]:
    colour = COLOURS.get(event.kind, AMBER if event.kind == "agent.called" else BLUE)
    start, door, end = _path(event)
    parts = [arrow(start, y, end, y, stroke=colour)] if start != end else []
    tail = event.key.removeprefix("harbour/")
    return [
        *parts,
        badge(door, y, str(event.number), colour=colour),
        text(RECORD, y + 4.5, f"{event.number:>2} {event.kind}", size=12.5, weight=700, fill=colour, mono=True),
        text(KEY, y + 4.5, tail.removeprefix("step-1/"), size=12.5, fill=INK, mono=True),
        text(NOTE, y + 4.5, _note(event), size=13, fill=MUTED),
        _rule(y + ROW / 2),
    ]


def _path(event: Event) -> tuple[float, float, float]:
    """Where an event's arrow starts, where the context records it, and where it ends."""
    match event.fact:
        case AgentAsked():
            return STRATEGY, ASK_DOOR, AGENT
        case AgentReplied():
            return AGENT, ASK_DOOR, STRATEGY
        case AgentCalled(attempt=attempt):
            return (AGENT if attempt == 1 else EFFECT_DOOR), EFFECT_DOOR, WORLD
        case AgentReturned():
            return WORLD, EFFECT_DOOR, AGENT
        case AgentCallFailed():
            return WORLD, EFFECT_DOOR, EFFECT_DOOR + 11
        case _:
            return ASK_DOOR, ASK_DOOR, ASK_DOOR


def _note(event: Event) -> str:
    match event.fact:
        case AgentAsked(member=member):
            return f"one turn of {member!r} begins"
        case BudgetOpened(limits=limits):
            return f"a limit of {limits.tokens} tokens applies"
        case AgentCalled(effect="tool", name=name):
            return f"call tool {name!r}"
        case AgentCalled(attempt=attempt, reserved=reserved):
            return f"attempt {attempt}: reserve {reserved} tokens"
        case AgentCallFailed(error=error, charged=charged):
            return f"{error}; reservation {'kept' if charged else 'released'}"
        case AgentReturned(usage=usage):
            return f"answer; settle {usage.total_tokens} tokens" if usage.requests else "tool result"
        case AgentReplied(usage=usage):
            return f"reply; {usage.total_tokens} tokens in total"
        case _:
            raise LookupError(f"Say what {event.kind!r} means in tools/pictures/ask.py")
