"""Facts about members: their turns and calls, and what they share in the workspace.

A text in a fact is a reference to a body, which the journal stores once.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from teamwright.values.limits import Amounts
from teamwright.values.turns.artifacts import Artifact
from teamwright.values.turns.messages import EnvelopeNote
from teamwright.values.turns.turn import Purpose, Signal, Tier
from teamwright.values.usage_and_prices import NOTHING, Usage
from teamwright.values.value import Record

Body = str
"""The content hash of a body in the journal."""


class MessageRef(Record, frozen=True):
    """A recorded message, whose text is a body."""

    name: str
    body: Body
    role: Literal["user"] | None = None
    attachments: tuple[Artifact, ...] = ()


class ToolUseRef(Record, frozen=True):
    """A recorded tool call of a turn that is reviewed; its texts are bodies."""

    tool: str
    arguments: Body
    result: Body
    failed: bool = False


RUN_KIND = "run"
"""The kind of a member whose turns are runs of their own."""
EffectKind = Literal["model", "tool", "function"]
McpMethod = Literal["tools/list"]
"""What a server is asked for besides a call of one of its tools, as MCP names it."""
Check = Literal["input", "output"]
ValueForm = Literal["reply", "data", "question"]
"""How a recorded value is read: as a whole reply, as data, or as a question that a tool asks a person."""
PartialUsage = Literal["cut", "no_output", "no_input"]
"""Why a reported usage is not all that was used: the reply was cut off before its end, it has text and reports no
output, or it reports no input at all."""


class AgentAsked(Record, frozen=True):
    """An ask began. `length` and `digest` identify the member's input without a copy.

    `called` says that the turn is a single call: this event starts it, and the ending is its return. `left` is what
    remained of the budget, and `tier` says which of the member's models answers.
    """

    kind: ClassVar = "agent.asked"
    member: str
    member_kind: str
    turn: int
    task: Body
    length: int
    digest: str
    purpose: Purpose = "work"
    called: bool = False
    left: Amounts | None = None
    tier: Tier = "primary"


class Tally(Record, frozen=True):
    """The totals of the effects in one agent's turn, so that its ending stands for all of them.

    `charged` is the charge to the budget where it differs from the tokens used, and `charged_usd` where it differs from
    the cost.
    """

    calls: int = 0
    charged: int | None = None
    charged_usd: float | None = None
    marks: tuple[str, ...] = ()


class AgentReplied(Record, frozen=True):
    """An ask ended with a reply."""

    kind: ClassVar = "agent.replied"
    messages: tuple[MessageRef, ...] = ()
    data: Body | None = None
    usage: Usage = NOTHING
    signal: Signal | None = None
    stop_reason: str | None = None
    truncated: bool = False
    warnings: tuple[str, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    tally: Tally | None = None
    envelope_note: EnvelopeNote | None = None
    transfer_to: str | None = None
    tool_uses: tuple[ToolUseRef, ...] = ()

    @property
    def tool_bodies(self) -> tuple[Body, ...]:
        """The hashes of what its tool calls refer to."""
        return tuple(body for one in self.tool_uses for body in (one.arguments, one.result))


class AgentFailed(Record, frozen=True):
    """An ask ended without a reply; a `cancelled` ending follows from a decision that another event records.

    `path` is the nested member that failed, from the member that was asked; empty where that one failed itself.
    """

    kind: ClassVar = "agent.failed"
    member: str
    error: str
    message: str
    usage: Usage = NOTHING
    messages: tuple[MessageRef, ...] = ()
    data: Body | None = None
    tally: Tally | None = None
    path: str = ""
    warnings: tuple[str, ...] = ()


class AgentAbandoned(Record, frozen=True):
    """A member, or one of its calls, did not end within the grace period after it was cancelled."""

    kind: ClassVar = "agent.abandoned"
    name: str
    grace: float


class AgentCalled(Record, frozen=True):
    """An effect is about to start, after it has `waited` for a slot of the model. Without a return it is in doubt.

    `arguments` are those of a tool call. With a `method` no tool is called: the MCP server `name` is asked for its
    tools or for context, and `arguments` are the parameters of that request.
    """

    kind: ClassVar = "agent.called"
    effect: EffectKind
    name: str
    request: str
    attempt: int = 1
    reserved: int = 0
    reserved_usd: float = 0.0
    max_output: int | None = None
    in_doubt: bool = False
    waited: float = 0.0
    arguments: Body | None = None
    method: McpMethod | None = None
    reserved_calls: int = 1


class AgentCallRejected(Record, frozen=True):
    """A tool call that was not made: there is no such tool, or its arguments do not fit.

    `message` is the correction that the model receives, and `arguments` are the text that it wrote.
    """

    kind: ClassVar = "agent.call_rejected"
    name: str
    reason: Literal["unknown_tool", "arguments"]
    message: str
    arguments: Body


class AgentChecked(Record, frozen=True):
    """A guardrail of the agent had something to say: `text` is the reason, the new text, or the warning."""

    kind: ClassVar = "agent.checked"
    check: Check
    verdict: Literal["refused", "mended", "warned"]
    text: str


class AgentProgressed(Record, frozen=True):
    """A tool reports how far a call is; `done` is the finished share, from 0 to 1."""

    kind: ClassVar = "agent.progressed"
    name: str
    text: str
    done: float | None = None


class AgentModeRefused(Record, frozen=True):
    """A server refused to take a structured answer in some modes, and the request was repeated in the next `mode`.

    The server is not asked in these modes again, so later requests record no refusal.
    """

    kind: ClassVar = "agent.mode_refused"
    model: str
    refused: tuple[str, ...]
    mode: str


class AgentCompacted(Record, frozen=True):
    """Older messages were replaced by a summary, so that the rest fits the model's context window.

    `digest` identifies the messages of the history that the summary stands for; it is empty for tool calls of a turn.
    """

    kind: ClassVar = "agent.compacted"
    member: str
    messages: int
    kept: int
    digest: str
    summary: Body


class AgentRecovered(Record, frozen=True):
    """A recovery is tried after a failed ask: a shorter conversation, another agent, or a question to a person."""

    kind: ClassVar = "agent.recovered"
    member: str
    error: str
    how: Literal["summarised", "fell_back", "asked_person"]
    to: str = ""


class TextRef(Record, frozen=True):
    """A text inside a value that is stored as a body of its own: its keys and indexes from the outside in.

    What is left at its place is the white space around it, of which `at` characters come before the text.
    """

    path: tuple[str | int, ...]
    body: Body
    at: int = 0


class AgentReturned(Record, frozen=True):
    """An effect has returned; `tally` is what a run that it started has charged to its own budget.

    The value is `body` with these `texts` in their places. The reply of the turn refers to the same texts, so that each
    is stored once.
    """

    kind: ClassVar = "agent.returned"
    body: Body
    attempt: int = 1
    usage: Usage = NOTHING
    mark: str | None = None
    truncated: bool = False
    form: ValueForm | None = None
    capped: int | None = None
    artifacts: tuple[Artifact, ...] = ()
    partial_usage: PartialUsage | None = None
    tally: Tally | None = None
    texts: tuple[TextRef, ...] = ()

    @property
    def bodies(self) -> tuple[Body, ...]:
        """The hashes of the bodies that the value is made of."""
        return (self.body, *(one.body for one in self.texts))


class AgentCallFailed(Record, frozen=True):
    """An effect failed; it is retried after `retry_in` seconds, or not at all.

    If it is `charged` in full, `usage` is what had arrived of its reply. With a `model`, no call of the run reaches
    that model before the time of the retry, and the run pauses until then once nothing else in it can go on.
    """

    kind: ClassVar = "agent.call_failed"
    error: str
    message: str
    attempt: int = 1
    retry_in: float | None = None
    charged: bool = False
    mark: str | None = None
    usage: Usage = NOTHING
    model: str = ""


class WorkspaceWritten(Record, frozen=True):
    """A shared value has a new version, counted from one."""

    kind: ClassVar = "workspace.written"
    name: str
    revision: int
    body: Body
    by: str


class WorkspaceConflicted(Record, frozen=True):
    """A write was rejected, since the value has another revision than it was based on; `by` wrote that revision."""

    kind: ClassVar = "workspace.conflicted"
    name: str
    based_on: int
    revision: int
    body: Body
    by: str


class WorkspaceKept(Record, frozen=True):
    """An artifact was stored."""

    kind: ClassVar = "workspace.kept"
    artifact: Artifact
    by: str


class WorkspacePatched(Record, frozen=True):
    """The changes of a piece of work were applied to the team's branch, as a commit on top of `parent`.

    `work` is the key of the ask that they come from, and `merge` that of the ask that merged them. The commit is made
    again from these fields wherever it is missing.
    """

    kind: ClassVar = "workspace.patched"
    member: str
    work: str
    merge: str
    patch: Artifact
    parent: str
    commit: str
    message: str
    dated: int
    files: tuple[str, ...] = ()
    added: int = 0
    removed: int = 0


class RefusedFile(Record, frozen=True):
    """A file for which changes were refused, with the lines in conflict, from and to."""

    path: str
    lines: tuple[tuple[int, int], ...] = ()


PatchRefusal = Literal["conflict", "unresolved", "not_owned", "unsafe"]
"""Why changes were refused: others changed the same lines, a conflict is still marked in the files, the step does not
own a file, or a link leads out of the tree, or a folder is a repository of its own."""


class WorkspaceRefused(Record, frozen=True):
    """The changes of a piece of work were not applied to the team's branch; who resolves that gets it as a task."""

    kind: ClassVar = "workspace.refused"
    member: str
    work: str
    patch: Artifact
    reason: PatchRefusal
    files: tuple[RefusedFile, ...] = ()
    resolver: str = ""


EngineAgentFact = (
    AgentAsked | AgentReplied | AgentFailed | AgentCalled | AgentReturned | AgentCallFailed | AgentProgressed
    | WorkspaceWritten | WorkspaceConflicted | WorkspaceKept | WorkspacePatched | WorkspaceRefused
)  # fmt: skip
AgentFact = (
    EngineAgentFact
    | AgentAbandoned | AgentRecovered | AgentCallRejected | AgentChecked | AgentCompacted | AgentModeRefused
)  # fmt: skip
