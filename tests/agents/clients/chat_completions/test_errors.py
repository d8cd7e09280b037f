from __future__ import annotations

from typing import Any

import httpx2
import pytest
from pydantic_ai.exceptions import ModelConnectionError, ModelTimeoutError

from teamwright.agents.clients.chat_completions.errors import reading_errors
from teamwright.agents.model.errors import classify
from tests.agents.clients.chat_completions.both_clients import Exchange, answer, both

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


async def test_the_words_of_the_server_reach_the_user() -> None:
    mine, _ = await both(answer(ERRORS["an error object"], 400))
    assert mine.error is not None
    assert str(classify(mine.error, "tiny")) == "The model 'tiny' refused the request, HTTP 400: no"


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
