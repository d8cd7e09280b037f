"""The discussion of a phase: messages to all, assistance, handovers. Its rounds are bounded, then the lead decides."""

from __future__ import annotations

from typing import NamedTuple

from teamwright.agents.contract.agent import Agent, Context
from teamwright.experts.live.prompts import (
    answered_prompt,
    assist_prompt,
    decision_prompt,
    handed_over_prompt,
    unknown_prompt,
    with_files,
)
from teamwright.experts.live.requests import MemberRequest, Outbox
from teamwright.strategies.plan.present_members import LiveMembers
from teamwright.strategies.protocol import Task
from teamwright.strategies.team_conversation import TeamConversation
from teamwright.values.events.team import TeamHandoff, TeamMessage
from teamwright.values.specs.plan import Step
from teamwright.values.turns.artifacts import POINTER
from teamwright.values.turns.turn import Failure, Reply, Turn


class PhaseEnding(NamedTuple):
    """The result of a phase, or why there is none, and who was asked last for it."""

    author: Agent
    ending: Reply | Failure


class Discussion:
    """What members of one team ask of each other, phase by phase."""

    def __init__(self, task: Task, ctx: Context, members: LiveMembers, talk: TeamConversation, rounds: int) -> None:
        self._task, self._ctx, self._members, self._talk, self._rounds = task, ctx, members, talk, rounds
        self._outbox = Outbox(ctx.workspace)

    async def settle(
        self, phase: Step, expert: Agent, reply: Reply | Failure, lead: str, key: str, number: int
    ) -> PhaseEnding:
        """Return the result of a phase once no member asks for anything more, or as the lead decides."""
        for round_ in range(1, self._rounds + 1):
            if isinstance(reply, Failure) or reply.signal == "terminate":
                return PhaseEnding(expert, reply)
            if (request := await self._read(phase, expert, round_)) is None:
                return PhaseEnding(expert, reply)
            self._talk.add(reply)
            place = f"{key}/round-{round_}"
            if not self._reaches(request, expert):
                prompt = unknown_prompt(request.to, self._others(expert.name), phase, self._task.text)
            elif request.type == "hand_over":
                handoff = TeamHandoff(source=expert.name, to=request.to, reason=request.text)
                await self._ctx.emit(handoff, key=f"{place}/handoff")
                prompt = handed_over_prompt(expert.name, request.text, phase, self._task.text)
                expert = self._members.named(request.to)
            else:
                answer = await self._assist(phase, expert.name, request, place, number)
                if isinstance(answer, Failure) or answer.signal == "terminate":
                    return PhaseEnding(expert, answer)
                prompt = answered_prompt(request.to, phase, self._task.text)
            reply = await self._ask(expert, prompt, place, number)
        if isinstance(reply, Failure) or reply.signal == "terminate":
            return PhaseEnding(expert, reply)
        if await self._read(phase, expert, self._rounds + 1) is None:
            return PhaseEnding(expert, reply)
        self._talk.add(reply)
        return await self._decide(phase, expert.name, lead, key, number)

    async def _read(self, phase: Step, expert: Agent, round_: int) -> MemberRequest | None:
        """Pass the messages of a member on; return the first request that needs another turn, if there is one."""
        found: MemberRequest | None = None
        unknown: MemberRequest | None = None
        for request in self._outbox.read(expert.name):
            if request.type == "message":
                await self._tell_all(phase, expert.name, request, round_)
            elif self._reaches(request, expert):
                found = found or request
            elif request.unknown == "tell":
                unknown = unknown or request
        return found or unknown

    def _reaches(self, request: MemberRequest, expert: Agent) -> bool:
        """Whether a request is for another member of the team."""
        return request.to in self._others(expert.name)

    def _others(self, member: str) -> tuple[str, ...]:
        return tuple(name for name in self._members.names if name != member)

    async def _tell_all(self, phase: Step, member: str, request: MemberRequest, round_: int) -> None:
        """Record a message to all, and add its summary to the conversation; the full text is in the workspace."""
        await self._ctx.emit(
            TeamMessage(
                type="chat",
                by=member,
                to=self._others(member),
                text=request.text,
                original=request.original,
                phase=phase.id,
                round=round_,
            )
        )
        whole = f" ({POINTER}{request.original})" if request.original else ""
        self._talk.add(Reply.of(member, f"To all: {request.text}{whole}"))

    async def _assist(
        self, phase: Step, asker: str, request: MemberRequest, place: str, number: int
    ) -> Reply | Failure:
        """Ask a colleague, and add its answer to the conversation."""
        helper = self._members.named(request.to)
        fact = TeamMessage(type="assist_request", by=asker, to=(helper.name,), text=request.text, phase=phase.id)
        await self._ctx.emit(fact, key=f"{place}/request")
        answer = await self._ask(helper, assist_prompt(asker, request.text), f"{place}/{helper.name}", number)
        if isinstance(answer, Reply) and answer.signal is None:
            fact = TeamMessage(type="assist", by=helper.name, to=(asker,), text=answer.text, phase=phase.id)
            await self._ctx.emit(fact, key=f"{place}/assist")
            self._talk.add(answer)
        return answer

    async def _decide(self, phase: Step, expert: str, lead: str, key: str, number: int) -> PhaseEnding:
        """Let the lead end a discussion: its answer is the result of the phase."""
        prompt = decision_prompt(phase, expert, self._rounds, self._task.text)
        author = self._members.named(lead)
        decided = await self._ask(author, prompt, f"{key}/decision", number)
        if isinstance(decided, Reply):
            fact = TeamMessage(type="decision", by=lead, to=self._others(lead), text=decided.text, phase=phase.id)
            await self._ctx.emit(fact, key=f"{key}/decided")
        return PhaseEnding(author, decided)

    async def _ask(self, member: Agent, prompt: str, key: str, number: int) -> Reply | Failure:
        turn = Turn(prompt, self._talk.history, number)
        return await self._ctx.ask(member, with_files(turn, self._task), key=key)
