"""What answers: agents, the context they work in, their tools, and what bounds them.

Names load on first use, so that importing the package costs next to nothing.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.agents.function import FunctionAgent
    from teamwright.agents.model import ModelAgent
    from teamwright.agents.protocol import Agent, Attempt, Branch, Branches, Clock, Context, Effect, Returned, Workspace
    from teamwright.agents.registry import AgentRegistry
    from teamwright.agents.scripted import Rule, Script, ScriptedAgent, ToolRule
    from teamwright.values.approvals import Approve, Notify
    from teamwright.values.limits import Limits, MessageLimits, Pace, Price, Recovery, RetryPolicy
    from teamwright.values.messages import Message
    from teamwright.values.simulation import Simulation
    from teamwright.values.specs import FallbackModel, FilesTool, FunctionTool, McpTool, NamedModel, ServerModel
    from teamwright.values.turns import Failure, Reply, Turn
    from teamwright.values.usage import Usage
    from teamwright.values.workspace import Artifact

__all__ = [
    "Agent",
    "AgentRegistry",
    "Approve",
    "Artifact",
    "Attempt",
    "Branch",
    "Branches",
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
    "ToolRule",
    "Turn",
    "Usage",
    "Workspace",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.agents.function": "FunctionAgent",
        "teamwright.agents.model": "ModelAgent",
        "teamwright.agents.protocol": "Agent Attempt Branch Branches Clock Context Effect Returned Workspace",
        "teamwright.agents.registry": "AgentRegistry",
        "teamwright.agents.scripted": "Rule Script ScriptedAgent ToolRule",
        "teamwright.values.approvals": "Approve Notify",
        "teamwright.values.limits": "Limits MessageLimits Pace Price Recovery RetryPolicy",
        "teamwright.values.messages": "Message",
        "teamwright.values.simulation": "Simulation",
        "teamwright.values.specs": "FallbackModel FilesTool FunctionTool McpTool NamedModel ServerModel",
        "teamwright.values.turns": "Failure Reply Turn",
        "teamwright.values.usage": "Usage",
        "teamwright.values.workspace": "Artifact",
    },
)
