from teamwright.testing.agent import (
    AgentConformance as AgentConformance,
    check_agent as check_agent,
)
from teamwright.testing.evaluator import (
    EvaluatorConformance as EvaluatorConformance,
    check_evaluator as check_evaluator,
)
from teamwright.testing.journal import JournalConformance as JournalConformance
from teamwright.testing.model_server import (
    CallTools as CallTools,
    ChatRequest as ChatRequest,
    Drop as Drop,
    Fail as Fail,
    ModelServer as ModelServer,
    Say as Say,
    SayJson as SayJson,
    ToolCall as ToolCall,
)
from teamwright.testing.pytest_plugin import pytest_collect_file as pytest_collect_file
from teamwright.testing.sandbox import SandboxConformance as SandboxConformance
from teamwright.testing.strategy import (
    StrategyConformance as StrategyConformance,
    check_strategy as check_strategy,
)
from teamwright.testing.tool_source import (
    ToolSourceConformance as ToolSourceConformance,
    check_tool_source as check_tool_source,
)
from teamwright.testing.transport import TransportConformance as TransportConformance
