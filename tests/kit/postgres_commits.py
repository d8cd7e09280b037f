"""Watches the commits of a process to a journal in Postgres, to end it at one of them."""

from collections.abc import Callable

import psycopg

from teamwright.journal.postgres.driver_connection import Finished, PreparedStatements, Statement


def watch_commits(before: Callable[[], None], after: Callable[[], None]) -> None:
    """Call these before and after each commit of events, in this process, for the rest of its life."""
    execute, start = PreparedStatements.execute, PreparedStatements.start

    async def watched_execute(self: PreparedStatements, statement: Statement) -> None:
        before()
        await execute(self, statement)
        after()

    def watched_start(self: PreparedStatements, statement: Statement, finished: Finished) -> None:
        def ended(error: psycopg.Error | None) -> None:
            if error is None:
                after()
            finished(error)

        before()
        start(self, statement, ended)

    PreparedStatements.execute, PreparedStatements.start = watched_execute, watched_start
