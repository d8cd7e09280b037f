"""People steer a team that works, drawn from a real run in memory: what they send, and where it takes effect."""

import anyio

from teamwright import Engine, Event, FunctionAgent, Team, Turn
from teamwright.events import AgentAsked, AgentReplied, RunApplied, RunIntervened
from tools.pictures.lanes import Lanes, TurnBar
from tools.pictures.svg import AMBER, MARGIN, MUTED, TITLE_HEIGHT, badge, document, line, text

PEOPLE = "people"
STEPS = [
    {"id": "survey", "agent": "ben"},
    {"id": "draft", "agent": "cem", "needs": ["survey"]},
]
MAP = {"id": "map", "agent": "dora", "needs": ["survey"]}
COMMANDS = {
    "say": 'say "Keep it short."',
    "add_member": "add dora",
    "edit_plan": "plan",
    "remove_member": "remove cem",
}


def dora(task: str) -> str:
    """Answer as the expert who joins."""
    return f"A map for: {task}"


async def record() -> list[Event]:
    """Steer a run while its first step is worked on."""
    entered, go = anyio.Event(), anyio.Event()

    async def survey(turn: Turn) -> str:
        entered.set()
        await go.wait()
        return f"A survey for: {turn.task}"

    async def lead(turn: Turn) -> str:
        return "{}" if turn.output_schema else "The guide."

    members = [FunctionAgent("ada", lead), FunctionAgent("ben", survey), FunctionAgent("cem", dora)]
    options = {"steps": STEPS, "proposals": 0, "max_parallel": 1}
    team = Team("guide", members=members, strategy="collaborate", options=options)  # type: ignore[arg-type]
    async with Engine("memory") as engine:
        handle = await engine.start(team, "Write a guide.", run_id="guide")
        await entered.wait()
        await engine.runs.say("guide", "Keep it short.")
        await engine.runs.add_member("guide", "dora", {"function": f"{__name__}:dora"})
        await engine.runs.edit_plan("guide", {"steps": [*STEPS, MAP]})  # type: ignore[list-item]
        await engine.runs.remove_member("guide", "cem")
        go.set()
        await handle.result()
        return list((await engine.runs.history("guide")).events)


def draw(events: list[Event]) -> str:
    """A lane for people and one for each expert; a dashed line leads from what was sent to where it took effect."""
    ends = {event.key: event.number for event in events if isinstance(event.fact, AgentReplied)}
    turns = [(event, event.fact) for event in events if isinstance(event.fact, AgentAsked) and event.scope]
    bars = [TurnBar(asked.member, event.number, ends[event.key], _label(event.key)) for event, asked in turns]
    sent = {event.fact.inbox_id: event for event in events if isinstance(event.fact, RunIntervened)}
    applied = {
        inbox_id: next(one for one in events if isinstance(one.fact, RunApplied) and one.fact.inbox_id == inbox_id)
        for inbox_id in sent
    }
    numbers = sorted({
        *(bar.start for bar in bars), *(bar.end for bar in bars),
        *(one.number for one in (*sent.values(), *applied.values())),
    })  # fmt: skip
    lanes = Lanes((PEOPLE, "ada", "ben", "cem", "dora"), numbers, TITLE_HEIGHT + 64)
    parts = lanes.draw(bars)
    for place, inbox_id in enumerate(sent):
        parts += _intervention(lanes, sent[inbox_id], applied[inbox_id], place, len(sent))
    parts += _legend(lanes.bottom + 30)
    subtitle = "Recorded twice: when the run accepts it (○), and where it takes effect (●). Drawn from a real run."
    return document(960, lanes.bottom + 56, "Steering a running team", subtitle, parts)


def _label(key: str) -> str:
    *_, step, last = key.split("/")
    return {"redirect": "plans"}.get(last) or {"answer": "answers"}.get(step, step)


def _intervention(lanes: Lanes, sent: Event, applied: Event, place: int, count: int) -> list[str]:
    """What was sent, by its command, and a line to where it took effect."""
    assert isinstance(sent.fact, RunIntervened)
    y, start, end = lanes.y(PEOPLE), lanes.x(sent.number), lanes.x(applied.number)
    above = y - 24 - (count - place - 1) * 16
    return [
        line(start, above + 4, start, y, stroke=MUTED),
        text(start + 5, above + 4, COMMANDS[sent.fact.intervention.kind], size=12.5, fill=AMBER, mono=True),
        badge(start, y, str(place + 1), colour=AMBER, hollow=True),
        badge(end, y, str(place + 1), colour=AMBER),
        line(end, y + 11, end, lanes.bottom - 8, stroke=AMBER, width=1.2, dashes="4 4"),
    ]


def _legend(y: float) -> list[str]:
    left = "cem leaves before its step starts, so ada, who leads, writes the draft."
    return [text(MARGIN, y, f"{left} dora joins, and the edit gives it a step.", size=13, fill=MUTED)]
