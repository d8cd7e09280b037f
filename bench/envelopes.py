"""What envelopes save against transcripts: `python -m bench.envelopes`. Scripted models on loopback, no network.

Tokens are a quarter of the characters of all requests as they are sent, with instructions, tools and forms. Its output
is in docs/contributing/performance.md.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import anyio
from pydantic import JsonValue

from teamwright import Engine, ModelAgent, Team, load_team
from teamwright.agents.agent import Agent
from teamwright.agents.scripted import Script, ScriptedAgent
from teamwright.testing.model_server import CallTools, ChatAnswer, ChatRequest, ModelServer, Say, ToolCall
from teamwright.values.specs.members import Share
from teamwright.values.specs.models import ServerModel

LENGTHS = (200, 1_000, 3_000, 10_000)
TASK = "Is the harbour ready for the winter?"
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
STORIES = (
    "a2a_lite",
    "code_review",
    "dag",
    "fan_out",
    "hierarchical",
    "reactive",
    "refactoring",
    "round_robin",
    "selector",
)
BLOCK = re.compile(r"\s*```envelope.*?```", re.DOTALL)
POINTER = re.compile(r"artifact://[0-9a-f]{40}")
NOTE = json.dumps(
    {
        "status": "done", "confidence": 80, "risk_level": "low", "needs": [], "next_action": "go on with the next wall",
        "summary": "The wall was looked at, stone by stone: two of forty are loose, neither below the water line, and"
        " both can be set before the first storm. It takes a mason one day and costs 400. " * 2,
    }
)  # fmt: skip


class Row(NamedTuple):
    """One team at one length of replies: total input tokens."""

    team: str
    length: int
    transcript: int
    envelopes: int
    opened: int


def main() -> None:
    """Print the table."""
    print(f"{'team':<24} {'reply':>7} {'transcript':>11} {'a2a_lite':>9} {'':>6} {'each opens one':>15}")
    for name, transcript, envelopes in anyio.run(examples):
        print(f"{name:<24} {'':>7} {transcript:>11,} {envelopes:>9,} {1 - envelopes / transcript:>+6.0%}")
    for row in anyio.run(rows):
        saved = [f"{1 - tokens / row.transcript:+.0%}" for tokens in (row.envelopes, row.opened)]
        line = f"{row.team:<24} {row.length:>7,} {row.transcript:>11,} {row.envelopes:>9,} {saved[0]:>6}"
        print(f"{line} {row.opened:>8,} {saved[1]:>6}")


async def examples() -> list[tuple[str, int, int]]:
    """Measure the examples whose scripts work with both sharing modes."""
    found: list[tuple[str, int, int]] = []
    for name in STORIES:
        shares: tuple[Share, Share] = ("transcript", "a2a_lite")
        first, second = [await told(EXAMPLES / name, share) for share in shares]
        found.append((f"examples/{name}", first, second))
    return found


async def told(folder: Path, share: Share) -> int:
    """The input tokens of an example, by its script's own count; with a transcript no notes are requested."""
    team = load_team(folder)
    team.settings = replace(team.settings, share=share)
    for agent in team.everyone():
        if isinstance(agent, ScriptedAgent):
            rules = [
                rule.model_copy(update={"reply": BLOCK.sub("", rule.reply)})
                if rule.reply and share != "a2a_lite"
                else rule
                for rule in agent.script.rules
            ]
            agent.script = Script(rules=tuple(rules))
    async with Engine("memory") as engine:
        result = await engine.run(team, (folder / "task.txt").read_text())
    if result.status != "completed":
        raise RuntimeError(f"{folder.name} ended as {result.status!r}: {result.warnings}")
    return result.usage.input_tokens


async def rows() -> list[Row]:
    """Measure every team at every length."""
    found: list[Row] = []
    for name, make in TEAMS.items():
        for length in LENGTHS:
            transcript = await spent(make, "transcript", length)
            envelopes = await spent(make, "a2a_lite", length)
            found.append(Row(name, length, transcript, envelopes, await spent(make, "a2a_lite", length, opens=True)))
    return found


async def spent(
    make: Callable[[Callable[[str], Agent], Share], Team], share: Share, length: int, *, opens: bool = False
) -> int:
    """The input tokens of one run."""

    def answer(request: ChatRequest) -> ChatAnswer:
        told = json.dumps(request.body)
        pointers = POINTER.findall(told)
        if opens and pointers and "tool_call_id" not in told and '"tools"' in told:
            return CallTools(calls=(ToolCall(name="open_artifact", args={"hash": pointers[-1]}),))
        text = ("The wall was looked at. " * (length // 24 + 1))[:length]
        return Say(text=f"{text}\n```envelope\n{NOTE}\n```" if "```envelope" in told else text)

    with ModelServer(answer) as server:

        def member(name: str) -> Agent:
            return ModelAgent(name, model=ServerModel(url=server.url, name="m"), instructions="Look at your wall.")

        async with Engine("memory") as engine:
            result = await engine.run(make(member, share), TASK)
        if result.status != "completed":
            raise RuntimeError(f"the run ended as {result.status!r}: {result.warnings}")
        return sum(len(json.dumps(request.body)) for request in server.requests) // 4


def _sequential(member: Callable[[str], Agent], share: Share) -> Team:
    return Team("line", members=[member(name) for name in "abcde"], share=share)


def _rounds(member: Callable[[str], Agent], share: Share) -> Team:
    members = [member(name) for name in "abc"]
    return Team("rounds", members=members, strategy="round_robin", max_turns=3, share=share)


def _fan_out(member: Callable[[str], Agent], share: Share) -> Team:
    members, helpers = [member(name) for name in "abcd"], [member("z")]
    options: dict[str, JsonValue] = {"chunks": [f"wall {number}" for number in range(8)], "answer": "z"}
    return Team("walls", members=members, helpers=helpers, strategy="fan_out", options=options, share=share)


def _dag(member: Callable[[str], Agent], share: Share) -> Team:
    options: dict[str, JsonValue] = {"steps": [*_steps()]}
    return Team("plan", members=[member(name) for name in "abcdz"], strategy="dag", options=options, share=share)


def _steps() -> Iterator[JsonValue]:
    yield {"id": "a"}
    for name in "bcd":
        yield {"id": name, "needs": ["a"]}
    yield {"id": "z", "needs": ["b", "c", "d"]}


TEAMS: Mapping[str, Callable[[Callable[[str], Agent], Share], Team]] = {
    "sequential, 5 members": _sequential,
    "round_robin, 3 × 3": _rounds,
    "fan_out, 8 chunks": _fan_out,
    "dag, 5 steps": _dag,
}


if __name__ == "__main__":
    main()
