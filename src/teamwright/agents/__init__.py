"""Agents: models, functions and scripts, with their context, tools, policies and limits.

Names load on first use, so that importing the package costs next to nothing.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.agents.contract.agent import Agent
    from teamwright.agents.contract.context import AgentLike, Branch, Branches, Clock, Context, Workspace
    from teamwright.agents.contract.effect import Attempt, Effect, Returned
    from teamwright.agents.contract.policy import Policy
    from teamwright.agents.functions.agent import FunctionAgent
    from teamwright.agents.model.agent import ModelAgent
    from teamwright.agents.registry import AgentRegistry
    from teamwright.agents.scripted.agent import Rule, Script, ScriptedAgent, ToolRule
    from teamwright.agents.tools.kind import BuildOptions, ToolKind
    from teamwright.agents.tools.protocol import ToolContext, ToolDefinition, ToolSource
    from teamwright.values.limits.limits import Limits, MessageLimits, Pace
    from teamwright.values.limits.price import Price
    from teamwright.values.limits.retry import Recovery, RetryPolicy
    from teamwright.values.limits.usage import Usage
    from teamwright.values.people.approvals import Approve, Notify
    from teamwright.values.specs.manifest import (
        FallbackModel,
        FilesTool,
        FunctionTool,
        McpTool,
        NamedModel,
        ServerModel,
    )
    from teamwright.values.specs.simulation import Simulation
    from teamwright.values.turns.artifacts import Artifact
    from teamwright.values.turns.messages import Message
    from teamwright.values.turns.turn import Failure, Reply, Turn

__all__ = [
    "Agent",
    "AgentLike",
    "AgentRegistry",
    "Approve",
    "Artifact",
    "Attempt",
    "Branch",
    "Branches",
    "BuildOptions",
    "Clock",
    "Context",
    "Effect",
    "Failure",
    "FallbackModel",
    "FilesTool",
    "FunctionAgent",
    "FunctionTool",
    "Limits",
    "McpTool",
    "Message",
    "MessageLimits",
    "ModelAgent",
    "NamedModel",
    "Notify",
    "Pace",
    "Policy",
    "Price",
    "Recovery",
    "Reply",
    "RetryPolicy",
    "Returned",
    "Rule",
    "Script",
    "ScriptedAgent",
    "ServerModel",
    "Simulation",
    "ToolContext",
    "ToolDefinition",
    "ToolKind",
    "ToolRule",
    "ToolSource",
    "Turn",
    "Usage",
    "Workspace",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.agents.contract.context": "AgentLike Branch Branches Clock Context Workspace",
        "teamwright.agents.contract.effect": "Attempt Effect Returned",
        "teamwright.agents.functions.agent": "FunctionAgent",
        "teamwright.agents.model.agent": "ModelAgent",
        "teamwright.agents.contract.policy": "Policy",
        "teamwright.agents.contract.agent": "Agent",
        "teamwright.agents.registry": "AgentRegistry",
        "teamwright.agents.scripted.agent": "Rule Script ScriptedAgent ToolRule",
        "teamwright.agents.tools.kind": "BuildOptions ToolKind",
        "teamwright.agents.tools.protocol": "ToolContext ToolDefinition ToolSource",
        "teamwright.values.people.approvals": "Approve Notify",
        "teamwright.values.turns.artifacts": "Artifact",
        "teamwright.values.limits.limits": "Limits MessageLimits Pace",
        "teamwright.values.limits.price": "Price",
        "teamwright.values.limits.retry": "Recovery RetryPolicy",
        "teamwright.values.specs.manifest": "FallbackModel FilesTool FunctionTool McpTool NamedModel ServerModel",
        "teamwright.values.turns.messages": "Message",
        "teamwright.values.specs.simulation": "Simulation",
        "teamwright.values.turns.turn": "Failure Reply Turn",
        "teamwright.values.limits.usage": "Usage",
    },
)
