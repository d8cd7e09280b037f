"""The results of the benchmark, as written to `latest.json`."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from bench.cases import Case, Kind, Shape, Store


class Sample(BaseModel):
    """The values of one case, one per round, or why there are none."""

    model_config = ConfigDict(frozen=True)

    case: Case
    values: tuple[float, ...]
    error: str | None = None

    @property
    def best(self) -> float | None:
        """The lowest value, which has the least noise."""
        return min(self.values, default=None)


class Machine(BaseModel):
    """The machine and the versions."""

    model_config = ConfigDict(frozen=True)

    system: str
    processor: str
    cores: int
    python: str
    sqlite: str
    versions: dict[str, str]


class Report(BaseModel):
    """One run of the benchmark."""

    model_config = ConfigDict(frozen=True)

    schema_version: Literal[1] = 1
    measured_at: str
    machine: Machine
    rounds: int
    quick: bool
    load: float = 0.0
    """The load average of the machine when the benchmark began."""
    samples: tuple[Sample, ...]

    def best(
        self,
        kind: Kind,
        subject: str,
        *,
        shape: Shape = "chain",
        size: int | None = None,
        store: Store | None = None,
        chunks: int | None = None,
    ) -> float | None:
        """Return the best value of the matching case, or None if it was not measured."""
        for sample in self.samples:
            case = sample.case
            if (case.kind, case.subject, case.shape) != (kind, subject, shape):
                continue
            if size in (None, case.size) and store in (None, case.store) and chunks in (None, case.chunks):
                return sample.best
        return None

    def turn_cost(self, subject: str, store: Store, shape: Shape, size: int) -> float | None:
        """Microseconds per turn of a contender."""
        return self.best("turns", subject, shape=shape, size=size, store=store)

    def cpu_cost(self, subject: str, store: Store, shape: Shape, size: int) -> float | None:
        """Microseconds of CPU per turn, in the process of a contender."""
        return self.best("cpu", subject, shape=shape, size=size, store=store)

    @property
    def effort(self) -> str:
        """How often each case was measured, as text."""
        return "one round" if self.rounds == 1 else f"best of {self.rounds} rounds"

    @property
    def sizes(self) -> list[int]:
        """The numbers of turns that were measured, ascending."""
        return sorted({sample.case.size for sample in self.samples if sample.case.kind == "turns"})
