"""Facade of the strategies: what a strategy needs, and the parts that strategies share.

Names load on first use, so that importing the package costs next to nothing.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.strategies.diagram import Arrow, Diagram, Node, places
    from teamwright.strategies.expressions.conditions_and_templates import Condition, Template
    from teamwright.strategies.protocol import (
        ExpectedAsks,
        Issue,
        Members,
        NoOptions,
        Settings,
        Strategy,
        Task,
    )
    from teamwright.strategies.registry import find_strategy, strategy_names
    from teamwright.strategies.reply_parsing import ParseFailure, read_answer
    from teamwright.strategies.team_conversation import TeamConversation
    from teamwright.values.limits import ClosingAsk
    from teamwright.values.models import Value
    from teamwright.values.specs.manifest import AgentName, MemberName, Share
    from teamwright.values.turns.envelope import (
        Envelope,
        EnvelopeLimits,
        EnvelopeMessage,
        EnvelopeNote,
        EnvelopeSettings,
        envelope_tokens,
    )
    from teamwright.values.turns.messages import History
    from teamwright.values.turns.results import Outcome, StopReason
    from teamwright.values.turns.turn import Signal

__all__ = [
    "AgentName",
    "Arrow",
    "ClosingAsk",
    "Condition",
    "Diagram",
    "Envelope",
    "EnvelopeLimits",
    "EnvelopeMessage",
    "EnvelopeNote",
    "EnvelopeSettings",
    "ExpectedAsks",
    "History",
    "Issue",
    "MemberName",
    "Members",
    "NoOptions",
    "Node",
    "Outcome",
    "ParseFailure",
    "Settings",
    "Share",
    "Signal",
    "StopReason",
    "Strategy",
    "Task",
    "TeamConversation",
    "Template",
    "Value",
    "envelope_tokens",
    "find_strategy",
    "places",
    "read_answer",
    "strategy_names",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.strategies.diagram": "Arrow Node Diagram places",
        "teamwright.strategies.expressions.conditions_and_templates": "Condition Template",
        "teamwright.strategies.protocol": "Issue Members NoOptions ExpectedAsks Settings Strategy Task",
        "teamwright.strategies.registry": "find_strategy strategy_names",
        "teamwright.strategies.reply_parsing": "ParseFailure read_answer",
        "teamwright.strategies.team_conversation": "TeamConversation",
        "teamwright.values.turns.envelope": (
            "Envelope EnvelopeLimits EnvelopeMessage EnvelopeSettings EnvelopeNote envelope_tokens"
        ),
        "teamwright.values.specs.manifest": "AgentName MemberName Share",
        "teamwright.values.limits": "ClosingAsk",
        "teamwright.values.models": "Value",
        "teamwright.values.turns.results": "Outcome StopReason",
        "teamwright.values.turns.messages": "History",
        "teamwright.values.turns.turn": "Signal",
    },
)
