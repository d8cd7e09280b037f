from __future__ import annotations

from typing import Any

import httpx2
import pytest
from pydantic_ai.exceptions import ModelConnectionError, ModelContextWindowExceededError, ModelTimeoutError

from teamwright.agents.clients.chat_response import reading_errors
from teamwright.agents.model.error_kinds import classify
from tests.agents.clients.both_chat_clients import Exchange, answer, both, ours

ERRORS: dict[str, Any] = {
    "an error object": {"error": {"message": "no", "type": "odd", "code": None}},
    "a code of a quota": {"error": {"message": "pay", "code": "insufficient_quota"}},
    "a code for a long prompt": {"error": {"message": "long", "code": "context_length_exceeded"}},
    "words for a long prompt": {"error": {"message": "This model's maximum context length is 10."}},
    "an unknown model": {"error": {"message": "which?", "code": "model_not_found"}},
    "a wrong key": {"error": {"message": "who?", "code": "invalid_api_key"}},
    "an overloaded server": {"error": {"message": "later", "type": "overloaded_error"}},
    "a text as error": {"error": "no"},
    "a message alone": {"message": "no", "object": "error"},
    "a list": [{"error": {"message": "no", "code": 400, "status": "INVALID_ARGUMENT"}}],
    "a detail": {"detail": "no"},
    "an HTML page": "<html>no</html>",
    "nothing": "",
}
STATUSES = [400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 529]


def seen(exchange: Exchange) -> tuple[object, ...]:
    """What the engine makes of an error: its class, whether and when to try again, and its words."""
    assert exchange.error is not None
    failure = classify(exchange.error, "tiny")
    return type(failure), failure.retry_after, failure.unknown_cost


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("body", ERRORS.values(), ids=ERRORS)
async def test_an_error_is_understood_as_with_openais_client(status: int, body: Any) -> None:
    headers = {"retry-after": "7"}
    mine, theirs = await both(answer(body, status, **headers))
    assert seen(mine) == seen(theirs)
    assert type(mine.error) is type(theirs.error)


WORDS: dict[str, tuple[Any, str]] = {
    "an error object": (ERRORS["an error object"], "no"),
    "a text as error": (ERRORS["a text as error"], "no"),
    "a message alone": (ERRORS["a message alone"], "no"),
    "a list": (ERRORS["a list"], "no"),
    "a detail": (ERRORS["a detail"], "no"),
    "details": ({"detail": [{"loc": ["body"], "msg": "missing"}]}, '[{"loc":["body"],"msg":"missing"}]'),
    "an error without words": ({"error": {"status": 7}}, '{"status":7}'),
    "nothing": ("", "Bad Request"),
    "blanks": (" ", "Bad Request"),
}


@pytest.mark.parametrize(("sent", "words"), WORDS.values(), ids=WORDS)
async def test_the_words_of_the_server_reach_the_user(sent: Any, words: str) -> None:
    error = (await ours(answer(sent, 400))).error
    assert error is not None
    assert str(classify(error, "tiny")) == f"The model 'tiny' refused the request, HTTP 400: {words}"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirection_is_an_error_that_names_its_target(status: int) -> None:
    error = (await ours(answer("<html>Moved", status, location="https://server.example/v1"))).error
    assert error is not None
    target = "it redirects to 'https://server.example/v1'; if that is right, declare its URL"
    assert str(classify(error, "tiny")) == f"The model 'tiny' refused the request, HTTP {status}: {target}"


@pytest.mark.parametrize(
    "words",
    [
        "The number of tokens to keep from the initial prompt is greater than the context length.",
        "The input (9 tokens) is longer than the model's context length (8 tokens).",
        "The input token count (9) exceeds the maximum number of tokens allowed (8).",
    ],
)
async def test_servers_without_codes_say_in_words_that_a_prompt_is_too_long(words: str) -> None:
    error = (await ours(answer({"error": words}, 400))).error
    assert isinstance(error, ModelContextWindowExceededError)


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (httpx2.ConnectError("refused"), ModelConnectionError),
        (httpx2.ReadTimeout(""), ModelTimeoutError),
        (httpx2.StreamClosed(), ModelConnectionError),
    ],
)
def test_errors_of_the_connection_keep_their_cause(raised: Exception, expected: type[Exception]) -> None:
    with pytest.raises(expected) as error, reading_errors("tiny"):
        raise raised
    assert error.value.__cause__ is raised
