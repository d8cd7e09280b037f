"""The secrets of a team that was made in Python are known, wherever in the team they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers.openai import OpenAIProvider

from teamwright import Context, Engine, FunctionAgent, Reply, Team, Turn, load_team
from teamwright.agents import ServerModel
from teamwright.agents.agent import Agent, agent_spec_of
from teamwright.agents.model.agent import ModelAgent
from teamwright.errors import ManifestError, NotResumable, UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.people import Notify, Question
from teamwright.runtime.redaction import HIDDEN
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from teamwright.teams.team_loader import team_from_source
from teamwright.values.events.event import Event
from teamwright.values.events.run import PersonAsked, RunStarted
from teamwright.values.specs.manifest import Source
from teamwright.values.specs.tools import McpSpec, McpTool
from tests.kit.records import cut
from tests.kit.strategies import FunctionStrategy, outcome

HEADER, KEY = "Bearer header-0123456789", "key-0123456789"
SERVER = ServerModel(url="http://localhost:1/v1", name="m", api_key=KEY)


def model_agent(name: str, **settings: object) -> ModelAgent:
    return ModelAgent(name, **{"model": "openai:m", **settings})  # pyright: ignore[reportArgumentType]


def mcp(**fields: object) -> McpSpec:
    return McpSpec(mcp=McpTool(**fields))  # pyright: ignore[reportArgumentType]


AGENTS = {
    "a header of an agent's settings": model_agent(
        "a", settings={"extra_headers": {"Authorization": KEY, "X-Id": "7"}}
    ),
    "the key of a server": model_agent("a", model=SERVER),
    "the key of an economy model": model_agent("a", economy=SERVER),
    "a header of a model": model_agent(
        "a", model=ServerModel(url="http://localhost:1", name="m", settings={"extra_headers": {"X-Api-Key": KEY}})
    ),
    "a header of an MCP server": model_agent("a", tools=[mcp(url="http://localhost:1", headers={"X-Auth-Token": KEY})]),
    "a variable of an MCP server": model_agent(
        "a", tools=[mcp(command=("x",), env={"GITHUB_TOKEN": KEY, "PAGER": "c"})]
    ),
    "a fallback": model_agent("a", fallback=model_agent("b", model=SERVER)),
    "another model of the same agent": model_agent("a", fallback=model_agent("a", model=SERVER)),
    "the settings of another model of the same agent": model_agent(
        "a", fallback=model_agent("a", model="openai:n", settings={"extra_headers": {"Authorization": KEY}})
    ),
    "an agent among the tools": model_agent("a", tools=[model_agent("b", tools=[model_agent("c", model=SERVER)])]),
    "a member of a nested team": Team("inner", members=[model_agent("a", model=SERVER)]),
    "a team among the tools": model_agent("a", tools=[Team("inner", members=[model_agent("b", model=SERVER)])]),
    "a model of the caller's own": model_agent("a", model=OpenAIChatModel("m", provider=OpenAIProvider(api_key=KEY))),
    "a header of a model of the caller's own": model_agent(
        "a", model=TestModel(settings={"extra_headers": {"Authorization": KEY, "X-Id": "7"}})
    ),
    "a wrapped model": model_agent("a", model=WrapperModel(OpenAIChatModel("m", provider=OpenAIProvider(api_key=KEY)))),
    "one of several models": model_agent(
        "a", model=FallbackModel(TestModel(), OpenAIChatModel("m", provider=OpenAIProvider(api_key=KEY)))
    ),
}


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
def test_a_secret_is_known_wherever_it_is(agent: Agent) -> None:
    assert Team("t", members=[agent]).known_secrets() == {KEY}


def test_the_secret_of_a_webhook_is_known() -> None:
    team = Team("t", members=[model_agent("a")], notify=Notify(webhook="http://localhost:1/hook-0123456789"))
    assert team.known_secrets() == {"http://localhost:1/hook-0123456789"}


def test_a_team_from_a_manifest_keeps_its_secrets_within_a_team_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", KEY)
    (tmp_path / "team.yaml").write_text(
        "agents: {a: {model: {url: 'http://localhost/${SHOP_TOKEN}', name: m}}}\nteams: {t: {members: [a]}}"
    )
    loaded = load_team(tmp_path / "team.yaml")
    assert loaded.known_secrets() == {KEY}
    assert Team("outer", members=[loaded]).known_secrets() == {KEY}


async def test_a_cycle_of_fallbacks_is_still_named() -> None:
    agent, other = model_agent("a"), model_agent("a", model=SERVER)
    team = Team("t", members=[agent])
    agent.policy, other.policy = agent.policy.changed(fallback=other), other.policy.changed(fallback=agent)
    async with Engine() as engine:
        with pytest.raises(ManifestError, match="the fallback of 'a' leads back to it"):
            await engine.run(team, "go")


def test_more_secrets_than_can_be_searched_for_are_refused() -> None:
    headers = {f"X-Token-{number}": f"token-0123456789-{number}" for number in range(1001)}
    team = Team("t", members=[model_agent("a", tools=[mcp(url="http://localhost:1", headers=headers)])])
    with pytest.raises(UsageError, match="The team has 1001 secrets, and at most 1000 can be masked"):
        team.known_secrets()


def parrot_team() -> Team:
    """A team of which one member says the secrets of the others, after a person has agreed."""

    async def ask_the_parrot(task: Task, members: Members, ctx: Context) -> Outcome:
        reply = await ctx.ask(members.named("parrot"), Turn(task.text), key="parrot")
        return outcome(reply.text if isinstance(reply, Reply) else reply.message)

    async def parrot(turn: Turn, ctx: Context) -> str:
        answer = await ctx.ask_person(Question(text=f"May I say {KEY}?"), key="may")
        return f"{HEADER} and {KEY}: {answer.text}"

    return Team(
        "t",
        members=[
            FunctionAgent("parrot", parrot),
            model_agent("a", settings={"extra_headers": {"Authorization": HEADER}}),
            model_agent("b", tools=[model_agent("c", model=SERVER)]),
        ],
        strategy=FunctionStrategy(ask_the_parrot),
    )


async def test_no_secret_of_python_is_delivered_or_recorded_and_a_resume_needs_the_team(tmp_path: Path) -> None:
    async with Engine(tmp_path / "j.db") as engine:
        paused = await engine.run(parrot_team(), f"Use {KEY}", run_id="r")
        assert paused.status == "paused"
        await engine.runs.answer("r", "t/parrot/may", "go on")
        with pytest.raises(NotResumable, match=r"agents\.a\.settings\.extra_headers\.Authorization, .* pass the team"):
            await engine.resume("r")
        result = await engine.resume("r", team=parrot_team())
        assert result.output == f"{HIDDEN} and {HIDDEN}: go on"
        fork = await engine.fork("r", at=2, new_id="f", team=parrot_team(), task=f"Use {KEY} again")
        assert fork.status == "paused"
    stored = b"".join(one.read_bytes() for one in tmp_path.glob("j.db*"))
    assert b"0123456789" not in stored
    assert f"Use {HIDDEN} again".encode() in stored


async def test_an_answer_to_a_run_that_is_driven_here_is_masked_in_its_inbox(tmp_path: Path) -> None:
    async with Engine(tmp_path / "j.db") as engine:
        handle = await engine.start(parrot_team(), "go", run_id="r")
        handle.set_interactive(True)
        async for event in engine.runs.follow("r"):
            if isinstance(event, Event) and isinstance(event.fact, PersonAsked):
                await engine.runs.answer("r", "t/parrot/may", f"say {KEY}")
        assert (await handle.result()).output == f"{HIDDEN} and {HIDDEN}: say {HIDDEN}"
    assert b"0123456789" not in b"".join(one.read_bytes() for one in tmp_path.glob("j.db*"))


async def test_a_resume_from_the_record_reads_no_variable_that_python_did_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GREETING", "taken from the environment")
    (tmp_path / "replies.yaml").write_text("- {reply: one}\n")
    texts = {"instructions": "Say ${GREETING}, $${GREETING} or ${UNSET_HERE}.", "description": "of ${UNSET_HERE}"}
    agent = model_agent("a", model=f"scripted:{tmp_path / 'replies.yaml'}", **texts)
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(Team("t", members=[agent], description="of ${UNSET_HERE}"), "go", run_id="r")
        again = await engine.fork("r", at=1, new_id="f")
    async with Engine(await cut(journal, 1, "f")) as engine:
        assert (await engine.resume("f")).output == again.output == "one"
    started = (await journal.read("f"))[0].fact
    assert isinstance(started, RunStarted)
    source = Source.model_validate_json((await journal.bodies([started.manifest]))[started.manifest])
    rebuilt = team_from_source(source, recorded=True)
    assert agent_spec_of(rebuilt.members[0]).model_dump(include=set(texts)) == texts
