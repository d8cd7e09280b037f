"""A person approves a tool call before it is made, at any later time and in another process.

It prints:

    paused approval
    May 'cashier' call the tool 'refund' with these arguments?
    Ada gets 50 euros back.
"""

import anyio

from teamwright import Answer, Confirm, Engine, Rule, ScriptedAgent
from teamwright.agents import ToolRule


def refund(customer: str, euros: int) -> str:
    """Pay money back."""
    return f"{euros} euros are on their way to {customer}"


# With a provider:  ModelAgent("cashier", model="openai:gpt-5-mini", tools=[refund], confirm=Confirm(tools=("refund",)))
cashier = ScriptedAgent(
    "cashier",
    [
        Rule(tool=ToolRule(name="refund", args={"customer": "Ada", "euros": 500}), times=1),
        Rule(match="50 euros are on their way", reply="Ada gets 50 euros back."),
    ],
    tools=[refund],
    confirm=Confirm(tools=("refund",)),
)


async def main() -> None:
    async with Engine("journal.db") as engine:
        paused = await engine.run(cashier, "Ada's lamp arrived broken.", run_id="lamp")
        print(paused.status, paused.stop_reason)
    async with Engine("journal.db") as engine:  # the next day
        for key, question in (await engine.runs.history("lamp")).questions().items():
            print(question.text)
            await engine.runs.answer("lamp", key, Answer.edit({"customer": "Ada", "euros": 50}, by="Grace"))
        print((await engine.resume("lamp", team=cashier)).output)


if __name__ == "__main__":
    anyio.run(main)
