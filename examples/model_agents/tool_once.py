"""A payment that is made once: the model asks for it twice, and a fork of the run asks again."""

import asyncio

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright import Engine, ModelAgent
from teamwright.agents import tool

PAYMENTS: dict[str, str] = {}


def pay(order_id: str, amount: int, remark: str = "") -> str:
    """Pay an order."""
    assert order_id not in PAYMENTS, "paid twice"
    PAYMENTS[order_id] = f"{order_id}: {amount} EUR"
    return PAYMENTS[order_id]


def find_payment(order_id: str) -> str | None:
    """Ask the bank: the result of a call that a crash left in doubt, or None if it was not made."""
    return PAYMENTS.get(order_id)


def insist(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stand in for a model that pays twice."""
    results = [part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if len(results) < 2:
        arguments = {"order_id": "A-17", "amount": 25, "remark": f"try {len(results) + 1}"}
        return ModelResponse(parts=[ToolCallPart("pay", arguments)])
    return ModelResponse(parts=[TextPart("\n".join(str(one) for one in results))])


async def main() -> None:
    once = tool(pay, once=["order_id", "amount"], check=find_payment)
    payer = ModelAgent("payer", model=FunctionModel(insist), tools=[once])
    async with Engine("memory") as engine:
        print((await engine.run(payer, "Pay the order A-17.", run_id="first")).output)
        fork = await engine.fork("first", at=2, task="Pay the order A-17 at last.", team=payer)
        print(fork.output)
    print(len(PAYMENTS), "payment")


asyncio.run(main())
