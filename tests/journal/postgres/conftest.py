"""Fixtures of the tests of the journal in Postgres."""

from tests.kit.postgres import postgres_server

__all__ = ["postgres_server"]
