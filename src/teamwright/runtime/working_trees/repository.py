"""The private repository of one run: its base commit, the trees of members, their changes, and merges of them.

Everything in it can be made again from the record and the base, so it is never the only place of anything that counts.
The repository and the folder of the user are only read.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import anyio

from teamwright.agents.sandbox_guard import remove_folder
from teamwright.errors import UsageError
from teamwright.runtime.working_trees.git import Git, GitFailed, TooMuchOutput, check_git
from teamwright.values.events.agent import RefusedFile
from teamwright.values.specs.members import TeamWorkspace
from teamwright.values.text.display import size_text
from teamwright.values.turns.artifacts import is_utf8

BASE_LINE = "base-commit: "
LINK, SUBMODULE = "120000", "160000"
LARGEST_PATCH = 8 * 1024 * 1024
LARGEST_CHANGE = 256 * 1024 * 1024
"""How large all files that a call has changed may be: Git reads and packs them before their diff is known."""
LONGEST_LIST = 16 * 1024 * 1024
"""How long the list of these files may be."""
MOST_NAMED = 200
"""How many paths an argument list names."""
MOST_MARKS = 50
"""How many conflicts of one file are named."""
CACHES = ("__pycache__/", "*.pyc", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", ".hypothesis/", "node_modules/")
"""What programs leave behind and no member means to change, whatever the repository ignores itself."""
RAW = "* -text -filter -ident -working-tree-encoding !merge !conflict-marker-size\n"
"""Files are the bytes of a commit, and conflicts are marked, whatever attributes a member or the repository gives."""
SCRATCH = "scratch"
"""What is noted of a folder whose files count for nothing."""
BASE_REF, KEPT_REFS = "refs/teamwright/base", "refs/teamwright/kept"
FILE_IN_DIFF = re.compile(rb"^(?=diff --git )", re.MULTILINE)
CONFLICT_MARK = "^(<{7}|>{7}) "
FOUND_MARK = re.compile(rb"([^\0]+)\0(\d+)\0([<>]).*\n")
"""A line that `git grep` has found: its tree and path, its number, and what it begins with."""


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file that differs between two trees, with its new mode and content; without a mode it is gone."""

    path: str
    mode: str
    blob: str


@dataclass(frozen=True, slots=True)
class MergedTree:
    """The tree of a merge, with conflicts marked in its files, and the files in conflict."""

    tree: str
    conflicts: tuple[RefusedFile, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """Who a commit is by, when, and what it says."""

    author: str
    time: int
    message: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables from which Git takes it."""
        name = re.sub(r"[^\w .-]", "", self.author) or "member"
        date = f"@{self.time} +0000"
        return {
            "GIT_AUTHOR_NAME": name,
            "GIT_AUTHOR_EMAIL": f"{name.replace(' ', '-')}@teamwright.invalid",
            "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_NAME": "teamwright",
            "GIT_COMMITTER_EMAIL": "run@teamwright.invalid",
            "GIT_COMMITTER_DATE": date,
        }


SNAPSHOT = Signature("teamwright", 0, "snapshot")


class RunRepository:
    """The repository in the folder of a run. `create` makes it, and fills it from what the user has named."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git = Git(folder / "repository.git")
        self.trees = folder / "trees"

    @property
    def exists(self) -> bool:
        return (self.git.repository / "HEAD").is_file()

    async def create(self, workspace: TeamWorkspace, commit: str = "") -> str:
        """Fill the repository from what the user has named, and return its commit.

        Raises `UsageError` if that is no repository, or no folder, or no longer has the `commit` that is asked for.
        """
        await check_git()
        source = Path(workspace.path)
        if workspace.git is not None:
            return await self._copy_commit(source, commit)
        if not source.is_dir():  # noqa: ASYNC240 - once, before the run begins
            raise UsageError(f"The workspace {str(source)!r} is no folder; name one that is there.")
        await self._initialise("sha1")
        made = await self.commit_folder(source)
        if commit and made != commit:
            raise UsageError(
                f"The folder {str(source)!r} has changed since the run began, and its private copy is gone: restore"
                " the folder as it was, or begin a new run."
            )
        await self.git.run("update-ref", BASE_REF, made)
        return made

    async def _initialise(self, form: str) -> None:
        repository = self.git.repository
        repository.mkdir(mode=0o700, parents=True, exist_ok=True)
        await self.git.run("init", "--quiet", "--bare", "--template=", f"--object-format={form}")
        info = repository / "info"
        info.mkdir(exist_ok=True)
        (info / "exclude").write_text("\n".join(CACHES) + "\n")
        (info / "attributes").write_text(RAW)
        self.trees.mkdir(mode=0o700, exist_ok=True)

    async def _copy_commit(self, source: Path, commit: str) -> str:
        """Copy one commit of the user's repository with its files, without its history."""
        theirs, wanted = await find_repository(source), commit or "HEAD"
        code, output, _ = await theirs.call("rev-parse", "--verify", "--quiet", f"{wanted}^{{commit}}", trusts=source)
        if code != 0 and not commit:
            raise UsageError(
                f"The Git repository {str(source)!r} has no commit yet; make one, which the team begins at."
            )
        if code != 0:
            raise UsageError(f"The Git repository {str(source)!r} no longer has the commit {commit[:12]} of this run.")
        commit = output.decode().strip()
        await self._initialise("sha256" if len(commit) == 64 else "sha1")
        if not await self.git.has(commit):
            objects = await _objects_of(theirs, commit, source)
            pack = await _pack(theirs, objects, source)
            (self.git.repository / "shallow").write_text(f"{commit}\n")
            await self.git.run("index-pack", "--stdin", stdin=pack)
        await self.git.run("update-ref", BASE_REF, commit)
        return commit

    async def commit_folder(self, source: Path) -> str:
        """Return a commit of a plain folder, which is only read."""
        if (source / ".git").exists():
            raise UsageError(f"The workspace {str(source)!r} is a Git repository; write  git: {source}")
        index = self.folder / "folder.index"
        index.unlink(missing_ok=True)
        git = self.git.on(source, index)
        await _record_files(git, source)
        tree = await git.text("write-tree")
        index.unlink(missing_ok=True)
        return await self.commit(tree, (), Signature("teamwright", 0, f"The folder {source.name}"))

    async def commit(self, tree: str, parents: Sequence[str], by: Signature) -> str:
        """Make a commit; the same arguments give the same commit."""
        arguments = [part for parent in parents for part in ("-p", parent)]
        message = by.message.encode("utf-8", "replace")
        return await self.git.text("commit-tree", tree, *arguments, stdin=message, env=by.environment)

    async def tree_of(self, commit: str) -> str:
        return await self.git.text("rev-parse", "--verify", f"{commit}^{{tree}}")

    async def snapshot(self, name: str) -> str:
        """Return the tree of a member's folder as it is on the disk now.

        Raises `TooMuchOutput` if more has changed than Git could read soon.
        """
        folder = self.trees / name
        git = self.git.on(folder, self._beside(name, "index"))
        await _record_files(git, folder, LONGEST_LIST, LARGEST_CHANGE)
        return await git.text("write-tree")

    async def check_out(self, name: str, tree: str, *, keep: bool = True, scratch: bool = False) -> Path:
        """Make a folder hold exactly this tree, besides files that are ignored, and return it.

        With `keep`, changes in it that no one has recorded are kept first: under a reference of their own, or in their
        folder under another name where Git can't read them, or would take too long. A folder that Git can't set back is
        made again. A `scratch` folder holds nothing else, also nothing ignored, and nothing in it is kept.
        """
        folder, keep = self.trees / name, keep and not scratch
        if not keep or not _is_folder(folder) or not await self._keep_changes(name, tree):
            is_there = _is_folder(folder)
            clean = ("-ffdqx" if scratch else "-ffdq") if is_there and not keep else ""
            try:
                await self._set_back(name, tree, clean)
            except GitFailed:
                if not is_there:
                    raise
                await anyio.to_thread.run_sync(remove_folder, str(folder))
                await self._set_back(name, tree)
        self.note(name, SCRATCH if scratch else tree)
        return folder

    async def _set_back(self, name: str, tree: str, clean: str = "") -> None:
        folder, index = self.trees / name, self._beside(name, "index")
        if not _is_folder(folder):
            index.unlink(missing_ok=True)
            folder.mkdir(mode=0o700, parents=True)
        git = self.git.on(folder, index)
        await git.run("read-tree", "--reset", "-u", tree)
        if clean:
            await git.run("clean", clean)

    async def _keep_changes(self, name: str, tree: str) -> bool:
        """Keep changes in a folder that no one has recorded; returns whether it holds this tree."""
        folder = self.trees / name
        try:
            seen = await self.snapshot(name)
        except GitFailed:
            folder.rename(folder.with_name(f"{name}.kept-{os.urandom(4).hex()}"))
            return False
        if seen not in (tree, self.noted(name)):
            kept = await self.commit(seen, (), SNAPSHOT)
            await self.git.run("update-ref", f"{KEPT_REFS}/{name}-{seen[:12]}", kept)
        return seen == tree

    def clear_locks(self) -> None:
        """Remove the locks that a killed driver has left; the run has one driver at a time."""
        for place in (self.trees, self.git.repository):
            for lock in place.glob("**/*.lock") if place == self.git.repository else place.glob("*.lock"):
                lock.unlink(missing_ok=True)

    def note(self, name: str, tree: str) -> None:
        """Remember the tree that a folder holds, so that other changes in it are seen."""
        place = self._beside(name, "tree")
        draft = place.with_suffix(".draft")
        draft.write_text(tree)
        draft.replace(place)

    def noted(self, name: str) -> str:
        try:
            return self._beside(name, "tree").read_text()
        except FileNotFoundError:
            return ""

    def forget(self, name: str) -> None:
        """Remove what was remembered of a folder that is gone."""
        for place in (self._beside(name, "tree"), self._beside(name, "index")):
            place.unlink(missing_ok=True)

    def _beside(self, name: str, what: str) -> Path:
        return self.trees / f".{name}.{what}"  # no name of a member begins with a dot

    async def patch(self, commit: str, tree: str, most: int = sys.maxsize) -> bytes:
        """Return the changes from a commit to a tree, as a diff in UTF-8 that says its commit.

        Raises `TooMuchOutput` if it is longer than `most` bytes.
        """
        options = ("--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
        found = await self.git.run("diff-tree", "-r", "-p", *options, commit, tree, most=most)
        if not is_utf8(found):  # write files that are text in another encoding as binary ones
            attributes = self.folder / "binary.attributes"
            attributes.write_text("* -diff\n")
            written = ("-c", f"core.attributesFile={attributes}", "-c", "core.quotePath=true", "diff-tree")
            binary = await self.git.run(*written, "-r", "-p", *options, commit, tree, most=most)
            pairs = zip(FILE_IN_DIFF.split(found), FILE_IN_DIFF.split(binary), strict=True)
            found = b"".join(text if is_utf8(text) else other for text, other in pairs)
            if not is_utf8(found):
                raise GitFailed("a link leads to a name that is no text")
        return f"{BASE_LINE}{commit}\n\n".encode() + found

    async def tree_with(self, commit: str, patch: bytes) -> str:
        """Return the tree of a commit with changes applied."""
        base = await self.tree_of(commit)
        if b"\ndiff --git " not in patch:
            return base
        index = self.folder / f"patch-{os.getpid()}-{id(patch)}.index"
        try:
            git = self.git.on(None, index)
            await git.run("read-tree", base)
            await git.run("apply", "--cached", "--binary", "--whitespace=nowarn", "-", stdin=patch)
            return await git.text("write-tree")
        finally:
            index.unlink(missing_ok=True)

    async def changes(self, commit: str, tree: str) -> list[ChangedFile]:
        """Return the files that differ between a commit and a tree, sorted by path."""
        fields = (await self.git.run("diff-tree", "-r", "-z", "--no-renames", commit, tree)).split(b"\0")
        found: list[ChangedFile] = []
        for head, path in zip(fields[::2], fields[1::2], strict=False):
            _, mode, _, blob, _ = head.decode().lstrip(":").split()
            found.append(ChangedFile(_text(path), "" if mode == "000000" else mode, blob))
        return found

    async def unsafe(self, changed: Sequence[ChangedFile]) -> list[str]:
        """Return the changed files that could lead out of the tree: links to elsewhere, and other repositories."""
        links = [one for one in changed if one.mode == LINK]
        targets = await self._contents([one.blob for one in links]) if links else []
        out = {one.path for one, target in zip(links, targets, strict=True) if _leads_out(one.path, target)}
        return [one.path for one in changed if one.mode == SUBMODULE or one.path in out]

    async def _contents(self, blobs: Sequence[str]) -> list[bytes]:
        """Return the contents of small blobs, read by one process."""
        rest, found = await self.git.run("cat-file", "--batch", stdin="\n".join(blobs).encode()), list[bytes]()
        at = 0
        for _ in blobs:
            end = rest.index(b"\n", at)
            size = int(rest[at:end].rsplit(b" ", 1)[1])
            found.append(rest[end + 1 : end + 1 + size])
            at = end + 1 + size + 1
        return found

    async def marked(self, tree: str, paths: Sequence[str]) -> list[RefusedFile]:
        """Return those of these files of a tree in which a conflict is marked, with the lines."""
        options = ("-z", "--line-number", "--only-matching", "--text", f"--max-count={2 * MOST_MARKS}", "-E")
        named = ("--", *paths) if len(paths) <= MOST_NAMED else ()
        said = await self.git.run("grep", *options, CONFLICT_MARK, tree, *named, also=(1,))
        lines: dict[str, list[tuple[int, bytes]]] = {path: [] for path in paths}
        for found in FOUND_MARK.finditer(said):
            path = _text(found[1].partition(b":")[2])
            if path in lines:
                lines[path].append((int(found[2]), found[3]))
        return [RefusedFile(path=path, lines=_marks(found)) for path, found in lines.items() if found]

    async def line_counts(self, commit: str, other: str) -> tuple[int, int]:
        """Return how many lines differ from one commit to another: those added, and those removed."""
        said = await self.git.run("diff-tree", "-r", "--numstat", "--no-renames", commit, other)
        counts = [line.split(b"\t")[:2] for line in said.splitlines()]
        added, removed = (sum(int(one[place]) for one in counts if one[place].isdigit()) for place in (0, 1))
        return added, removed

    async def merge(self, onto: str, commit: str, tree: str) -> MergedTree:
        """Merge a tree that was made from an earlier commit of the branch onto a later one."""
        if onto == commit:
            return MergedTree(tree, ())
        theirs = await self.commit(tree, (commit,), SNAPSHOT)
        said = await self.git.run("merge-tree", "--write-tree", "-z", "--no-messages", onto, theirs, also=(1,))
        merged, *entries = said.split(b"\0")
        paths = list(dict.fromkeys(_text(one.split(b"\t", 1)[1]) for one in entries if b"\t" in one))
        if not paths:
            return MergedTree(merged.decode(), ())
        marked = {one.path: one for one in await self.marked(merged.decode(), paths)}
        conflicts = [marked.get(path, RefusedFile(path=path)) for path in paths]
        return MergedTree(merged.decode(), tuple(conflicts))


def _is_folder(place: Path) -> bool:
    return place.is_dir() and not place.is_symlink()


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


async def _record_files(git: Git, folder: Path, longest: int = sys.maxsize, largest: int = sys.maxsize) -> None:
    """Write the files of a folder into the index of this repository; raises `TooMuchOutput` beyond these bounds.

    `git add` is not used: it asks for the status of repositories within, which runs programs that their configuration
    names.
    """
    listed = await git.run("ls-files", "-z", "--modified", "--others", "--exclude-standard", most=longest)
    found = await anyio.to_thread.run_sync(_changed_files, folder, listed)
    if found.size > largest:
        raise TooMuchOutput(f"{size_text(found.size)} of files have changed, of at most {size_text(largest)}")
    if found.gone:
        await git.run("update-index", "-z", "--force-remove", "--stdin", stdin=b"\0".join(found.gone))
    if found.there:
        options = ("--add", "--remove", "--replace")
        await git.run("update-index", *options, "-z", "--stdin", stdin=b"\0".join(found.there))


@dataclass(slots=True)
class _ChangedFiles:
    """Paths of files that are gone from a folder, of those that are there, and how large these are."""

    gone: list[bytes]
    there: list[bytes]
    size: int = 0


def _changed_files(folder: Path, listed: bytes) -> _ChangedFiles:
    """Look at the paths that Git has listed: a folder counts only as a repository of its own, a pipe not at all."""
    root, found, links = os.fsencode(folder), _ChangedFiles([], []), dict[bytes, bool]()

    def is_behind_link(path: bytes) -> bool:
        above = list[bytes]()
        while (path := path.rpartition(b"/")[0]) and path not in links:
            above.append(path)
        behind = links.get(path, False)
        for one in reversed(above):
            links[one] = behind = behind or os.path.islink(os.path.join(root, one))  # noqa: PTH114, PTH118 - as bytes
        return behind

    for path in dict.fromkeys(one.rstrip(b"/") for one in listed.split(b"\0") if one):
        place = os.path.join(root, path)  # noqa: PTH118 - as bytes
        try:
            status = os.lstat(place)
        except OSError:
            found.gone.append(path)
            continue
        is_file = stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)
        if is_behind_link(path) or not (is_file or os.path.lexists(os.path.join(place, b".git"))):  # noqa: PTH118
            found.gone.append(path)
        else:
            found.there.append(path)
            found.size += status.st_size
    return found


def _marks(lines: Sequence[tuple[int, bytes]]) -> tuple[tuple[int, int], ...]:
    """Return the first and the last line of each marked conflict."""
    begins, ends = ([number for number, mark in lines if mark == sign] for sign in (b"<", b">"))
    return tuple(zip(begins, ends, strict=False))


async def _objects_of(theirs: Git, commit: str, source: Path) -> list[str]:
    """Return a commit, its trees and its files; a submodule is left out."""
    found = await theirs.run("ls-tree", "-r", "-t", "-z", "--full-tree", commit, trusts=source)
    root = await theirs.run("rev-parse", f"{commit}^{{tree}}", trusts=source)
    entries = [line.split(b"\t", 1)[0].split() for line in found.split(b"\0") if line]
    inner = [oid.decode() for _, kind, oid in entries if kind != b"commit"]
    return list(dict.fromkeys((commit, root.decode().strip(), *inner)))


async def _pack(theirs: Git, objects: Sequence[str], source: Path) -> bytes:
    """Return these objects of the user's repository; raises `UsageError` if some are missing."""
    code, pack, error = await theirs.call(
        "pack-objects", "--stdout", "-q", stdin="\n".join(objects).encode(), trusts=source
    )
    if code != 0:
        said = (error.decode("utf-8", "replace").strip().splitlines() or ["it failed"])[-1]
        raise UsageError(
            f"The Git repository {str(source)!r} does not have all files of its commit ({said}): if it is a partial"
            f" clone, get them with  git -C {source} archive HEAD > /dev/null"
        )
    return pack


def _leads_out(path: str, target: bytes) -> bool:
    """Whether a link at this path leads out of its tree, or into the data of Git.

    Dots lead out of a folder that may be a link itself, so they count as inside only at the beginning, where the folder
    is that of the link.
    """
    depth = len(PurePosixPath(path).parent.parts)
    there = PurePosixPath(target.decode("utf-8", "surrogateescape"))
    up = next((place for place, part in enumerate(there.parts) if part != ".."), len(there.parts))
    if there.is_absolute() or not there.parts or up > depth or ".." in there.parts[up:]:
        return True
    return any(part.casefold() == ".git" for part in (*PurePosixPath(path).parts[: depth - up], *there.parts))


async def find_repository(source: Path) -> Git:
    """Return the repository whose root is this folder, for reading; raises `UsageError` if there is none."""
    if not source.is_dir():  # noqa: ASYNC240 - once, before the run begins
        raise UsageError(f"The workspace {str(source)!r} is no folder; name a Git repository that is there.")
    inner = source / ".git"
    git = Git(inner if inner.exists() else source)
    if inner.is_file():  # of a linked worktree, or a submodule
        said = inner.read_text(errors="replace").strip().removeprefix("gitdir:").strip()
        git = Git((source / said).resolve())
    try:
        code, _, _ = await git.call("rev-parse", "--git-dir", trusts=source)
    except OSError as error:
        raise UsageError(f"The workspace {str(source)!r} can't be read: {error}.") from error
    if code != 0:
        raise UsageError(f"The workspace {str(source)!r} is no Git repository: {_advice(source)}")
    return git


def _advice(source: Path) -> str:
    """Return what to do about a folder that is no repository."""
    root = next((one for one in source.resolve().parents if (one / ".git").exists()), None)
    if root is not None:
        return f"it is a folder of the repository {str(root)!r}; name that, or write  folder: {source}"
    return f"make it one with  git init  and a commit, or write  folder: {source}"
