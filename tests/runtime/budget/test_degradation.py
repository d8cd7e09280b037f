"""The degradation ladder: when a step is taken and undone, that a resume follows the record, and what each changes."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence

import pytest
from msgspec.structs import replace
from pydantic import JsonValue

from teamwright import Context, Engine, FunctionAgent, Limits, ModelAgent, Reply, RunResult, Team, Turn
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.errors import AgentTimeout, NonDeterminism
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.budget.degradation import CUT, GO_ON, compact_history
from teamwright.testing.model_server import ChatAnswer, ChatRequest, ModelServer, Say
from teamwright.values.events.agent import AgentReturned
from teamwright.values.events.budget import BudgetDegraded
from teamwright.values.events.event import Event
from teamwright.values.limits import Cutback, Degradation
from teamwright.values.people import Answer
from teamwright.values.retries import RetryPolicy
from teamwright.values.specs.models import ServerModel
from teamwright.values.turns.messages import History, Message
from teamwright.values.usage_and_prices import Price, Usage
from tests.kit.records import cut


def spender(name: str, tokens: int | Callable[[Turn], int], told: list[str] | None = None) -> FunctionAgent:
    """A member whose turn costs this much."""

    async def respond(turn: Turn) -> Reply:
        if told is not None:
            told.append(turn.prompt)
        cost = tokens if isinstance(tokens, int) else tokens(turn)
        return Reply.of(name, f"{name} is done", usage=Usage(requests=1, input_tokens=cost))

    return FunctionAgent(name, respond)


def chain(costs: Sequence[int], limit: int, policy: Degradation, told: list[str] | None = None) -> Team:
    """Members in sequence, each at its cost; only compaction changes anything here."""
    members = [spender(f"m{number}", cost, told) for number, cost in enumerate(costs, start=1)]
    return Team("chain", members=members, limits=Limits(tokens=limit), degradation=policy)


async def played(team: Team) -> tuple[RunResult, list[BudgetDegraded]]:
    async with Engine("memory") as engine:
        result = await engine.run(team, "go", run_id="r")
        return result, rungs(await engine.journal.read("r"))


def rungs(events: Sequence[Event]) -> list[BudgetDegraded]:
    return [event.fact for event in events if isinstance(event.fact, BudgetDegraded)]


async def test_a_rung_is_taken_when_the_forecast_is_above_the_limit_and_says_why() -> None:  # Z-11
    _, taken = await played(chain([100] * 8, 700, "auto"))
    assert [(one.rung, one.before, one.after, one.undone) for one in taken] == [("compaction", None, 6, False)]
    assert taken[0].reason == "about 800 of 700 tokens when all is done"


@pytest.mark.parametrize(("policy", "limit"), [("auto", 800), ("none", 500), ("aggressive", 900)])
async def test_no_rung_is_taken_while_the_budget_will_last(policy: Degradation, limit: int) -> None:  # Z-11
    assert (await played(chain([100] * 8, limit, policy)))[1] == []


async def test_aggressive_begins_before_the_limit_is_forecast_and_goes_further() -> None:  # Z-11
    _, taken = await played(chain([100] * 8, 850, "aggressive"))
    assert [(one.rung, one.after) for one in taken] == [("compaction", 3)]


async def test_a_rung_is_undone_when_the_pressure_falls() -> None:  # Z-11
    _, taken = await played(chain([400, 400, 200, *[10] * 9], 2000, "auto"))
    assert [(one.rung, one.before, one.after, one.undone) for one in taken] == [
        ("compaction", None, 6, False),
        ("compaction", 6, None, True),
    ]
    assert taken[-1].cutback == Cutback()


async def test_nothing_is_undone_for_the_ask_that_closes_the_team() -> None:  # Z-11
    _, taken = await played(chain([400, 400, *[10] * 6], 1500, "auto"))
    assert [(one.rung, one.undone) for one in taken] == [("compaction", False)]


async def test_estimates_of_a_plan_are_corrected_by_what_steps_have_cost() -> None:  # Z-11
    ids = [f"s{number}" for number in range(1, 5)]
    steps: list[JsonValue] = [{"id": one, "agent": "a", "execution_tokens": 50} for one in ids]
    for before, step in zip(ids, steps[1:], strict=False):
        assert isinstance(step, dict)
        step["needs"] = [before]

    def plan(cost: int) -> Team:
        options: dict[str, JsonValue] = {"steps": steps}
        limits = Limits(tokens=600)
        return Team(
            "p", members=[spender("a", cost)], strategy="dag", options=options, limits=limits, degradation="auto"
        )

    assert (await played(plan(150)))[1] == []
    assert [one.reason for one in (await played(plan(200)))[1]] == ["about 800 of 600 tokens when all is done"]


async def test_estimates_alone_are_enough_to_begin_with_less() -> None:  # Z-11
    steps: list[JsonValue] = [{"id": "one", "agent": "a", "execution_tokens": 900}]
    options: dict[str, JsonValue] = {"steps": steps}
    limits = Limits(tokens=600)
    team = Team("p", members=[spender("a", 1)], strategy="dag", options=options, limits=limits, degradation="auto")
    assert [one.reason for one in (await played(team))[1]] == ["about 900 of 600 tokens when all is done"]


async def test_without_a_limit_there_is_nothing_to_cut_back_for() -> None:
    members = [spender("a", 10_000), spender("b", 10_000)]
    assert (await played(Team("free", members=members, degradation="aggressive")))[1] == []


@pytest.mark.parametrize("change", [{"rung": "nonsense"}, {"undone": True}])
async def test_a_damaged_record_of_a_rung_is_reported_as_such(change: dict[str, object]) -> None:  # S-08
    journal = MemoryJournal()
    team = chain([100] * 8, 700, "auto")
    async with Engine(journal) as engine:
        await engine.run(team, "go", run_id="r")
    log = journal._logs["r"]
    taken = next(event for event in log if isinstance(event.fact, BudgetDegraded))
    assert isinstance(taken.fact, BudgetDegraded)
    log[taken.number - 1] = replace(taken, fact=taken.fact.changed(**change))
    async with Engine(await cut(journal, taken.number + 1)) as engine:
        with pytest.raises(NonDeterminism, match=r"the rung '\w+' was (taken|undone)"):
            await engine.resume("r", team=team)


async def rungs_of_a_resumed_run(
    respond: Callable[[Turn, Context], Awaitable[str]], tokens: int, *, cut_at: str
) -> tuple[list[str], list[str]]:
    """Run eight such members, and again from a record that ends at the first event of a kind; return both reasons."""
    members = [FunctionAgent(f"m{number}", respond) for number in range(8)]
    team = Team("chain", members=members, limits=Limits(tokens=tokens), degradation="auto")
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(team, "go", run_id="r")
    events = await journal.read("r")
    at = next(event.number for event in events if event.kind == cut_at)
    async with Engine(await cut(journal, at)) as engine:
        await engine.resume("r", team=team)
        again = await engine.journal.read("r")
    return [one.reason for one in rungs(events)], [one.reason for one in rungs(again)]


async def test_a_resumed_turn_weighs_a_call_of_partly_known_usage_by_its_full_charge() -> None:  # Z-11
    async def call(attempt: Attempt) -> Returned:
        return Returned("cut", Usage(requests=1, input_tokens=10), partial_usage="cut")

    async def respond(turn: Turn, ctx: Context) -> str:
        for number in (1, 2):
            effect = Effect("model", "m", f"e{number}", call, prompt_bytes=10, max_output=100)
            await ctx.effect(f"e{number}", effect)
        return "done"

    whole, resumed = await rungs_of_a_resumed_run(respond, 1500, cut_at=AgentReturned.kind)
    assert resumed == whole != []


@pytest.mark.parametrize("kind", ["agent.call_failed", "agent.called"])
async def test_a_resumed_turn_weighs_failed_and_lost_attempts_by_their_full_charge(kind: str) -> None:  # Z-11
    """The first attempt of each call fails at an unknown cost; a call that was lost is charged in full as well."""

    async def call(attempt: Attempt) -> Returned:
        if attempt.number == 1:
            raise AgentTimeout("no answer in time")
        return Returned("x", Usage(requests=1, input_tokens=10))

    async def respond(turn: Turn, ctx: Context) -> str:
        effect = Effect("model", "m", "e", call, prompt_bytes=10, max_output=100, retry=RetryPolicy(backoff=0))
        await ctx.effect("e", effect)
        return "done"

    whole, resumed = await rungs_of_a_resumed_run(respond, 900, cut_at=kind)
    assert resumed == whole != []


async def test_a_resumed_run_follows_the_record_and_weighs_nothing_again() -> None:  # Z-11
    whole, told = MemoryJournal(), list[str]()
    async with Engine(whole) as engine:
        expected = await engine.run(chain([100] * 9, 700, "auto", told), "go", run_id="r")
        events = await engine.journal.read("r")
    assert [(one.rung, one.after) for one in rungs(events)] == [("compaction", 6), ("compaction", 3), ("compaction", 1)]
    for number in range(2, len(events)):
        again = list[str]()
        async with Engine(await cut(whole, number)) as engine:
            result = await engine.resume("r", team=chain([100] * 9, 700, "auto", again))
            assert rungs(await engine.journal.read("r")) == rungs(events)
        assert result.messages == expected.messages
        assert again == told[len(told) - len(again) :]


@pytest.mark.parametrize(("answer", "taken"), [(CUT, ["compaction"]), (GO_ON, [])])
async def test_with_ask_a_person_decides_and_the_run_waits_for_it(answer: str, taken: list[str]) -> None:  # Z-11
    journal, made = MemoryJournal(), chain([100] * 8, 790, "ask")
    async with Engine(journal) as engine:
        result = await engine.run(made, "go", run_id="r")
        assert (result.status, result.stop_reason) == ("paused", "person")
        (key,) = (await engine.runs.history("r")).questions()
    async with Engine(journal) as engine:
        await engine.runs.answer("r", key, Answer(text=answer))
        result = await engine.resume("r", team=made)
        assert [one.rung for one in rungs(await engine.journal.read("r"))] == taken
        assert (result.status, result.stop_reason) == ("degraded", "done"), "the members spend more than the limit"


async def test_while_a_person_is_asked_no_other_member_asks() -> None:  # Z-11
    options: dict[str, JsonValue] = {"chunks": [str(number) for number in range(8)], "max_parallel": 3}
    members = [spender("m", 100)]
    limits = Limits(tokens=790)
    made = Team("w", members=members, strategy="fan_out", options=options, limits=limits, degradation="ask")
    async with Engine("memory") as engine:
        result = await engine.run(made, "go", run_id="r")
        events = await engine.journal.read("r")
    (question,) = (event.number for event in events if event.kind == "person.asked")
    begun = [event.number for event in events if event.kind == "agent.asked" and event.number > question]
    assert (result.stop_reason, len(begun) >= 2) == ("person", True)


@pytest.mark.parametrize("answer", [CUT, GO_ON])
async def test_a_run_that_is_resumed_after_a_person_decided_asks_nothing_again(answer: str) -> None:  # Z-11
    journal, made = MemoryJournal(), chain([100] * 8, 790, "ask")
    async with Engine(journal) as engine:
        await engine.run(made, "go", run_id="r")
        (key,) = (await engine.runs.history("r")).questions()
        await engine.runs.answer("r", key, Answer(text=answer))
        await engine.resume("r", team=made)
    events = await journal.read("r")
    answered = next(event.number for event in events if event.kind == "person.answered")
    for at in range(answered, len(events)):
        async with Engine(await cut(journal, at)) as engine:
            result = await engine.resume("r", team=made)
            again = await engine.journal.read("r")
        assert (result.stop_reason, rungs(again)) == ("done", rungs(events))
        assert [event.key for event in again if event.kind == "person.asked"] == [key]


# What each step changes at the model server.


PRICE = Price(input=1.25, output=10)


def _cost(request: ChatRequest) -> float:
    """What a request and its answer of 170 tokens cost, about."""
    prompt = sum(len(one.content) for one in request.messages) // 4
    return PRICE.cost(Usage(requests=1, input_tokens=prompt, output_tokens=170))


class Served:
    """A server, and teams of its models that answer at length."""

    def __init__(self, answer: Callable[[ChatRequest], ChatAnswer] | None = None) -> None:
        self.server = ModelServer(answer or (lambda request: Say(text=f"{request.model}: " + "long words " * 60)))

    def model(self, name: str, **more: object) -> ModelAgent:
        model = ServerModel(url=self.server.url, name="primary", price=PRICE)
        return ModelAgent(name, model=model, **{"max_tokens": 300, **more})  # pyright: ignore[reportArgumentType]

    async def requests(self, team: Team) -> tuple[list[ChatRequest], int, list[BudgetDegraded]]:
        self.server.clear()
        result, taken = await played(team)
        return self.server.requests, result.usage.total_tokens, taken


@pytest.fixture
def served() -> Served:
    return Served()


async def both(
    served: Served,
    make: Callable[[Degradation, Limits | None], Team],
    share: float = 0.9,
    policy: Degradation = "auto",
) -> tuple[list[ChatRequest], list[ChatRequest], list[BudgetDegraded]]:
    """The requests of a team without limits, and of the same team with a share of that cost as its limit."""
    with served.server:
        at_ease, spent, _ = await served.requests(make("none", None))
        less, _, taken = await served.requests(make(policy, Limits(tokens=int(spent * share))))
    return at_ease, less, taken


async def test_less_peer_talk_means_that_workers_are_not_asked_to_answer_each_other(served: Served) -> None:  # Z-11
    def mesh(policy: Degradation, limits: Limits | None) -> Team:
        members = [served.model(name) for name in ("lead", "one", "two")]
        steps: list[JsonValue] = [
            {"id": name, "agent": name, "task": f"Work on {name}.", "execution_tokens": 20_000}
            for name in ("one", "two")
        ]
        limits = limits and Limits(tokens=39_000)
        options: dict[str, JsonValue] = {"steps": steps}
        return Team("m", members=members, strategy="mesh_team", options=options, limits=limits, degradation=policy)

    at_ease, less, taken = await both(served, mesh)
    assert taken[0].rung == "peer_talk"
    assert len(less) == len(at_ease) - 2


def first_is_dear(served: Served) -> Callable[[Degradation, Limits | None], Team]:
    """Members with envelopes; the first reply is far longer than the others, so the forecast is high early."""

    def make(policy: Degradation, limits: Limits | None) -> Team:
        members = [served.model("m0", max_tokens=3_000), *(served.model(f"m{number}") for number in range(1, 16))]
        return Team("s", members=members, share="a2a_lite", limits=limits, degradation=policy)

    return make


def told(request: ChatRequest) -> str:
    """The whole text of a request."""
    return "\n".join(str(message.content) for message in request.messages)


def dear_at_first(request: ChatRequest) -> ChatAnswer:
    return Say(text="long words " * (60 if "summary:" in told(request) else 1_000))


async def test_tighter_summaries_make_forwarded_notes_shorter() -> None:  # Z-11
    served = Served(dear_at_first)
    at_ease, less, taken = await both(served, first_is_dear(served), share=1.2)
    assert (taken[0].rung, taken[0].before, taken[0].after) == ("summaries", 1.0, 0.82)
    assert len(told(less[2])) < len(told(at_ease[2]))


async def test_compaction_tells_earlier_messages_by_a_line_each() -> None:  # Z-11
    served = Served(dear_at_first)
    at_ease, less, taken = await both(served, first_is_dear(served), share=0.9, policy="aggressive")
    assert [one.rung for one in taken[:2]] == ["summaries", "compaction"]
    assert "Said before, in short" not in told(at_ease[5])
    assert "Said before, in short" in told(less[-1])


async def test_fewer_workers_are_at_the_model_at_once() -> None:  # Z-11
    at_once, most, lock = 0, list[int](), threading.Lock()
    gate = threading.Semaphore(0)

    def answer(request: ChatRequest) -> ChatAnswer:
        nonlocal at_once
        with lock:
            at_once += 1
            most.append(at_once)
        gate.acquire(timeout=0.1)
        with lock:
            at_once -= 1
        return Say(text="done " * 50)

    def fan_out(policy: Degradation, limits: Limits | None) -> Team:
        most.clear()
        options: dict[str, JsonValue] = {"chunks": [str(n) for n in range(24)], "max_parallel": 4}
        members = [served.model("m")]
        return Team("w", members=members, strategy="fan_out", options=options, limits=limits, degradation=policy)

    served = Served(answer)
    _, _, taken = await both(served, fan_out)
    assert (taken[0].rung, taken[0].before, taken[0].after) == ("workers", None, 3)
    assert max(most[:4]) == 4
    assert max(most[8:]) <= 3


async def test_members_of_lower_priority_answer_with_the_economy_model(served: Served) -> None:  # Z-11
    economy = ServerModel(url=served.server.url, name="economy", price=Price(input=0.25, output=2))

    def priced(policy: Degradation, limits: Limits | None) -> Team:
        members = [served.model(f"m{number}", economy=economy, priority=number % 2) for number in range(24)]
        return Team("e", members=members, share="output", limits=limits, degradation=policy)

    with served.server:
        at_ease, _, _ = await served.requests(priced("none", None))
        usd = 0.9 * sum(_cost(request) for request in at_ease)
        less, _, taken = await served.requests(priced("auto", Limits(usd=usd)))
        fewer, _, by_tokens = await served.requests(priced("auto", Limits(tokens=5000)))
    assert all(one.rung != "economy" for one in by_tokens), "a cheaper model needs no fewer tokens"
    assert {request.model for request in fewer} == {"primary"}
    assert taken[0].rung == "economy"
    assert {request.model for request in at_ease} == {"primary"}
    assert {request.model for request in less[1:18:2]} == {"primary"}
    assert {request.model for request in less[8:18:2]} == {"economy"}


def test_a_short_history_is_passed_unchanged() -> None:
    turn = Turn("go", History.of([Message(name="a", content="x" * 200)]))
    assert compact_history(turn, 1) is turn


def test_a_compacted_turn_keeps_the_latest_and_begins_with_the_rest_in_short() -> None:
    history = History.of([Message(name=name, content=f"{name} " * 100) for name in "abc"])
    first, last = compact_history(Turn("go", history), 1).history
    assert last is history[2]
    assert [len(line) <= 90 for line in first.content.splitlines()[1:]] == [True, True]
