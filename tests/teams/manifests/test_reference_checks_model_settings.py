"""Settings in a manifest: each mistake has its line and says what to write; keys in headers are masked."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import ModelAgent
from teamwright.errors import NotResumable
from teamwright.teams.manifests.environment_variables import resolve_secrets
from teamwright.teams.team_loader import source_of, team_from_source
from tests.teams.manifests.manifests import loaded, problems

TEAM = """\
    models:
      fast:
        model: openai:gpt-5-mini
        output_mode: tool
        settings: {openai_reasoning_effort: low, top_p: 0.5}
      own:
        url: http://localhost:9/v1
        name: tiny
        settings:
          extra_headers: {X-Org: "${ORG_TOKEN}", X-Trace: plain}
    agents:
      a:
        model: fast
        settings: {top_p: 0.9, stop_sequences: [END]}
        output_mode: native
        max_requests: 5
      b: {model: own, economy: fast}
    teams:
      t: {members: [a, b]}
    """

EFFORTS = "'minimal' or 'low' or 'medium' or 'high' or 'xhigh' or 'max'"


def test_settings_reach_the_agent_and_its_declaration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORG_TOKEN", "tok-1234567890")
    team = team_from_source(source_of(loaded(tmp_path, TEAM)))
    first = team.members[0]
    assert isinstance(first, ModelAgent)
    assert first.settings == {"top_p": 0.9, "stop_sequences": ["END"]}
    assert (first.output_mode, first.max_requests) == ("native", 5)
    assert (
        first.spec.model_dump(exclude_unset=True).items()
        >= {
            "settings": {"top_p": 0.9, "stop_sequences": ["END"]},
            "output_mode": "native",
            "max_requests": 5,
        }.items()
    )


def test_each_mistake_has_its_line_and_a_suggestion(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        """\
        models:
          fast:
            model: openai:gpt-5-mini
            settings:
              openai_reasoning_efort: low
              stop: [x]
        agents:
          a:
            model: fast
            temperature: 0.1
            settings:
              max_tokens: 2
              thinking: lots
              timeout: 3
            economy: {model: 'openai:x', settings: {topp: 1}}
            output_mode: nativ
            max_requests: 0
        teams:
          t: {members: [a]}
        """,
    )
    assert [(one.line, one.message, one.suggestion.partition(" or ")[0]) for one in found] == [
        (5, "model 'fast': 'openai_reasoning_efort' is not a field here", "did you mean 'openai_reasoning_effort'"),
        (6, "model 'fast': 'stop' is not a field here", "write stop_sequences"),
        (10, "agent 'a': 'temperature' is not a field here", "write  settings: {temperature: …}"),
        (12, "agent 'a': 'max_tokens' is a field of the agent", "write it beside 'settings'"),
        (
            13,
            f"agent 'a': 'thinking' is {EFFORTS}, and this is the text 'lots'",
            "known are high, low, max, medium, minimal, xhigh",
        ),
        (14, "agent 'a': 'timeout' is not a field here", "set 'timeout' of the agent"),
        (15, "agent 'a': 'topp' is not a field here", "did you mean 'top_p'?"),
        (
            16,
            "agent 'a': 'output_mode' is 'auto' or 'native' or 'tool' or 'prompt', and this is the text 'nativ'",
            "did you mean 'native'?",
        ),
        (17, "agent 'a': 'max_requests' must be at least 1, and 0 is not", ""),
    ]


def test_a_key_in_a_header_is_masked_and_read_again_on_a_resume(tmp_path: Path) -> None:
    manifest = loaded(tmp_path, TEAM).manifest
    resolved, secrets = resolve_secrets(manifest, {"ORG_TOKEN": "tok-1234567890"})
    assert secrets == {"tok-1234567890"}
    own = resolved.models["own"]
    assert not isinstance(own, str)
    assert own.settings == {"extra_headers": {"X-Org": "tok-1234567890", "X-Trace": "plain"}}
    assert "tok-1234567890" not in str(manifest.model_dump(mode="json"))


def test_a_secret_elsewhere_in_settings_is_refused(tmp_path: Path) -> None:
    (problem,) = problems(
        tmp_path,
        """\
        agents:
          a: {model: 'openai:x', settings: {extra_body: {key: '${MY_KEY}'}}}
        """,
    )
    assert "settings.extra_body.key may not read 'MY_KEY'" in problem.message


def test_a_secret_that_is_written_out_is_warned_about(tmp_path: Path) -> None:
    text = "agents:\n  a: {model: 'openai:x', settings: {extra_headers: {Authorization: Bearer abc123def456}}}\n"
    (warning,) = loaded(tmp_path, text).warnings
    assert "the secret 'Authorization' is written in the file" in warning.message
    masked = text.replace("Bearer abc123def456", "'[redacted]'")
    manifest = loaded(tmp_path, masked).manifest
    with pytest.raises(NotResumable, match=r"a\.settings\.extra_headers\.Authorization is a secret"):
        resolve_secrets(manifest, {})
