"""Applies the changes of a piece of work to the team's branch, or gives them back to who resolves why they are refused.

A merge is asked for like a member, so it is recorded, delivered in order and replayed. It is computed from the branch
as it was when it was asked for: where other changes were applied meanwhile, it is computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol, cast

from msgspec import convert, to_builtins
from msgspec.structs import replace

from teamwright.agents.agent import Agent, Context
from teamwright.agents.attachments import Attachment
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.runtime.scope import Scope
from teamwright.runtime.working_trees.member_trees import RunTrees
from teamwright.runtime.working_trees.repository import Signature
from teamwright.values.events.agent import PatchRefusal, RefusedFile, WorkspacePatched, WorkspaceRefused
from teamwright.values.limits import Spend
from teamwright.values.run_keys import join_key
from teamwright.values.text.display import count_text, cut
from teamwright.values.turns.artifacts import PATCH, Artifact, TreeState, patch_in, patch_name
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Failure, Reply, Turn
from teamwright.values.value import JsonValue

MERGE = "merge"
"""The name and the kind of what merges, and the first part of the keys of its asks and of those that resolve."""
CONFLICT = "conflict"
"""The error of work whose changes were refused as often as they may be."""
MOST_FILES, LONGEST_SUBJECT = 200, 72
REASONS: dict[PatchRefusal, str] = {
    "conflict": (
        "others have changed the same lines meanwhile. Both versions now stand in your files, between lines that begin"
        " with <<<<<<< and >>>>>>>; edit these files so that both purposes are met, and take those lines out"
    ),
    "unresolved": "lines that begin with <<<<<<< or >>>>>>> still mark a conflict; resolve it, and take them out",
    "not_owned": "your step does not own these files; put them back as they were, and say what they need",
    "unsafe": "these are links that lead out of the files of the team, or repositories of their own; take them out",
}


class AskAgain(Protocol):
    """Asks a member; the context of a strategy."""

    async def ask(self, member: Agent, turn: Turn, *, key: str) -> Reply | Failure: ...


class MergeAgent(Agent):
    """Merges the changes of one piece of work onto the branch, and says how that ended."""

    name = kind = MERGE

    def __init__(self, trees: RunTrees, author: str, message: str, *, resolves: bool) -> None:
        self._trees, self._author, self._message, self._resolves = trees, author, message, resolves

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Return the commit, or the reason why there is none."""
        request = digest(turn.digest, self._author, self._message)
        call = partial(self._merge, turn, ctx)
        effect = Effect(kind="function", name=MERGE, request=request, call=call, ceiling=Spend(tokens=0, usd=0))
        returned = await ctx.effect("merge", effect)
        found = cast("dict[str, Any]", returned.value)
        text = f"commit {found['commit'][:12]}" if "commit" in found else f"refused: {found['reason']}"
        return Reply.of(MERGE, text, data=returned.value, artifacts=returned.artifacts)

    async def _merge(self, turn: Turn, ctx: Context, _: Attempt) -> Returned:
        assert turn.tree is not None
        assert turn.tree.patch is not None
        changes = TreeState.after((turn.tree.patch,))
        assert changes is not None
        onto, tree = turn.tree.commit, await self._trees.tree_of(changes)
        repository = self._trees.repository
        changed = await repository.changes(changes.commit, tree)
        if unsafe := await repository.unsafe(changed):
            return self._refused("unsafe", [RefusedFile(path=path) for path in unsafe])
        if beyond := [one.path for one in changed if not ctx.owned.may_write(one.path)]:
            return self._refused("not_owned", [RefusedFile(path=path) for path in beyond])
        if self._resolves and (marked := await repository.marked(tree, [one.path for one in changed if one.mode])):
            return self._refused("unresolved", marked)
        merged = await repository.merge(onto, changes.commit, tree)
        if merged.conflicts:
            content = await repository.patch(onto, merged.tree)
            return self._refused("conflict", merged.conflicts, Attachment(content, patch_name(onto, 1), PATCH))
        if merged.tree == await repository.tree_of(onto):
            return Returned({"commit": onto, "parent": onto})
        by = Signature(self._author, self._trees.started_at, self._message)
        commit = await repository.commit(merged.tree, (onto,), by)
        added, removed = await repository.line_counts(onto, commit)
        files = tuple(one.path for one in await repository.changes(onto, merged.tree))[:MOST_FILES]
        value = {"commit": commit, "parent": onto, "files": files, "added": added, "removed": removed}
        return Returned(cast("JsonValue", to_builtins(value)))

    @staticmethod
    def _refused(reason: PatchRefusal, files: Sequence[RefusedFile], marked: Attachment | None = None) -> Returned:
        value = {"reason": reason, "files": to_builtins(tuple(files[:MOST_FILES]))}
        return Returned(cast("JsonValue", value), files=() if marked is None else (marked,))


class MergeRounds:
    """The merges of one piece of work, until its changes are applied or are given up."""

    def __init__(self, ctx: AskAgain, scope: Scope, member: Agent, turn: Turn, key: str) -> None:
        assert scope.run.trees is not None
        self._ctx, self._scope, self._trees = ctx, scope, scope.run.trees
        self._member, self._turn, self._key = member, turn, key
        self._merges = self._refusals = 0
        self._resolves = False
        subject = cut(next(iter(turn.task.strip().splitlines()), ""), LONGEST_SUBJECT)
        self._message = f"{member.name}: {subject}\n"

    async def settle(self, reply: Reply) -> Reply | Failure:
        """Return the reply whose changes were applied; a failure if they were refused too often."""
        while (patch := patch_in(reply.full.artifacts)) is not None:
            merged = await self._merge(patch)
            if isinstance(merged, Failure):
                return Failure(
                    member=self._member.name, error=merged.error, message=f"the merge failed: {merged.message}"
                )
            found = cast("dict[str, Any]", merged.data)
            if "commit" in found:
                if found["commit"] == found["parent"] or self._apply(patch, found):
                    return reply
                continue
            ending = await self._resolve(patch, found, merged, reply)
            if isinstance(ending, Failure):
                return ending
            reply = ending
        return reply

    async def _merge(self, patch: Artifact) -> Reply | Failure:
        self._merges += 1
        agent = MergeAgent(self._trees, self._member.name, self._message, resolves=self._resolves)
        task = f"Apply the changes of {self._member.name!r} to the branch."
        tree = TreeState(patch=patch)
        turn = Turn(task, purpose="coordinate", tree=tree, merges=False)
        return await self._ctx.ask(agent, turn, key=f"{MERGE}-{self._merges}/{self._key}")

    def _apply(self, patch: Artifact, found: dict[str, Any]) -> bool:
        """Record that the changes are part of the branch, unless others were applied since the merge was asked for."""
        scope, branch = self._scope, self._trees.branch
        work = join_key(scope.path, self._key)
        if branch.find(work, found["commit"]) is not None:
            return True
        if branch.tip() != found["parent"]:
            return False
        place = f"{MERGE}-{self._merges}/{self._key}"
        fact = WorkspacePatched(
            member=self._member.name,
            work=work,
            merge=join_key(scope.path, place),
            patch=patch,
            parent=found["parent"],
            commit=found["commit"],
            message=self._message,
            dated=self._trees.started_at,
            files=tuple(found["files"]),
            added=found["added"],
            removed=found["removed"],
        )
        if not scope.run.closing:
            branch.apply(scope.run.recorder.add(scope.path, place, fact).number, fact)
        return True

    async def _resolve(self, patch: Artifact, found: dict[str, Any], merged: Reply, reply: Reply) -> Reply | Failure:
        """Give refused changes back, and return the reply that resolves why."""
        reason, files = found["reason"], convert(found["files"], tuple[RefusedFile, ...])
        who = self._trees.merger or self._member if reason in (CONFLICT, "unresolved") else self._member
        is_last = self._refusals == self._trees.workspace.revisions
        self._refusals += 1
        fact = WorkspaceRefused(
            member=self._member.name,
            work=join_key(self._scope.path, self._key),
            patch=patch,
            reason=reason,
            files=files,
            resolver="" if is_last else who.name,
        )
        run, path, place = self._scope.run, self._scope.path, f"{MERGE}-{self._merges}/{self._key}"
        if not run.closing and (fact.kind, path, place) not in run.record.emitted:
            run.recorder.add(path, place, fact)
        named = "\n".join(map(_file_text, files))
        if is_last:
            text = f"its changes were refused {count_text(self._refusals, 'time')} ({reason}): {named}"
            return Failure(member=self._member.name, error=CONFLICT, message=text, messages=reply.messages)
        if reason == CONFLICT:
            self._resolves = True
        task = (
            f"{self._turn.task}\n\nYour changes for this task could not be applied to the team's branch:"
            f" {REASONS[cast('PatchRefusal', reason)]}.\n\n{named}\n\nThen answer the task again, in full."
        )
        tree = TreeState.after(merged.artifacts) or TreeState.after((patch,))
        turn = replace(self._turn, task=task, tree=tree, merges=False, since=None)
        return await self._ctx.ask(who, turn, key=f"resolve-{self._refusals}/{self._key}")


def _file_text(file: RefusedFile) -> str:
    lines = ", ".join(f"{first}-{last}" for first, last in file.lines)
    return f"- {file.path}: lines {lines}" if lines else f"- {file.path}"
