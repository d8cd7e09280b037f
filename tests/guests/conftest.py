"""What the frameworks need of their environment: no telemetry, and a key that no server asks for."""

import pytest


@pytest.fixture(autouse=True)
def environment_of_frameworks(isolated_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CREWAI_DISABLE_TELEMETRY", "OTEL_SDK_DISABLED"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("CREWAI_TRACING_ENABLED", "false")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
