"""Files in the results of tools, and the rest of such a result."""

from __future__ import annotations

from base64 import b64encode
from types import SimpleNamespace

import pytest
from pydantic_ai.messages import BinaryContent

from teamwright.agents.attachments import Attachment, FileResult, find_files, mcp_data, mcp_files, split_files
from teamwright.errors import ToolError, UsageError

PNG = b"\x89PNG\r\n\x1a\n\xff"
IMAGE = Attachment(PNG, "a.png")


def test_a_file_is_found_alone_or_among_the_items_of_a_result() -> None:
    assert find_files(IMAGE) == (None, (IMAGE,))
    assert find_files(["text", IMAGE]) == ("text", (IMAGE,))
    assert find_files((1, IMAGE, 2)) == ([1, 2], (IMAGE,))
    assert find_files([IMAGE, IMAGE]) == (None, (IMAGE, IMAGE))


def test_content_of_pydantic_ai_and_bytes_that_are_no_text_are_files() -> None:
    assert find_files(BinaryContent(PNG, media_type="image/png")) == (None, (Attachment(PNG, "file.png"),))
    assert find_files(PNG) == (None, (Attachment(PNG, "file.png"),))


@pytest.mark.parametrize("result", [None, "text", b"bytes", b"", [1, "a"], {"file": "a"}, {"files": []}])
def test_any_other_result_is_left_as_it_is(result: object) -> None:
    assert find_files(result) == (result, ())


def test_a_result_is_split_into_its_value_and_its_files() -> None:
    assert split_files(FileResult((IMAGE,), "x")) == ("x", (IMAGE,))
    assert split_files("x") == ("x", ())


def test_the_types_of_the_mcp_library_are_read() -> None:
    types = pytest.importorskip("mcp.types")
    data = b64encode(PNG).decode()
    image = types.ImageContent(type="image", data=data, mime_type="image/png")
    blob = types.BlobResourceContents(uri="file:///b.png", blob=data, mime_type="image/png")
    embedded = types.EmbeddedResource(type="resource", resource=blob)
    text = types.TextContent(type="text", text="Here.")
    assert [one.name for one in mcp_files("draw", [image, embedded, text])] == ["file.png", "b.png"]


def test_a_result_has_no_more_files_than_a_task() -> None:
    with pytest.raises(UsageError, match="At most 100 files"):
        FileResult((IMAGE,) * 101)


def _block(**fields: object) -> SimpleNamespace:
    return SimpleNamespace(**fields)


def test_images_and_embedded_files_of_an_mcp_server_are_files() -> None:
    data = b64encode(PNG).decode()
    image = _block(type="image", data=data, mime_type="image/png")
    resource = _block(type="resource", resource=_block(blob=data, mime_type=None, uri="file:///charts/b.png"))
    text = _block(type="text", text="Here.")
    assert mcp_files("draw", [text, image, resource]) == (Attachment(PNG, "file.png"), Attachment(PNG, "b.png"))
    assert [mcp_data(one) is None for one in (text, image, resource)] == [True, False, False]


@pytest.mark.parametrize("data", ["no base64!", b64encode(b"").decode() + " "])
def test_a_file_of_an_mcp_server_that_is_damaged_fails_the_call(data: str) -> None:
    with pytest.raises(ToolError, match="The tool 'draw' returned a file that can't be used"):
        mcp_files("draw", [_block(type="image", data=data, mime_type="image/png")])
