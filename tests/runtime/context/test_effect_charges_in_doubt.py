"""Calls that must not be made twice: `once`, `check` and `idempotent`, under crashes, forks and parallel calls."""

from __future__ import annotations

import asyncio
import json

import pytest

from teamwright import Context, Engine, FunctionAgent, Team, Turn
from teamwright.agents.tools.protocol import ToolContext, ToolSource
from teamwright.agents.tools.python import tool
from teamwright.agents.tools.toolbox import Toolbox
from teamwright.errors import AgentError, NotDone
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Journal
from teamwright.runtime.context.effect_charges import ALREADY_DONE
from teamwright.values.events.agent import AgentCalled, AgentReturned
from tests.kit.records import cut


class Bank:
    """The outside world: payments by order, and what its tools do."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.failures: list[Exception] = []
        self.checks = 0
        self.started = asyncio.Event()
        self.release = asyncio.Event()
        self.release.set()

    async def pay(self, order_id: str, amount: int, remark: str = "") -> str:
        """Pay an order."""
        self.started.set()
        await self.release.wait()
        if self.failures:
            raise self.failures.pop(0)
        self.paid.append(order_id)
        return f"paid {order_id}"

    def find(self, order_id: str, ctx: ToolContext) -> str | None:
        """Find a payment."""
        self.checks += 1
        return f"paid {order_id}" if order_id in self.paid else None

    def tool(self, *, check: bool = False, idempotent: bool | None = None) -> ToolSource:
        find = self.find if check else None
        return tool(self.pay, once=["order_id", "amount"], check=find, idempotent=idempotent)


def payer(pay: ToolSource, *orders: str, parallel: bool = False, name: str = "payer") -> FunctionAgent:
    """An agent that pays these orders, and replies with the results."""
    toolbox = Toolbox([pay], owner=name)

    async def work(turn: Turn, ctx: Context) -> str:
        async with toolbox.open(ctx) as tools:

            async def call(number: int, order: str) -> object:
                try:
                    arguments = {"order_id": order, "amount": 5, "remark": f"no. {number}"}
                    return await tools.call_recorded("pay", arguments, key=f"tool-{number}")
                except AgentError as error:
                    return str(error)

            if parallel:
                results = await asyncio.gather(*(call(n, order) for n, order in enumerate(orders)))
            else:
                results = [await call(n, order) for n, order in enumerate(orders)]
        return json.dumps(results)

    return FunctionAgent(name, work)


async def outcome(engine: Engine, agent: FunctionAgent | Team, run_id: str = "r") -> list[object]:
    return json.loads((await engine.run(agent, "Pay.", run_id=run_id)).output or "")


def done(order: str) -> dict[str, str]:
    return {"note": ALREADY_DONE, "result": f"paid {order}"}


@pytest.mark.parametrize("parallel", [False, True])
async def test_the_same_action_is_made_once_and_the_second_call_gets_the_recorded_result(parallel: bool) -> None:
    bank = Bank()
    async with Engine("memory") as engine:
        found = await outcome(engine, payer(bank.tool(), "a", "a", "b", "a", parallel=parallel))
    results = [json.dumps(one) for one in found]
    assert sorted(results) == sorted(map(json.dumps, ["paid a", done("a"), "paid b", done("a")]))
    assert sorted(bank.paid) == ["a", "b"]


async def test_two_members_do_not_make_the_same_action() -> None:
    bank = Bank()
    team = Team("team", members=[payer(bank.tool(), "a", name="one"), payer(bank.tool(), "a", name="two")])
    async with Engine("memory") as engine:
        assert await outcome(engine, team) == [done("a")]
    assert bank.paid == ["a"]


async def test_another_run_makes_the_action_again() -> None:
    bank = Bank()
    async with Engine("memory") as engine:
        for run_id in ("r", "s"):
            assert await outcome(engine, payer(bank.tool(), "a"), run_id) == ["paid a"]


async def test_a_fork_gets_the_result_of_the_run_that_it_was_made_of() -> None:
    bank = Bank()
    agent = payer(bank.tool(), "a", "b")
    async with Engine("memory") as engine:
        await outcome(engine, agent)
        for source, fork in (("r", "s"), ("s", "t")):
            result = await engine.fork(source, at=3, team=agent, task="Pay anew.", new_id=fork)
            assert json.loads(result.output or "") == [done("a"), done("b")], fork
    assert bank.paid == ["a", "b"]


@pytest.mark.parametrize("deleted", ["r", "s"])
async def test_a_fork_makes_no_action_that_a_deleted_run_may_have_made(deleted: str) -> None:
    bank = Bank()
    agent = payer(bank.tool(), "a")
    async with Engine("memory") as engine:
        await engine.run(FunctionAgent("payer", lambda turn: "later"), "Wait.", run_id="r")
        for run_id in ("s", "t"):
            await engine.fork("r", at=2, team=FunctionAgent("payer", lambda turn: "later"), new_id=run_id)
        await engine.fork("s", at=2, team=agent, task="Pay.", new_id="made")
        await engine.runs.delete(deleted, "made")
        result = await engine.fork("t", at=2, team=agent, task="Pay anew.", new_id="u")
    assert "may have taken effect" in (result.output or "")
    assert bank.paid == ["a"]


@pytest.mark.parametrize("paid", [["a"], []])
async def test_a_check_settles_the_actions_of_a_fork_whose_first_run_was_deleted(paid: list[str]) -> None:
    bank = Bank()
    agent = payer(bank.tool(check=True), "a", "a")
    async with Engine("memory") as engine:
        await outcome(engine, agent)
        await engine.fork("r", at=2, team=FunctionAgent("payer", lambda turn: "later"), new_id="s")
        await engine.runs.delete("r")
        bank.paid[:] = paid
        result = await engine.fork("s", at=2, team=agent, task="Pay anew.", new_id="t")
    assert json.loads(result.output or "") == ["paid a", done("a")]
    assert bank.paid == ["a"]


async def test_the_original_gets_the_result_of_its_fork() -> None:
    bank, journal = Bank(), MemoryJournal()
    agent = payer(bank.tool(), "a")
    async with Engine(journal) as engine:
        await outcome(engine, agent)
    earlier = await cut(journal, 3)
    for item in await earlier.inbox("r"):
        earlier._inbox.remove(item)
    bank.paid.clear()
    async with Engine(earlier) as engine:
        forked = await engine.fork("r", at=2, team=agent, task="Pay anew.", new_id="s")
        assert json.loads(forked.output or "") == ["paid a"]
        resumed = await engine.resume("r", team=agent)
    assert json.loads(resumed.output or "") == [done("a")]
    assert bank.paid == ["a"]


async def test_a_fork_waits_while_its_original_makes_the_action() -> None:
    bank, journal = Bank(), MemoryJournal()
    bank.release.clear()
    agent = payer(bank.tool(), "a")
    async with Engine(journal) as engine:
        original = await engine.start(agent, "Pay.", run_id="r")
        await bank.started.wait()
        forked = await engine.start_fork("r", at=2, team=agent, task="Pay anew.", new_id="s")
        await asyncio.sleep(0.05)
        bank.release.set()
        assert json.loads((await original.result()).output or "") == ["paid a"]
        assert json.loads((await forked.result()).output or "") == [done("a")]
    assert bank.paid == ["a"]


async def in_doubt(bank: Bank, agent: FunctionAgent, *, acted: bool) -> Journal:
    """A journal that ends just after the intent of the first call, which took effect or did not."""
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await outcome(engine, agent)
    events = await journal.read("r")
    first = next(event.number for event in events if isinstance(event.fact, AgentReturned))
    if not acted:
        bank.paid.clear()
    return await cut(journal, first - 1)


@pytest.mark.parametrize("acted", [True, False])
async def test_a_check_settles_a_call_in_doubt(acted: bool) -> None:
    bank = Bank()
    agent = payer(bank.tool(check=True), "a")
    async with Engine(await in_doubt(bank, agent, acted=acted)) as engine:
        result = await engine.resume("r", team=agent)
    assert json.loads(result.output or "") == ["paid a"]
    assert (bank.paid, bank.checks) == (["a"], 1)


async def test_without_a_check_a_call_in_doubt_is_not_made_again_by_any_call() -> None:
    bank = Bank()
    agent = payer(bank.tool(), "a", "a")
    async with Engine(await in_doubt(bank, agent, acted=True)) as engine:
        result = await engine.resume("r", team=agent)
    refused = json.loads(result.output or "")
    assert all("'pay' failed or was interrupted. It may have taken effect" in one for one in refused)
    assert bank.paid == ["a"]


async def test_an_idempotent_call_in_doubt_is_made_again() -> None:
    bank = Bank()
    agent = payer(bank.tool(idempotent=True), "a")
    async with Engine(await in_doubt(bank, agent, acted=True)) as engine:
        result = await engine.resume("r", team=agent)
    assert json.loads(result.output or "") == ["paid a"]
    assert bank.paid == ["a", "a"]


@pytest.mark.parametrize(("idempotent", "times"), [(None, 2), (True, 2), (False, 1)])
async def test_a_tool_without_once_says_whether_a_call_in_doubt_is_made_again(
    idempotent: bool | None, times: int
) -> None:
    bank = Bank()
    agent = payer(tool(bank.pay, idempotent=idempotent), "a")
    async with Engine(await in_doubt(bank, agent, acted=True)) as engine:
        result = await engine.resume("r", team=agent)
    assert len(bank.paid) == times
    assert ("may have taken effect" in str(result.output)) == (times == 1)


async def test_a_failed_action_is_in_doubt_and_a_check_lets_it_be_made_later() -> None:
    for check, expected in ((False, "failed or was interrupted"), (True, "paid a")):
        bank = Bank()
        bank.failures = [OSError("no route")]
        async with Engine("memory") as engine:
            first, second = await outcome(engine, payer(bank.tool(check=check), "a", "a"))
        assert "no route" in str(first)
        assert expected in str(second)
        assert bank.paid == (["a"] if check else [])


async def test_a_tool_that_did_nothing_says_so_and_may_be_called_again() -> None:
    bank = Bank()
    bank.failures = [NotDone("The card was declined"), NotDone("Declined again")]
    async with Engine("memory") as engine:
        found = await outcome(engine, payer(bank.tool(), "a", "a", "a", "a"))
    assert found == ["The card was declined", "Declined again", "paid a", done("a")]
    assert bank.paid == ["a"]


async def test_arguments_are_compared_as_validated() -> None:
    bank = Bank()
    toolbox = Toolbox([bank.tool()])

    async def work(turn: Turn, ctx: Context) -> str:
        async with toolbox.open(ctx) as tools:
            await tools.call_recorded("pay", {"order_id": "a", "amount": 5}, key="tool-1")
            await tools.call_recorded("pay", {"amount": "5", "order_id": "a"}, key="tool-2")
        return "done"

    async with Engine("memory") as engine:
        await engine.run(FunctionAgent("payer", work), "Pay.")
    assert bank.paid == ["a"]


async def test_a_crash_anywhere_with_a_check_acts_exactly_once() -> None:
    bank, journal = Bank(), MemoryJournal()
    agent = payer(bank.tool(check=True), "a", "b", "a", parallel=True)
    async with Engine(journal) as engine:
        await outcome(engine, agent)
    events = await journal.read("r")
    all_called = max(event.number for event in events if isinstance(event.fact, AgentCalled))
    for at in range(all_called, len(events)):
        async with Engine(await cut(journal, at)) as engine:
            result = await engine.resume("r", team=agent)
        assert result.status == "completed"
        assert sorted(bank.paid) == ["a", "b"], at
