"""What a journal may be named by."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright.errors import UsageError
from teamwright.journal.location import resolve_journal


@pytest.mark.parametrize("address", ["mysql://user:secret@host/runs", "postgress://host/runs", "sqlite:///runs.db"])
@pytest.mark.parametrize("kind", [str, Path])
def test_the_address_of_something_else_is_not_taken_for_a_path(kind: type[str] | type[Path], address: str) -> None:
    with pytest.raises(UsageError, match="begins with postgresql://") as refused:
        resolve_journal(kind(address))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("path", ["runs.db", "a:b/runs.db", "C:/runs.db"])
def test_any_other_text_is_the_path_of_a_file(path: str) -> None:
    assert type(resolve_journal(path)).__name__ == "SqliteJournal"
