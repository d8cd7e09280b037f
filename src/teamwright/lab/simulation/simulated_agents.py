"""Simulated members: they are right or wrong, slow or fast, cheap or expensive, and sometimes fail, as configured.

A reply is a text of a given length, or data that matches a JSON schema. All randomness comes from the run's seed and
the member's key, so the same seed gives the same run in any order of execution. They call no model or tool, and only
the event loop's clock measures their time. Turns and texts of a run are bounded: a team may be allowed a billion turns.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from random import Random
from typing import cast

import anyio
from msgspec import structs
from pydantic import JsonValue
from pydantic_core import to_json

from teamwright.agents.agent import UNSET, Agent, Context, Policy, agent_spec_of
from teamwright.agents.attachments import media_tokens
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.prices import cost_of, rate_of
from teamwright.agents.settings import policy_from_spec
from teamwright.errors import AgentError, AgentTimeout, RateLimited, ServiceError, UsageError
from teamwright.strategies.plan.steps.step_options import without_evaluation
from teamwright.teams.team import Team
from teamwright.values.events.agent import EffectKind
from teamwright.values.limits import CHARACTERS_PER_TOKEN, Pace
from teamwright.values.run_keys import request_place
from teamwright.values.specs.manifest import AgentSpec, JsonSchema, Manifest
from teamwright.values.specs.models import model_key
from teamwright.values.specs.simulation import (
    Behaviour,
    CallError,
    Distribution,
    Percentiles,
    Simulation,
    quantile,
    with_defaults,
)
from teamwright.values.turns.artifacts import is_text_type
from teamwright.values.turns.messages import Message, digest
from teamwright.values.turns.turn import Purpose, Reply, Turn
from teamwright.values.usage_and_prices import Rate, Usage
from teamwright.values.value import Value

MOST_TURNS = 50_000
MOST_CHARACTERS = 4_000_000_000
"""The total input of all members: every turn of a long conversation receives all of it again."""


@dataclass(slots=True)
class RunBound:
    """Counts the turns and the input characters of one run, and stops the run when either is too large."""

    stop: Callable[[], None] | None = None
    turns: int = 0
    characters: int = 0

    @property
    def is_passed(self) -> bool:
        """Whether the run is longer than a simulation may be."""
        return self.turns > MOST_TURNS or self.characters > MOST_CHARACTERS

    def count(self, characters: int) -> None:
        """Count one turn with so many characters of input."""
        self.turns += 1
        self.characters += characters
        if self.is_passed and self.stop is not None:
            self.stop()

    def check(self) -> None:
        if self.is_passed:
            raise UsageError(
                f"A simulated run was stopped after {self.turns} turns with {self.characters} characters of input; the"
                f" maximum is {MOST_TURNS} turns and {MOST_CHARACTERS} characters. Lower max_turns, or set a limit with"
                " --max-calls."
            )


_BOUND: ContextVar[RunBound | None] = ContextVar("teamwright_simulated_run", default=None)


@contextmanager
def bounded_run() -> Generator[RunBound]:
    """Count the turns of all simulated members within the block against one bound."""
    bound = RunBound()
    before = _BOUND.set(bound)
    try:
        yield bound
    finally:
        _BOUND.reset(before)


def count_turn(characters: int) -> None:
    """Count a turn of the enclosing simulated run, if there is one."""
    if (bound := _BOUND.get()) is not None:
        bound.count(characters)


FILLER = "and so on, step by step; "
MOST_FILLED = 250_000
"""The longest text, in tokens, that is really written; longer ones are only counted."""
DEEPEST = 8
PASSES, FAILS = frozenset(("pass", "passed", "ok", "approve", "approved", "yes")), frozenset(("revise", "reject", "no"))
"""The words of a verdict: a member that is right passes what it judges, a wrong one rejects it."""


def pad_text(beginning: str, tokens: int) -> str:
    """Return a text of about so many tokens; the beginning is never cut."""
    tokens = min(tokens, MOST_FILLED)
    missing = tokens * CHARACTERS_PER_TOKEN - len(beginning)
    if missing <= 0:
        return beginning
    return f"{beginning} {FILLER * (missing // len(FILLER) + 1)}"[: tokens * CHARACTERS_PER_TOKEN]


@dataclass(frozen=True, slots=True)
class FakeData:
    """Makes data that matches a JSON schema. Formats with a meaning come from the strategy."""

    simulation: Simulation
    right: bool
    chance: Random

    def matching(self, schema: Mapping[str, JsonValue]) -> JsonValue:
        """Return data that matches the schema, as far as its common keywords go."""
        return self._value(schema, DEEPEST)

    def _value(self, schema: Mapping[str, JsonValue], depth: int) -> JsonValue:
        if "const" in schema:
            return schema["const"]
        if choices := _choices(schema):
            return self._choice(choices)
        if options := cast("Sequence[JsonSchema]", schema.get("anyOf") or schema.get("oneOf") or ()):
            return self._value(options[0], depth)
        return self._of_type(schema, depth)

    def _of_type(self, schema: Mapping[str, JsonValue], depth: int) -> JsonValue:
        match schema.get("type"):
            case "object" if depth:
                needed = cast("Sequence[str]", schema.get("required", ()))
                return {name: self._value(_fields(schema).get(name, {}), depth - 1) for name in needed}
            case "array":
                return self._items(schema, depth)
            case "number" | "integer":
                return self._number(schema)
            case "boolean":
                return self.right
            case "string":
                return "as it should be" if self.right else "as it should not be"
            case _:
                return None

    def _choice(self, choices: Sequence[str]) -> str:
        """A random choice; if the choices are a verdict, the one that a right or wrong member gives."""
        verdicts = PASSES if self.right else FAILS
        if any(one.lower() in PASSES for one in choices):
            return next((one for one in choices if one.lower() in verdicts), choices[-1])
        return choices[int(self.chance.random() * len(choices))]

    def _items(self, schema: Mapping[str, JsonValue], depth: int) -> JsonValue:
        least, most = int(cast("int", schema.get("minItems", 0))), int(cast("int", schema.get("maxItems", 1000)))
        wanted = 3.0 if self.simulation.parts is None else quantile(self.simulation.parts, self.chance.random())
        many = min(most, max(least, round(wanted))) if depth else least
        one = cast("JsonSchema", schema.get("items", {}))
        return [self._numbered(one, place, depth) for place in range(1, many + 1)]

    def _numbered(self, schema: JsonSchema, place: int, depth: int) -> JsonValue:
        """One item of a list; items differ, so that no reader takes two for duplicates."""
        made = self._value(schema, depth - 1)
        return f"part {place}" if made is None or (isinstance(made, str) and not _choices(schema)) else made

    def _number(self, schema: Mapping[str, JsonValue]) -> JsonValue:
        low, high = cast("float", schema.get("minimum", 0)), cast("float", schema.get("maximum", 1))
        return high if self.right else low


def _fields(schema: Mapping[str, JsonValue]) -> dict[str, JsonSchema]:
    return cast("dict[str, JsonSchema]", schema.get("properties", {}))


def _choices(schema: Mapping[str, JsonValue]) -> list[str]:
    return [one for one in cast("Sequence[JsonValue]", schema.get("enum", ())) if isinstance(one, str)]


RIGHT, WRONG = "right", "wrong"
"""The marks in the record of a simulated member's right and wrong replies."""
REFUSED_AFTER = 0.2
"""Seconds until a call fails with a rate limit or a server error."""
NO_ANSWER_AFTER = 60.0
"""Seconds until a call times out, if its agent declares no timeout."""
CALL_ERRORS: dict[CallError, type[AgentError]] = {
    "rate_limit": RateLimited,
    "timeout": AgentTimeout,
    "server": ServiceError,
}

USUAL_MEMBER = Simulation(
    skill=0.78,
    latency=Percentiles(p50=6.0, p90=12.0),
    output=Percentiles(p50=400.0, p90=900.0),
    error={},
    terminate=0.0,
    parts=3.0,
    coordinate=Behaviour(latency=Percentiles(p50=2.0, p90=4.0), output=120.0),
    judge=Behaviour(latency=Percentiles(p50=3.0, p90=6.0), output=120.0),
)
"""The default behaviour of a member, with the figures of the topology model for a single agent."""
USUAL_FUNCTION = USUAL_MEMBER.model_copy(
    update={"skill": 1.0, "latency": 0.05, "input": 0.0, "output": 0.0, "coordinate": None, "judge": None}
)
"""The default behaviour of a function: it is fast, uses no tokens and is always right."""


@dataclass
class SimulatedAgent(Agent):
    """Replaces an agent in a simulation: the same name, policy, model and price, with simulated replies."""

    name: str
    declared: AgentSpec
    simulation: Simulation
    kind: str = "model"
    policy: Policy = UNSET
    example: Callable[[Turn], JsonValue] | None = None
    """Makes a reply in a format of the strategy of the enclosing team."""

    def __post_init__(self) -> None:
        if self.policy is UNSET:
            self.policy = policy_from_spec(self.name, self.declared, confirm=None, max_bytes=None)
        self.description, self.capabilities = self.declared.description, self.declared.capabilities

    @property
    def spec(self) -> AgentSpec:
        """The declaration of the agent that this one replaces."""
        return self.declared

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        if (model := self.policy.model_at(turn.tier)) is not None:
            other = self.declared.model_copy(update={"model": model})
            return await replace(self, declared=other).respond(structs.replace(turn, tier="primary"), ctx)
        chance = Random(ctx.clock.random())
        simulation = self.simulation
        right = chance.random() < (simulation.skill or 0.0)
        ends = self.policy.can_terminate and chance.random() < (simulation.terminate or 0.0)
        content = self._content(turn, right=right, chance=chance)
        simulated = SimulatedTurn(
            turn, self._behaviour(turn.purpose), right, chance, content, self.declared.instructions_text
        )
        returned = await ctx.effect(request_place(1), self._effect(simulated))
        text = returned.value if isinstance(returned.value, str) else to_json(returned.value).decode()
        data = None if isinstance(returned.value, str) else returned.value
        message = Message(name=self.name, content=text)
        signal = "terminate" if ends else None
        return Reply(messages=(message,), data=data, signal=signal, truncated=returned.truncated)

    def _behaviour(self, purpose: Purpose) -> Behaviour:
        """The time and tokens of a turn with this purpose; those of work where nothing else is declared."""
        own = self.simulation
        other = {"coordinate": own.coordinate, "judge": own.judge}.get(purpose)
        if other is None:
            return own
        return Behaviour(
            latency=own.latency if other.latency is None else other.latency,
            input=own.input if other.input is None else other.input,
            output=own.output if other.output is None else other.output,
        )

    def _content(self, turn: Turn, *, right: bool, chance: Random) -> JsonValue:
        """The reply: the one that the manifest declares, else data if there is a schema, else a text."""
        simulation = self.simulation
        declared = simulation.right if right else simulation.wrong
        if declared is not None and turn.purpose == "work":
            return declared
        schema = self.declared.output_schema or turn.output_schema
        if schema is None:
            made = None
        else:
            made = self.example(structs.replace(turn, output_schema=schema)) if self.example else None
            made = FakeData(simulation, right, chance).matching(schema) if made is None else made
        return f"{self.name} is done with its part." if made is None else made

    def _effect(self, simulated: SimulatedTurn) -> Effect:
        model, spec = self.declared.model, self.declared
        kind: EffectKind = "function" if self.kind == "function" else "model"
        return Effect(
            kind=kind,
            name=model_key(model) if model is not None else self.kind,
            request=digest(simulated.turn.digest),
            call=partial(self._call, simulated),
            prompt_bytes=simulated.input * CHARACTERS_PER_TOKEN,
            messages=1,
            max_output=spec.max_tokens or simulated.turn.max_output,
            retry=spec.retry,
            timeout=spec.timeout,
            model=(model_key(model) if model is not None else "simulated") if kind == "model" else "",
            pace=model if isinstance(model, Pace) else None,
            rate=self._rate,
        )

    def _rate(self, prompt: int) -> Rate | None:
        return rate_of(self.declared.model, prompt) if self.declared.model is not None else None

    async def _call(self, simulated: SimulatedTurn, attempt: Attempt) -> Returned:
        chance, simulation = simulated.chance, self.simulation
        fate, latency = chance.random(), _sample(simulated.behaviour.latency, chance)
        if error := self._failure(fate, simulation):
            waits = (self.declared.timeout or NO_ANSWER_AFTER) if isinstance(error, AgentTimeout) else REFUSED_AFTER
            await anyio.sleep(waits)
            raise error
        output, cut = round(_sample(simulated.behaviour.output, chance)), False
        await anyio.sleep(latency)
        if attempt.max_output is not None and output > attempt.max_output:
            output, cut = attempt.max_output, True
        content = pad_text(simulated.content, output) if isinstance(simulated.content, str) else simulated.content
        usage = Usage(requests=1, input_tokens=simulated.input, output_tokens=output)
        if self.declared.model is not None:
            usage = usage.changed(usd=cost_of(self.declared.model, usage))
        return Returned(content, usage, RIGHT if simulated.right else WRONG, cut)

    def _failure(self, fate: float, simulation: Simulation) -> AgentError | None:
        """The error that a call raises, if it fails. One draw decides on all kinds, so that their rates add up."""
        what = f"the simulation of {self.name!r} says so"
        shares = simulation.error or {}
        for kind, error in CALL_ERRORS.items():
            if fate < (share := shares.get(kind, 0.0)):
                return error(what)
            fate -= share
        return None


class SimulatedTurn:
    """One turn of a simulated member: its behaviour, its reply and its input tokens."""

    __slots__ = ("behaviour", "chance", "content", "input", "right", "turn")

    def __init__(
        self, turn: Turn, behaviour: Behaviour, right: bool, chance: Random, content: JsonValue, instructions: str
    ) -> None:
        self.turn, self.behaviour, self.right, self.chance, self.content = turn, behaviour, right, chance, content
        if behaviour.input is not None:
            count_turn(0)
            self.input = round(quantile(behaviour.input, chance.random()))
        else:
            characters = len(instructions) + len(turn.prompt)
            count_turn(characters)
            texts = [one for one in turn.attachments if is_text_type(one.media_type)]
            media = media_tokens((one for one in turn.attachments if one not in texts), "")
            characters += sum(one.size for one in texts)
            self.input = ceil(characters / CHARACTERS_PER_TOKEN) + media


def _sample(distribution: Distribution | None, chance: Random) -> float:
    return 0.0 if distribution is None else quantile(distribution, chance.random())


def declared_behaviour(team: Team) -> dict[str, Simulation]:
    """The behaviour that a team's manifest declares, by the name of the agent, or of the team for all its members."""
    manifest = team.declared.manifest if team.declared is not None else Manifest()
    given = {**manifest.teams, **manifest.agents}
    return {name: spec.simulation for name, spec in given.items() if spec.simulation is not None}


class Learnt(Value):
    """The behaviour of members, learnt from past runs: of each by name, and of all together as a default."""

    members: dict[str, Simulation] = {}
    everybody: Simulation | None = None


NOTHING_LEARNT = Learnt()
TeamVariant = tuple[str, str]
"""A team's name, and the default behaviour of its members as JSON."""


@dataclass(frozen=True, slots=True)
class Simulator:
    """Replaces the members of teams by simulated ones. Learnt behaviour overrides declared behaviour."""

    declared: Mapping[str, Simulation]
    learnt: Learnt = NOTHING_LEARNT

    def team(self, team: Team, around: Simulation | None = None, made: dict[TeamVariant, Team] | None = None) -> Team:
        """Return a copy of a team with simulated members. Approvals are granted at once, so nothing waits for people.

        Nothing is evaluated: checks are programs and functions of the user, which a simulation must not run.

        `made` caches the copies, so that a team with many parents is copied once.
        """
        own = self.declared.get(team.name)
        usual = with_defaults(own, around) if own is not None and around is not None else own or around
        teams = {} if made is None else made
        variant = (team.name, usual.model_dump_json() if usual is not None else "")
        if variant in teams:
            return teams[variant]
        teams[variant] = simulated = copy(team)
        simulated.attachments, simulated.workspace = (), None  # virtual time reads no files: a run is given them
        known: dict[str, Agent] = {}
        example = team.strategy.example_reply
        simulated.members = tuple(self._simulate(one, usual, known, teams) for one in team.members)
        simulated.helpers = tuple(self._simulate(one, usual, known, teams) for one in team.helpers)
        for one in known.values():
            for stand_in in (one, one.policy.fallback) if isinstance(one, SimulatedAgent) else ():
                if isinstance(stand_in, SimulatedAgent):
                    stand_in.example = example
        simulated.policy = team.policy.changed(confirm=None, evaluate=None)
        simulated.notify = None
        simulated.settings = without_evaluation(team.settings)
        return simulated

    def _simulate(
        self, agent: Agent, usual: Simulation | None, known: dict[str, Agent], teams: dict[TeamVariant, Team]
    ) -> Agent:
        if agent.name in known:
            return known[agent.name]
        if isinstance(agent, Team):
            known[agent.name] = made = self.team(agent, usual, teams)
            return made
        known[agent.name] = stand_in = self._stand_in(agent, usual)
        other = agent.policy.fallback
        if other is not None:
            same = other.name == agent.name  # the same agent with another model
            fallback = self._stand_in(other, usual) if same else self._simulate(other, usual, known, teams)
            stand_in.policy = stand_in.policy.changed(fallback=fallback)
        return stand_in

    def _stand_in(self, agent: Agent, usual: Simulation | None) -> SimulatedAgent:
        declared, learnt = self.declared.get(agent.name), self.learnt.members.get(agent.name)
        function = agent.kind == "function"
        simulation = (
            USUAL_FUNCTION if function else with_defaults(usual, with_defaults(self.learnt.everybody, USUAL_MEMBER))
        )
        simulation = with_defaults(learnt, with_defaults(declared, simulation))
        policy = agent.policy.changed(confirm=None, fallback=None, evaluate=None, max_bytes=None, one_call=False)
        return SimulatedAgent(agent.name, agent_spec_of(agent), simulation, "function" if function else "model", policy)
