"""The key tree of a run, drawn from the events of a real run of nested teams in memory."""

from dataclasses import dataclass

from teamwright import Engine, Event, Rule, ScriptedAgent, Team
from teamwright.events import AgentAsked, AgentCalled
from tools.pictures.ask import tide_table
from tools.pictures.svg import AMBER, BLUE, MARGIN, MUTED, SLATE, TEAL, TITLE_HEIGHT, box, document, line, text

WIDTH, ROW, INDENT = 960.0, 40.0, 46.0
BOX_HEIGHT, BOX_WIDTH = 28.0, 112.0
WHAT, KEY, NUMBERS = 372.0, 560.0, 850.0
COLOURS = {"run": SLATE, "team": BLUE, "agent": TEAL, "effect": AMBER}


@dataclass(slots=True)
class Place:
    """One key of a run: what happened there, and its first and last event."""

    key: str
    family: str
    what: str
    first: int
    last: int

    @property
    def depth(self) -> int:
        """How many names the key has."""
        return len(self.key.split("/")) if self.key else 0


async def record() -> list[Event]:
    """The events of a team with a team inside, one of whose members calls a tool."""
    rules = [
        Rule.model_validate({"tool": {"name": "tide_table", "args": {"day": "today"}}, "times": 1}),
        Rule(reply="High water at 06:12."),
    ]
    tides = ScriptedAgent("tides", rules, tools=[tide_table])
    survey = Team("survey", members=[tides, ScriptedAgent("wind", [Rule(reply="Calm until noon.")])])
    team = Team("harbour", members=[survey, ScriptedAgent("pilot", [Rule(reply="Sail at six.")])])
    async with Engine("memory") as engine:
        stream = engine.stream(team, "When do we sail?", run_id="keys")
        return [item async for item in stream if isinstance(item, Event)]


def read_places(events: list[Event]) -> list[Place]:
    """Every ask and effect by its key, in the order in which they began."""
    places = {"": Place("", "run", "the run", events[0].number, events[-1].number)}
    for event in events:
        match event.fact:
            case AgentAsked(member=member, member_kind=kind):
                what = f"team {member!r}" if kind == "team" else f"agent {member!r}"
                places[event.key] = Place(event.key, "team" if kind == "team" else "agent", what, event.number, 0)
            case AgentCalled(effect=effect, name=name):
                what = f"tool {name!r}" if effect == "tool" else "model request"
                places[event.key] = Place(event.key, "effect", what, event.number, 0)
            case _:
                pass
        if event.key in places:
            places[event.key].last = event.number
    return list(places.values())


def draw(events: list[Event]) -> str:
    """One row for each key, indented by its depth."""
    places = read_places(events)
    top = TITLE_HEIGHT + 30
    parts = [text(x, top - 8, name, weight=700) for x, name in _heads()]
    parts.append(line(MARGIN, top, WIDTH - MARGIN, top))
    rows = {place.key: top + 8 + row * ROW for row, place in enumerate(places)}
    for place in places:
        parts += _place(place, rows)
    bottom = top + 8 + len(places) * ROW
    subtitle = "A key is the path of names from the run to a place. Replay finds each record by its key, never by time."
    return document(WIDTH, bottom + MARGIN - 12, "Key tree of a run", subtitle, parts)


def _heads() -> tuple[tuple[float, str], ...]:
    return (MARGIN, "scope"), (WHAT, "part"), (KEY, "key"), (NUMBERS, "events")


def _place(place: Place, rows: dict[str, float]) -> list[str]:
    x, y = MARGIN + place.depth * INDENT, rows[place.key]
    colour, middle = COLOURS[place.family], rows[place.key] + BOX_HEIGHT / 2
    label = place.key.rpartition("/")[2] or "run"
    parts = [_connector(place, rows, x, middle)] if place.depth else []
    numbers = f"{place.first}–{place.last}"
    return [
        *parts,
        box(x, y, BOX_WIDTH, BOX_HEIGHT, colour=colour),
        text(x + 10, middle + 4.5, label, size=13, weight=700, fill=colour, mono=True),
        text(WHAT, middle + 4.5, place.what, size=13.5),
        text(KEY, middle + 4.5, place.key or "(empty)", size=12.5, fill=MUTED, mono=True),
        text(NUMBERS, middle + 4.5, numbers, size=12.5, fill=MUTED, mono=True),
    ]


def _connector(place: Place, rows: dict[str, float], x: float, middle: float) -> str:
    parent = place.key.rpartition("/")[0]
    trunk = x - INDENT + 16
    down = line(trunk, rows[parent] + BOX_HEIGHT, trunk, middle, stroke=MUTED)
    return down + line(trunk, middle, x, middle, stroke=MUTED)
