"""Fixtures of the tests of limits over many processes."""

from tests.kit.postgres import postgres_server

__all__ = ["postgres_server"]
