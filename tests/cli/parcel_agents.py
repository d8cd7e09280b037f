"""Agents that log, measure, share and keep values, for tests of the commands that show them."""

from __future__ import annotations

from teamwright import Context, Turn
from teamwright.values.events.run import RunCheckpoint, RunLogged, RunMeasured
from teamwright.values.turns.turn import Reply


async def count(turn: Turn, ctx: Context) -> str:
    """Weigh some parcels."""
    for number in range(1, 9):
        await ctx.emit(RunLogged(text=f"weighed parcel {number}"))
    await ctx.emit(RunLogged(text="the scales stand\nat zero", level="debug"))
    await ctx.emit(RunLogged(text="parcel 3 is wet", level="warning"))
    await ctx.emit(RunMeasured(name="kilograms", value=8))
    await ctx.emit(RunMeasured(name="kilograms", value=4.5))
    await ctx.workspace.put("parcels", {"heaviest": "parcel 3"})
    await ctx.workspace.keep("parcel,kg\n1,2\n", name="parcels.csv", media_type="text/csv")
    await ctx.workspace.keep(b"\x00\xff", name="photo")
    await ctx.emit(RunCheckpoint(name="counted"))
    return "Twelve parcels."


async def tell(turn: Turn, ctx: Context) -> Reply:
    """Return the shared value."""
    held = ctx.workspace.get("parcels")
    await ctx.workspace.put("parcels", "told", version=held.version if held else 0)
    return Reply.of("teller", f"{held.value if held else None}")
