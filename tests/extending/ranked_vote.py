"""A strategy with its own form of answer: members propose, rank all proposals, and the best one wins."""

from collections.abc import Sequence

from pydantic import JsonValue, TypeAdapter

from teamwright import Context, Failure, Reply, Strategy, Turn
from teamwright.strategies import (
    Issue,
    Members,
    Outcome,
    ParseFailure,
    Settings,
    Task,
    TeamConversation,
    Value,
    read_answer,
)


class Ballot(Value):
    """The names of all members, in the order in which a voter prefers their proposals."""

    ranking: tuple[str, ...]


BALLOT = TypeAdapter(Ballot)


def ballot_schema(names: Sequence[str]) -> dict[str, JsonValue]:
    """The JSON Schema of a ballot. A schema can't require that every name appears exactly once."""
    name: JsonValue = {"type": "string", "enum": list[JsonValue](names)}
    return {
        "type": "object",
        "properties": {"ranking": {"type": "array", "items": name, "minItems": len(names), "maxItems": len(names)}},
        "required": ["ranking"],
    }


def read_ranking(reply: Reply | Failure) -> tuple[str, ...]:
    """Return the names on a ballot; none if it can't be parsed."""
    ballot = ParseFailure("no reply") if isinstance(reply, Failure) else read_answer(reply, BALLOT)
    return () if isinstance(ballot, ParseFailure) else ballot.ranking


class RankedVote(Strategy):
    """All members propose, then all rank the proposals; the first place counts most."""

    name = "ranked_vote"
    version = 1

    def problems(self, settings: Settings, members: Members) -> Sequence[Issue | str]:
        """Require unique names, because ballots name members."""
        return [] if len({one.name for one in members}) == len(members) else ["'ranked_vote' takes each member once"]

    def example_reply(self, turn: Turn) -> JsonValue:
        """Return a valid ballot for simulations: the members in order, rotated so that ballots differ."""
        match turn.output_schema:
            case {"properties": {"ranking": {"items": {"enum": [*names]}}}}:
                first = turn.number % len(names)
                return {"ranking": [*names[first:], *names[:first]]}
            case _:
                return None

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Collect proposals, then ballots; the winner's proposal is the answer."""
        talk = TeamConversation(task)
        points: dict[str, int] = {}
        proposals: dict[str, Reply] = {}
        for number, member in enumerate(members, 1):
            reply = await ctx.ask(member, talk.turn(number), key=f"propose/{member.name}")
            if outcome := talk.receive(reply):
                return outcome
            if isinstance(reply, Reply):
                proposals[member.name], points[member.name] = reply, 0
        for number, member in enumerate(members, 1):
            text = f"Rank all proposals for this task: {task.text}"
            turn = Turn(text, talk.history, number, purpose="judge", output_schema=ballot_schema(list(points)))
            ranking = read_ranking(await ctx.ask(member, turn, key=f"vote/{member.name}"))
            if sorted(ranking) == sorted(points):
                for place, name in enumerate(reversed(ranking)):
                    points[name] += place
            else:
                talk.warnings.append(f"the vote of {member.name!r} does not count: it must name each member once")
        if points:
            talk.add(proposals[max(points, key=lambda name: points[name])])
        return talk.ended("done")
