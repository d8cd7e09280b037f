"""An expert team at work, drawn from a real run in memory: a step that is revised, and the one that reads it."""

from teamwright import Engine, Event, FunctionAgent, Step, Team
from teamwright.events import AgentAsked, AgentReplied, TeamEvaluationResult, TeamEvaluationStarted
from teamwright.experts import PlanOptions, Role
from teamwright.values.specs.evaluation import Criterion, Evaluate
from tools.pictures.lanes import Lanes, TurnBar
from tools.pictures.svg import AMBER, MARGIN, MUTED, SLATE, TEAL, TITLE_HEIGHT, arrow, document, text

REVIEW = "review"
MEMBERS = ("ana", "ben")


async def record() -> list[Event]:
    """Run a team whose first answer names no source."""

    def find(prompt: str) -> str:
        return "It rains on 200 days a year [1]." if "Review 1" in prompt else "It rains often."

    def write(prompt: str) -> str:
        return f"Take an umbrella: {prompt[-20:]}"

    cites = Evaluate(criteria=(Criterion(id="cites", regex=r"\[\d+\]"),))
    options = PlanOptions(
        roles={"researcher": Role(capabilities="research"), "writer": Role(agent="ben")},
        steps=(
            Step(id="find", role="researcher", evaluate=cites),
            Step(id="write", role="writer", needs=("find",)),
        ),
    )
    members = [FunctionAgent("ana", find, capabilities=("research",)), FunctionAgent("ben", write)]
    async with Engine("memory") as engine:
        await engine.run(Team("report", members=members, strategy="expert", options=options), "Rain?", run_id="report")
        return list((await engine.runs.history("report")).events)


def draw(events: list[Event]) -> str:
    """A lane for each expert and one for the review; an arrow leads from each answer to its review."""
    ends = {event.key: event.number for event in events if isinstance(event.fact, AgentReplied)}
    work = [
        TurnBar(event.fact.member, event.number, ends[event.key], _step(event.key))
        for event in events
        if isinstance(event.fact, AgentAsked) and event.fact.member in MEMBERS
    ]
    started = [event.number for event in events if isinstance(event.fact, TeamEvaluationStarted)]
    results = [event for event in events if isinstance(event.fact, TeamEvaluationResult)]
    reviews = [_review(start, result) for start, result in zip(started, results, strict=True)]
    bars = [*work, *reviews]
    numbers = sorted({number for bar in bars for number in (bar.start, bar.end)})
    lanes = Lanes(("ana", REVIEW, "ben"), numbers, TITLE_HEIGHT + 16)
    parts = lanes.draw(bars)
    for bar, review in zip(work, reviews, strict=True):
        x = (lanes.x(review.start) + lanes.x(bar.end)) / 2
        way = 1 if bar.lane == "ana" else -1
        parts.append(arrow(x, lanes.y(bar.lane) + way * 4, x, lanes.y(REVIEW) - way * 13, stroke=MUTED))
    told = "Only work that passes reaches the next step: ben reads the second answer of ana, and never the first."
    parts.append(text(MARGIN, lanes.bottom + 28, told, size=13, fill=MUTED))
    subtitle = "Each result is reviewed before others read it; an author learns what was wrong. Drawn from a real run."
    return document(960, lanes.bottom + 52, "An expert team at work", subtitle, parts)


def _step(key: str) -> str:
    """The step of an ask, and whether it is a revision."""
    steps = key.split("/")
    return f"{steps[2]}, revised" if "revision-2" in steps else steps[2]


def _review(start: int, result: Event) -> TurnBar:
    assert isinstance(result.fact, TeamEvaluationResult)
    outcome = result.fact.verdict.outcome
    colour = {"pass": TEAL, "not_reviewed": SLATE}.get(outcome, AMBER)
    return TurnBar(REVIEW, start, result.number, outcome.replace("_", " "), colour)
