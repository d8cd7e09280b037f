"""Makes the schedule of a plan: its steps in an order, in batches without overlapping keys, with their tokens. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import chain

from pydantic import Field, JsonValue

from teamwright.collector_pauses import collection_paused
from teamwright.errors import InvalidName, PlanError
from teamwright.strategies.plan.schedule import (
    DEFAULT_LIMITS,
    Diagnostics,
    Fault,
    Schedule,
    ScheduleBatch,
    StepGraph,
    StepNode,
    allot,
    batch_envelopes,
    conflict_keys,
    diagnose,
    envelopes_tokens,
    graph_faults,
    locks_of,
    validate_schedule,
)
from teamwright.values.names import NAME, suggest_name
from teamwright.values.owned_paths import WILD, key_problem, wildcards_problem
from teamwright.values.specs.plan import Plan, Step
from teamwright.values.text.display import name_text
from teamwright.values.turns.messages import Envelope, EnvelopeLimits
from teamwright.values.value import Value

UNNAMED = "plan"
"""The run id in envelopes before a run exists."""


class PlannerSettings(Value):
    """The limits of a schedule."""

    max_parallel: int = Field(default=10, ge=1, description="how many steps are worked on at once")
    run_budget: int | None = Field(default=None, ge=0, description="tokens for the whole; without it nobody is cut")
    coordination_floor: int = Field(default=8, ge=0, description="tokens for coordination that every step should get")


DEFAULT_SETTINGS = PlannerSettings.model_construct()


@collection_paused()
def make_schedule(plan: Plan, settings: PlannerSettings = DEFAULT_SETTINGS) -> Schedule:
    """Return the schedule of a plan; raises `PlanError` with every mistake in the plan."""
    graph = StepGraph.from_nodes(nodes_of(plan.steps))
    if faults_found := _faults(plan.steps, graph):
        raise PlanError([fault.text for fault in faults_found])
    budgets = allot(plan.steps, settings.run_budget, settings.coordination_floor)
    tokens = {budget.task: budget.tokens for budget in budgets}
    steps = {step.id: step for step in plan.steps}
    order = graph.order
    found: list[ScheduleBatch] = []
    for indexes in batches(graph, conflict_keys([steps[id_].owns for id_ in order]), settings.max_parallel):
        tasks = tuple([order[index] for index in indexes])
        locks = locks_of([steps[task] for task in tasks])
        found.append(
            ScheduleBatch(index=len(found), tasks=tasks, locks=locks, tokens=sum([tokens[task] for task in tasks]))
        )
    return Schedule(
        order=tuple(order), batches=tuple(found), budgets=budgets, total_tokens=sum(batch.tokens for batch in found)
    )


def plan_faults(steps: Sequence[Step]) -> list[Fault]:
    """Return every mistake in the steps of a plan: names, needs, cycles and keys."""
    return _faults(steps, StepGraph.from_nodes(nodes_of(steps)))


def nodes_of(steps: Sequence[Step]) -> list[StepNode]:
    """The steps as nodes of a graph."""
    return [StepNode(step.id, step.needs) for step in steps]


def _faults(steps: Sequence[Step], graph: StepGraph) -> list[Fault]:
    found = [] if _is_sound(steps, graph) else graph_faults(nodes_of(steps))
    for index, step in enumerate(steps):
        if step.id and not NAME.fullmatch(step.id):
            found.append(Fault(str(InvalidName("step", step.id, suggest_name(step.id))), index))
        for key in step.owns:
            if problem := key_problem(key):
                found.append(Fault(f"the step {name_text(step.id)} owns a key {problem}", index))
    return found or _wildcard_faults(steps)


def _wildcard_faults(steps: Sequence[Step]) -> list[Fault]:
    """Reject wildcards so early in their keys that every pair of keys would have to be compared."""
    problem = wildcards_problem([key for step in steps for key in step.owns])
    if problem is None:
        return []
    first = next(index for index, step in enumerate(steps) if any(not WILD.isdisjoint(key) for key in step.owns))
    return [Fault(f"the steps {problem}", first)]


def _is_sound(steps: Sequence[Step], graph: StepGraph) -> bool:
    """Whether the graph has every step and every need and is acyclic, so that no mistakes need to be searched for."""
    edges = sum(map(len, graph.needs.values()))
    return len(graph.order) == len(steps) and edges == sum(len(step.needs) for step in steps) and "" not in graph.needs


@dataclass(frozen=True, slots=True)
class Prepared:
    """A schedule with its diagnostics, the envelopes for workers, and their approximate size in tokens."""

    settings: PlannerSettings
    schedule: Schedule
    diagnostics: Diagnostics
    envelopes: tuple[Envelope, ...]
    envelope_tokens: int

    def to_json(self) -> dict[str, JsonValue]:
        """Return it as JSON, without the settings, which the caller knows."""
        return {
            **self.schedule.to_json(),
            "diagnostics": self.diagnostics.to_json(),
            "envelopes": [envelope.model_dump(mode="json") for envelope in self.envelopes],
            "envelope_tokens": self.envelope_tokens,
        }


def prepare(
    plan: Plan,
    settings: PlannerSettings = DEFAULT_SETTINGS,
    *,
    run_id: str = UNNAMED,
    policy: EnvelopeLimits = DEFAULT_LIMITS,
) -> Prepared:
    """Schedule a plan and validate the schedule; compute its diagnostics and its envelopes."""
    schedule = make_schedule(plan, settings)
    if problems := validate_schedule(schedule, plan):
        raise PlanError(problems)
    envelopes = batch_envelopes(run_id, schedule, plan, policy)
    return Prepared(settings, schedule, diagnose(schedule, plan), envelopes, envelopes_tokens(envelopes))


NO_STEP = 1 << 62
"""The first step of an empty branch: sorts after every step."""

NO_KEYS: Set[int] = frozenset()

Keys = tuple[int, ...]

_Entry = tuple[int, int]
"""An entry for a branch in its parent's heap: its first step and its last key."""


def batches(graph: StepGraph, owns: Sequence[Collection[str]], width: int) -> Iterator[list[int]]:
    """Yield batches of at most `width` steps; a step is its index in `graph.order` and in `owns`."""
    index = {id_: number for number, id_ in enumerate(graph.order)}
    unmet_needs = [len(graph.needs[id_]) for id_ in graph.order]
    ready = _Ready(_contended(owns))
    for step, count in enumerate(unmet_needs):
        if not count:
            ready.add(step)
    while batch := ready.next_batch(width):
        yield batch
        for step in batch:
            for id_ in graph.dependents[graph.order[step]]:
                dependent = index[id_]
                unmet_needs[dependent] = remaining = unmet_needs[dependent] - 1
                if not remaining:
                    ready.add(dependent)


def _contended(owns: Sequence[Collection[str]]) -> list[Keys]:
    """Return the keys of each step that other steps own too, as sorted numbers: the most contended key has number 0."""
    owners = Counter(chain.from_iterable(owns))
    shared = sorted((key for key, count in owners.items() if count > 1), key=owners.__getitem__, reverse=True)
    numbers = {key: number for number, key in enumerate(shared)}
    found: list[Keys] = []
    for keys in owns:
        own = [numbers[key] for key in keys if key in numbers]
        found.append(tuple(own) if len(own) < 2 else tuple(sorted(set(own))))
    return found


class _Branch:
    """A node of the prefix tree, for blocked steps that own all keys of its path. `own` is a heap of its steps.

    `first` is the first step in the subtree, and `listed` the one in the parent's current entry for it. `inner` is a
    heap of entries for the child branches; an entry whose step differs from the child's `listed` is stale.
    """

    __slots__ = ("below", "first", "inner", "keys", "listed", "own")

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self.own: list[int] = []
        self.below: dict[int, _Branch] = {}
        self.inner: list[_Entry] = []
        self.first = self.listed = NO_STEP

    def list_child(self, branch: _Branch) -> None:
        """Add an entry for a child branch by its first step."""
        branch.listed = branch.first
        if branch.first != NO_STEP:
            heappush(self.inner, (branch.first, branch.keys[-1]))

    def first_unblocked(self, taken: Set[int], passed: list[tuple[_Branch, _Entry]]) -> int:
        """Return the first step here that may be unblocked; move entries of branches below taken keys to `passed`."""
        inner, below = self.inner, self.below
        while inner:
            entry = inner[0]
            if below[entry[1]].listed != entry[0]:
                heappop(inner)
            elif entry[1] in taken:
                passed.append((self, heappop(inner)))
            else:
                break
        return self.lower_bound()

    def lower_bound(self) -> int:
        """A lower bound on the steps here."""
        if not self.inner:
            return self.own[0] if self.own else NO_STEP
        first = self.inner[0][0]
        return self.own[0] if self.own and self.own[0] < first else first


class _Ready:
    """The steps whose needs are met; those that were never blocked are at the root of the tree.

    Ready steps are considered in topological order. A step that needs a key which its batch has taken keeps its place,
    and later steps may overtake it. So that no batch scans all blocked steps again, these are stored in a prefix tree
    of their contended keys, the most contended first, no deeper than the key that blocked them. A branch below a taken
    key is skipped as a whole, and of every other branch only the first step is checked, until it is taken or moves
    deeper. A step moves at most once for each key it owns.

    While a batch is built, the fringe is a heap of branches that may have the next step, each with a lower bound on its
    steps. Branches that were opened or skipped for the batch are listed again when it is full.
    """

    def __init__(self, keys: Sequence[Keys]) -> None:
        self._keys = keys
        self._root = _Branch(())
        self._fringe: list[tuple[int, Keys, _Branch]] = []
        self._opened: list[tuple[_Branch, _Branch]] = []
        self._passed: list[tuple[_Branch, _Entry]] = []
        self._blocked: list[tuple[int, int]] = []

    def add(self, step: int) -> None:
        """Add a step whose needs are met."""
        heappush(self._root.own, step)

    def next_batch(self, width: int) -> list[int]:
        """Remove and return the next batch; empty if no step is ready."""
        batch: list[int] = []
        taken: set[int] = set()
        fringe = self._fringe
        self._take_from(self._root, batch, taken, width)
        while fringe and len(batch) < width:
            _, keys, branch = heappop(fringe)
            if taken.isdisjoint(keys):
                self._take_from(branch, batch, taken, width)
        fringe.clear()
        if self._opened or self._passed:
            self._relist()
        for step, depth in self._blocked:
            self._store_blocked(step, depth)
        self._blocked.clear()
        return batch

    def _take_from(self, branch: _Branch, batch: list[int], taken: set[int], width: int) -> None:
        """Take steps from a branch, in order, as long as no other branch has an earlier one."""
        fringe = self._fringe
        while len(batch) < width and (first := branch.first_unblocked(taken, self._passed)) != NO_STEP:
            if fringe and fringe[0][0] < first:
                heappush(fringe, (first, branch.keys, branch))
                return
            if branch.own and branch.own[0] == first:
                if self._take_or_block(heappop(branch.own), batch, taken) and branch.keys:
                    return
                continue
            inner = branch.below[heappop(branch.inner)[1]]
            inner.listed = NO_STEP
            self._opened.append((branch, inner))
            if branch.inner or branch.own:
                heappush(fringe, (branch.lower_bound(), branch.keys, branch))
            branch = inner

    def _take_or_block(self, step: int, batch: list[int], taken: set[int]) -> bool:
        """Add a step to the batch and return true, or block it at the first of its keys that is taken."""
        keys = self._keys[step]
        if taken.isdisjoint(keys):
            batch.append(step)
            taken.update(keys)
            return True
        self._blocked.append((step, next(depth for depth, key in enumerate(keys, start=1) if key in taken)))
        return False

    def _relist(self) -> None:
        """List skipped and opened branches again, innermost first, by their current first steps."""
        for above, entry in self._passed:
            heappush(above.inner, entry)
        self._passed.clear()
        for above, branch in reversed(self._opened):
            branch.first = branch.first_unblocked(NO_KEYS, self._passed)
            above.list_child(branch)
        self._opened.clear()

    def _store_blocked(self, step: int, depth: int) -> None:
        """Store a blocked step in the tree under the first `depth` of its keys."""
        path = [self._root]
        for key in self._keys[step][:depth]:
            above = path[-1]
            if (branch := above.below.get(key)) is None:
                branch = above.below[key] = _Branch((*above.keys, key))
            path.append(branch)
        heappush(path[-1].own, step)
        for place in range(depth, 0, -1):
            branch = path[place]
            if step >= branch.first:
                return
            branch.first = step
            path[place - 1].list_child(branch)
