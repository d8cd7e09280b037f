"""The rubric: deterministic criteria first, then a judge for the rest, if the work can still pass.

A rubric is an evaluator, which is an agent: its checks are effects, and its judges are asked through its context. A
program that checks a text gets it on stdin and no secrets, and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import os
import re
import signal
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, cast

import anyio
from pydantic import JsonValue
from pydantic_core import from_json, to_json

from teamwright.agents.agent import Agent, Context, MemberTree, require_agent
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.evaluators import EVALUATOR, Evaluator, criteria_problems, verdict_reply
from teamwright.agents.functions.imports import load_function, own_folder
from teamwright.agents.functions.instructions import call_off_loop
from teamwright.agents.functions.threads import finish
from teamwright.agents.json_schema import check as check_schema
from teamwright.agents.review import is_passing, weighted_score
from teamwright.agents.sandbox import excess_text, start_process
from teamwright.agents.sandbox_back_ends import find_sandbox
from teamwright.errors import AgentError, InvalidOutput, UsageError
from teamwright.experts.judge import Judge, Judgement
from teamwright.values.specs.evaluation import Criterion, Evaluate
from teamwright.values.specs.tools import SandboxSettings, sandbox_settings
from teamwright.values.text.display import cut, is_blank
from teamwright.values.text.timed_regex import PatternSearch
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import (
    NO_WORK,
    CriterionResult,
    EvaluatedWork,
    EvaluationVerdict,
    JudgeRecord,
    Reply,
    ToolUse,
    Turn,
)

CONTEXT = "context"
CONTEXT_FILE, FILES = "context.json", "files"
CONTEXT_VARIABLE = "TEAMWRIGHT_CHECK"
"""Where a command that works in the tree of the author finds the folder with its context."""
MOST_NAME_BYTES = 200
INHERITED = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""The variables that a program inherits: none of them is a secret."""
MOST_BYTES, LOOK_SECONDS = 16 << 20, 0.1
"""How much a program may print, and how often that is looked at."""
SHOWN_BYTES = 400
"""How much of the end of the program's output becomes the reason."""
BESIDE = re.compile(r"\.\.?/")
"""The beginning of an argument that is a path beside the manifest."""
LONGEST_REASON = 500
Finding = tuple[float, str]
"""A score, and the reason of one that is too low."""
NOT_ASKED = "not judged, because the checks before it did not pass"
NOT_REACHED = "not evaluated, because the evaluation broke off"


@dataclass(frozen=True, slots=True)
class CheckFile:
    """A file that went with the task or with the reply."""

    name: str
    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The task of the author and its name, the data of its reply, files, what the criterion expects, and what its
    tools returned.
    """

    task: str = ""
    member: str = ""
    data: JsonValue = None
    files: tuple[CheckFile, ...] = ()
    expected: JsonValue = None
    tool_uses: tuple[ToolUse, ...] = ()

    def write_to(self, folder: Path) -> None:
        """Write the context to a folder: `context.json`, and each file under its own name in `files/`."""
        names: list[JsonValue] = []
        taken: set[str] = set()  # without case, as some file systems compare
        for number, file in enumerate(self.files, start=1):
            name = _plain_name(file.name) or f"file-{number}"
            while name.casefold() in taken:
                name = f"{number}-{name}"
            taken.add(name.casefold())
            place = folder / FILES / name
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(file.content)
            names.append(f"{FILES}/{place.name}")
        found = {"task": self.task, "member": self.member, "data": self.data, "expected": self.expected, FILES: names}
        found["tool_uses"] = [one.to_json() for one in self.tool_uses]
        (folder / CONTEXT_FILE).write_bytes(to_json(found, indent=1))


async def open_context(task: str, work: EvaluatedWork, criterion: Criterion, ctx: Context) -> CheckContext:
    """Return the context of a check, with the content of the files."""
    files: list[CheckFile] = []
    for one in work.files:
        content = await ctx.workspace.open(one)
        raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        files.append(CheckFile(one.name, one.media_type, raw))
    return CheckContext(task, work.member, work.data, tuple(files), criterion.expected, work.tool_uses)


def takes_context(function: Callable[..., object]) -> bool:
    """Whether a function takes a context after the text: a second parameter without a default, or called `context`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a built-in function without a signature
        return False
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return len(positional) > 1 and (positional[1].default is inspect.Parameter.empty or positional[1].name == CONTEXT)


def _plain_name(name: str) -> str:
    """Return the last part of a name, without what leads out of a folder, and no longer than a file system takes."""
    last = PurePosixPath(name.replace("\\", "/")).name.replace("\0", "")
    return "" if last in (".", "..") else last.encode(errors="replace")[:MOST_NAME_BYTES].decode(errors="ignore")


EMPTY = CheckContext()


async def run_command(
    command: Sequence[str], text: str, context: CheckContext = EMPTY, tree: Path | None = None
) -> tuple[int, str]:
    """Return the exit code of a program that gets this text, and the end of its output.

    It works in a folder with the context, or in the tree of the author, and then finds the context by a variable.
    """
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        await anyio.to_thread.run_sync(context.write_to, Path(folder))
        try:
            starting = asyncio.create_subprocess_exec(
                *_located(command),
                cwd=tree or folder,
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment if tree is None else {**environment, CONTEXT_VARIABLE: folder},
                start_new_session=True,
            )
            process = await start_process(starting, _end)
        except (OSError, ValueError) as error:
            raise AgentError(f"the program {command[0]!r} can't be started: {error}") from error
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_bound_output, process, output)
                await process.communicate(text.encode("utf-8", "replace"))
                tasks.cancel_scope.cancel()
        finally:
            await finish(_end(process))
        assert process.returncode is not None
        size = output.seek(0, os.SEEK_END)
        if size > MOST_BYTES:
            raise AgentError(f"the program {command[0]!r} printed more than {MOST_BYTES >> 20} MiB")
        output.seek(max(0, size - SHOWN_BYTES))
        return process.returncode, output.read().decode("utf-8", "replace").strip()


async def run_confined(
    command: Sequence[str],
    text: str,
    settings: SandboxSettings,
    context: CheckContext = EMPTY,
    tree: Path | None = None,
) -> tuple[int, str]:
    """Return what `run_command` does of a program in a sandbox, which may read the folders of its paths in the command.

    Raises `AgentError` if it was ended.
    """
    located = _located(command)
    beside = (os.path.dirname(one) for one in located if os.path.isabs(one))  # noqa: PTH117, PTH120 - as text
    settings = settings.model_copy(update={"readable": tuple(dict.fromkeys((*settings.readable, *beside)))})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        await anyio.to_thread.run_sync(context.write_to, Path(folder))
        if tree is not None:
            readable, env = (*settings.readable, folder), {**settings.env, CONTEXT_VARIABLE: folder}
            settings = settings.model_copy(update={"readable": readable, "env": env})
        outcome = await find_sandbox(settings).run(located, tree or Path(folder), settings, text=text)
    if outcome.excess is not None:
        raise AgentError(f"the program {command[0]!r} was ended, because {excess_text(outcome.excess, settings)}")
    return outcome.exit_code, outcome.output.encode()[-SHOWN_BYTES:].decode("utf-8", "replace").strip()


async def _bound_output(process: asyncio.subprocess.Process, output: IO[bytes]) -> None:
    """Kill a program that prints without end, before it fills the disk."""
    while os.fstat(output.fileno()).st_size <= MOST_BYTES:  # noqa: ASYNC110 - nothing tells that a file grows
        await anyio.sleep(LOOK_SECONDS)
    _kill(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    _kill(process)
    await process.wait()


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _located(command: Sequence[str]) -> list[str]:
    """Return the command with its paths beside the manifest in full, since it works in another folder.

    These are a program with a relative path, and arguments that begin with `./` or `../`.
    """
    program, *arguments = command
    beside = own_folder() or os.getcwd()  # noqa: PTH109 - as text
    found = [os.path.normpath(os.path.join(beside, one)) if BESIDE.match(one) else one for one in arguments]  # noqa: PTH118
    if "/" not in program:
        return [program, *found]
    path = os.path.normpath(os.path.join(beside, program))  # noqa: PTH118
    if not os.path.isfile(path):  # noqa: PTH113
        raise AgentError(f"the program {program!r} can't be started: there is no file {path!r}")
    return [path, *found]


OpenContext = Callable[[], Awaitable[CheckContext]]
"""Reads what a check may know of the work besides its text, once it is needed."""


class CheckFailed(AgentError):
    """A check could not be completed."""


async def run_check(
    criterion: Criterion, work: str, ctx: Context, task: str = "", about: EvaluatedWork = NO_WORK
) -> CriterionResult:
    """Return the result of a criterion that needs no judge; raises `CheckFailed` if the check itself fails.

    `task` is what the author was asked for, and `about` what else is known of the work.
    """
    finding = _simple_finding(criterion, work)
    if finding is None:
        finding = await _recorded_finding(criterion, work, partial(open_context, task, about, criterion, ctx), ctx)
    score, reason = finding
    passed = score >= criterion.threshold
    return CriterionResult(id=criterion.id, passed=passed, score=score, reason="" if passed else reason)


def _simple_finding(criterion: Criterion, work: str) -> Finding | None:
    """Return the finding of a criterion that only looks at the text; `None` for another one."""
    if criterion.contains is not None:
        return _finding(criterion.contains in work, f"it does not contain {cut(criterion.contains, 80)!r}")
    if criterion.length is not None:
        if criterion.length.min and is_blank(work):
            return _finding(passed=False, reason="it is blank")
        least, most, count = criterion.length.min, criterion.length.max, len(work)
        bounds = f"at least {least}" if most is None else f"{least} to {most}"
        fits = least <= count and (most is None or count <= most)
        return _finding(fits, f"it has {count} characters, and {bounds} are wanted")
    return None


def _finding(passed: bool, reason: str) -> Finding:
    return (1.0, "") if passed else (0.0, reason)


async def _recorded_finding(criterion: Criterion, work: str, open_it: OpenContext, ctx: Context) -> Finding:
    """Make the check as an effect, and return what was found or recorded."""
    find = _finder(criterion, work, open_it, ctx.tree)

    async def call(_: Attempt) -> Returned:
        score, reason = await find()
        return Returned({"score": score, "reason": cut(reason, LONGEST_REASON)})

    declared = criterion.model_dump_json(exclude_defaults=True)
    effect = Effect(
        kind="function", name=criterion.id, request=digest(declared, work), call=call, timeout=criterion.timeout
    )
    try:
        found = cast("dict[str, JsonValue]", (await ctx.effect(f"check-{criterion.id}", effect)).value)
    except AgentError as error:
        raise CheckFailed(f"the check {criterion.id!r} failed: {error}") from error
    return float(cast("float", found["score"])), str(found["reason"])


def _finder(
    criterion: Criterion, work: str, open_it: OpenContext, tree: MemberTree | None
) -> Callable[[], Awaitable[Finding]]:
    if criterion.command is not None:
        return partial(_find_by_command, criterion.command, criterion, work, open_it, tree)
    if criterion.function is not None:
        return partial(_find_by_function, criterion.function, criterion.id, work, open_it)
    if criterion.regex is not None:
        return partial(call_off_loop, partial(_search, criterion.regex), criterion.id, work)  # pyright: ignore[reportReturnType]
    assert criterion.output_schema is not None
    return partial(call_off_loop, partial(_fit, criterion.output_schema), criterion.id, work)  # pyright: ignore[reportReturnType]


def _search(pattern: str, work: str) -> Finding:
    return _finding(PatternSearch().found(pattern, work), f"nothing matches '{cut(pattern, 80)}'")


def _fit(schema: dict[str, JsonValue], work: str) -> Finding:
    try:
        value = cast("JsonValue", from_json(work.strip(), allow_inf_nan=False))
        check_schema(schema, value, "it")
    except InvalidOutput as error:
        return 0.0, str(error)
    except ValueError as error:
        return 0.0, f"it is not JSON ({error})"
    return 1.0, ""


async def _find_by_command(
    command: tuple[str, ...], criterion: Criterion, work: str, open_it: OpenContext, tree: MemberTree | None
) -> Finding:
    """Run the command in a folder of its own, or in the tree of the author, where nothing that it leaves is kept."""
    context = await open_it()
    if tree is None:
        code, output = await _run(command, criterion, work, context, None)
    else:
        async with tree.work() as folder:
            code, output = await _run(command, criterion, work, context, folder)
        tree.restore()
        output = output.replace(f"{folder}{os.sep}", "")  # its author has the same files elsewhere
    return _finding(code == 0, f"{command[0]} exited with {code}: {output}" if output else f"it exited with {code}")


async def _run(
    command: Sequence[str], criterion: Criterion, work: str, context: CheckContext, tree: Path | None
) -> tuple[int, str]:
    if criterion.sandbox is None:
        return await run_command(command, work, context, tree)
    settings = sandbox_settings(criterion.sandbox).model_copy(update={"seconds": criterion.timeout})
    return await run_confined(command, work, settings, context, tree)


async def _find_by_function(path: str, name: str, work: str, open_it: OpenContext) -> Finding:
    try:
        function = load_function(path, f"the check {name!r}")
    except UsageError as error:
        raise AgentError(str(error)) from error
    more = (await open_it(),) if takes_context(function) else ()
    return _read_finding(await call_off_loop(function, f"the check {name!r}", work, *more))


def _read_finding(found: object) -> Finding:
    """Read what a function returned: true, false, a score from 0 to 1, or one of them in a pair with the reason."""
    reason = "the check says no"
    if isinstance(found, tuple) and len(cast("tuple[object, ...]", found)) == 2:
        found, said = cast("tuple[object, object]", found)
        reason = str(said)
    if isinstance(found, bool):
        return _finding(found, reason)
    if isinstance(found, int | float) and math.isfinite(found) and 0 <= found <= 1:
        return float(found), reason
    raise AgentError(f"it must return True, False, a score from 0 to 1, or a pair with the reason, not {found!r:.100}")


class Rubric(Evaluator):
    """An evaluator with weighted criteria. `judge` answers those that are questions.

    In Python, the judges are agents: `evaluate=Rubric(Evaluate(criteria=(…)), judge=critic)`, or several in a list.
    """

    kind = EVALUATOR

    def __init__(
        self,
        declaration: Evaluate | None = None,
        *,
        judge: Agent | Sequence[Agent] = (),
    ) -> None:
        given = declaration if declaration is not None else Evaluate()
        if not isinstance(given, Evaluate):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped code
            raise UsageError(f"A rubric takes an Evaluate, not {given!r:.100}.")
        found = tuple(require_agent(one) for one in (judge if isinstance(judge, list | tuple) else (judge,)))
        names = tuple(one.name for one in found)
        only_names = given.judges[len(found) :]
        if found and not only_names:
            given = given.model_copy(update={"judge": names[0] if len(names) == 1 else names})
        self.declaration = given
        problems = [*self.declaration.problems(), *criteria_problems(self.declaration)]
        problems += (f"the judge {name!r} is only a name; pass the agent as  judge=…" for name in only_names)
        if problems:
            raise UsageError.several(f"The rubric: {text}." for text in problems)
        self.name = self.declaration.evaluator_name
        self.judges: tuple[Agent, ...] = tuple({id(one): one for one in found}.values())

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Evaluate the work, which is the task of the turn, and reply with the verdict."""
        task = turn.history[-1].content if turn.history else ""
        return verdict_reply(self.name, await self.evaluate(task, turn.task, ctx, turn.work or NO_WORK))

    async def evaluate(self, task: str, work: str, ctx: Context, about: EvaluatedWork = NO_WORK) -> EvaluationVerdict:
        """Return the verdict on work that answers this task; checks also get what else is known about it."""
        results: list[CriterionResult] = []
        for criterion in self.declaration.rubric:
            if criterion.judge is not None:
                continue
            try:
                results.append(await run_check(criterion, work, ctx, task, about))
            except CheckFailed as error:
                return self._verdict(results).exceeded(str(error))
        judged = [one for one in self.declaration.rubric if one.judge is not None]
        if not judged:
            return self._verdict(results)
        if not self._can_pass(results, judged):
            skipped = [CriterionResult(id=one.id, passed=False, score=0.0, reason=NOT_ASKED) for one in judged]
            return self._verdict([*results, *skipped])
        return await self._judged_verdict(task, work, results, judged, ctx, about)

    def _can_pass(self, results: list[CriterionResult], judged: list[Criterion]) -> bool:
        """Return whether the work passes if the judge passes everything; if not, asking the judge would be wasted."""
        best = [CriterionResult(id=one.id, passed=True, score=1.0) for one in judged]
        return is_passing([*results, *best], self.declaration)

    async def _judged_verdict(
        self,
        task: str,
        work: str,
        results: list[CriterionResult],
        judged: list[Criterion],
        ctx: Context,
        about: EvaluatedWork,
    ) -> EvaluationVerdict:
        """Ask the judges in their order, each about work that the one before passes."""
        records: list[JudgeRecord] = []
        verdict = self._verdict(results)
        for number, agent in enumerate(self.judges, start=1):
            judge = Judge(agent, self.declaration.times, self.declaration.merge)
            judgement = await judge.judge(task, work, judged, ctx, "judge" if number == 1 else f"judge-{number}", about)
            records.append(judgement.record)
            verdict = self._verdict([*results, *judgement.results], judgement, tuple(records))
            if judgement.problem:
                return verdict.exceeded(judgement.problem)
            if not verdict.passes:
                break
        return verdict

    def _verdict(
        self,
        results: list[CriterionResult],
        judgement: Judgement | None = None,
        records: tuple[JudgeRecord, ...] = (),
    ) -> EvaluationVerdict:
        """Return the verdict of these results; criteria without one were not reached."""
        known = {one.id: one for one in results}
        complete = tuple(
            known.get(one.id, CriterionResult(id=one.id, passed=False, score=0.0, reason=NOT_REACHED))
            for one in self.declaration.rubric
        )
        verdict = EvaluationVerdict(
            outcome="pass" if is_passing(complete, self.declaration) else "revise",
            criteria=complete,
            score=weighted_score(complete, self.declaration) if self.declaration.reviews else None,
            rubric=self.declaration.rubric_digest,
            judges=records,
        )
        if judgement is None:
            return verdict
        return verdict.changed(
            feedback=judgement.feedback,
            suggestions=judgement.suggestions,
            missing=judgement.missing,
            unknown=judgement.unknown,
        )
