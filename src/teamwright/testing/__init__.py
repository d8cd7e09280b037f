"""Test tools for third-party parts: conformance suites, and a model server on loopback.

Names load on first use, so that importing the package costs next to nothing.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.testing.agent import AgentConformance, check_agent
    from teamwright.testing.chat import CallTools, ChatMessage, ChatRequest, Drop, Fail, Say, SayJson, ToolCall
    from teamwright.testing.evaluator import EvaluatorConformance, check_evaluator
    from teamwright.testing.journal import JournalConformance
    from teamwright.testing.model_server import ModelServer
    from teamwright.testing.sample_facts import a_fact_of_each_kind
    from teamwright.testing.strategy import StrategyConformance, check_strategy
    from teamwright.testing.tool_source import ToolSourceConformance, check_tool_source
    from teamwright.testing.transport import TransportConformance

__all__ = [
    "AgentConformance",
    "CallTools",
    "ChatMessage",
    "ChatRequest",
    "Drop",
    "EvaluatorConformance",
    "Fail",
    "JournalConformance",
    "ModelServer",
    "Say",
    "SayJson",
    "StrategyConformance",
    "ToolCall",
    "ToolSourceConformance",
    "TransportConformance",
    "a_fact_of_each_kind",
    "check_agent",
    "check_evaluator",
    "check_strategy",
    "check_tool_source",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.testing.agent": "AgentConformance check_agent",
        "teamwright.testing.chat": "CallTools ChatMessage ChatRequest Drop Fail Say SayJson ToolCall",
        "teamwright.testing.evaluator": "EvaluatorConformance check_evaluator",
        "teamwright.testing.sample_facts": "a_fact_of_each_kind",
        "teamwright.testing.journal": "JournalConformance",
        "teamwright.testing.model_server": "ModelServer",
        "teamwright.testing.strategy": "StrategyConformance check_strategy",
        "teamwright.testing.tool_source": "ToolSourceConformance check_tool_source",
        "teamwright.testing.transport": "TransportConformance",
    },
)
