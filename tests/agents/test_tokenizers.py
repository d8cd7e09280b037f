"""Which tokenizer a model has, and what it counts."""

from __future__ import annotations

import subprocess
import sys
from random import Random

import pytest

from teamwright.agents.tokenizers import LARGEST_CHUNK, chunks, encoding_of, load_tokenizer
from tests.kit.prompt_corpus import KINDS, draw_text


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("openai:gpt-5-mini", "o200k_base"),
        ("openai-responses:gpt-5.1", "o200k_base"),
        ("openai:o3", "o200k_base"),
        ("azure:o4-mini", "o200k_base"),
        ("openrouter:openai/gpt-4o:free", "o200k_base"),
        ("gateway/openai:gpt-4.1-nano", "o200k_base"),
        ("groq:openai/gpt-oss-20b", "o200k_base"),
        ("gpt-4o", "o200k_base"),
        ("openai:gpt-4-turbo", "cl100k_base"),
        ("openai:gpt-4", "cl100k_base"),
        ("azure:gpt-35-turbo", "cl100k_base"),
        ("anthropic:claude-opus-5", None),
        ("local", None),
        ("openai:gpt-50", None),
        ("mistral:open1", None),
        ("fallback:openai:gpt-5,anthropic:claude-opus-5", None),
    ],
)
def test_a_model_is_matched_by_its_name(model: str, encoding: str | None) -> None:
    assert encoding_of(model) == encoding


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_text_is_counted_in_chunks_that_lose_nothing(kind: str) -> None:
    text = draw_text(kind, Random(1), 3 * LARGEST_CHUNK)
    pieces = chunks(text)
    assert "".join(pieces) == text
    assert all(len(one) <= LARGEST_CHUNK for one in pieces)


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_add_almost_nothing_to_a_count(kind: str) -> None:
    bpe_openai = pytest.importorskip("bpe_openai")
    count = load_tokenizer("o200k_base")
    assert count is not None
    text = draw_text(kind, Random(2), 2 * LARGEST_CHUNK)
    whole = len(bpe_openai.get_encoding("o200k_base").encode_ordinary(text))
    assert whole <= count(text) <= whole + 4 * len(chunks(text))


def test_what_looks_like_a_special_token_is_ordinary_text() -> None:
    pytest.importorskip("bpe_openai")
    count = load_tokenizer("cl100k_base")
    assert count is not None
    assert count("<|endoftext|>") > 3


def test_a_lone_surrogate_is_counted() -> None:
    pytest.importorskip("bpe_openai")
    count = load_tokenizer("o200k_base")
    assert count is not None
    assert count("a \ud800 b") >= 3


def test_without_the_extra_there_is_no_tokenizer() -> None:
    code = (
        "import sys; sys.modules['bpe_openai'] = None\n"
        "from teamwright.agents.tokenizers import load_tokenizer\n"
        "assert load_tokenizer('o200k_base') is None"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
