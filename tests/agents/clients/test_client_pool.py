"""Each provider has an extra, and a model whose extra is missing names it."""

from __future__ import annotations

import tomllib

import pytest

from teamwright import Engine, ModelAgent, Team, Turn
from teamwright.agents import ServerModel
from teamwright.agents.clients import providers
from teamwright.agents.clients.providers import EXTRAS, missing_extra
from teamwright.install_command import install_command
from teamwright.testing.model_server import ModelServer
from tests.agents.recording import Recording
from tests.paths import ROOT


def test_each_provider_with_a_package_of_its_own_has_an_extra_of_its_name() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert EXTRAS.keys() - {"openai"} <= extras.keys()


@pytest.mark.parametrize(
    ("model", "extra"),
    [("bedrock:x", "bedrock"), ("google-cloud:x", "google"), ("azure:x", "azure"), ("openai:x", "models")],
)
def test_a_model_whose_package_is_missing_names_its_extra(
    model: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(providers, "_importable", lambda _: False)
    assert install_command(extra) in str(missing_extra(model))


def test_a_provider_that_is_not_listed_is_left_to_the_library() -> None:
    assert missing_extra("cohere:x") is None


async def test_agents_made_in_python_share_the_connections_of_their_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    with ModelServer() as server:
        accept = server._endpoint.get_request
        monkeypatch.setattr(server._endpoint, "get_request", lambda: (opened.append(1), accept())[1])
        model = ServerModel(url=server.url, name="m")
        members = [ModelAgent(name, model=model) for name in ("ada", "bob")]
        async with Engine("memory") as engine:
            for number in range(3):
                await engine.run(Team("t", members=members), f"Go {number}.")
        assert (server.count, len(opened)) == (6, 1)
        await members[0].respond(Turn("Hi"), Recording().ctx)
        await members[0].respond(Turn("Hi"), Recording().ctx)
        assert len(opened) == 3
