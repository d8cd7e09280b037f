"""Members that let a text out through every door that a member has; the text is in the environment."""

from __future__ import annotations

import os

from teamwright import Context, Message, Reply, Turn
from teamwright.errors import AgentError
from teamwright.values.events.run import Custom, RunLogged
from teamwright.values.people import Question


def leaked() -> str:
    return os.environ["LEAKED"]


async def tell(turn: Turn, ctx: Context) -> Reply:
    text = leaked()
    assert os.environ.get("KNOWN") is None or text not in turn.prompt
    await ctx.emit(Custom(domain="d", name="n", data={"k": [text], text: 1}))
    await ctx.emit(RunLogged(text=f"log {text} end", level="warning"))
    await ctx.workspace.put("shared", {"v": f"value {text} end"})
    await ctx.workspace.keep(f"artifact {text} end", name="a")
    await ctx.workspace.keep(f"binary {text} end".encode(), name="b")
    answer = await ctx.ask_person(Question(text=f"use {text} now?", draft=f"draft {text} end"), key="q")
    return Reply(
        messages=(Message(name="a", content=f"said {text} end; {answer.text}"),),
        data={"d": text},
        warnings=(f"warning {text} end",),
        context_updates={"update": f"update {text} end"},
    )


async def fail(turn: Turn) -> str:
    raise AgentError(f"could not log in with {leaked()} at all")
