"""The inboxes of runs in the database. The ids of one run grow in the order in which its items become visible."""

from __future__ import annotations

from teamwright.journal.decoder import decode_inbox_item
from teamwright.journal.encoder import inbox_item_to_text
from teamwright.journal.postgres.address import DatabaseAddress
from teamwright.journal.postgres.connection import Connection
from teamwright.journal.protocol import InboxItem
from teamwright.values.people.interventions import Intervention


async def send_item(
    connection: Connection, address: DatabaseAddress, run_id: str, intervention: Intervention, sender: str, sending: str
) -> None:
    """Add an intervention to a run's inbox, once for each `sending`, and notify other processes.

    The lock lets a second sender wait for its id: else its item could become visible before one with a lower id, which
    a driver would then never read.
    """
    text = inbox_item_to_text(intervention)
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (address.lock_key(f"inbox\0{run_id}"),))
        await connection.execute(
            "INSERT INTO inbox (run_id, data, sending) VALUES (%s, %s, %s) ON CONFLICT (sending) DO NOTHING",
            (run_id, text, sending),
        )
        await connection.execute("SELECT pg_notify(%s, %s)", (address.channel, sender))


async def restore_item(connection: Connection, item: InboxItem) -> None:
    """Add an item of another journal under its id; items that are sent later have higher ones."""
    text = inbox_item_to_text(item.intervention)
    async with connection.transaction():
        await connection.execute("SELECT setval('inbox_ids', greatest(nextval('inbox_ids'), %s))", (item.id,))
        await connection.execute(
            "INSERT INTO inbox (run_id, id, data) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
            (item.run_id, item.id, text),
        )


async def read_inbox(connection: Connection, run_id: str, after: int) -> list[InboxItem]:
    """Read the inbox items of a run with an id above `after`, in order."""
    cursor = await connection.execute(
        "SELECT id, data FROM inbox WHERE run_id = %s AND id > %s ORDER BY id", (run_id, after)
    )
    rows = await cursor.fetchall()
    return [InboxItem(number, run_id, decode_inbox_item(run_id, number, data)) for number, data in rows]
