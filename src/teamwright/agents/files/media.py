"""What models do with files: which types they can't take, and an upper bound of the tokens of each. Imports no model.

Bytes of a file say little about its tokens: providers scale images down and count tiles or patches. The bounds are for
reservations; what a reply reports is what is charged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast

from pydantic import JsonValue

from teamwright.values.text.display import size_text
from teamwright.values.turns.artifacts import Artifact
from teamwright.values.turns.media_types import is_text_type

IMAGE_TOKENS: Final = (
    ("openai:gpt-4o-mini", 48_169),
    ("azure:gpt-4o-mini", 48_169),
    ("openai", 10_000),
    ("azure", 10_000),
    ("anthropic", 5_000),
    ("google", 5_000),
)
"""The most tokens of one image, by the beginning of the model's name: 2 833 and 8 tiles of 5 667 for GPT-4o mini;
10 000 patches for other models of OpenAI; 4 784 for Claude; 16 tiles of 258 for Gemini."""
OTHER_IMAGE_TOKENS: Final = 16_384
"""The most tokens of one image for any other model: the default bound of Qwen-VL."""
PAGE_TOKENS: Final = 4_600
"""The most tokens of one page of a PDF: 3 000 of text, and an image."""
BYTES_PER_PAGE: Final = 2_000
"""The fewest bytes of a page; a smaller file has one."""
MOST_PAGES: Final = 600
"""The most pages that a provider takes."""
BYTES_PER_MEDIA_TOKEN: Final = 32
"""Speech at one kilobyte a second, with 32 tokens a second; video has more bytes for each token."""

_PREFIXES: Final = ("image/", "audio/", "video/", "application/pdf", "application/msword", "application/vnd.")


def media_tokens(files: Iterable[Artifact], model: str) -> int:
    """Return an upper bound of the tokens of these files in a prompt for this model."""
    return sum(_tokens(one, model) for one in files)


def why_not_taken(media_type: str, model: str) -> str | None:
    """Return why a model can't take files of a type, if that is known without asking it.

    Text is sent as text, which every model takes. An embedded model has no eyes.
    """
    if is_text_type(media_type):
        return None
    if model.partition(":")[0] == "local":
        return "an embedded model reads text only"
    if not media_type.startswith(_PREFIXES):
        return "no model takes files of this type"
    return None


def file_text(file: Artifact) -> str:
    """Name a file by its name, type and size. The text is part of prompts, so it must not change."""
    return f"{file.name!r} ({file.media_type}, {size_text(file.size)})"


def with_pointers(content: JsonValue, files: Sequence[Artifact]) -> JsonValue:
    """Return the result of a tool with a line for each of its files, which names it and points to its content."""
    lines = [f"file {file_text(one)}: {one.pointer}" for one in files]
    if content is None or isinstance(content, str):
        return "\n".join(filter(None, (content, *lines)))
    return {"result": content, "files": cast("list[JsonValue]", lines)}


def _tokens(file: Artifact, model: str) -> int:
    kind = file.media_type.partition("/")[0]
    if is_text_type(file.media_type):
        return file.size
    if kind == "image":
        return next((most for prefix, most in IMAGE_TOKENS if model.startswith(prefix)), OTHER_IMAGE_TOKENS)
    if kind in {"audio", "video"}:
        return 1 + file.size // BYTES_PER_MEDIA_TOKEN
    return PAGE_TOKENS * min(MOST_PAGES, 1 + file.size // BYTES_PER_PAGE)
