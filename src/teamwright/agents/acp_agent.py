"""A coding agent as a member, over the Agent Client Protocol: Claude Code, Codex, Gemini CLI, and others.

Nothing that it asks a model for is counted here. A turn is one effect, or one more after each of its requests for
permission that a person decides; a budget holds what it may spend meanwhile. It changes files in the tree of its turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, cast

from msgspec.structs import replace

from teamwright.agents.acp_connection import Json, command_problem, part_at, text_at
from teamwright.agents.acp_session import AgentFiles, AgentSession, PartOutcome, Permission
from teamwright.agents.agent import Agent, Context
from teamwright.agents.constructor_arguments import Mistakes, checked_call, value_of
from teamwright.agents.effect import (
    Attempt,
    Effect,
    InDoubtPolicy,
    Returned,
)
from teamwright.agents.functions.instructions import AnyInstructions, split_instructions
from teamwright.agents.json_schema import check_input, with_data
from teamwright.agents.review import ask_for_decision
from teamwright.agents.settings import AgentKeywords, shared_settings
from teamwright.errors import AgentError, Refused
from teamwright.values.call_limits import MAX_BYTES, reply_cut_warning
from teamwright.values.limits import Spend
from teamwright.values.names import check_name
from teamwright.values.people import Answer, Question, approval_question
from teamwright.values.retries import DEFAULT_RETRY
from teamwright.values.specs.manifest import AgentSpec
from teamwright.values.specs.members import AcpCommand
from teamwright.values.specs.tools import AnySandbox, sandbox_settings
from teamwright.values.turns.messages import Message, digest
from teamwright.values.turns.turn import Reply, Turn
from teamwright.values.usage_and_prices import NOTHING, Usage

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.agents.clients.client_pool import Models

SECONDS = 3600.0
"""How long one part of a turn may take, unless the agent has a `timeout`."""
RECORD_FACTOR = 8
"""How much larger than its text the record of a part may be: JSON writes some characters with six."""
MOST_DECISIONS = 100
"""How many requests for permission of one turn people decide."""
TOOL_KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")
"""The kinds of tool calls for which a coding agent may ask permission, as the protocol names them."""
GO_ON = "You asked for permission, and were interrupted. Your request was {}. Go on with the task."
GAP = "a turn is charged what its agent reports, also beyond its limits; what it does besides files may happen twice"
"""What of our promises does not hold for coding agents."""
CUT = {"max_tokens": "its model reached the longest output", "max_turn_requests": "it made as many requests as it may"}
"""Why an agent stopped before it was done."""


class AcpAgent(Agent):
    """A coding agent that a command starts, again for each turn.

    It works in its own tree where its team has a workspace of files, else in the current folder of the process. A
    person decides what it asks permission for, unless `confirm` says of which kinds: `tools=("execute",)`.
    """

    kind = "acp"
    uses_tree = True

    @checked_call("agent", AgentKeywords.__optional_keys__, kind="a coding agent", fields=AgentSpec.model_fields)
    def __init__(
        self,
        name: str,
        acp: str | AcpCommand,
        *,
        instructions: AnyInstructions = "",
        sandbox: AnySandbox | None = None,
        **settings: Unpack[AgentKeywords],
    ) -> None:
        self.name, owner, mistakes = check_name("agent", name), f"The agent {name!r}", Mistakes()
        given = {"command": acp} if isinstance(acp, str) else acp
        command = mistakes.collect(value_of, owner, "acp", given, AcpCommand)
        made = mistakes.collect(split_instructions, name, instructions)
        shared = shared_settings(name, settings, mistakes, {"sandbox": sandbox})
        mistakes.raise_all()
        assert command is not None
        self.command, self.policy, (self.instructions, self.dynamic_instructions) = command, shared.policy, made
        self.description, self.capabilities, self.timeout = shared.description, shared.capabilities, shared.timeout
        self.input_schema, self.output_schema = shared.input_schema, shared.output_schema
        self.sandbox = None if sandbox is None else sandbox_settings(sandbox)
        declared = {
            "acp": command,
            "instructions": self.dynamic_instructions.spec if self.dynamic_instructions else self.instructions,
            "sandbox": sandbox,
            "description": self.description,
            "capabilities": self.capabilities,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "timeout": self.timeout,
        }
        self._declared = {field: value for field, value in declared.items() if value}

    @property
    def spec(self) -> AgentSpec:
        """The agent as a declaration."""
        return AgentSpec.model_validate({**self._declared, **self.policy.declared(self.name)})

    async def preflight(self, models: Models) -> Sequence[str]:
        """Return that the command is not there."""
        return [] if (problem := command_problem(self.command)) is None else [problem]

    def asks_for(self, kind: str) -> bool:
        """Whether a person decides about requests of this kind: `read`, `edit`, `execute`, `fetch` …"""
        confirm = self.policy.confirm
        return confirm is None or "tools" not in confirm.model_fields_set or confirm.needed_for(kind)

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Let the agent take the turn."""
        if self.input_schema is not None:
            check_input(self.input_schema, turn.task, f"The task of {self.name!r}")
        dynamic = self.dynamic_instructions
        instructions = self.instructions if dynamic is None else await dynamic.render(turn, ctx)
        visit = AgentTurn(self, turn, ctx, instructions)
        try:
            reply = await visit.take()
        finally:
            await visit.close()
        return with_data(reply, self.output_schema, f"The reply of {self.name!r}", turn.output_schema)


class AgentTurn:
    """One turn of a coding agent: parts of it, each an effect, and decisions of people between them."""

    def __init__(self, agent: AcpAgent, turn: Turn, ctx: Context, instructions: str) -> None:
        self._agent, self._turn, self._ctx, self._instructions = agent, turn, ctx, instructions
        self._session: AgentSession | None = None
        self._kept, self._decisions = "", list[tuple[str, bool]]()
        self._reported = NOTHING
        self._is_charged_in_full = False

    async def take(self) -> Reply:
        """Take the turn to its end."""
        parts: list[Json] = []
        while True:
            record = await self._part()
            parts = [record] if record.get("afresh") else [*parts, record]
            if not (asked := part_at(record, "asked")):
                return self._reply(parts)
            if len(self._decisions) == MOST_DECISIONS:
                raise AgentError(f"{self._agent.name!r} asked for permission more than {MOST_DECISIONS} times.")
            self._kept = text_at(record, "session")
            await self._decide(text_at(asked, "text"), text_at(asked, "about"))

    async def close(self) -> None:
        """End the process of the agent."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def _part(self) -> Json:
        """Return the record of the next part of the turn, from the record where it has one."""
        agent, ctx, number = self._agent, self._ctx, len(self._decisions)
        earlier = [f"{about} {approved}" for about, approved in self._decisions]
        retry, limits = agent.policy.retry, agent.policy.limits
        effect = Effect(
            kind="function",
            name=agent.name,
            request=digest(*agent.command.command, self._instructions, self._turn.digest, *earlier),
            call=self._call,
            retry=None if retry is DEFAULT_RETRY else retry,
            timeout=agent.timeout,
            default_timeout=SECONDS,
            max_bytes=RECORD_FACTOR * self._most_bytes,
            in_doubt=None if agent.command.idempotent else InDoubtPolicy(repeat=False),
            ceiling=Spend(tokens=0, usd=0) if self._is_charged_in_full else (limits and limits.message) or Spend(),
        )
        try:
            returned = await ctx.effect(f"part-{number}" if number else "call", effect)
        except AgentError:
            if ctx.tree is not None:
                ctx.tree.restore()
            raise
        if ctx.tree is not None:
            ctx.tree.note(returned.artifacts)
        self._is_charged_in_full = self._is_charged_in_full or returned.usage == NOTHING
        self._reported += returned.usage
        return cast("Json", returned.value)

    @property
    def _most_bytes(self) -> int:
        return self._agent.policy.max_bytes or MAX_BYTES

    async def _call(self, attempt: Attempt) -> Returned:
        tree = self._ctx.tree
        if tree is None:
            return await self._work(attempt, Path.cwd())
        async with tree.work() as folder:
            returned = await self._work(attempt, folder)
            return replace(returned, files=await tree.changes())

    async def _work(self, attempt: Attempt, folder: Path) -> Returned:
        """Let the agent work until it has answered or needs a decision; its process ends if it is not waited for."""
        known, is_afresh = Counter[tuple[str, bool]](), False
        try:
            if self._session is not None:
                self._session.decide(approved=self._decisions[-1][1])
            else:
                known.update(self._decisions)
                is_afresh = await self._open(folder) and bool(self._decisions)
            assert self._session is not None
            outcome = await self._session.follow(attempt, partial(self._known, known), self._most_bytes)
        except BaseException:
            await self.close()
            raise
        record = self._record(self._session, outcome)
        if is_afresh:  # what it has said before, it says again
            record["afresh"] = True
        if outcome.asked is None:
            await self.close()
        used = NOTHING if outcome.usage is None else _less(outcome.usage, self._reported)
        return Returned(record, used, form="data")

    async def _open(self, folder: Path) -> bool:
        """Start the agent with a decision, if it still knows the session that has waited for it, or with the task.

        Returns whether it begins with the task.
        """
        agent, turn = self._agent, self._turn
        files = AgentFiles(folder, self._ctx.owned)
        self._session = await AgentSession.open(agent.name, agent.command, files, agent.sandbox, session=self._kept)
        if self._kept and self._session.id == self._kept:
            self._session.prompt([GO_ON.format("approved" if self._decisions[-1][1] else "rejected")])
            return False
        self._session.prompt([self._instructions, turn.prompt])
        return True

    def _known(self, known: Counter[tuple[str, bool]], permission: Permission) -> bool | None:
        """Return a decision that needs no person, or that a person has made in this turn before it was interrupted."""
        if not self._agent.asks_for(permission.kind):
            return True
        for approved in (True, False):
            if known[permission.about, approved]:
                known[permission.about, approved] -= 1
                return approved
        return None

    @staticmethod
    def _record(session: AgentSession, outcome: PartOutcome) -> Json:
        asked = None if outcome.asked is None else cast("JsonValue", outcome.asked._asdict())
        kept = session.id if session.loads and asked is not None else ""
        is_cut = {"cut": True} if outcome.is_cut else {}
        return {"text": outcome.text, "stop": outcome.stop, "asked": asked, "session": kept, **is_cut}

    async def _decide(self, text: str, about: str) -> None:
        """Let a person decide about a request for permission."""

        async def ask(question: Question, place: str) -> Answer:
            return await self._ctx.ask_person(question, key=place)

        question = approval_question(f"May {self._agent.name!r} do this?", text, about=about)
        decision = await ask_for_decision(ask, question, f"permission-{len(self._decisions) + 1}", _refuse_edit)
        self._decisions.append((about, decision.approved))

    def _reply(self, parts: Sequence[Json]) -> Reply:
        agent, stop = self._agent, text_at(parts[-1], "stop")
        text = "\n\n".join(said for one in parts if (said := text_at(one, "text").strip()))
        if stop == "refusal":
            raise Refused(f"The coding agent {agent.name!r} declined{f': {text[:500]}' if text else ' without words'}")
        if stop == "cancelled":
            raise AgentError(f"The coding agent {agent.name!r} gave up its turn by itself.")
        if not text:
            raise AgentError(f"The coding agent {agent.name!r} ended its turn without an answer.")
        warnings = [f"{agent.name!r} stopped before it was done: {CUT[stop]}"] if stop in CUT else []
        if any(one.get("cut") for one in parts):
            warnings.append(reply_cut_warning(agent.name, self._most_bytes))
        said = (Message(name=agent.name, content=text),)
        return Reply(messages=said, truncated=bool(warnings), warnings=tuple(warnings))


def _refuse_edit(_: JsonValue) -> None:
    raise AgentError("a coding agent makes its own requests: approve or reject it")


def _less(total: Usage, before: Usage) -> Usage:
    """Return what was used since it was reported before."""
    usd = None if total.usd is None else max(0.0, total.usd - (before.usd or 0.0))
    return Usage(
        requests=1,
        input_tokens=max(0, total.input_tokens - before.input_tokens),
        output_tokens=max(0, total.output_tokens - before.output_tokens),
        usd=usd,
    )
