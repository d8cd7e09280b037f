"""Microsoft Agent Framework as its documentation shows it: a workflow of executors that send messages along edges.

Its sequential orchestration passes the conversation on from member to member, so that is the main case. The framework
copies what an executor is sent for its event stream, so the cost grows with the conversation; a second case passes on
the last reply alone, a smaller job than the others do, as the least that the framework can cost. It has no SQLite
store, so it runs in memory only, with its instrumentation off.
"""

import time
from collections.abc import Sequence
from typing import Never

from agent_framework import Executor, Message, Workflow, WorkflowBuilder, WorkflowContext, handler

from bench.workload import TASK, Database, check, texts


class Opening(Executor):
    """Turns the task into a conversation."""

    @handler
    async def begin(self, task: str, ctx: WorkflowContext[list[Message]]) -> None:
        await ctx.send_message([Message("user", [task])])


class Member(Executor):
    """Answers at once and passes the conversation on."""

    def __init__(self, index: int, reply: str) -> None:
        super().__init__(id=f"member-{index}")
        self.reply = reply

    @handler
    async def answer(self, conversation: list[Message], ctx: WorkflowContext[list[Message]]) -> None:
        await ctx.send_message([*conversation, Message("assistant", [self.reply], author_name=self.id)])


class Ending(Executor):
    """Yields the conversation as the workflow's output."""

    @handler
    async def finish(self, conversation: list[Message], ctx: WorkflowContext[Never, list[Message]]) -> None:
        await ctx.yield_output(conversation)


class Worker(Executor):
    """Answers at once and passes on only its own reply."""

    def __init__(self, index: int, reply: str) -> None:
        super().__init__(id=f"member-{index}")
        self.reply = reply

    @handler
    async def answer(self, conversation: list[Message], ctx: WorkflowContext[Message]) -> None:
        await ctx.send_message(Message("assistant", [self.reply], author_name=self.id))


class Follower(Executor):
    """Reads the last reply and answers it; a list outside the workflow collects the replies at no cost."""

    def __init__(self, index: int, reply: str, said: list[str]) -> None:
        super().__init__(id=f"member-{index}")
        self.reply = reply
        self.said = said

    @handler
    async def answer(self, before: Message, ctx: WorkflowContext[Message]) -> None:
        self.said.append(self.reply)
        await ctx.send_message(Message("assistant", [self.reply], author_name=self.id))


class WholeConversation:
    """A workflow in which each member gets the whole conversation."""

    async def chain(self, turns: int, database: Database) -> float:
        replies = texts(turns)
        opening, ending = Opening(id="opening"), Ending(id="ending")
        members = [Member(index, reply) for index, reply in enumerate(replies)]
        builder = WorkflowBuilder(max_iterations=turns + 10, start_executor=opening)
        seconds, output = await _run(builder.add_chain([opening, *members, ending]).build(), TASK)
        check([message.text for message in output[0][1:]], replies)
        return seconds

    async def fan_out(self, members: int, database: Database) -> float:
        replies = texts(members)
        opening, ending = Opening(id="opening"), Ending(id="ending")
        workers = [Worker(index, reply) for index, reply in enumerate(replies)]
        builder = WorkflowBuilder(start_executor=opening)
        seconds, output = await _run(
            builder.add_fan_out_edges(opening, workers).add_fan_in_edges(workers, ending).build(), TASK
        )
        check([message.text for message in output[0]], replies)
        return seconds


class LastReplyOnly(WholeConversation):
    """A workflow in which each member gets only the previous reply."""

    async def chain(self, turns: int, database: Database) -> float:
        replies, said = texts(turns), list[str]()
        members = [Follower(index, reply, said) for index, reply in enumerate(replies)]
        builder = WorkflowBuilder(max_iterations=turns + 10, start_executor=members[0])
        seconds, _ = await _run(builder.add_chain(members).build(), Message("user", [TASK]))
        check(said, replies)
        return seconds


async def _run(workflow: Workflow, task: object) -> tuple[float, Sequence[Sequence[Message]]]:
    started = time.perf_counter()
    result = await workflow.run(task)
    return time.perf_counter() - started, result.get_outputs()
