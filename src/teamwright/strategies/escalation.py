"""Escalates replies of high or critical risk: they count only after the lead of the team or a person approves them.

A reply waits in its own branch: other branches continue, and no member sees it before it is approved. The ruling of a
lead has one form, a decision and a note, in whatever it rules on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Generic, Literal, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, TypeAdapter

from teamwright.agents.approval import Draft, ask_for_decision
from teamwright.agents.contract.agent import Agent, Context
from teamwright.strategies.protocol import Task
from teamwright.strategies.reply_parsing import ParseFailure, read_answer
from teamwright.values.events.team import TeamEscalated
from teamwright.values.people import Answer, Question, approval_question
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.turns.envelope import EnvelopeMessage, Escalate, RiskLevel
from teamwright.values.turns.messages import History, digest
from teamwright.values.turns.turn import Failure, Reply, Turn

D = TypeVar("D", bound=str)


def _normalize(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


class Ruling(BaseModel, Generic[D]):
    """A decision, in any case, and a note about it."""

    model_config = ConfigDict(extra="ignore")

    decision: Annotated[D, BeforeValidator(_normalize)]
    note: str = ""


def ruling_schema(decisions: Sequence[str], note: str) -> JsonSchema:
    """Return the JSON Schema of a ruling; `note` describes the note."""
    return {
        "type": "object",
        "properties": {
            "decision": {"type": "string", "enum": list(decisions)},
            "note": {"type": "string", "description": note},
        },
        "required": ["decision"],
    }


RISKY: frozenset[RiskLevel] = frozenset(("high", "critical"))
LEVELS: tuple[RiskLevel, ...] = get_args(RiskLevel)

ASK = """\
{member!r} reports {risk} risk with the result above. Nobody else has heard of it, and the team goes on with it only \
if you let it pass. Answer with one JSON object: \
{{"decision": "approve" or "reject", "note": "what is to be done about it"}}

The task of the team:
{task}"""

Decision = Literal["approve", "reject"]
RULING_SCHEMA = ruling_schema(get_args(Decision), "what is to be done about it")


class RiskRuling(NamedTuple):
    """The ruling on a risky reply, with a note, and the reply as edited by a person."""

    passed: bool
    note: str = ""
    edited: Reply | None = None


class Escalation:
    """Decides who rules on the risks of one team. In a nested team, risks without a ruling go to the outer team."""

    def __init__(self, how: Escalate, lead: Agent | None, task: Task, *, nested: bool) -> None:
        self._how, self._lead, self._task, self._nested = how, lead, task, nested
        self.unruled: RiskLevel = "low"
        """The highest risk that continued without a ruling."""
        self.warnings: list[str] = []
        """Warnings of leads that ruled."""

    async def rule_on(self, message: EnvelopeMessage, draft: Draft, ctx: Context, key: str) -> RiskRuling | None:
        """Return the ruling on a reply that others see as this message; None if it needs none."""
        risk, member = message.envelope.risk_level, draft.member
        if risk not in RISKY:
            return None
        lead = self._lead if self._how == "lead" and self._lead is not member else None
        if self._how == "off" or (self._how == "lead" and lead is None and self._nested):
            self.unruled = max((self.unruled, risk), key=LEVELS.index)
            return None
        fact = TeamEscalated(member=member.name, task_id=message.envelope.task_id, risk_level=risk)
        if lead is not None:
            await ctx.emit(fact.changed(to=lead.name))
            ruling = await self._ask_lead(lead, message, member, ctx, key)
            if isinstance(ruling, RiskRuling):
                return ruling
            fact = fact.changed(reason=ruling.problem)
        await ctx.emit(fact)
        return await _ask_person(message, draft, ctx, key)

    async def _ask_lead(
        self, lead: Agent, message: EnvelopeMessage, member: Agent, ctx: Context, key: str
    ) -> RiskRuling | ParseFailure:
        """Ask the lead for a ruling. A failed or ambiguous reply is a `ParseFailure`."""
        text = ASK.format(member=member.name, risk=message.envelope.risk_level, task=self._task.text)
        turn = Turn(
            text,
            History.of((message,)),
            purpose="coordinate",
            output_schema=RULING_SCHEMA,
            attachments=self._task.attachments,
        )
        reply = await ctx.ask(lead, turn, key=f"escalated/{key}")
        if isinstance(reply, Failure):
            return ParseFailure(f"{lead.name!r} failed ({reply.error})")
        self.warnings += reply.lasting_warnings
        found = read_answer(reply, _ruling_adapter())
        if isinstance(found, ParseFailure):
            return ParseFailure(f"the answer of {lead.name!r} is no ruling: {found.problem}")
        passed = found.decision == "approve"
        if found.note:
            return RiskRuling(passed, f"{lead.name}: {found.note}")
        return RiskRuling(passed, "" if passed else f"{lead.name} said no")


async def _ask_person(message: EnvelopeMessage, draft: Draft, ctx: Context, key: str) -> RiskRuling:
    async def ask(question: Question, place: str) -> Answer:
        return await ctx.ask_person(question, key=place)

    envelope, text = message.envelope, draft.reply.text
    words = f"{envelope.sender!r} reports {envelope.risk_level} risk. May its reply stand?"
    question = approval_question(words, text, about=digest(envelope.task_id, text))
    decision = await ask_for_decision(ask, question, f"{key}/confirm-risk", draft.edited)
    return RiskRuling(decision.approved, decision.reason, decision.edited)


@cache
def _ruling_adapter() -> TypeAdapter[Ruling[Decision]]:
    return TypeAdapter(Ruling[Decision])
