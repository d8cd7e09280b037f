from __future__ import annotations

import pytest

from teamwright.errors import UsageError
from teamwright.history.telemetry.otlp import (
    CONTENT,
    DISABLED,
    ENDPOINT,
    EXPORTER,
    HEADERS,
    configured_endpoint,
    configured_headers,
    resource_attributes,
    wants_content,
)
from teamwright.values.text.secrets import is_secret_name


def test_the_environment_names_the_receiver_unless_telemetry_is_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert configured_endpoint() is None
    monkeypatch.setenv(ENDPOINT, " http://host ")
    assert configured_endpoint() == "http://host"
    monkeypatch.setenv(EXPORTER, "console, otlp")
    assert configured_endpoint() == "http://host"
    monkeypatch.setenv(EXPORTER, "none")
    assert configured_endpoint() is None
    monkeypatch.delenv(EXPORTER)
    monkeypatch.setenv(DISABLED, "TRUE")
    assert configured_endpoint() is None


@pytest.mark.parametrize(("value", "wanted"), [("", False), ("false", False), ("event_only", False), ("true", True),
                                               ("SPAN_ONLY", True), ("span_and_event", True)])  # fmt: skip
def test_content_is_asked_for_in_the_words_of_other_instrumentations(
    value: str, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONTENT, value)
    assert wants_content() == wanted


def test_headers_are_percent_decoded_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HEADERS, "Authorization=Basic%20eDp5PQ==, x-project = a=b ,,broken")
    assert configured_headers() == {"Authorization": "Basic eDp5PQ==", "x-project": "a=b"}
    for value in ("a=b%0D%0Ac: d", "a b=c", "ä=b"):
        monkeypatch.setenv(HEADERS, value)
        with pytest.raises(UsageError) as error:
            configured_headers()
        assert "c: d" not in str(error.value)


def test_headers_and_address_are_secrets_by_name() -> None:
    assert is_secret_name(HEADERS)
    assert is_secret_name(ENDPOINT)


def test_a_program_without_a_name_is_called_teamwright() -> None:
    assert resource_attributes() == {"service.name": "teamwright"}
