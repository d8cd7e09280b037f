"""Tests mirror the source: each module has test files that begin with its name, or the table says which covers it.

`journal/decoder.py` is covered by `journal/test_decoder.py`, and by `journal/test_decoder_limits.py` if that is there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.paths import ROOT

SOURCE = ROOT / "src" / "teamwright"
TESTS = ROOT / "tests"
CLASS = re.compile(r"^ *class (\w+)[(\[:]", re.MULTILINE)

COVERED_BY = {
    "runtime/recorded/held_replay.py": "runtime/recorded/test_rebuilt_prompts.py",
    "testing/case_player.py": "testing/test_case_replay.py",
    "testing/recorded_case.py": "testing/test_case_file.py",
    "guests/agent_framework_client.py": "guests/test_guest_frameworks.py",
    "guests/crewai_llm.py": "guests/test_guest_frameworks.py",
    "guests/langchain_chat_model.py": "guests/test_guest_frameworks.py",
    "guests/openai_agents_model.py": "guests/test_guest_frameworks.py",
    "strategies/plan/steps/step_queue.py": "strategies/plan/steps/test_step_runner.py",
    "runtime/context/merge.py": "runtime/working_trees/test_member_trees.py",
    "runtime/working_trees/git.py": "runtime/working_trees/test_repository.py",
    "journal/agent_notes.py": "agents/tools/test_built_in.py",
    "journal/tenant_budgets.py": "cluster/test_shared_limits_tenant_budgets.py",
    "journal/postgres/cluster_tables.py": "cluster/test_schedules_scheduler.py",
    "install_command.py": "test_errors.py",
    "collector_pauses.py": "values/test_value.py",
    "runtime/people/interventions.py": "runtime/people/test_applied_interventions.py",
    "runtime/run_control.py": "runtime/test_sharing_runs.py",
    "values/specs/tools.py": "values/specs/test_manifest.py",
    "values/specs/members.py": "values/specs/test_manifest_expert.py",
    "values/specs/models.py": "values/specs/test_model_settings.py",
    "server/mcp/routes.py": "server/mcp/test_team_server.py",
    "server/questions.py": "server/mcp/test_tasks.py",
    "server/mcp/team_tools.py": "server/mcp/test_team_server.py",
    "server/page/page_state.py": "server/page/test_projection.py",
    "history/fork.py": "history/test_run_history_checkpoints.py",
    "agents/effect.py": "runtime/context/test_effect.py",
    "runtime/context/size_caps.py": "runtime/context/test_turn_outcome.py",
    "agents/acp_connection.py": "agents/test_acp_agent.py",
    "agents/acp_session.py": "agents/test_acp_agent.py",
    "runtime/context/effect_charges.py": "runtime/context/test_effect.py",
    "experts/team_templates.py": "cli/test_new.py",
    "agents/settings.py": "agents/test_agent_policy.py",
    "cli/foreground_run.py": "cli/test_run.py",
    "cli/terminal/interrupts.py": "cli/test_processes.py",
    "cli/runs/delete.py": "cli/runs/test_commands.py",
    "cli/terminal/errors.py": "cli/test_run.py",
    "cli/runs/diff.py": "cli/runs/test_resume.py",
    "cli/terminal/team_picture.py": "cli/test_show.py",
    "history/telemetry/conventions.py": "history/telemetry/test_run_spans.py",
    "history/telemetry/spans.py": "history/telemetry/test_run_spans.py",
    "cluster/wing.py": "test_wings.py",
    "experts/wing.py": "test_wings.py",
    "lab/jobs.py": "server/test_jobs.py",
    "lab/wing.py": "test_wings.py",
    "server/wing.py": "test_wings.py",
    "journal/sqlite/queries.py": "journal/sqlite/test_journal.py",
    "journal/postgres/tenant_budgets.py": "cluster/test_shared_limits_tenant_budgets.py",
    "journal/postgres/rate_limits.py": "cluster/test_shared_limits_paces.py",
    "journal/postgres/rows.py": "journal/postgres/test_journal.py",
    "runtime/budget/tenant_budgets.py": "cluster/test_shared_limits_tenant_budgets.py",
    "cluster/worker_command.py": "cluster/test_worker.py",
    "cluster/queue_database.py": "cluster/test_queue_client.py",
    "server/chat/acp_peer.py": "server/test_commands_acp.py",
    "server/a2a/operations.py": "server/a2a/test_routes.py",
    "server/a2a/sdk.py": "server/a2a/test_agent_card.py",
    "server/a2a/wire.py": "server/a2a/test_routes.py",
    "server/chat/agui_wire.py": "server/chat/test_agui.py",
    "server/chat/model_call.py": "server/chat/test_chat_completions.py",
    "server/chat/responses_record.py": "server/chat/test_responses.py",
    "server/error_statuses.py": "server/routes/test_runs.py",
    "lab/simulation/replay.py": "lab/simulation/test_what_if.py",
    "__main__.py": "cli/test_entry.py",
    "strategies/plan/steps/step_board.py": "strategies/plan/test_plan_run.py",
    "_lazy.py": "test_facades.py",
    "agents/model/turn.py": "agents/model/test_agent.py",
    "agents/sandbox.py": "agents/test_sandbox_back_ends.py",
    "testing/sandbox.py": "agents/test_sandbox_back_ends.py",
    "agents/tools/protocol.py": "agents/tools/test_call.py",
    "agents/tools/python.py": "agents/tools/test_toolbox.py",
    "agents/tools/mcp_connection.py": "agents/tools/test_mcp_source.py",
    "lab/commands/calibrate.py": "lab/commands/test_teams.py",
    "lab/commands/simulate.py": "lab/commands/test_teams.py",
    "documents/schema_check.py": "teams/manifests/test_reference_checks.py",
    "server/page/asks.py": "server/page/test_projection.py",
    "server/page/run_events.py": "server/page/test_projection.py",
    "lab/topology_tables.py": "lab/test_topology_report.py",
    "teams/manifests/code_references.py": "cli/terminal/test_command_setup.py",
    "runtime/locks.py": "runtime/context/test_effect_charges_in_doubt.py",
    "runtime/context/context.py": "runtime/context/test_ask.py",
    "runtime/scope.py": "runtime/context/test_timers_deadline.py",
    "strategies/expression_parser.py": "strategies/test_expression_evaluator.py",
    "strategies/plan/rounds.py": "strategies/plan/test_presets_star_team.py",
    "testing/trial.py": "testing/test_agent.py",
    "testing/journal.py": "journal/test_protocol.py",
    "testing/transport.py": "runtime/test_transport.py",
    "testing/strategy.py": "strategies/test_conformance.py",
    "values/events/agent.py": "values/test_event_schema.py",
    "values/events/budget.py": "values/test_event_schema.py",
    "values/events/run.py": "values/test_event_schema.py",
    "values/events/team.py": "values/test_event_schema.py",
    "strategies/plan/closing.py": "strategies/plan/test_plan_run.py",
    "strategies/plan/engine.py": "cli/test_show.py",
    "strategies/plan/options.py": "strategies/plan/test_bound_plan.py",
    "strategies/plan/state.py": "strategies/plan/test_plan_run.py",
}
"""Modules without a test file of their name, and the one that covers them, both below `src/teamwright` and `tests`."""


def modules() -> list[Path]:
    """Every module but the facades, which hold no code of their own."""
    found = [path for path in sorted(SOURCE.rglob("*.py")) if path.name not in {"__init__.py", "__main__.py"}]
    return [path for path in found if "= lazy_names(" not in path.read_text(encoding="utf-8")]


def own_test(module: str) -> str:
    path = Path(module)
    return (path.parent / f"test_{path.name}").as_posix()


def has_own_test(module: str) -> bool:
    path = Path(module)
    return (TESTS / own_test(module)).exists() or any((TESTS / path.parent).glob(f"test_{path.stem}_*.py"))


def test_every_module_has_a_test_file_that_is_easy_to_find() -> None:
    names = [path.relative_to(SOURCE).as_posix() for path in modules()]
    lost = [name for name in names if name not in COVERED_BY and not has_own_test(name)]
    assert not lost, f"write {own_test(lost[0])!r}, or say in COVERED_BY which test file covers {lost}"


@pytest.mark.parametrize("module", COVERED_BY)
def test_the_table_holds_what_is_there_and_no_more(module: str) -> None:
    assert (SOURCE / module).exists(), "this module is gone: remove its entry"
    assert (TESTS / COVERED_BY[module]).exists(), "this test file is gone: name the one that covers the module now"
    assert not (TESTS / own_test(module)).exists(), "this module has a test file of its name: remove its entry"


def test_one_class_name_means_one_thing() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        for name in CLASS.findall(path.read_text(encoding="utf-8")):
            places[name].append(path.relative_to(SOURCE).as_posix())
    assert len(places) > 100
    shared = {name: sorted(found) for name, found in places.items() if len(found) > 1}
    assert shared == {}
