"""The frameworks that are measured. A contender's module is imported only by the process that measures it."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, cast

from bench.workload import GRAPHS, Database, Steps

ON_POSTGRES = frozenset({("postgres", "chain"), ("postgres", "fan_out")})
EVERYTHING = ON_POSTGRES | frozenset(
    (store, shape) for store in ("memory", "sqlite") for shape in ("chain", "fan_out", *GRAPHS)
)
IN_MEMORY = frozenset({("memory", "chain"), ("memory", "fan_out")})
DURABLE = ON_POSTGRES | {("sqlite", "chain"), ("sqlite", "fan_out")}


class Measured(Protocol):
    """One way of using one framework; its methods return the seconds of the run, without building and opening.

    Who takes part in graphs also has `dag`.
    """

    async def chain(self, turns: int, database: Database) -> float:
        """Run `turns` turns one after the other; each member can see the earlier replies."""
        ...

    async def fan_out(self, members: int, database: Database) -> float:
        """Ask `members` members concurrently and gather their replies in order."""
        ...


class MeasuredGraph(Measured, Protocol):
    """A framework that runs graphs of steps."""

    async def dag(self, steps: Steps, database: Database, delays: Mapping[str, float] | None = None) -> float:
        """Run each step after those it needs; it waits for its delay, if it has one, and answers."""
        ...


@dataclass(frozen=True, slots=True)
class Contender:
    """How a contender is called in the report, where its code is, and which (store, shape) pairs it takes part in."""

    label: str
    target: str
    takes: frozenset[tuple[str, str]]
    distribution: str

    def load(self) -> Measured:
        """Import the contender's module and make the object that runs it."""
        module, _, name = self.target.partition(":")
        return cast(Measured, getattr(importlib.import_module(module), name)())


CONTENDERS = {
    "teamwright": Contender("Teamwright", "bench.teamwright_case:Teamwright", EVERYTHING, "teamwright"),
    "langgraph": Contender("LangGraph", "bench.langgraph_case:WholeState", EVERYTHING, "langgraph"),
    "langgraph-delta": Contender(
        "LangGraph, delta channel (beta)", "bench.langgraph_case:DeltaState", DURABLE, "langgraph"
    ),
    "agent-framework": Contender(
        "Agent Framework", "bench.agent_framework_case:WholeConversation", IN_MEMORY, "agent-framework-core"
    ),
    "agent-framework-last": Contender(
        "Agent Framework, last reply only",
        "bench.agent_framework_case:LastReplyOnly",
        frozenset({("memory", "chain")}),
        "agent-framework-core",
    ),
    "dbos": Contender("DBOS, a step each", "bench.dbos_case:Steps", ON_POSTGRES, "dbos"),
    "bare": Contender(
        "bare INSERT and commit", "bench.bare_case:BareRows", frozenset({("postgres", "chain")}), "psycopg"
    ),
}
