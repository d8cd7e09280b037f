"""Fixtures of the pages: those on many machines use the Postgres server of the tests."""

from tests.kit.postgres import postgres_server

__all__ = ["postgres_server"]
