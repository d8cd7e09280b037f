import os
from collections.abc import Collection, Mapping
from pathlib import Path

import anyio
import pytest
from pydantic_core import to_json

from teamwright.errors import JournalCorrupt
from teamwright.teams.run_files import UNUSED_SECONDS, FileCache, body_of
from teamwright.values.events.agent import Body
from teamwright.values.turns.artifacts import stored_content

CONTENTS = {"replies.yaml": b"rules: []\n", "skills/a/SKILL.md": b"\xff\x00 no text"}


class Bodies:
    """The bodies of a journal, which counts how often they are read."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self.files = {path: body_of(content) for path, content in contents.items()}
        self._texts = {body_of(one): to_json(stored_content(one)).decode() for one in contents.values()}
        self.reads = 0

    async def read(self, wanted: Collection[Body]) -> dict[Body, str]:
        self.reads += 1
        return {body: self._texts[body] for body in wanted}


def contents_of(folder: Path) -> dict[str, bytes]:
    return {one.relative_to(folder).as_posix(): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


async def test_files_are_unpacked_once_and_found_again(tmp_path: Path) -> None:
    cache, bodies = FileCache(tmp_path / "cache"), Bodies(CONTENTS)
    folder = await cache.unpack(bodies.files, bodies.read)
    assert contents_of(folder) == CONTENTS
    assert await cache.unpack(bodies.files, bodies.read) == folder
    assert bodies.reads == 1
    assert [one.name for one in cache.folder.iterdir()] == [folder.name]


async def test_a_run_without_files_gets_an_empty_folder(tmp_path: Path) -> None:
    folder = await FileCache(tmp_path).unpack({}, Bodies({}).read)
    assert contents_of(folder) == {}


@pytest.mark.parametrize("harm", ["change", "remove", "link", "link_folder", "replace_by_file"])
async def test_a_folder_that_was_changed_is_replaced(tmp_path: Path, harm: str) -> None:
    cache, bodies = FileCache(tmp_path / "cache"), Bodies(CONTENTS)
    folder = await cache.unpack(bodies.files, bodies.read)
    file = folder / "replies.yaml"
    match harm:
        case "change":
            file.chmod(0o600)
            file.write_bytes(b"rules: [{reply: changed}]\n")
        case "remove":
            file.unlink()
        case "link":
            (tmp_path / "same").write_bytes(CONTENTS["replies.yaml"])
            file.unlink()
            file.symlink_to(tmp_path / "same")
        case "link_folder":
            folder.rename(tmp_path / "elsewhere")
            folder.symlink_to(tmp_path / "elsewhere")
        case _:
            folder.rename(tmp_path / "elsewhere")
            folder.write_text("no folder")
    again = await cache.unpack(bodies.files, bodies.read)
    assert again == folder
    assert not folder.is_symlink()
    assert not file.is_symlink()
    assert contents_of(folder) == CONTENTS


@pytest.mark.parametrize("path", ["../out", "/tmp/out", "a/../../out", "a\\b", ""])
async def test_a_hostile_path_in_a_record_is_never_written(tmp_path: Path, path: str) -> None:
    bodies = Bodies({path: b"bad"})
    with pytest.raises(JournalCorrupt, match="can't be unpacked"):
        await FileCache(tmp_path / "cache").unpack(bodies.files, bodies.read)
    assert list(tmp_path.rglob("*")) == []


async def test_a_content_that_is_not_the_submitted_one_is_refused(tmp_path: Path) -> None:
    bodies = Bodies(CONTENTS)

    async def other(wanted: Collection[Body]) -> dict[Body, str]:
        return dict.fromkeys(wanted, '"something else"')

    with pytest.raises(JournalCorrupt, match="not the one that was submitted"):
        await FileCache(tmp_path).unpack(bodies.files, other)


@pytest.mark.parametrize("text", ["[1]", '{"$bytes": "%%%"}', '{"$bytes": "", "more": 1}', "3"])
async def test_a_body_that_is_no_content_of_a_file_is_refused(tmp_path: Path, text: str) -> None:
    async def other(wanted: Collection[Body]) -> dict[Body, str]:
        return dict.fromkeys(wanted, text)

    with pytest.raises(JournalCorrupt, match="can't be unpacked"):
        await FileCache(tmp_path).unpack({"a": "0" * 32}, other)


async def test_many_workers_of_one_machine_unpack_the_same_files_at_once(tmp_path: Path) -> None:
    bodies, found = Bodies(CONTENTS), list[Path]()

    async def unpack() -> None:
        found.append(await FileCache(tmp_path / "cache").unpack(bodies.files, bodies.read))

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(unpack)
    assert len(set(found)) == 1
    assert contents_of(found[0]) == CONTENTS
    assert [one.name for one in (tmp_path / "cache").iterdir()] == [found[0].name]


async def test_folders_that_no_run_uses_are_removed_after_a_month(tmp_path: Path) -> None:
    cache, old, new = FileCache(tmp_path), Bodies({"a": b"old"}), Bodies({"a": b"new"})
    unused = await cache.unpack(old.files, old.read)
    used = await cache.unpack(new.files, new.read)
    past = used.stat().st_mtime - UNUSED_SECONDS - 10
    os.utime(unused, (past, past))
    assert cache.remove_unused() == 1
    assert list(tmp_path.iterdir()) == [used]
    assert FileCache(tmp_path / "none").remove_unused() == 0
