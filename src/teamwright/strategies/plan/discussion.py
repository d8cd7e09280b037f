"""Members that talk: a discussion while they work on a step, and an exchange after each round.

Whatever a member says in a turn stands in its reply, in order, and is read here alone, after that turn and under its
step. What this module does not read, the engine refuses to the member that says it: see `Turn.talk`. In an exchange,
each worker sees the results of the others and may respond; the next round waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

from msgspec.structs import replace

from teamwright.agents.agent import Agent, Context
from teamwright.strategies.part_results import WORK
from teamwright.strategies.plan.rounds import Floor, Lead, Round, WorkerPool, forwarded_limits, rounds_of
from teamwright.strategies.plan.state import PlanState
from teamwright.strategies.plan.steps.step_board import StepInput
from teamwright.strategies.plan.steps.step_runner import StepRunner
from teamwright.strategies.plan.steps.step_work import StepAssignment, Work
from teamwright.strategies.protocol import introduction
from teamwright.values.events.team import TeamHandoff, TeamMessage, TeamMessageSent
from teamwright.values.specs.plan import Step
from teamwright.values.turns.artifacts import POINTER
from teamwright.values.turns.messages import Conversation, History, Message
from teamwright.values.turns.turn import Failure, MemberRequest, Reply, TalkKind, Turn

HEAR = """\
You and others work side by side through a plan. Above stands what came of this round, yours among it. Tell the \
others, in a few sentences, what of it they have to know or to change before they go on, or that there is nothing.

The task of the team:
{task}"""


class Exchange(Floor):
    """Workers exchange messages after each round, which the next one waits for."""

    def __init__(self, state: PlanState, runner: StepRunner, ctx: Context, lead: Lead, workers: WorkerPool) -> None:
        super().__init__(state, runner, ctx)
        self._policy, self._lead, self._workers = state.options.policy, lead, workers
        self._rounds: list[Round] = []
        self._next = 0
        self._round = Round(0, ())
        self._peer_messages: dict[str, Message] = {}

    async def run(self, width: int, ctx: Context) -> None:
        """Run the rounds, each with an exchange after it."""
        while self._next < len(self._rounds):
            round_ = self._rounds[self._next]
            await self.run_round(round_, ctx)
            queue = self._runner.queue
            left = queue.open & {step.id for step in round_.steps}
            if self._state.results.is_over or (left and self._runner.is_held):
                break
            self._next += 1
            if left:  # since the plan has changed, they need steps of later rounds
                waiting = tuple(step for step in queue.steps.values() if step.id in queue.open)
                self._rounds[self._next :] = rounds_of(waiting, self._state, self._ctx, self._next)
            for number in range(1, self._state.options.rounds_of_talk + 1):
                await self.exchange(round_, number, ctx)
            if self._state.ended_by is not None:
                self._state.results.is_over = True
                break
            if self._runner.is_held:
                break

    def set_steps(self, steps: Sequence[Step]) -> None:
        """Put steps that have not begun into rounds, unless they are in one that is not over."""
        known = {step.id for round_ in self._rounds[self._next :] for step in round_.steps}
        new = tuple(step for step in steps if step.is_open and step.id not in known)
        self._rounds += rounds_of(new, self._state, self._ctx, len(self._rounds))

    async def run_round(self, round_: Round, ctx: Context) -> None:
        """Run the steps of a round concurrently."""
        self._round = round_
        await self._runner.run(self._workers.size, ctx, {step.id for step in round_.steps})
        self._peer_messages = {}  # these were for this round
        known, collects = self._state.results, self._policy.on_failure == "collect"
        ids = (step.id for step in round_.steps if step.id in known.replies or (collects and step.id in known.failures))
        self._lead.add_messages(map(self._state.outputs.message_of, ids))

    async def exchange(self, round_: Round, number: int, ctx: Context) -> None:
        """Send each worker the results of the others or, after the first exchange, their responses."""
        results = list(self._results(round_))
        sent = _by_worker(results) if number == 1 else {name: [one] for name, one in self._peer_messages.items()}
        workers = (*self._workers.active(ctx), *(worker for worker, _ in results))
        recipients = {worker.name: worker for worker in workers}
        if not ctx.cutback.peers or not sent or len(recipients) < 2 or self._state.ended_by is not None:
            return
        for name in sent:
            others = tuple(other for other in recipients if other != name)
            await ctx.emit(TeamMessageSent(by=name, to=others, round=round_.number))
        replies: dict[str, Reply] = {}
        async with ctx.branches(len(recipients), until=lambda: self._state.ended_by is not None) as branches:
            for name, worker in recipients.items():
                branches.start(f"round-{round_.number}/{number}-{name}", partial(self._ask_peer, worker, sent, replies))
        self._peer_messages = {
            name: replies[name].messages[-1] for name in recipients if name in replies and replies[name].messages
        }
        self._lead.add_messages(self._peer_messages.values())

    def context(self, step: Step, member: str) -> Sequence[Message]:
        """Return the envelope of the batch, and the responses after the previous round."""
        own = self._round.envelopes.get(step.id)
        return [*([own] if own else ()), *self._peer_messages.values()]

    async def after_step(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Record that the lead handed out the step and gets its result."""
        if worker.name == (lead := self._lead.agent.name):
            return
        await ctx.emit(TeamMessageSent(by=lead, to=(worker.name,), round=self._round.number))
        if step.id in self._state.results.replies:
            await ctx.emit(TeamMessageSent(by=worker.name, to=(lead,), round=self._round.number))

    def _results(self, round_: Round) -> Iterator[tuple[Agent, Message]]:
        """Yield the workers of a round, without the lead, each with its result."""
        for step in round_.steps:
            worker = self._runner.workers.get(step.id)
            if worker is not None and worker.name != self._lead.agent.name and step.id in self._state.results.replies:
                yield worker, self._state.outputs.message_of(step.id)

    async def _ask_peer(
        self, worker: Agent, sent: Mapping[str, Sequence[Message]], replies: dict[str, Reply], ctx: Context
    ) -> None:
        history = History.of(message for messages in sent.values() for message in messages)
        limits = forwarded_limits(self._task)
        text, files = HEAR.format(task=self._task.text), self._task.attachments
        turn = Turn(text, history, self._round.number, "coordinate", envelope_limits=limits, attachments=files)
        reply = await ctx.ask(worker, turn, key="hear")
        if (said := self._state.heard(reply)) is not None:
            replies[worker.name] = said


def _by_worker(results: Sequence[tuple[Agent, Message]]) -> Mapping[str, Sequence[Message]]:
    found: dict[str, list[Message]] = {}
    for worker, message in results:
        found.setdefault(worker.name, []).append(message)
    return found


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
