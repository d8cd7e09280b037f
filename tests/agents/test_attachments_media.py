"""What models do with files: upper bounds of tokens, and types that are known not to be taken."""

from __future__ import annotations

import pytest

from teamwright.agents.attachments import OTHER_IMAGE_TOKENS, media_tokens, why_not_taken, with_pointers
from teamwright.values.turns.artifacts import Artifact


def _file(media_type: str, size: int = 1000) -> Artifact:
    return Artifact(hash="ab", name="a", media_type=media_type, size=size)


@pytest.mark.parametrize(
    ("model", "most"),
    [
        ("openai:gpt-4o-mini-2024-07-18", 48_169),
        ("openai:gpt-5", 10_000),
        ("openai-chat:gpt-5", 10_000),
        ("anthropic:claude-opus-4-8", 5_000),
        ("google-gla:gemini-3-pro", 5_000),
        ("ollama:qwen2.5vl", OTHER_IMAGE_TOKENS),
    ],
)
def test_an_image_is_bounded_by_what_its_provider_counts_whatever_its_bytes(model: str, most: int) -> None:
    assert media_tokens([_file("image/png"), _file("image/jpeg", 9_000_000)], model) == 2 * most


def test_a_text_is_bounded_by_its_bytes_and_other_files_by_their_size() -> None:
    assert media_tokens([_file("text/csv", 700)], "openai:gpt-5") == 700
    assert media_tokens([_file("audio/wav", 3200)], "openai:gpt-5") == 101
    assert media_tokens([_file("application/pdf", 100)], "openai:gpt-5") == 4600
    assert media_tokens([_file("application/pdf", 20_000_000)], "openai:gpt-5") == 600 * 4600


def test_text_is_taken_by_every_model_and_the_rest_not_by_an_embedded_one() -> None:
    assert why_not_taken("text/markdown", "local") is None
    assert why_not_taken("image/png", "openai:gpt-5") is None
    assert why_not_taken("image/png", "local:/models/small.gguf") == "an embedded model reads text only"
    assert why_not_taken("application/zip", "openai:gpt-5") == "no model takes files of this type"


def test_the_result_of_a_tool_names_its_files_and_points_to_them() -> None:
    line = "file 'a' (image/png, 1.0 kB): artifact://ab"
    assert with_pointers(None, [_file("image/png")]) == line
    assert with_pointers("Here:", [_file("image/png")]) == f"Here:\n{line}"
    assert with_pointers({"x": 1}, [_file("image/png")]) == {"result": {"x": 1}, "files": [line]}
