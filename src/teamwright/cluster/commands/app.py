"""`teamwright cluster`: the queues, workers and limits of many machines."""

from __future__ import annotations

import typer

from teamwright.cluster.commands import budget, queue, schedules, status

app = typer.Typer(
    help="Show and limit the queues and workers of many machines.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def cluster() -> None:
    """Show and limit the queues and workers of many machines."""


app.command("status")(status.status)
app.command("queue")(queue.queue)
app.command("budget")(budget.budget)
app.add_typer(schedules.app, name="schedules")
