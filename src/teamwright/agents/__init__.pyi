from teamwright.agents.acp_agent import AcpAgent as AcpAgent
from teamwright.agents.agent import Workspace as Workspace
from teamwright.agents.attachments import (
    Attachment as Attachment,
    FileResult as FileResult,
)
from teamwright.agents.effect import (
    Attempt as Attempt,
    Effect as Effect,
    Returned as Returned,
)
from teamwright.agents.evaluators import (
    Evaluator as Evaluator,
    verdict_reply as verdict_reply,
)
from teamwright.agents.functions.instructions import (
    Mend as Mend,
    Refuse as Refuse,
    TurnContext as TurnContext,
    Verdict as Verdict,
    Warn as Warn,
)
from teamwright.agents.registry import AgentRegistry as AgentRegistry
from teamwright.agents.sandbox import CommandOutcome as CommandOutcome, Sandbox as Sandbox
from teamwright.agents.sandbox_back_ends import guarded as guarded
from teamwright.agents.scripted import (
    Script as Script,
    ToolRule as ToolRule,
)
from teamwright.agents.tools.built_in import as_tool as as_tool
from teamwright.agents.tools.protocol import (
    Arguments as Arguments,
    BuildOptions as BuildOptions,
    ToolContext as ToolContext,
    ToolDefinition as ToolDefinition,
    ToolKind as ToolKind,
    ToolSource as ToolSource,
)
from teamwright.agents.tools.python import tool as tool
from teamwright.values.call_limits import Compact as Compact
from teamwright.values.specs.evaluation import (
    Criterion as Criterion,
    Evaluate as Evaluate,
)
from teamwright.values.specs.members import AcpCommand as AcpCommand, TeamWorkspace as TeamWorkspace
from teamwright.values.specs.model_settings import ModelSettings as ModelSettings
from teamwright.values.specs.models import NamedModel as NamedModel, ServerModel as ServerModel
from teamwright.values.specs.simulation import Simulation as Simulation
from teamwright.values.specs.tools import (
    McpSpec as McpSpec,
    McpTool as McpTool,
    SandboxSettings as SandboxSettings,
    ShellSpec as ShellSpec,
    ShellTool as ShellTool,
    ToolSpec as ToolSpec,
)
from teamwright.values.turns.turn import (
    EvaluatedWork as EvaluatedWork,
    ToolUse as ToolUse,
)
from teamwright.values.usage_and_prices import Usage as Usage
