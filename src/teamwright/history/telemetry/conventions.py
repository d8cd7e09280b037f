"""The names of spans, attributes and events: those of the GenAI conventions of OpenTelemetry, and our own.

The conventions are in development, and this module alone follows them: semantic-conventions-genai of November 2026, as
opentelemetry-util-genai 1.3b0 writes them. Names of our own begin with `teamwright.`; they are only added to.
"""

from __future__ import annotations

from typing import Final

SCOPE: Final = "teamwright"
"""The instrumentation scope of all spans, and the default name of the service."""

OPERATION: Final = "gen_ai.operation.name"
CHAT, INVOKE_AGENT, INVOKE_WORKFLOW = "chat", "invoke_agent", "invoke_workflow"
EXECUTE_TOOL, PLAN = "execute_tool", "plan"

AGENT: Final = "gen_ai.agent.name"
WORKFLOW: Final = "gen_ai.workflow.name"
CONVERSATION: Final = "gen_ai.conversation.id"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
MAX_TOKENS: Final = "gen_ai.request.max_tokens"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
TOOL: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
MCP_METHOD: Final = "mcp.method.name"
ERROR: Final = "error.type"

INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
COST: Final = "gen_ai.usage.cost"
"""Dollars. The conventions have no name for it yet; this is the one that receivers read."""

INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"

EVALUATION: Final = "gen_ai.evaluation.result"
EVALUATION_NAME: Final = "gen_ai.evaluation.name"
EVALUATION_SCORE: Final = "gen_ai.evaluation.score.value"
EVALUATION_LABEL: Final = "gen_ai.evaluation.score.label"
EVALUATION_EXPLANATION: Final = "gen_ai.evaluation.explanation"

RUN: Final = "teamwright.run.id"
TEAM: Final = "teamwright.team"
KEY: Final = "teamwright.key"
MEMBER_KIND: Final = "teamwright.member.kind"
PURPOSE: Final = "teamwright.purpose"
DRIVE: Final = "teamwright.drive"
DRIVER: Final = "teamwright.driver"
ENDED_BY: Final = "teamwright.ended_by"
STATUS: Final = "teamwright.status"
STOP_REASON: Final = "teamwright.stop_reason"
ATTEMPT: Final = "teamwright.attempt"
CONTINUED: Final = "teamwright.continued"
SIGNAL: Final = "teamwright.signal"
STRATEGY: Final = "teamwright.strategy"
WAITED: Final = "teamwright.waited_seconds"
RETRY_IN: Final = "teamwright.retry_in_seconds"
IN_DOUBT: Final = "teamwright.in_doubt"
CHILD_RUN: Final = "teamwright.child_run"
QUESTION: Final = "teamwright.question"
ASKED: Final = "teamwright.question.to"
LINK: Final = "teamwright.link"
"""What a link leads to: the drive before, or the run that this one was forked, continued or placed by."""
MEMBER: Final = "teamwright.member"

TOTAL_INPUT: Final = "teamwright.usage.input_tokens"
TOTAL_OUTPUT: Final = "teamwright.usage.output_tokens"
TOTAL_TOKENS: Final = "teamwright.usage.total_tokens"
TOTAL_REQUESTS: Final = "teamwright.usage.requests"
TOTAL_USD: Final = "teamwright.usage.usd"
"""What was used within a span that is no call: receivers add the usage of calls up, and would count this once more."""

PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "google-cloud": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "moonshotai": "moonshot_ai",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "xai": "x_ai",
}
"""Names of providers that the conventions write otherwise than a model's name does."""
