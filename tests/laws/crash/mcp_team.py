"""A team of the crash matrix whose model calls a tool of an MCP server, twice in turn."""

from __future__ import annotations

import sys

from teamwright.agents.model.agent import ModelAgent
from teamwright.teams.team import Team
from teamwright.testing.model_server import CallTools, ChatAnswer, ChatRequest, Say, ToolCall
from teamwright.values.specs.models import ServerModel
from teamwright.values.specs.tools import McpSpec, McpTool
from tests.laws.crash.http_members import http_member
from tests.paths import ROOT

WEIGHS = "weighs"
"""The model that calls the server."""
SERVER = ("-S", "-m", "tests.laws.crash.tool_server")


def mcp_team(url: str) -> Team:
    """A model agent with an MCP server, between two plain members."""
    model = ServerModel(url=f"{url.removesuffix('/call')}/v1", name=WEIGHS)
    scales = McpSpec(mcp=McpTool(command=(sys.executable, *SERVER, url), env={"PYTHONPATH": str(ROOT)}))
    agent = ModelAgent("modeller", model=model, tools=[("scales", scales)])
    return Team("with-tools", members=[http_member(url, "a"), agent, http_member(url, "z")])


def weigh_and_say(request: ChatRequest) -> ChatAnswer:
    """Call the tool, once more, and then answer."""
    made = sum(bool(one.tool_calls) for one in request.messages)
    if made < 2:
        return CallTools(calls=(ToolCall(name="weigh", args={"word": f"word-{made}"}),))
    return Say(text=f"the model weighed {request.digest}")
