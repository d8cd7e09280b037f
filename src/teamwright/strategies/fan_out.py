"""Runs the same work on many chunks concurrently: splitter, workers, aggregator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

from msgspec.structs import replace
from pydantic import Field, JsonValue, TypeAdapter, model_validator
from pydantic_core import to_json
from typing_extensions import TypedDict

from teamwright.agents.agent import Agent, Context
from teamwright.strategies.expressions import Template
from teamwright.strategies.part_results import BUDGET, FailurePolicy, PartResults, PlacedParts, part_turn, result_of
from teamwright.strategies.protocol import (
    Arrow,
    Diagram,
    ExpectedAsks,
    Issue,
    Members,
    Node,
    Settings,
    Strategy,
    Task,
    places,
)
from teamwright.strategies.reply_parsing import ParseFailure, read_answer
from teamwright.strategies.team_conversation import TeamConversation
from teamwright.values.limits import ClosingAsk
from teamwright.values.specs.tools import AgentName
from teamwright.values.turns.messages import Message
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Failure, Turn

MOST_CHUNKS = 10_000
"""A splitter that makes more fails the team before any work starts; budgets bound what fewer may cost."""


class FanOutOptions(FailurePolicy, PlacedParts):
    """The splitter or the chunks, how many run at once, and the aggregator."""

    splitter: AgentName | None = Field(default=None, description="the agent that splits the task into chunks")
    chunks: tuple[JsonValue, ...] | None = Field(
        default=None, min_length=1, description="the chunks, texts or any JSON, if they are known in advance"
    )
    task: str | None = Field(
        default=None, description="the task of a worker, as a template; by default the task of the team"
    )
    answer: AgentName | None = Field(
        default=None, description="the agent that gets the chunks with their results and gives the answer"
    )
    max_parallel: int = Field(default=10, ge=1, description="how many chunks are processed at once")

    @model_validator(mode="after")
    def _chunks_come_from_one_place(self) -> Self:
        if (self.splitter is None) == (self.chunks is None):
            raise ValueError("'fan_out' needs either a splitter or a list of chunks")
        return self


CHUNK_VARIABLES = ("task", "chunk", "number", "count")
"""The variables of the task template: the team's task, the chunk, its number from 1, and the number of chunks."""


class Chunks(TypedDict):
    """The structured output of a splitter."""

    chunks: list[JsonValue]


CHUNKS: TypeAdapter[Chunks | list[JsonValue]] = TypeAdapter(Chunks | list[JsonValue])
CHUNKS_SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"chunks": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "object"}]}}},
    "required": ["chunks"],
}


class FanOut(Strategy):
    """Members take the chunks in turn; a member that is splitter or aggregator takes none, unless all members are.

    With `share: transcript` a worker gets its chunk and then the task; the aggregator gets all chunks with their
    results, then the task. With `share: output` the chunk is the task of the worker, and the list of chunks and results
    that of the aggregator.
    """

    name = "fan_out"
    version = 1
    options = FanOutOptions
    unused = ("max_turns", "on_max_turns")

    def problems(self, settings: Settings, members: Members) -> list[Issue]:
        """Check the task template of the workers."""
        template = settings.read(FanOutOptions).task
        problem = None if template is None else Template(template).problem(CHUNK_VARIABLES)
        return [] if problem is None else [Issue(problem, ("task",))]

    def diagram(self, settings: Settings, members: Members) -> Diagram:
        """Return the chunks, the workers and the aggregator."""
        options = settings.read(FanOutOptions)
        if options.splitter is not None:
            first = Node(id="split", agent=options.splitter, about="splits the task into chunks")
        else:
            first = Node(id="split", label=f"{len(options.chunks or ())} chunks")
        workers = [node.changed(about="a chunk at a time") for node in places(_workers(members, options))]
        arrows = [Arrow(source=first.id, to=worker.id) for worker in workers]
        nodes, notes = [first, *workers], (f"{options.max_parallel} at once", f"on_failure: {options.on_failure}")
        if options.answer is not None:
            nodes.append(last := Node(id="aggregate", agent=options.answer, about="puts the results together"))
            arrows += [Arrow(source=worker.id, to=last.id) for worker in workers]
        return Diagram(nodes=tuple(nodes), arrows=tuple(arrows), notes=notes)

    def expected_asks(self, settings: Settings, members: Members) -> ExpectedAsks:
        """Return one ask for each known chunk, and one for the aggregator."""
        options = settings.read(FanOutOptions)
        chunks = dict.fromkeys(_names(options.chunks or ()), 0)
        return chunks | {"aggregate": 0} if chunks and options.answer else chunks

    def closing(self, settings: Settings, members: Members) -> Sequence[ClosingAsk]:
        """Return the aggregator, which reads the results of all chunks that the budget covers."""
        options = settings.read(FanOutOptions)
        if options.answer is None:
            return ()
        characters = sum(len(_message("chunk", chunk).content) for chunk in options.chunks or ())
        return [ClosingAsk(options.answer, characters=characters)]

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Split the task, process all chunks within the limit, and aggregate the results."""
        options, talk = task.settings.read(FanOutOptions), TeamConversation(task)
        chunks = options.chunks
        if options.splitter is not None:
            split_chunks = await _split(task, talk, members.named(options.splitter), ctx)
            if isinstance(split_chunks, Outcome):
                return split_chunks
            chunks = split_chunks
        run = FanOutRun.create(task, options, chunks or ())
        parts = await run.process(_workers(members, options), ctx)
        if ended := parts.finish(talk, run.names, closes=options.answer is not None):
            unpaid = ended.failure is not None and ended.failure.error == BUDGET
            return ended.changed(data=run.results(parts, gaps=True)) if unpaid else ended
        if not run.chunks:
            talk.warnings.append(f"{options.splitter!r} made no chunks, so there was nothing to work on")
        if options.answer is None:
            return talk.ended("done").changed(data=run.results(parts, gaps=options.on_failure == "collect"))
        turn = replace(run.aggregator_turn(parts), closing=True)
        reply = await ctx.ask(members.named(options.answer), turn, key="aggregate")
        return talk.receive(reply) or talk.ended("done")


async def _split(task: Task, talk: TeamConversation, splitter: Agent, ctx: Context) -> Sequence[JsonValue] | Outcome:
    """Return the chunks from the splitter; the outcome if it fails, terminates or returns invalid chunks."""
    turn = Turn(
        task.text, task.history, purpose="coordinate", output_schema=CHUNKS_SCHEMA, attachments=task.attachments
    )
    reply = await ctx.ask(splitter, turn, key="split")
    if isinstance(reply, Failure):
        return talk.failed(reply)
    if reply.signal == "terminate":
        talk.add(reply)
        return talk.ended("terminated")
    talk.warn(reply)
    found = read_answer(reply, CHUNKS)
    if isinstance(found, ParseFailure):
        text = f'its answer is no list of chunks: {found.problem}; it should answer {{"chunks": […]}}'
        return talk.failed(Failure(member=splitter.name, error="invalid_output", message=text))
    chunks = found["chunks"] if isinstance(found, dict) else found
    if len(chunks) > MOST_CHUNKS:
        text = f"it made {len(chunks)} chunks, more than {MOST_CHUNKS}; let it make larger ones"
        return talk.failed(Failure(member=splitter.name, error="invalid_output", message=text))
    return chunks


def _workers(members: Members, options: FanOutOptions) -> Sequence[Agent]:
    others = (options.splitter, options.answer)
    return [member for member in members if member.name not in others] or list(members)


@dataclass(frozen=True, slots=True)
class FanOutRun:
    """The chunks of one task. Each has a name, by its number, that identifies its branch and result."""

    task: Task
    options: FanOutOptions
    chunks: Sequence[JsonValue]
    names: Sequence[str]

    @classmethod
    def create(cls, task: Task, options: FanOutOptions, chunks: Sequence[JsonValue]) -> FanOutRun:
        return cls(task, options, tuple(chunks), _names(chunks))

    async def process(self, workers: Sequence[Agent], ctx: Context) -> PartResults:
        """Process all chunks. A failed chunk does not affect the others, unless the options say so."""
        parts = PartResults(self.options)
        async with ctx.branches(self.options.max_parallel, until=lambda: parts.is_over) as branches:
            for index, name in enumerate(self.names):
                worker, make_turn = workers[index % len(workers)], partial(self._turn, name, index)
                branches.start(name, partial(parts.run, name, worker, make_turn))
        return parts

    def results(self, parts: PartResults, *, gaps: bool) -> list[JsonValue]:
        """Return the results of the chunks in order; failed ones are omitted, or null with `gaps`."""
        found: list[JsonValue] = []
        for name in self.names:
            if reply := parts.replies.get(name):
                found.append(result_of(reply))
            elif gaps:
                found.append(None)
        return found

    def aggregator_turn(self, parts: PartResults) -> Turn:
        """Return the turn of the aggregator, which sees of a failed chunk at most that it failed."""

        def listed() -> str:
            return to_json(list(self._pairs(parts))).decode()

        number = len(self.chunks) + 1
        return part_turn(self.task, number, self._messages(parts), listed, purpose="coordinate")

    def _turn(self, name: str, index: int) -> Turn:
        chunk, number, own_task = self.chunks[index], index + 1, None
        message = _message(name, chunk)
        if self.options.task is not None:
            names = {"task": self.task.text, "chunk": chunk, "number": number, "count": len(self.chunks)}
            own_task = Template(self.options.task).render(names)
        return part_turn(self.task, number, (message,), lambda: message.content, own_task=own_task)

    def _pairs(self, parts: PartResults) -> Iterator[dict[str, JsonValue]]:
        for name, chunk in zip(self.names, self.chunks, strict=True):
            if reply := parts.replies.get(name):
                yield {"chunk": chunk, "result": result_of(reply)}
            elif self.options.on_failure == "collect":
                yield {"chunk": chunk, "failed": True}

    def _messages(self, parts: PartResults) -> Iterator[Message]:
        if not self.chunks:
            yield Message(name="chunks", content="There are no chunks, and so no results.", role="user")
        for name, chunk in zip(self.names, self.chunks, strict=True):
            reply = parts.replies.get(name)
            if reply is None and self.options.on_failure != "collect":
                continue
            yield _message(name, chunk)
            if reply is None:
                yield Message(name=name, content="This chunk failed: there is no result for it.", role="user")
            else:
                yield from reply.messages


def _message(name: str, chunk: JsonValue) -> Message:
    return Message(name=name, content=chunk if isinstance(chunk, str) else to_json(chunk).decode(), role="user")


def _names(chunks: Sequence[JsonValue]) -> Sequence[str]:
    return [f"chunk-{number}" for number in range(1, len(chunks) + 1)]
