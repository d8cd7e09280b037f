"""How a team works together: what one needs to write a strategy, and the parts that strategies share.

Names load on first use, so that importing the package costs next to nothing.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.strategies.answers import Unreadable, read_answer
    from teamwright.strategies.conditions import Condition
    from teamwright.strategies.protocol import Flaw, Members, NoOptions, Settings, Strategy, Talk, Task
    from teamwright.strategies.registry import find_strategy, strategy_names
    from teamwright.strategies.sketch import Arrow, Node, Sketch, places
    from teamwright.strategies.templates import Template
    from teamwright.values.envelope import Envelope, EnvelopeMessage, Handoff, HandoffPolicy, Handover, envelope_tokens
    from teamwright.values.frozen import Value
    from teamwright.values.results import Outcome
    from teamwright.values.specs import AgentName, MemberName

__all__ = [
    "AgentName",
    "Arrow",
    "Condition",
    "Envelope",
    "EnvelopeMessage",
    "Flaw",
    "Handoff",
    "HandoffPolicy",
    "Handover",
    "MemberName",
    "Members",
    "NoOptions",
    "Node",
    "Outcome",
    "Settings",
    "Sketch",
    "Strategy",
    "Talk",
    "Task",
    "Template",
    "Unreadable",
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
        "teamwright.strategies.answers": "Unreadable read_answer",
        "teamwright.strategies.conditions": "Condition",
        "teamwright.strategies.protocol": "Flaw Members NoOptions Settings Strategy Talk Task",
        "teamwright.strategies.registry": "find_strategy strategy_names",
        "teamwright.strategies.sketch": "Arrow Node Sketch places",
        "teamwright.strategies.templates": "Template",
        "teamwright.values.envelope": "Envelope EnvelopeMessage Handoff HandoffPolicy Handover envelope_tokens",
        "teamwright.values.frozen": "Value",
        "teamwright.values.results": "Outcome",
        "teamwright.values.specs": "AgentName MemberName",
    },
)
