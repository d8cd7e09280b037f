"""What is measured: one value per case, and the list of all cases of a run.

A case is small and JSON, because each is run by a process of its own (`bench.child`).
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from bench.contenders import CONTENDERS

Kind = Literal[
    "turns", "cpu", "database", "import", "resume", "makespan", "plan", "ledger", "sweep", "floor", "model", "prefix"
]
Shape = Literal["chain", "fan_out", "wide", "diamond", "layered"]
Store = Literal["memory", "sqlite", "postgres"]

SHAPES: tuple[Shape, ...] = ("chain", "fan_out")
GRAPHS: tuple[Shape, ...] = ("wide", "diamond", "layered")
STORES: tuple[Store, ...] = ("memory", "sqlite")
"""The stores of this machine alone; `postgres` is measured beside other engines on one server."""
UNITS: dict[Kind, str] = {
    "turns": "µs per turn", "cpu": "µs of CPU per turn", "database": "bytes", "import": "s", "resume": "s",
    "makespan": "s", "plan": "s", "ledger": "µs per reservation", "sweep": "s", "floor": "µs",
    "model": "µs of CPU per request", "prefix": "%",
}  # fmt: skip

SIZES = (200, 1000)
RESUMED_STEPS = 10_000
PLANNED_STEPS = (1_000, 10_000, 100_000)
PLANS = ("five needs each", "one key for all")
SPENDERS = (1, 10, 1000)
LEDGERS = ("room for all", "room for ten")
SWEEPS = {"computed": 28_800, "computed and written as CSV": 28_800}
"""What is done with the cells of a sweep, and how many there are."""
MODEL_TURNS = {
    "httpx": "httpx",
    "openai": "openai client",
    "model": "pydantic-ai's Model",
    "client": "Teamwright's client",
    "teamwright": "Teamwright",
    "pydantic-ai": "pydantic-ai's Agent",
    "langgraph": "LangGraph, langchain-openai",
    "openai-agents": "openai-agents",
}
"""Who is measured with model turns, and how each is called in the report."""
CHUNKS = (0, 10, 50)
"""In how many chunks an answer comes; 0 means whole."""
MODEL_REQUESTS = 200
PROMPT_ORDERS = ("task last", "order of time")
CONTENDED = ("three of 50 keys each", "three of 300 keys each")
# The runs that fill one database file: 2200 turns in total.
DATABASE_RUNS: tuple[tuple[Shape, int], ...] = (("chain", 200), ("chain", 1000), ("fan_out", 1000))

OUR_IMPORT = "from teamwright import Engine, Team"
MODEL_IMPORT = (
    "import asyncio; from teamwright.agents.clients.client_pool import import_models; asyncio.run(import_models())"
)
"""What the first call of a model loads."""
CLIENT_IMPORT = "from pydantic_ai.models.openai import OpenAIChatModel"
"""What it can't do without: the client of an OpenAI-compatible server, by itself."""
# Imports that load what a user needs, because some packages load nothing until a name is used.
IMPORTS: tuple[str, ...] = (
    "from pydantic import BaseModel",
    "import teamwright",
    OUR_IMPORT,
    "import agent_framework",
    "from agent_framework import WorkflowBuilder",
    "from langgraph.graph import StateGraph",
    "from openai import AsyncOpenAI",
    CLIENT_IMPORT,
    MODEL_IMPORT,
)
FLOOR_TASK, FLOOR_NORMAL, FLOOR_FULL = "one asyncio task", "one SQLite commit, NORMAL", "one SQLite commit, FULL"


class Case(BaseModel):
    """One thing to measure: `subject` is a contender, an import, a kind of plan, ledger or sweep, or a floor."""

    model_config = ConfigDict(frozen=True)

    kind: Kind
    subject: str
    shape: Shape = "chain"
    size: int = 1
    store: Store = "memory"
    chunks: int = 0

    @property
    def name(self) -> str:
        """The name by which `--only` picks a case and progress is shown."""
        match self.kind:
            case "turns":
                return f"{self.subject}/{self.store}/{self.shape}/{self.size}"
            case "cpu":
                return f"cpu/{self.subject}/{self.store}/{self.shape}/{self.size}"
            case "resume":
                return f"{self.subject}/resume/{self.size}"
            case "model":
                how = f"{self.chunks} chunks" if self.chunks else "whole"
                return f"model/{self.subject}/{self.store}/{'at once' if self.shape == 'fan_out' else 'in turn'}/{how}"
            case "plan" | "ledger" | "sweep":
                return f"{self.kind}/{self.subject}/{self.size}"
            case _:
                return f"{self.kind}/{self.subject}"


def all_cases(*, quick: bool, only: Sequence[str] = ()) -> list[Case]:
    """Every case whose name contains one of `only`; the contenders of one measure are adjacent."""
    cases = [*_cases(SIZES[:1] if quick else SIZES, RESUMED_STEPS // 10 if quick else RESUMED_STEPS)]
    planned = PLANNED_STEPS[:2] if quick else PLANNED_STEPS
    cases += [Case(kind="plan", subject=plan, size=size) for plan in (*PLANS, *CONTENDED) for size in planned]
    cases += [Case(kind="ledger", subject=room, size=size) for room in LEDGERS for size in SPENDERS]
    cases += [Case(kind="sweep", subject=how, size=size // (10 if quick else 1)) for how, size in SWEEPS.items()]
    cases += _model_cases(CHUNKS[:2] if quick else CHUNKS)
    cases += _postgres_cases(SIZES[:1] if quick else SIZES)
    cases += [Case(kind="prefix", subject=order) for order in PROMPT_ORDERS]
    return [case for case in cases if not only or any(part in case.name for part in only)]


def _model_cases(chunks: Sequence[int]) -> Iterator[Case]:
    for shape in SHAPES:
        for store in STORES:
            for number in chunks:
                for name in MODEL_TURNS if store == "memory" else ("teamwright",):
                    yield Case(kind="model", subject=name, shape=shape, size=MODEL_REQUESTS, store=store, chunks=number)


def _postgres_cases(sizes: Sequence[int]) -> Iterator[Case]:
    kinds: tuple[Kind, ...] = ("turns", "cpu")
    for kind in kinds:
        for shape in SHAPES:
            for size in sizes:
                for name, contender in CONTENDERS.items():
                    if ("postgres", shape) in contender.takes:
                        yield Case(kind=kind, subject=name, shape=shape, size=size, store="postgres")


def _cases(sizes: Sequence[int], resumed: int) -> Iterator[Case]:
    for name in (FLOOR_TASK, FLOOR_NORMAL, FLOOR_FULL):
        yield Case(kind="floor", subject=name)
    for store in STORES:
        for shape in (*SHAPES, *GRAPHS):
            for size in sizes:
                for name, contender in CONTENDERS.items():
                    if (store, shape) in contender.takes:
                        yield Case(kind="turns", subject=name, shape=shape, size=size, store=store)
    yield Case(kind="database", subject="floor", store="sqlite")
    for name, contender in CONTENDERS.items():
        if ("sqlite", "chain") in contender.takes:
            yield Case(kind="database", subject=name, store="sqlite")
    yield Case(kind="resume", subject="teamwright", size=resumed, store="sqlite")
    for name, contender in CONTENDERS.items():
        if ("memory", "layered") in contender.takes:
            yield Case(kind="makespan", subject=name)
    for statement in IMPORTS:
        yield Case(kind="import", subject=statement)
