"""Whatever happens to a worker, its runs go on elsewhere: none is lost, and no recorded effect is repeated."""

from __future__ import annotations

from signal import SIGCONT, SIGKILL, SIGSTOP

import psycopg

from tests.kit.workers import Cluster, eventually


async def test_runs_of_workers_that_die_at_any_write_are_taken_over(cluster: Cluster) -> None:
    runs = [f"run-{number}" for number in range(8)]
    await cluster.submit(*runs)
    dying = [
        cluster.start("--at-once", "1", "--name", "same", die_at=write, when=when)
        for write, when in ((1, "before"), (1, "after"), (2, "after"), (3, "before"), (4, "after"), (6, "before"))
    ]
    await eventually(lambda: not any(worker.lives for worker in dying), "the workers die")
    first, second = cluster.start("--name", "same"), cluster.start("--name", "same")
    await cluster.completed(*runs)
    await cluster.check(*runs)
    assert first.lives
    assert second.lives
    assert any(worker.has_said("takes over") for worker in (first, second))


async def test_a_suspended_worker_is_fenced_out_when_it_wakes(cluster: Cluster) -> None:
    cluster.hold.touch()
    await cluster.submit("one")
    suspended = cluster.start("--name", "same")
    await eventually(lambda: len(cluster.effects) == 1, "the call begins")
    suspended.send(SIGSTOP)
    with psycopg.connect(cluster.journal.address.url, autocommit=True) as connection:  # as the server does in time
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity JOIN pg_locks USING (pid)"
            " WHERE locktype = 'advisory' AND objsubid = 1 AND ((classid::bigint << 32) | objid::bigint) = %s",
            (cluster.journal.address.lock_key("one"),),
        )
    other = cluster.start("--name", "same")
    await eventually(lambda: len(cluster.effects) == 2, "another worker takes over")
    suspended.send(SIGCONT)
    cluster.hold.unlink()
    await cluster.completed("one")
    await cluster.check("one")
    assert not suspended.has_said("finished one")
    await eventually(lambda: other.has_said("finished one"), "the other worker ends the run")
    other.send(SIGKILL)
    await cluster.submit("two")
    await cluster.completed("two")
    assert suspended.has_said("finished two"), "the worker that was suspended goes on with other runs"
