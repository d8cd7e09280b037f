"""Agents: models, functions and scripts, with their context, tools, policies and limits.

Names load on first use, so that importing the package costs next to nothing.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.agents.attachments import Attachment, FileResult
    from teamwright.agents.contract.agent import Agent
    from teamwright.agents.contract.context import AppliedChange, Branch, Branches, Clock, Context, Workspace
    from teamwright.agents.contract.effect import (
        Attempt,
        Effect,
        InDoubtPolicy,
        OfferedTool,
        ReplyPart,
        Returned,
        SentMessage,
        SentRequest,
    )
    from teamwright.agents.contract.policy import Policy, PolicySettings
    from teamwright.agents.evaluators import Evaluator, EvaluatorClass, verdict_reply
    from teamwright.agents.functions.agent import FunctionAgent
    from teamwright.agents.functions.guardrails import CheckFunction, Mend, Refuse, Verdict, Warn
    from teamwright.agents.functions.instructions import (
        AnyInstructions,
        InstructionsFunction,
        TextTemplate,
        TurnContext,
    )
    from teamwright.agents.model.agent import ModelAgent
    from teamwright.agents.registry import AgentRegistry
    from teamwright.agents.schemas import Schema
    from teamwright.agents.scripted import Rule, Script, ScriptedAgent, ToolRule
    from teamwright.agents.tools.agent_tool import as_tool
    from teamwright.agents.tools.context import ToolContext
    from teamwright.agents.tools.protocol import (
        Arguments,
        BuildOptions,
        CallPolicy,
        ToolDefinition,
        ToolKind,
        ToolSource,
    )
    from teamwright.agents.tools.python import tool
    from teamwright.agents.tools.registry import ToolLike
    from teamwright.budget.estimates import Rate
    from teamwright.documents.nodes import Entry, Fields, Items, Place, ProblemReport, Scalar
    from teamwright.values.call_limits import Compact, Recovery, RetryPolicy
    from teamwright.values.limits import Amounts, Bounds, Cutback, Limits, MessageLimits, Pace, Price, Usage
    from teamwright.values.owned_paths import Owned
    from teamwright.values.people import Approve, Notify
    from teamwright.values.specs.evaluation import Criterion, Evaluate, Length
    from teamwright.values.specs.expert import ExpertProfile
    from teamwright.values.specs.manifest import (
        AgentSpec,
        AgentTool,
        AnyModel,
        CustomTool,
        FallbackModel,
        FilesSpec,
        FilesTool,
        FunctionTool,
        InstructionsByFunction,
        InstructionsTemplate,
        JsonSchema,
        McpSpec,
        McpTool,
        MemorySpec,
        MemoryTool,
        NamedModel,
        ServerModel,
        TeamSpec,
        ToolSpec,
    )
    from teamwright.values.specs.model_settings import ModelSettings
    from teamwright.values.specs.simulation import (
        Behaviour,
        Data,
        Distribution,
        Lognormal,
        Normal,
        Percentiles,
        Simulation,
        Uniform,
    )
    from teamwright.values.turns.artifacts import Artifact, SharedValue
    from teamwright.values.turns.messages import Message
    from teamwright.values.turns.turn import EvaluatedWork, Failure, HandoffTarget, Reply, Turn

__all__ = [
    "Agent",
    "AgentRegistry",
    "AgentSpec",
    "AgentTool",
    "Amounts",
    "AnyInstructions",
    "AnyModel",
    "AppliedChange",
    "Approve",
    "Arguments",
    "Artifact",
    "Attachment",
    "Attempt",
    "Behaviour",
    "Bounds",
    "Branch",
    "Branches",
    "BuildOptions",
    "CallPolicy",
    "CheckFunction",
    "Clock",
    "Compact",
    "Context",
    "Criterion",
    "CustomTool",
    "Cutback",
    "Data",
    "Distribution",
    "Effect",
    "Entry",
    "Evaluate",
    "EvaluatedWork",
    "Evaluator",
    "EvaluatorClass",
    "ExpertProfile",
    "Failure",
    "FallbackModel",
    "Fields",
    "FileResult",
    "FilesSpec",
    "FilesTool",
    "FunctionAgent",
    "FunctionTool",
    "HandoffTarget",
    "InDoubtPolicy",
    "InstructionsByFunction",
    "InstructionsFunction",
    "InstructionsTemplate",
    "Items",
    "JsonSchema",
    "Length",
    "Limits",
    "Lognormal",
    "McpSpec",
    "McpTool",
    "MemorySpec",
    "MemoryTool",
    "Mend",
    "Message",
    "MessageLimits",
    "ModelAgent",
    "ModelSettings",
    "NamedModel",
    "Normal",
    "Notify",
    "OfferedTool",
    "Owned",
    "Pace",
    "Percentiles",
    "Place",
    "Policy",
    "PolicySettings",
    "Price",
    "ProblemReport",
    "Rate",
    "Recovery",
    "Refuse",
    "Reply",
    "ReplyPart",
    "RetryPolicy",
    "Returned",
    "Rule",
    "Scalar",
    "Schema",
    "Script",
    "ScriptedAgent",
    "SentMessage",
    "SentRequest",
    "ServerModel",
    "SharedValue",
    "Simulation",
    "TeamSpec",
    "TextTemplate",
    "ToolContext",
    "ToolDefinition",
    "ToolKind",
    "ToolLike",
    "ToolRule",
    "ToolSource",
    "ToolSpec",
    "Turn",
    "TurnContext",
    "Uniform",
    "Usage",
    "Verdict",
    "Warn",
    "Workspace",
    "as_tool",
    "tool",
    "verdict_reply",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.agents.contract.context": "AppliedChange Branch Branches Clock Context Workspace",
        "teamwright.agents.contract.effect": (
            "Attempt InDoubtPolicy Effect OfferedTool ReplyPart Returned SentMessage SentRequest"
        ),
        "teamwright.agents.attachments": "Attachment FileResult",
        "teamwright.agents.functions.agent": "FunctionAgent",
        "teamwright.agents.model.agent": "ModelAgent",
        "teamwright.agents.contract.policy": "Policy PolicySettings",
        "teamwright.agents.contract.agent": "Agent",
        "teamwright.agents.registry": "AgentRegistry",
        "teamwright.agents.scripted": "Rule Script ScriptedAgent ToolRule",
        "teamwright.agents.tools.agent_tool": "as_tool",
        "teamwright.agents.tools.protocol": "Arguments BuildOptions CallPolicy ToolDefinition ToolKind ToolSource",
        "teamwright.agents.tools.context": "ToolContext",
        "teamwright.agents.tools.python": "tool",
        "teamwright.values.people": "Approve Notify",
        "teamwright.values.turns.artifacts": "Artifact SharedValue",
        "teamwright.values.limits": "Amounts Bounds Cutback Limits MessageLimits Pace Price Usage",
        "teamwright.values.call_limits": "Compact Recovery RetryPolicy",
        "teamwright.agents.evaluators": "Evaluator EvaluatorClass verdict_reply",
        "teamwright.values.specs.evaluation": "Criterion Evaluate Length",
        "teamwright.values.specs.expert": "ExpertProfile",
        "teamwright.values.specs.manifest": """
            AgentSpec AgentTool AnyModel CustomTool FallbackModel FilesSpec FilesTool FunctionTool
            InstructionsByFunction InstructionsTemplate JsonSchema McpSpec McpTool MemorySpec MemoryTool NamedModel
            ServerModel TeamSpec ToolSpec
        """,
        "teamwright.values.specs.model_settings": "ModelSettings",
        "teamwright.values.turns.messages": "Message",
        "teamwright.values.specs.simulation": (
            "Behaviour Data Distribution Lognormal Normal Percentiles Simulation Uniform"
        ),
        "teamwright.values.turns.turn": "EvaluatedWork Failure HandoffTarget Reply Turn",
        "teamwright.agents.functions.guardrails": "CheckFunction Mend Refuse Verdict Warn",
        "teamwright.agents.functions.instructions": "AnyInstructions InstructionsFunction TextTemplate TurnContext",
        "teamwright.agents.tools.registry": "ToolLike",
        "teamwright.agents.schemas": "Schema",
        "teamwright.budget.estimates": "Rate",
        "teamwright.documents.nodes": "Entry Fields Items Place ProblemReport Scalar",
        "teamwright.values.owned_paths": "Owned",
    },
)
