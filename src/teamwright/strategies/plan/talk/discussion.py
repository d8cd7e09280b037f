"""Members who talk while they work: messages, assistance, handovers; after some rounds one of them decides.

Whatever a member says in a turn stands in its reply, in order, and is read here alone, after that turn and under its
step. What this module does not read, the engine refuses to the member that says it: see `Turn.talk`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec.structs import replace

from teamwright.agents.contract.agent import Agent, Context
from teamwright.strategies.part_results import WORK
from teamwright.strategies.plan.state import PlanState
from teamwright.strategies.plan.steps.step_outputs import StepInput
from teamwright.strategies.plan.steps.step_runner import StepRunner
from teamwright.strategies.plan.steps.step_work import StepAssignment, Work
from teamwright.strategies.plan.workers import Floor
from teamwright.strategies.protocol import introduction
from teamwright.values.events.team import TeamHandoff, TeamMessage
from teamwright.values.specs.plan import Step
from teamwright.values.turns.artifacts import POINTER
from teamwright.values.turns.messages import Conversation, History, Message
from teamwright.values.turns.turn import Failure, MemberRequest, TalkKind, Turn

OUTPUTS = "outputs/"
"""The beginning of the names of results in the workspace, where they stay when the team is dissolved."""
ASSIST = "{asker} asks for your help. Answer the question, and nothing else:\n{question}"
ANSWERED = "{helper} has answered."
UNKNOWN = "You can't reach {name!r}; your colleagues are: {there}."
REVIEWS = "{name!r} reviews this step, so it can't take it over."
DECIDES = "{name!r} decides between what is proposed, so it can't take this step over."
FINISH = "Finish your step {title!r}:\n{task}"
FINISH_OR_ASK = "Ask another colleague if you still need help, or finish your step {title!r}:\n{task}"
HANDED_OVER = "{source} hands the step {title!r} over to you: {note}\n\nThe step:\n{task}"
DECIDE = """\
The step {title!r} of {member} was discussed for {rounds} rounds without an end. Decide now: write the result of the \
step, with what is known.

The step:
{task}"""


class Discussion(Floor):
    """Members talk to each other while they work. With `sees: all`, all read what was said and done so far.

    Otherwise each reads what was said to it, besides the results that its step needs.
    """

    def __init__(self, state: PlanState, runner: StepRunner, ctx: Context) -> None:
        super().__init__(state, runner, ctx)
        self._sees_all = state.options.sees == "all"
        self._messages: list[tuple[tuple[str, ...], Message]] = []
        """The messages so far, with the names of those who read them."""
        self.conversation = Conversation()
        """What was said and done so far, where all read it."""
        self.conversation.extend(state.task.history)

    def make_turn(self, step_input: StepInput, member: str) -> Turn:
        """Return the turn of a step: what its member sees, the colleagues, and the task."""
        state, step, own = self._state, step_input.step, step_input.own_task
        reached = [introduction(state.members.named(name)) for name in self.reached_by(member)]
        left = [f"{name} (has left)" for name in state.team.left]
        lead = f"; {state.team.lead.name} leads the team" if state.options.is_led else ""
        notices = [message.content for message in state.notices_for(member)]
        prompt = "\n\n".join(
            filter(
                None,
                (
                    _listed(f"Your colleagues{lead}:", [*reached, *left]),
                    *notices,
                    f"The task of the team:\n{state.task.text}" if own else "",
                    f"You work on the step {step.title!r}:\n{own or state.task.text}",
                ),
            )
        )
        if self._sees_all:
            history = self.conversation.history()
        else:
            history = History.of((*state.task.history, *step_input.inputs, *self.messages_to(member)))
        return self.turn(prompt, history, step_input.number)

    def turn(self, prompt: str, history: History, number: int) -> Turn:
        """Return a turn with the files of the team's task, if its prompt has that task."""
        files = self._task.attachments if self._task.text in prompt else ()
        return Turn(prompt, history, number, attachments=files)

    async def after_step(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Add the result of the step to the conversation, and keep it in the workspace."""
        if reply := self._state.results.replies.get(step.id):
            self.keep(reply.messages)
            await ctx.workspace.put(OUTPUTS + step.id, reply.full.text, key="output")

    def reached_by(self, member: str) -> tuple[str, ...]:
        """Return whom a member can talk to: with `talk: lead` the lead alone, who reaches all."""
        options, team = self._state.options, self._state.team
        names = [*team.names, *([team.lead.name] if options.is_led else ())]
        if options.talk == "lead" and member != team.lead.name:
            names = [team.lead.name]
        return tuple(name for name in dict.fromkeys(names) if name != member)

    def messages_to(self, member: str) -> list[Message]:
        """Return the messages that a member was sent."""
        return [message for names, message in self._messages if member in names]

    def tell(self, names: tuple[str, ...], message: Message) -> None:
        """Let these members read a message from now on."""
        self._messages.append((names, message))
        self.keep([message])

    def keep(self, messages: Iterable[Message]) -> None:
        """Add what was said or done to the conversation, where all read it."""
        if self._sees_all:
            self.conversation.extend(messages)

    async def work(
        self, assignment: StepAssignment, member: Agent, turn: Turn, key: str, ctx: Context, task: str | None = None
    ) -> Work | Failure:
        """Return work on a step, or on a part of it with a `task` of its own, once its author wants nothing more."""
        own = task or self._state.outputs.task_text(assignment.step) or self._state.task.text
        return await StepTalk(self._state, self, assignment, turn, key, own, ctx).run(member)


class StepTalk:
    """The talk about one piece of work: a turn of its author, and what comes of the requests in it."""

    def __init__(
        self,
        state: PlanState,
        discussion: Discussion,
        assignment: StepAssignment,
        turn: Turn,
        key: str,
        task: str,
        ctx: Context,
    ) -> None:
        self._state, self._discussion, self._ctx = state, discussion, ctx
        self._step, self._assignment = assignment.step, assignment
        self._first, self._key, self._task = turn, key, task
        self._prefix = key.removesuffix(WORK) if key.endswith(WORK) else f"{key}-"
        self._said = Conversation()
        self._said.extend(turn.history)
        self._round = 1

    async def run(self, member: Agent) -> Work | Failure:
        """Let the author work, serve its requests in rounds, and let another decide if there is no end."""
        rounds = self._state.options.rounds_of_talk
        work = await self._ask(member, self._first, self._key, "ask" if rounds else "none")
        while isinstance(work, Work) and work.reply.awaits_others:
            self._say(work.reply.messages)
            if self._round > rounds:
                return await self._decide(work)
            work = await self._serve(work)
        return work

    async def _ask(self, member: Agent, turn: Turn, key: str, talk: TalkKind) -> Work | Failure:
        """Ask a member, and deliver its messages."""
        turn = replace(turn, talk=talk)
        reply = await self._ctx.ask(member, turn, key=key)
        if isinstance(reply, Failure):
            return reply
        for request in reply.requests:
            if request.type == "message":
                await self._tell(member.name, request)
        return Work(member, turn, key, reply)

    async def _tell(self, member: str, request: MemberRequest) -> None:
        """Record a message, and let others read its summary; the full text is in the workspace."""
        names = self._discussion.reached_by(member)
        await self._record("chat", member, names, request.text, original=request.original, round_=self._round)
        whole = f" ({POINTER}{request.original})" if request.original else ""
        message = Message(name=member, content=f"To all: {request.text}{whole}")
        self._discussion.tell(names, message)
        self._said.append(message)

    def _say(self, messages: Iterable[Message]) -> None:
        messages = tuple(messages)
        self._said.extend(messages)
        self._discussion.keep(messages)

    async def _serve(self, work: Work) -> Work | Failure:
        """Answer the questions of a turn in their order, hand over if it says so, and ask for the result.

        All turns for the step are as the first: with the tools of its role, and the model that works on it.
        """
        author, like, notes, refused = work.author, work.turn, list[str](), False
        place = f"{self._prefix}round-{self._round}"
        handover: MemberRequest | None = None
        requests = [one for one in work.reply.requests if one.type != "message"]
        for number, request in enumerate(requests, start=1):
            if problem := self._problem(request, author.name):
                notes.append(problem)
                refused = True
            elif request.type == "hand_over":
                handover = request
            else:
                answer = await self._assist(author.name, request, number)
                if isinstance(answer, Failure):
                    return answer
                notes.append(ANSWERED.format(helper=request.to))
        if handover is None:
            form = FINISH_OR_ASK if refused else FINISH
            notes.append(form.format(title=self._step.title, task=self._task))
        else:
            fact = TeamHandoff(source=author.name, to=handover.to, reason=handover.text)
            await self._ctx.emit(fact, key=f"{place}-handoff")
            names = {"source": author.name, "title": self._step.title, "note": handover.text, "task": self._task}
            notes.append(HANDED_OVER.format(**names))
            author, like = self._state.members.named(handover.to), replace(like, tier="primary", may_retry=True)
        self._round += 1
        said = self._turn(" ".join(notes))
        turn = replace(like, task=said.task, history=said.history, attachments=said.attachments)
        return await self._ask(author, turn, place, "ask")

    def _problem(self, request: MemberRequest, member: str) -> str:
        """Return why a request can't be served, as its sender reads it; empty if it can."""
        reached = self._discussion.reached_by(member)
        if request.to not in reached:
            return UNKNOWN.format(name=request.to, there=", ".join(reached) or "nobody")
        if request.type == "hand_over" and not self._assignment.may_write(self._state.members.named(request.to)):
            return (DECIDES if request.to == self._assignment.decider else REVIEWS).format(name=request.to)
        return ""

    def _turn(self, prompt: str) -> Turn:
        return self._discussion.turn(prompt, self._said.history(), self._first.number)

    async def _assist(self, asker: str, request: MemberRequest, number: int) -> Work | Failure:
        """Ask a colleague, and add its answer to what was said."""
        helper = self._state.members.named(request.to)
        place = f"{self._prefix}help-{self._round}{f'-{number}' if number > 1 else ''}"
        await self._record("assist_request", asker, (helper.name,), request.text, key=f"{place}-request")
        turn = self._turn(ASSIST.format(asker=asker, question=request.text))
        answer = await self._ask(helper, turn, place, "message")
        if isinstance(answer, Work):
            await self._record("assist", helper.name, (asker,), answer.reply.text, key=f"{place}-assist")
            self._say(answer.reply.messages)
        return answer

    async def _decide(self, work: Work) -> Work | Failure:
        """Let the lead end a discussion, or another one who may: its answer is the result of the step.

        It learns what was asked last.
        """
        team, author, key = self._state.team, work.author, f"{self._prefix}decision"
        able = (one for one in (team.lead, *team) if one.name != author.name and self._assignment.may_write(one))
        decider = next(able, author)
        for number, request in enumerate((one for one in work.reply.requests if one.type != "message"), start=1):
            await self._record("assist_request", author.name, (decider.name,), request.text, key=f"{key}-{number}")
            self._say([Message(name=author.name, content=f"To {request.to}: {request.text}")])
        names = {"title": self._step.title, "member": author.name, "task": self._task}
        prompt = DECIDE.format(rounds=self._state.options.rounds_of_talk, **names)
        decided = await self._ask(decider, self._turn(prompt), key, "message")
        if isinstance(decided, Work):
            others = self._discussion.reached_by(decider.name)
            await self._record("decision", decider.name, others, decided.reply.text, key=f"{key}/decided")
        return decided

    async def _record(
        self,
        kind: Literal["chat", "assist_request", "assist", "decision"],
        by: str,
        to: tuple[str, ...],
        text: str,
        *,
        original: str = "",
        round_: int = 0,
        key: str | None = None,
    ) -> None:
        fact = TeamMessage(type=kind, by=by, to=to, text=text, original=original, step=self._step.id, round=round_)
        await self._ctx.emit(fact, key=key)


def _listed(title: str, lines: Iterable[str]) -> str:
    found: Sequence[str] = list(lines)
    return "\n".join((title, *(f"- {line}" for line in found))) if found else ""
