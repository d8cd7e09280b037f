"""The same work on many chunks side by side: a splitter makes them, workers take them, an aggregator sums up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

from pydantic import Field, JsonValue, TypeAdapter, model_validator
from pydantic_core import to_json
from typing_extensions import TypedDict

from teamwright.agents.context import Context
from teamwright.agents.protocol import Agent
from teamwright.strategies.diagram import Arrow, Node, Sketch, places
from teamwright.strategies.expressions.template import Template
from teamwright.strategies.parallel.parts import BUDGET, FailurePolicy, Parts, part_turn, result_of
from teamwright.strategies.protocol import Flaw, Members, Outlook, Settings, Strategy, Task
from teamwright.strategies.reply_parsing import ParseFailure, read_answer
from teamwright.strategies.talk import Talk
from teamwright.values.results import Outcome
from teamwright.values.specs.manifest import AgentName
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Failure, Turn


class FanOutOptions(FailurePolicy):
    """What is split, by whom, how many work at once, and who puts the results together."""

    splitter: AgentName | None = Field(default=None, description="who splits the task into chunks")
    chunks: tuple[JsonValue, ...] | None = Field(
        default=None, min_length=1, description="the chunks, texts or any JSON, where they are known beforehand"
    )
    task: str | None = Field(
        default=None, description="what a worker is to do with its chunk, as a template; else the task of the team"
    )
    aggregator: AgentName | None = Field(default=None, description="who gets chunks and results, and gives the answer")
    limit: int = Field(default=10, ge=1, description="how many chunks are worked on at once")
    max_chunks: int = Field(default=1000, ge=1, description="a splitter that makes more fails the team")

    @model_validator(mode="after")
    def _chunks_come_from_one_place(self) -> Self:
        if (self.splitter is None) == (self.chunks is None):
            raise ValueError("'fan_out' needs either a splitter or a list of chunks")
        if self.chunks is not None and len(self.chunks) > self.max_chunks:
            raise ValueError(f"there are {len(self.chunks)} chunks, and max_chunks is {self.max_chunks}")
        return self


KNOWN = ("task", "chunk", "number", "count")
"""What the workers' template may ask about: the team's task, the chunk, its number from 1, and how many there are."""


class Chunks(TypedDict):
    """What a splitter answers."""

    chunks: list[JsonValue]


CHUNKS: TypeAdapter[Chunks | list[JsonValue]] = TypeAdapter(Chunks | list[JsonValue])
WANTED: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"chunks": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "object"}]}}},
    "required": ["chunks"],
}


class FanOut(Strategy):
    """Members take the chunks in turn; a splitter or an aggregator that is a member takes none, unless all are.

    With `share: transcript` a worker is told its chunk and then the task, and the aggregator all chunks with their
    results and then the task. With `share: output` the chunk is the worker's task, and the list of chunks and results
    the aggregator's.
    """

    name = "fan_out"
    version = 1
    options = FanOutOptions
    unused = ("max_turns", "on_max_turns")

    def problems(self, settings: Settings, members: Members) -> list[Flaw]:
        """The workers' template must be one."""
        template = settings.read(FanOutOptions).task
        problem = None if template is None else Template(template).problem(KNOWN)
        return [] if problem is None else [Flaw(problem, ("task",))]

    def sketch(self, settings: Settings, members: Members) -> Sketch:
        """From the chunks over the workers to whoever puts the results together."""
        options = settings.read(FanOutOptions)
        if options.splitter is not None:
            first = Node(id="split", agent=options.splitter, about="splits the task into chunks")
        else:
            first = Node(id="split", label=f"{len(options.chunks or ())} chunks")
        workers = [node.changed(about="a chunk at a time") for node in places(_workers(members, options))]
        arrows = [Arrow(source=first.id, to=worker.id) for worker in workers]
        nodes, notes = [first, *workers], (f"{options.limit} at once", f"on_failure: {options.on_failure}")
        if options.aggregator is not None:
            nodes.append(last := Node(id="aggregate", agent=options.aggregator, about="puts the results together"))
            arrows += [Arrow(source=worker.id, to=last.id) for worker in workers]
        return Sketch(nodes=tuple(nodes), arrows=tuple(arrows), notes=notes)

    def outlook(self, settings: Settings, members: Members) -> Outlook:
        """A turn for each chunk that is known, and one to put them together."""
        options = settings.read(FanOutOptions)
        chunks = dict.fromkeys(_names(options.chunks or ()), 0)
        return chunks | {"aggregate": 0} if chunks and options.aggregator else chunks

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Split, work on all chunks under the limit, put together."""
        options, talk = task.settings.read(FanOutOptions), Talk(task)
        chunks = options.chunks
        if options.splitter is not None:
            made = await _split(task, talk, members.named(options.splitter), options.max_chunks, ctx)
            if isinstance(made, Outcome):
                return made
            chunks = made
        job = Job.of(task, options, chunks or ())
        parts = await job.work(_workers(members, options), ctx)
        if ended := parts.end(talk, job.names):
            unpaid = ended.failure is not None and ended.failure.error == BUDGET
            return ended.changed(data=job.results(parts, gaps=True)) if unpaid else ended
        if not job.chunks:
            talk.warnings.append(f"{options.splitter!r} made no chunks, so there was nothing to work on")
        if options.aggregator is None:
            return talk.ended("done").changed(data=job.results(parts, gaps=options.on_failure == "collect"))
        turn = job.summary(parts)
        reply = await ctx.ask(members.named(options.aggregator), turn, key="aggregate")
        return talk.receive(reply) or talk.ended("done")


async def _split(task: Task, talk: Talk, splitter: Agent, most: int, ctx: Context) -> Sequence[JsonValue] | Outcome:
    """The chunks that the splitter makes; the outcome, if it ends the team or makes none that can be used."""
    turn = Turn(task.text, task.history, purpose="coordinate", output_schema=WANTED)
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
    if len(chunks) > most:
        text = f"it made {len(chunks)} chunks, and max_chunks is {most}; let it make larger ones, or allow more"
        return talk.failed(Failure(member=splitter.name, error="invalid_output", message=text))
    return chunks


def _workers(members: Members, options: FanOutOptions) -> Sequence[Agent]:
    others = (options.splitter, options.aggregator)
    return [member for member in members if member.name not in others] or list(members)


@dataclass(frozen=True, slots=True)
class Job:
    """The chunks of one task. Each has a name, by its number, under which everything about it is kept."""

    task: Task
    options: FanOutOptions
    chunks: Sequence[JsonValue]
    names: Sequence[str]

    @classmethod
    def of(cls, task: Task, options: FanOutOptions, chunks: Sequence[JsonValue]) -> Job:
        """The job of working on these chunks."""
        return cls(task, options, tuple(chunks), _names(chunks))

    async def work(self, workers: Sequence[Agent], ctx: Context) -> Parts:
        """Let the workers work on all chunks; a failed one leaves the others alone unless the options say otherwise."""
        parts = Parts(self.options)
        async with ctx.branches(self.options.limit, until=lambda: parts.over) as branches:
            for index, name in enumerate(self.names):
                worker, tell = workers[index % len(workers)], partial(self._turn, name, index)
                branches.start(name, partial(parts.work, name, worker, tell))
        return parts

    def results(self, parts: Parts, *, gaps: bool) -> list[JsonValue]:
        """What came of the chunks, in their order; of a failed one nothing, or null with `gaps`."""
        found: list[JsonValue] = []
        for name in self.names:
            if reply := parts.replies.get(name):
                found.append(result_of(reply))
            elif gaps:
                found.append(None)
        return found

    def summary(self, parts: Parts) -> Turn:
        """What the aggregator is told. Of a failed chunk it hears at most that it failed."""

        def listed() -> str:
            return to_json(list(self._pairs(parts))).decode()

        number = len(self.chunks) + 1
        return part_turn(self.task, number, self._messages(parts), listed, purpose="coordinate")

    def _turn(self, name: str, index: int) -> Turn:
        chunk, number, own = self.chunks[index], index + 1, None
        told = _message(name, chunk)
        if self.options.task is not None:
            names = {"task": self.task.text, "chunk": chunk, "number": number, "count": len(self.chunks)}
            own = Template(self.options.task).render(names)
        return part_turn(self.task, number, (told,), lambda: told.content, own=own)

    def _pairs(self, parts: Parts) -> Iterator[dict[str, JsonValue]]:
        for name, chunk in zip(self.names, self.chunks, strict=True):
            if reply := parts.replies.get(name):
                yield {"chunk": chunk, "result": result_of(reply)}
            elif self.options.on_failure == "collect":
                yield {"chunk": chunk, "failed": True}

    def _messages(self, parts: Parts) -> Iterator[Message]:
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
