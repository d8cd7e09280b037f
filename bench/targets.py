"""The performance targets, and whether this session met them. Ratios are more stable than microseconds."""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.cases import CHUNKS, MODEL_IMPORT, OUR_IMPORT, PLANS, STORES, Shape, Store
from bench.contenders import CONTENDERS
from bench.samples import Report

OURS = "teamwright"
PEERS = [name for name in CONTENDERS if name != OURS]
LANGGRAPH, LANGGRAPH_DELTA = ["langgraph"], ["langgraph-delta"]


@dataclass(frozen=True, slots=True)
class Target:
    """One figure with its bound: at most `limit`, or at least if `at_least` is set."""

    what: str
    seen: float | None
    limit: float
    unit: str
    at_least: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the bound holds; None if nothing was measured."""
        if self.seen is None:
            return None
        return self.seen >= self.limit if self.at_least else self.seen <= self.limit


FRAMEWORKS = ("pydantic-ai", "langgraph", "openai-agents")
TURN_MICROSECONDS, CHUNK_MICROSECONDS = 1500, 30


def targets(report: Report) -> list[Target]:
    """Return every target with its measured figure."""
    return [*_absolute(report), *_ratios(report), *_postgres(report), *_model_turns(report)]


def _postgres(report: Report) -> Iterator[Target]:
    """A durable turn on Postgres beside other engines, and beside a bare commit on the same server."""
    for label, peers in (("DBOS", ["dbos"]), ("LangGraph", LANGGRAPH), ("LangGraph's delta channel", LANGGRAPH_DELTA)):
        what = f"Postgres chain, ahead of {label}"
        yield Target(what, ahead(report, peers, "postgres", "chain"), 3, "×", at_least=True)
    for size in report.sizes:
        costs = [report.turn_cost(name, "postgres", "chain", size) for name in (OURS, "bare")]
        yield Target(f"Postgres chain of {size}, over a bare INSERT and commit", quotient(*costs), 2, "×")


def _model_turns(report: Report) -> Iterator[Target]:
    """A turn is cheaper than in every framework, and costs little more than the request that it makes."""
    for chunks in CHUNKS:
        how = f"model turn in {chunks} chunks" if chunks else "whole model turn"

        def cost(subject: str, store: Store = "memory", chunks: int = chunks) -> float | None:
            return report.best("model", subject, store=store, chunks=chunks)

        if chunks <= 10:
            fastest = min((one for name in FRAMEWORKS if (one := cost(name)) is not None), default=None)
            for store in STORES:
                what = f"{how} ({store}), over that of the fastest framework"
                yield Target(what, quotient(cost(OURS, store), fastest), 1, "×")
        request, durable = cost("model"), cost(OURS, "sqlite")
        above = None if request is None or durable is None else durable - request
        limit = TURN_MICROSECONDS + CHUNK_MICROSECONDS * chunks
        yield Target(f"durable {how}, above the request alone", above, limit, "µs of CPU")
    yield Target("import of what a first model call needs", report.best("import", MODEL_IMPORT), 1, "s")


def _absolute(report: Report) -> Iterator[Target]:
    for size in report.sizes:
        yield Target(f"chain of {size} in memory", report.turn_cost(OURS, "memory", "chain", size), 70, "µs per turn")
    for size in report.sizes:
        yield Target(f"chain of {size} on SQLite", report.turn_cost(OURS, "sqlite", "chain", size), 350, "µs per turn")
    yield Target("fan-out of 1000 on SQLite", report.turn_cost(OURS, "sqlite", "fan_out", 1000), 120, "µs per member")
    database = report.best("database", OURS)
    yield Target("database after 2200 turns", None if database is None else database / 1e6, 4, "MB")
    yield Target("resume of 10 000 steps", report.best("resume", OURS, size=10_000), 0.5, "s")
    for plan in PLANS:
        yield Target(f"plan of 10 000 steps, {plan}", report.best("plan", plan, size=10_000), 0.5, "s")
    waiting = [report.best("ledger", "room for ten", size=size) for size in (1000, 10)]
    yield Target("reservation among 1000 waiters, over one among 10", quotient(*waiting), 3, "×")
    yield Target("sweep of 28 800 cells", report.best("sweep", "computed", size=28_800), 2, "s")
    imported = quotient(report.best("import", OUR_IMPORT), report.best("import", "from pydantic import BaseModel"))
    yield Target("import of Engine and Team, over that of pydantic's BaseModel", imported, 2, "×")


def _ratios(report: Report) -> Iterator[Target]:
    bounds: list[tuple[str, list[str], Store, float]] = [
        ("memory chain, ahead of the fastest peer", PEERS, "memory", 5),
        ("memory chain, ahead of LangGraph", LANGGRAPH, "memory", 8),
        ("SQLite chain, ahead of LangGraph", LANGGRAPH, "sqlite", 7),
        ("SQLite chain, ahead of LangGraph's delta channel", LANGGRAPH_DELTA, "sqlite", 7),
    ]
    for what, peers, store, limit in bounds:
        yield Target(what, ahead(report, peers, store, "chain"), limit, "×", at_least=True)


def ahead(report: Report, peers: list[str], store: Store, shape: Shape) -> float | None:
    """Return the cost of the fastest of these peers as a multiple of Teamwright's, at the size where it is lowest."""
    ratios: list[float] = []
    for size in report.sizes:
        costs = [cost for peer in peers if (cost := report.turn_cost(peer, store, shape, size)) is not None]
        ratio = quotient(min(costs, default=None), report.turn_cost(OURS, store, shape, size))
        if ratio is not None:
            ratios.append(ratio)
    return min(ratios, default=None)


def quotient(over: float | None, under: float | None) -> float | None:
    """Divide one figure by another; None if one was not measured."""
    return None if over is None or not under else over / under
