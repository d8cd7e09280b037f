from teamwright.agents.attachments import (
    Attachment as Attachment,
    FileResult as FileResult,
)
from teamwright.agents.contract.agent import Agent as Agent
from teamwright.agents.contract.context import (
    AppliedChange as AppliedChange,
    Branch as Branch,
    Branches as Branches,
    Clock as Clock,
    Context as Context,
    Workspace as Workspace,
)
from teamwright.agents.contract.effect import (
    Attempt as Attempt,
    Effect as Effect,
    InDoubtPolicy as InDoubtPolicy,
    OfferedTool as OfferedTool,
    ReplyPart as ReplyPart,
    Returned as Returned,
    SentMessage as SentMessage,
    SentRequest as SentRequest,
)
from teamwright.agents.contract.policy import (
    Policy as Policy,
    PolicySettings as PolicySettings,
)
from teamwright.agents.evaluators import (
    Evaluator as Evaluator,
    EvaluatorClass as EvaluatorClass,
    verdict_reply as verdict_reply,
)
from teamwright.agents.functions.agent import FunctionAgent as FunctionAgent
from teamwright.agents.functions.guardrails import (
    CheckFunction as CheckFunction,
    Mend as Mend,
    Refuse as Refuse,
    Verdict as Verdict,
    Warn as Warn,
)
from teamwright.agents.functions.instructions import (
    AnyInstructions as AnyInstructions,
    InstructionsFunction as InstructionsFunction,
    TextTemplate as TextTemplate,
    TurnContext as TurnContext,
)
from teamwright.agents.model.agent import ModelAgent as ModelAgent
from teamwright.agents.registry import AgentRegistry as AgentRegistry
from teamwright.agents.schemas import Schema as Schema
from teamwright.agents.scripted import (
    Rule as Rule,
    Script as Script,
    ScriptedAgent as ScriptedAgent,
    ToolRule as ToolRule,
)
from teamwright.agents.tools.agent_tool import as_tool as as_tool
from teamwright.agents.tools.protocol import (
    Arguments as Arguments,
    BuildOptions as BuildOptions,
    CallPolicy as CallPolicy,
    ToolContext as ToolContext,
    ToolDefinition as ToolDefinition,
    ToolKind as ToolKind,
    ToolSource as ToolSource,
)
from teamwright.agents.tools.python import tool as tool
from teamwright.agents.tools.registry import ToolLike as ToolLike
from teamwright.budget.estimates import Rate as Rate
from teamwright.documents.nodes import (
    Entry as Entry,
    Fields as Fields,
    Items as Items,
    Place as Place,
    ProblemReport as ProblemReport,
    Scalar as Scalar,
)
from teamwright.values.call_limits import (
    Compact as Compact,
    Recovery as Recovery,
    RetryPolicy as RetryPolicy,
)
from teamwright.values.limits import (
    Amounts as Amounts,
    Bounds as Bounds,
    Cutback as Cutback,
    Limits as Limits,
    MessageLimits as MessageLimits,
    Pace as Pace,
    Price as Price,
    Usage as Usage,
)
from teamwright.values.owned_paths import Owned as Owned
from teamwright.values.people import (
    Approve as Approve,
    Notify as Notify,
)
from teamwright.values.specs.evaluation import (
    Criterion as Criterion,
    Evaluate as Evaluate,
    Length as Length,
)
from teamwright.values.specs.expert import ExpertProfile as ExpertProfile
from teamwright.values.specs.manifest import (
    AgentSpec as AgentSpec,
    AgentTool as AgentTool,
    AnyModel as AnyModel,
    CustomTool as CustomTool,
    FallbackModel as FallbackModel,
    FilesSpec as FilesSpec,
    FilesTool as FilesTool,
    FunctionTool as FunctionTool,
    InstructionsByFunction as InstructionsByFunction,
    InstructionsTemplate as InstructionsTemplate,
    JsonSchema as JsonSchema,
    McpSpec as McpSpec,
    McpTool as McpTool,
    MemorySpec as MemorySpec,
    MemoryTool as MemoryTool,
    NamedModel as NamedModel,
    ServerModel as ServerModel,
    TeamSpec as TeamSpec,
    ToolSpec as ToolSpec,
)
from teamwright.values.specs.model_settings import ModelSettings as ModelSettings
from teamwright.values.specs.simulation import (
    Behaviour as Behaviour,
    Data as Data,
    Distribution as Distribution,
    Lognormal as Lognormal,
    Normal as Normal,
    Percentiles as Percentiles,
    Simulation as Simulation,
    Uniform as Uniform,
)
from teamwright.values.turns.artifacts import (
    Artifact as Artifact,
    SharedValue as SharedValue,
)
from teamwright.values.turns.messages import Message as Message
from teamwright.values.turns.turn import (
    EvaluatedWork as EvaluatedWork,
    Failure as Failure,
    HandoffTarget as HandoffTarget,
    Reply as Reply,
    Turn as Turn,
)
