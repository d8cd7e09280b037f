from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import get_args

import anyio
import pytest
from hypothesis import given, strategies as st

from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Batch, Journal
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.testing.journal import body, commit_all
from teamwright.testing.trial import a_fact_of_each_kind
from teamwright.values.events.event import Event, Fact

JOURNALS: dict[str, Callable[[Path], Journal]] = {
    "memory": lambda _: MemoryJournal(),
    "sqlite": lambda folder: SqliteJournal(folder / "journal.db"),
}
example = count()
FACTS = a_fact_of_each_kind()

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
# For each batch its run, and the fact of each event with a text; which numbers follow is then settled.
facts = st.lists(st.tuples(st.sampled_from(FACTS), texts), min_size=1, max_size=4)
histories = st.lists(st.tuples(st.sampled_from("ab"), facts), max_size=8)


def test_the_sample_holds_every_kind_of_fact() -> None:
    kinds = [one.kind for one in get_args(Fact)]
    assert [fact.kind for fact in FACTS] == kinds


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("journal")


@pytest.mark.parametrize("name", JOURNALS)
@given(history=histories, after=st.integers(0, 20), limit=st.none() | st.integers(0, 5))
def test_whatever_was_appended_reads_back_the_same_from_any_number(
    folder: Path, name: str, history: list[tuple[str, list[tuple[Fact, str]]]], after: int, limit: int | None
) -> None:  # law 7
    prefix = f"{next(example)}-"
    written: dict[str, list[Event]] = {}
    batches: list[Batch] = []
    for letter, entries in history:
        batch = Batch([], {})
        run = written.setdefault(prefix + letter, [])
        for fact, text in entries:
            run.append(Event(prefix + letter, len(run) + 1, 0.1 * len(run), text, text[::-1], fact))
            batch = Batch([*batch.events, run[-1]], {**batch.bodies, **body(text)})
        batches.append(batch)

    async def check() -> None:
        journal = JOURNALS[name](folder)
        await journal.open()
        try:
            assert await commit_all(journal, batches) == [None] * len(batches)
            for run_id, events in written.items():
                assert await journal.read(run_id) == events
                assert await journal.read(run_id, after, limit) == events[after:][:limit]
            for batch in batches:
                assert await journal.bodies(batch.bodies) == batch.bodies
        finally:
            await journal.close()

    anyio.run(check)
