"""What becomes of a reply of high or critical risk: it counts only once the team's lead or a person lets it pass.

It waits in the branch where it came up and nowhere else: others go on, and nobody hears of it before it has passed.
"""

from __future__ import annotations

from functools import cache
from typing import Literal, NamedTuple, get_args

from pydantic import TypeAdapter

from teamwright.agents.approval import Draft, decided
from teamwright.agents.context import AgentLike, Context
from teamwright.agents.protocol import Agent
from teamwright.strategies.envelopes.ruling import Ruling, ruling_schema
from teamwright.strategies.reply_parsing import ParseFailure, read_answer
from teamwright.strategies.talk import lasting_warnings
from teamwright.values.events.team import TeamEscalated
from teamwright.values.people.approvals import approval
from teamwright.values.people.questions import Answer, Question
from teamwright.values.turns.envelope import EnvelopeMessage, Escalate, RiskLevel
from teamwright.values.turns.messages import History, digest
from teamwright.values.turns.turn import Failure, Reply, Turn

RISKY: frozenset[RiskLevel] = frozenset(("high", "critical"))
LEVELS: tuple[RiskLevel, ...] = get_args(RiskLevel)

ASK = """\
{member!r} reports {risk} risk with the result above. Nobody else has heard of it, and the team goes on with it only \
if you let it pass. Answer with one JSON object: \
{{"decision": "approve" or "reject", "note": "what is to be done about it"}}

The task of the team:
{task}"""

Decision = Literal["approve", "reject"]
WANTED = ruling_schema(get_args(Decision), "what is to be done about it")


class Ruled(NamedTuple):
    """Whether a reply may stand, what was said about it, and the reply in its place if a person edited it."""

    passed: bool
    note: str = ""
    edited: Reply | None = None


class Escalation:
    """To whom the risks of one team go; with `above`, those that nobody rules on go to the team around it."""

    def __init__(self, how: Escalate, lead: Agent | None, task: str, *, above: bool) -> None:
        self._how, self._lead, self._task, self._above = how, lead, task, above
        self.unruled: RiskLevel = "low"
        """The highest risk that went on without a ruling."""
        self.warnings: list[str] = []
        """What leads warned of in their rulings."""

    async def ruling(self, told: EnvelopeMessage, draft: Draft, ctx: Context, key: str) -> Ruled | None:
        """What becomes of a reply, which others are told like this; none, where it just goes on."""
        risk, member = told.envelope.risk_level, draft.member
        if risk not in RISKY:
            return None
        lead = self._lead if self._how == "lead" and self._lead is not member else None
        if self._how == "off" or (self._how == "lead" and lead is None and self._above):
            self.unruled = max((self.unruled, risk), key=LEVELS.index)
            return None
        fact = TeamEscalated(member=member.name, task_id=told.envelope.task_id, risk_level=risk)
        if lead is not None:
            await ctx.emit(fact.changed(to=lead.name))
            ruling = await self._ask_lead(lead, told, member, ctx, key)
            if isinstance(ruling, Ruled):
                return ruling
            fact = fact.changed(reason=ruling.problem)
        await ctx.emit(fact)
        return await _ask_person(told, draft, ctx, key)

    async def _ask_lead(
        self, lead: Agent, told: EnvelopeMessage, member: AgentLike, ctx: Context, key: str
    ) -> Ruled | ParseFailure:
        """What the lead rules; a lead that fails or says neither yes nor no has ruled nothing."""
        text = ASK.format(member=member.name, risk=told.envelope.risk_level, task=self._task)
        turn = Turn(text, History.of((told,)), purpose="coordinate", output_schema=WANTED)
        reply = await ctx.ask(lead, turn, key=f"{key}/escalated")
        if isinstance(reply, Failure):
            return ParseFailure(f"{lead.name!r} failed ({reply.error})")
        self.warnings += lasting_warnings(reply)
        found = read_answer(reply, _ruling())
        if isinstance(found, ParseFailure):
            return ParseFailure(f"the answer of {lead.name!r} is no ruling: {found.problem}")
        passed = found.decision == "approve"
        if found.note:
            return Ruled(passed, f"{lead.name}: {found.note}")
        return Ruled(passed, "" if passed else f"{lead.name} said no")


async def _ask_person(told: EnvelopeMessage, draft: Draft, ctx: Context, key: str) -> Ruled:
    async def ask(question: Question, place: str) -> Answer:
        return await ctx.ask_person(question, key=place)

    envelope, text = told.envelope, draft.reply.text
    words = f"{envelope.sender!r} reports {envelope.risk_level} risk. May its reply stand?"
    question = approval(words, text, about=digest(envelope.task_id, text))
    decision = await decided(ask, question, f"{key}/approve-risk", draft.edited)
    return Ruled(decision.agreed, decision.reason, decision.edited)


@cache
def _ruling() -> TypeAdapter[Ruling[Decision]]:
    return TypeAdapter(Ruling[Decision])
