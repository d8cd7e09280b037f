"""The law of shares: whatever processes do, and whatever happens to them, together they stay within the pace.

It is checked for what they may do with what they have, so no call has to happen for a share that is too large to show.
And in the end each process that waits gets its turn, although the others never stop calling.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from teamwright.cluster.shared_limits import ClusterLimits, model_digest
from teamwright.runtime.budget.rate_limiter import RateLimiter
from teamwright.values.limits import Pace, PerMinute
from tests.cluster.simulated_processes import Cluster, Process
from tests.kit.postgres import schema_url

T = TypeVar("T")
LEASE = 4.0
PROCESSES = 3
ROUNDS = 60
WHICH = st.integers(0, PROCESSES - 1)
FEW = st.integers(1, 4)
paces = st.one_of(
    st.builds(Pace, max_parallel=FEW),
    st.builds(Pace, per_minute=st.builds(PerMinute, calls=FEW)),
    st.builds(Pace, per_minute=st.builds(PerMinute, tokens=st.integers(100, 300))),
    st.builds(Pace, max_parallel=FEW, per_minute=st.builds(PerMinute, calls=st.integers(2, 8))),
)


class Processes(RuleBasedStateMachine):
    """Processes with one model; one that died is replaced by a new one, and each has calls to make."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.cluster: Cluster | None = None

    def _do(self, work: Callable[[], Awaitable[T]]) -> T:
        async def main() -> T:
            return await work()

        return self.runner.run(main())

    @initialize(pace=paces)
    def open(self, pace: Pace) -> None:
        self.cluster = cluster = self._do(lambda: Cluster.open(self.url, pace))
        for _ in range(PROCESSES):
            cluster.start()

    def _process(self, which: int) -> Process:
        assert self.cluster is not None
        return self.cluster.processes[which]

    @rule(which=WHICH, count=FEW, size=st.sampled_from([40, 400]))
    def call(self, which: int, count: int, size: int) -> None:
        for _ in range(count):
            self._do(lambda: self._process(which).call(size))
        self.renew(which)

    @rule()
    def compete(self) -> None:
        """All want more than there is."""
        for which in range(PROCESSES):
            for _ in range(4):
                self._do(lambda which=which: self._process(which).call(40))
        self.renew_all()
        self.stays_within_the_pace()
        self.renew_all()

    @rule(which=WHICH, count=FEW)
    def end_calls(self, which: int, count: int) -> None:
        for _ in range(count):
            self._do(self._process(which).end_call)

    @rule(which=WHICH)
    def renew(self, which: int) -> None:
        self._do(self._process(which).renew)

    @rule()
    def renew_all(self) -> None:
        for which in range(PROCESSES):
            self.renew(which)

    @rule(which=WHICH)
    def lose_answer(self, which: int) -> None:
        self._process(which).network.lose_answer = True
        self.renew(which)

    @rule(which=WHICH)
    def hold_back(self, which: int) -> None:
        self._process(which).network.hold_back = True
        self.renew(which)

    @rule(which=WHICH)
    def deliver_late(self, which: int) -> None:
        self._do(self._process(which).network.deliver_late)

    @rule(which=WHICH)
    def die(self, which: int) -> None:
        self._do(self._process(which).die)
        assert self.cluster is not None
        self.cluster.start()

    @rule(seconds=st.sampled_from([0.1, 1.0, 2.0, 5.0, 30.0, 61.0]))
    def advance(self, seconds: float) -> None:
        cluster = self.cluster
        assert cluster is not None
        for process in cluster.processes:  # its calls end, since they could not be counted for longer
            if cluster.time + seconds > process.renewed + LEASE:
                while process.flying:
                    self._do(process.end_call)
        self._do(lambda: cluster.advance(seconds))

    @invariant()
    def stays_within_the_pace(self) -> None:
        cluster = self.cluster
        if cluster is None:
            return
        pace, (flying, requests, tokens) = cluster.pace, cluster.possible()
        assert pace.max_parallel is None or flying <= pace.max_parallel
        assert pace.per_minute.calls is None or requests <= pace.per_minute.calls
        assert pace.per_minute.tokens is None or tokens <= pace.per_minute.tokens

    def _go_round(self, pace: Pace) -> None:
        """Check that each process begins a call, while all of them always have calls that wait."""
        begun = [self._process(which).begun for which in range(PROCESSES)]
        for _ in range(ROUNDS):
            for which in range(PROCESSES):
                for work in (self._process(which).renew, self._process(which).end_call):
                    self._do(work)
                while sum(not one.done() for one in self._process(which).waiting) < 4:
                    self._do(lambda which=which: self._process(which).call(40))
            self.stays_within_the_pace()
            if all(self._process(which).begun > begun[which] for which in range(PROCESSES)):
                return
            self.advance(17.0 if pace.per_minute.calls or pace.per_minute.tokens else 1.1)
        raise AssertionError("a process never got its turn")

    def teardown(self) -> None:
        try:
            if self.cluster is not None:
                self._go_round(self.cluster.pace)
        finally:
            if self.cluster is not None:
                self._do(self.cluster.close)
            self.runner.close()


def test_together_processes_stay_within_the_pace(
    postgres_server: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    Processes.url = schema_url(postgres_server, Path(str(tmp_path_factory.getbasetemp()), "paces"))
    given = settings()
    run_state_machine_as_test(
        Processes,
        settings=settings(given, max_examples=max(1, given.max_examples // 2), stateful_step_count=20),
    )


def test_a_server_on_the_own_machine_is_another_one_elsewhere() -> None:
    for url in ("http://localhost:8000/v1", "http://127.0.0.1/v1", "http://[::1]:80/v1"):
        assert model_digest(f"m at {url}", "one") != model_digest(f"m at {url}", "two")
    for key in ("openai:gpt-5-mini", "m at https://models.example/v1", "m at https://localhost.example/v1"):
        assert model_digest(key, "one") == model_digest(key, "two")
    assert "secret" not in model_digest("m at https://user:secret@models.example/v1")


def test_the_embedded_model_is_not_shared() -> None:
    limits = ClusterLimits("postgresql://nowhere/none")
    assert limits.join("local", RateLimiter("local")) is None
    assert limits.join("openai:gpt-5-mini", RateLimiter("gpt")) is not None
