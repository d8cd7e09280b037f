"""The report as plain text: aligned tables, with the cost of each peer as a multiple of Teamwright's."""

from collections.abc import Sequence

from bench.cases import (
    CHUNKS,
    CONTENDED,
    FLOOR_FULL,
    FLOOR_NORMAL,
    FLOOR_TASK,
    GRAPHS,
    IMPORTS,
    LEDGERS,
    MODEL_REQUESTS,
    MODEL_TURNS,
    OUR_IMPORT,
    PLANNED_STEPS,
    PLANS,
    PROMPT_ORDERS,
    SHAPES,
    SPENDERS,
    STORES,
    Shape,
    Store,
)
from bench.contenders import CONTENDERS
from bench.samples import Report
from bench.targets import OURS, Target, quotient, targets
from bench.workload import UNEVEN_CRITICAL_PATH

Row = Sequence[str]
NOTHING = "–"
# As wide as a ratio, to align figures with and without one.
NO_RATIO = " " * 8
STORE_TITLES: dict[Store, str] = {"memory": "in memory", "sqlite": "SQLite, durable", "postgres": "Postgres, durable"}
SHAPE_TITLES: dict[Shape, str] = {
    "chain": "chain", "fan_out": "fan-out", "wide": "wide", "diamond": "diamonds", "layered": "layers",
}  # fmt: skip


def text(report: Report) -> str:
    """The whole report."""
    parts = [_heading(report), *(_turns(report, store, SHAPES) for store in STORES)]
    parts += [*(_turns(report, store, GRAPHS) for store in STORES), _makespan(report)]
    parts += [_turns(report, "postgres", SHAPES), _turns(report, "postgres", SHAPES, cpu=True)]
    parts += [
        *(_model_turns(report, shape) for shape in SHAPES),
        _prefixes(report),
        _database(report),
        _others(report),
        _planner(report),
        _ledger(report),
        _sweeps(report),
        _floor(report),
        _targets(targets(report)),
        _fewer(report),
        _errors(report),
    ]
    return "\n\n".join(part for part in parts if part)


def _heading(report: Report) -> str:
    machine = report.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    return (
        f"{machine.processor}, {machine.cores} cores, {machine.system}\n"
        f"Python {machine.python}, SQLite {machine.sqlite}, {versions}\n"
        f"{report.effort.capitalize()} at a load of {report.load:.1f}, lower is better; "
        "× says how many times Teamwright's figure it is."
    )


def _turns(report: Report, store: Store, shapes: Sequence[Shape], *, cpu: bool = False) -> str:
    cost_of = report.cpu_cost if cpu else report.turn_cost
    columns: list[tuple[Shape, int]] = [(shape, size) for shape in shapes for size in report.sizes]
    rows: list[Row] = [(STORE_TITLES[store], *(f"{SHAPE_TITLES[shape]} {size}{NO_RATIO}" for shape, size in columns))]
    for name, contender in CONTENDERS.items():
        costs = [cost_of(name, store, shape, size) for shape, size in columns]
        ours = [cost_of(OURS, store, shape, size) for shape, size in columns]
        if any(cost is not None for cost in costs):
            rows.append((contender.label, *(_with_ratio(*pair, "µs") for pair in zip(costs, ours, strict=True))))
    title = "µs of CPU per turn" if cpu else "µs per turn" if shapes == SHAPES else "µs per step of a graph"
    return f"{title}\n{_table(rows)}" if len(rows) > 1 else ""


def _model_turns(report: Report, shape: Shape) -> str:
    """The CPU time of requests to a model, by how their answers come."""
    rows: list[Row] = [("", *(f"{f'{number} chunks' if number else 'whole'}{NO_RATIO}" for number in CHUNKS))]
    ours = [report.best("model", OURS, shape=shape, store="memory", chunks=number) for number in CHUNKS]
    for name, label in MODEL_TURNS.items():
        for store in STORES if name == OURS else STORES[:1]:
            costs = [report.best("model", name, shape=shape, store=store, chunks=number) for number in CHUNKS]
            if any(cost is not None for cost in costs):
                title = f"{label}, {STORE_TITLES[store]}" if name == OURS else label
                rows.append((title, *(_with_ratio(*pair, "µs") for pair in zip(costs, ours, strict=True))))
    how = "one after the other" if shape == "chain" else f"{MODEL_REQUESTS} at once"
    return (
        f"µs of CPU per model request with tools and a prompt of 2 KB, {how}\n{_table(rows)}" if len(rows) > 1 else ""
    )


def _prefixes(report: Report) -> str:
    rows: list[Row] = [
        (order, f"{share:.0f} %") for order in PROMPT_ORDERS if (share := report.best("prefix", order)) is not None
    ]
    title = "tokens of a round robin of 20 turns that a provider's cache can hold, by the order of the prompt"
    return f"{title}\n{_table(rows)}" if rows else ""


def _makespan(report: Report) -> str:
    ours = report.best("makespan", OURS)
    rows: list[Row] = [("its longest path", f"{UNEVEN_CRITICAL_PATH * 1e3:,.0f} ms{NO_RATIO}")]
    for name, contender in CONTENDERS.items():
        seconds = report.best("makespan", name)
        if seconds is not None:
            rows.append((contender.label, _with_ratio(seconds * 1e3, None if ours is None else ours * 1e3, "ms")))
    title = "a graph of two lines of steps, where a slow step of one stands beside a quick one of the other"
    return f"{title}\n{_table(rows)}" if len(rows) > 1 else ""


def _database(report: Report) -> str:
    ours = report.best("database", OURS)
    rows: list[Row] = []
    for name, label in (("floor", "bare rows"), *((name, contender.label) for name, contender in CONTENDERS.items())):
        size = report.best("database", name)
        if size is not None:
            rows.append((label, _with_ratio(size / 1e6, None if ours is None else ours / 1e6, "MB", name != "floor")))
    return "database after 2200 turns of 500 characters\n" + _table(rows) if rows else ""


def _others(report: Report) -> str:
    # Compared with the import of the engine, because the bare package loads nothing until a name is used.
    ours = report.best("import", OUR_IMPORT)
    rows: list[Row] = [
        (statement, _with_ratio(seconds * 1e3, None if ours is None else ours * 1e3, "ms"))
        for statement in IMPORTS
        if (seconds := report.best("import", statement)) is not None
    ]
    rows += [
        (f"resuming {sample.case.size} recorded steps", f"{sample.best * 1e3:,.0f} ms{NO_RATIO}")
        for sample in report.samples
        if sample.case.kind == "resume" and sample.best is not None
    ]
    return "import time in a fresh interpreter, and resuming\n" + _table(rows) if rows else ""


def _planner(report: Report) -> str:
    rows: list[Row] = [("steps", *(f"{size:,}" for size in PLANNED_STEPS))]
    for plan in (*PLANS, *CONTENDED):
        times = [report.best("plan", plan, size=size) for size in PLANNED_STEPS]
        if any(seconds is not None for seconds in times):
            rows.append((plan, *(_planned(one, before) for one, before in zip(times, (None, *times), strict=False))))
    title = "planning: order, batches, budgets, check and figures, and how often that of a tenth of the steps"
    return f"{title}\n{_table(rows)}" if len(rows) > 1 else ""


def _planned(seconds: float | None, tenth: float | None) -> str:
    grown = quotient(seconds, tenth)
    return NOTHING if seconds is None else f"{seconds * 1e3:,.0f} ms{'' if grown is None else f' ({grown:.1f}×)'}"


def _ledger(report: Report) -> str:
    rows: list[Row] = [("spenders at once", *(f"{size:,}" for size in SPENDERS))]
    for room in LEDGERS:
        costs = [report.best("ledger", room, size=size) for size in SPENDERS]
        if any(cost is not None for cost in costs):
            rows.append((room, *(NOTHING if one is None else f"{one:,.1f} µs" for one in costs)))
    title = "a reservation at three levels: asked for, held and settled"
    return f"{title}\n{_table(rows)}" if len(rows) > 1 else ""


def _sweeps(report: Report) -> str:
    rows: list[Row] = [
        (f"{sample.case.size:,} cells, {sample.case.subject}", f"{sample.best:,.2f} s")
        for sample in report.samples
        if sample.case.kind == "sweep" and sample.best is not None
    ]
    return f"sweeps of the topology model\n{_table(rows)}" if rows else ""


def _floor(report: Report) -> str:
    rows: list[Row] = [
        (name, f"{cost:,.0f} µs")
        for name in (FLOOR_TASK, FLOOR_NORMAL, FLOOR_FULL)
        if (cost := report.best("floor", name)) is not None
    ]
    return "the floor: what this machine takes with nothing around it\n" + _table(rows) if rows else ""


def _targets(found: Sequence[Target]) -> str:
    verdicts = {True: "met", False: "MISSED", None: "not measured"}
    rows: list[Row] = []
    for target in found:
        seen = NOTHING if target.seen is None else f"{target.seen:,.{0 if target.seen >= 100 else 2}f}"
        sign = "≥" if target.at_least else "≤"
        rows.append((target.what, seen, f"{sign} {target.limit:g} {target.unit}", verdicts[target.met]))
    return "targets\n" + _table(rows)


def _fewer(report: Report) -> str:
    slow = [
        f"  {s.case.name}: {len(s.values)}" for s in report.samples if not s.error and len(s.values) < report.rounds
    ]
    return "\n".join(["too slow for every round; values taken", *slow]) if slow else ""


def _errors(report: Report) -> str:
    lines = [f"  {sample.case.name}: {sample.error}" for sample in report.samples if sample.error]
    return "\n".join(["failed", *lines]) if lines else ""


def _with_ratio(value: float | None, ours: float | None, unit: str, compare: bool = True) -> str:
    if value is None:
        return f"{NOTHING}{NO_RATIO}"
    figure = f"{value:,.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}"
    ratio = quotient(value, ours)
    if ratio is None or not compare or value == ours:
        return f"{figure}{NO_RATIO}"
    digits = 2 if ratio < 1 else 1 if ratio < 100 else 0
    return f"{figure} {f'{ratio:,.{digits}f}×':>7}"


def _table(rows: Sequence[Row]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows)
    return "\n".join(("  " + "  ".join(cells)).rstrip() for cells in lines)
