from pathlib import Path

import pytest

from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.testing.journal import JournalConformance
from tests.kit.postgres import schema_url


class TestConformance(JournalConformance):
    @pytest.fixture(autouse=True)
    def use_server(self, postgres_server: str) -> None:
        self.server = postgres_server

    def make(self, folder: Path) -> PostgresJournal:
        return PostgresJournal(schema_url(self.server, folder))
