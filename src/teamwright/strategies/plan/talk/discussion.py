"""Members who talk while they work: messages to all, assistance, handovers; after some rounds the lead decides.

All read one conversation: what was said and done so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from teamwright.agents.contract.agent import Agent, Context
from teamwright.strategies.plan.state import PlanState
from teamwright.strategies.plan.steps.step_outputs import StepInput
from teamwright.strategies.plan.steps.step_runner import StepRunner
from teamwright.strategies.plan.steps.step_work import Work
from teamwright.strategies.plan.talk.member_requests import MemberRequest, Outbox
from teamwright.strategies.plan.workers import Floor
from teamwright.strategies.protocol import introduction
from teamwright.values.events.team import TeamHandoff, TeamMessage
from teamwright.values.specs.plan import Step
from teamwright.values.turns.artifacts import POINTER
from teamwright.values.turns.messages import Conversation
from teamwright.values.turns.turn import Failure, Reply, Turn

OUTPUTS = "outputs/"
"""The beginning of the names of results in the workspace, where they stay when the team is dissolved."""
ASSIST = "{asker} asks for your help. Answer the question, and nothing else:\n{question}"
ANSWERED = "{helper} has answered. Finish your step {title!r}:\n{task}"
UNKNOWN = """\
You have no colleague {name!r}; in the team are: {there}. Ask one of them if you still need help, or finish your step \
{title!r}:
{task}"""
HANDED_OVER = "{source} hands the step {title!r} over to you: {note}\n\nThe step:\n{task}"
DECIDE = """\
The step {title!r} of {member} was discussed for {rounds} rounds without an end. Decide now: write the result of the \
step, with what is known.

The step:
{task}"""


class Discussion(Floor):
    """Members talk to each other and ask each other while they work on a step; all read what was said and done."""

    def __init__(self, state: PlanState, runner: StepRunner, ctx: Context) -> None:
        super().__init__(state, runner, ctx)
        self._outbox = Outbox(ctx.workspace)
        self.conversation = Conversation()
        self.conversation.extend(state.task.history)

    def make_turn(self, step_input: StepInput, member: str) -> Turn:
        """Return the turn of a step: the conversation, the colleagues, and the task."""
        state, step, own = self._state, step_input.step, step_input.own_task
        others = [introduction(one) for one in state.team if one.name != member]
        left = [f"{name} (has left)" for name in state.team.left]
        lead = f"; {state.team.lead.name} leads the team" if state.options.is_led else ""
        notices = [message.content for message in state.notices_for(member)]
        prompt = "\n\n".join(
            filter(
                None,
                (
                    _listed(f"Your colleagues{lead}:", [*others, *left]),
                    *notices,
                    f"The task of the team:\n{state.task.text}" if own else "",
                    f"You work on the step {step.title!r}:\n{own or state.task.text}",
                ),
            )
        )
        return self._asked(prompt, step_input.number)

    def _asked(self, prompt: str, number: int) -> Turn:
        files = self._task.attachments if self._task.text in prompt else ()
        return Turn(prompt, self.conversation.history(), number, attachments=files)

    def keep(self, reply: Reply) -> None:
        """Add what a member did to the conversation."""
        self.conversation.extend(reply.messages)

    async def after_step(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Add the result of the step to the conversation, and keep it in the workspace."""
        if reply := self._state.results.replies.get(step.id):
            self.keep(reply)
            await ctx.workspace.put(OUTPUTS + step.id, reply.full.text, key="output")

    async def settle(self, step: Step, work: Work, ctx: Context) -> Work | Failure:
        """Return the result of a step once no member asks for anything more, or as the lead decides.

        All turns for the step are as the first: with the tools of its role, and the model that works on it.
        """
        rounds, prefix = self._state.options.rounds_of_talk, work.key.removesuffix("work")
        task, number = self._state.outputs.task_text(step) or self._state.task.text, work.turn.number
        for round_ in range(1, rounds + 1):
            member, like = work.author, work.turn
            if (request := await self._read(step, member, round_, ctx)) is None:
                return work
            self.keep(work.reply)
            place = f"{prefix}round-{round_}"
            if not self._reaches(request, member):
                there = ", ".join(self._others(member.name)) or "nobody else"
                prompt = UNKNOWN.format(name=request.to, there=there, title=step.title, task=task)
            elif request.type == "hand_over":
                handoff = TeamHandoff(source=member.name, to=request.to, reason=request.text)
                await ctx.emit(handoff, key=f"{place}/handoff")
                prompt = HANDED_OVER.format(source=member.name, title=step.title, note=request.text, task=task)
                member, like = self._state.members.named(request.to), replace(like, tier="primary", may_retry=True)
            else:
                answer = await self._assist(step, member.name, request, place, number, ctx)
                if isinstance(answer, Failure):
                    return answer
                prompt = ANSWERED.format(helper=request.to, title=step.title, task=task)
            said = self._asked(prompt, number)
            turn = replace(like, task=said.task, history=said.history, attachments=said.attachments)
            ending = await ctx.ask(member, turn, key=place)
            if isinstance(ending, Failure):
                return ending
            work = Work(member, turn, place, ending)
        if not rounds or await self._read(step, work.author, rounds + 1, ctx) is None:
            return work
        self.keep(work.reply)
        return await self._decide(step, work.author.name, task, f"{prefix}decision", number, ctx)

    async def _read(self, step: Step, member: Agent, round_: int, ctx: Context) -> MemberRequest | None:
        """Pass the messages of a member on; return the first request that needs another turn, if there is one."""
        found: MemberRequest | None = None
        unknown: MemberRequest | None = None
        for request in self._outbox.read(member.name):
            if request.type == "message":
                await self._tell_all(step, member.name, request, round_, ctx)
            elif self._reaches(request, member):
                found = found or request
            else:
                unknown = unknown or request
        return found or unknown

    def _reaches(self, request: MemberRequest, member: Agent) -> bool:
        """Whether a request is for another member of the team."""
        return request.to in self._others(member.name)

    def _others(self, member: str) -> tuple[str, ...]:
        return tuple(name for name in self._state.team.names if name != member)

    async def _tell_all(self, step: Step, member: str, request: MemberRequest, round_: int, ctx: Context) -> None:
        """Record a message to all, and add its summary to the conversation; the full text is in the workspace."""
        await ctx.emit(
            TeamMessage(
                type="chat",
                by=member,
                to=self._others(member),
                text=request.text,
                original=request.original,
                step=step.id,
                round=round_,
            )
        )
        whole = f" ({POINTER}{request.original})" if request.original else ""
        self.keep(Reply.of(member, f"To all: {request.text}{whole}"))

    async def _assist(
        self, step: Step, asker: str, request: MemberRequest, place: str, number: int, ctx: Context
    ) -> Reply | Failure:
        """Ask a colleague, and add its answer to the conversation."""
        helper = self._state.members.named(request.to)
        fact = TeamMessage(type="assist_request", by=asker, to=(helper.name,), text=request.text, step=step.id)
        await ctx.emit(fact, key=f"{place}/request")
        turn = self._asked(ASSIST.format(asker=asker, question=request.text), number)
        answer = await ctx.ask(helper, turn, key=f"{place}/{helper.name}")
        if isinstance(answer, Reply):
            fact = TeamMessage(type="assist", by=helper.name, to=(asker,), text=answer.text, step=step.id)
            await ctx.emit(fact, key=f"{place}/assist")
            self.keep(answer)
        return answer

    async def _decide(self, step: Step, member: str, task: str, key: str, number: int, ctx: Context) -> Work | Failure:
        """Let the lead end a discussion: its answer is the result of the step."""
        lead = self._state.team.lead
        rounds = self._state.options.rounds_of_talk
        turn = self._asked(DECIDE.format(title=step.title, member=member, rounds=rounds, task=task), number)
        decided = await ctx.ask(lead, turn, key=key)
        if isinstance(decided, Failure):
            return decided
        fact = TeamMessage(type="decision", by=lead.name, to=self._others(lead.name), text=decided.text, step=step.id)
        await ctx.emit(fact, key=f"{key}/decided")
        return Work(lead, turn, key, decided)


def _listed(title: str, lines: Iterable[str]) -> str:
    found: Sequence[str] = list(lines)
    return "\n".join((title, *(f"- {line}" for line in found))) if found else ""
