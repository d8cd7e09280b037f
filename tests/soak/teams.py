"""The teams that the soak runs: every strategy, nested teams, tools, a model agent, people and limits, as manifests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copyfile

from pydantic import JsonValue

Declared = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class SoakTeam:
    """A team as a manifest, and what may be expected of its runs.

    With `ordered`, members reply in one order, however fast each is; with `last_wins`, the output is the reply of the
    slowest. A run that is not `repeatable` may end otherwise after a crash, since a call in doubt stays charged.
    """

    name: str
    strategy: str
    members: Sequence[str]
    options: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    more: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    agents: Mapping[str, Declared] = field(default_factory=dict[str, Declared])
    teams: Mapping[str, Declared] = field(default_factory=dict[str, Declared])
    models: bool = False
    ordered: bool = True
    last_wins: bool = False
    repeatable: bool = True

    @property
    def calls(self) -> int | None:
        """The limit on calls, where the team has one."""
        limits = self.more.get("limits")
        return int(str(limits["calls"])) if isinstance(limits, dict) and "calls" in limits else None

    def write(self, folder: Path, url: str) -> Path:
        """Write the team's folder: its manifest, and the module of its members."""
        place = folder / self.name
        place.mkdir(parents=True)
        copyfile(Path(__file__).with_name("members.py"), place / "members.py")
        (place / "team.yaml").write_text(json.dumps(self._manifest(url), indent=1))
        return place

    def _manifest(self, url: str) -> Declared:
        own: Declared = {"strategy": self.strategy, "members": list(self.members), **self.more}
        if self.options:
            own[self.strategy] = dict(self.options)
        inner = [name for team in self.teams.values() for name in _names(team)]
        names = dict.fromkeys((*self.members, *_named(self.options), *inner))
        agents: Declared = {name: {"function": f"members:{name}"} for name in names if name not in self.teams}
        manifest: Declared = {"agents": {**agents, **self.agents}, "teams": {**self.teams, self.name: own}}
        if self.models:
            server: JsonValue = {"url": url.replace("/call", "/v1"), "name": "m", "api_key": "${SOAK_KEY}"}
            manifest["models"] = {"primary": server}
        return manifest


def _names(team: Declared) -> tuple[str, ...]:
    members = team["members"]
    assert isinstance(members, list)
    return tuple(str(one) for one in members)


def _named(options: Mapping[str, JsonValue]) -> list[str]:
    """Agents beside the members that options name."""
    return [str(options[key]) for key in ("agent", "lead", "answer") if key in options]


def _modeller(**more: JsonValue) -> Declared:
    return {"model": "primary", "instructions": "Answer.", "tools": ["members:look_up"], **more}


STEPS: JsonValue = [{"id": "one"}, {"id": "two"}, {"id": "three", "needs": ["two"]}]

TEAMS: tuple[SoakTeam, ...] = (
    SoakTeam("sequential", "sequential", ("a", "twice", "c", "z")),
    SoakTeam("round_robin", "round_robin", ("a", "b"), more={"max_turns": 3}),
    SoakTeam(
        "selector",
        "selector",
        ("a", "b", "c"),
        {"agent": "chair", "edges": [{"from": x, "to": y} for x, y in ("ab", "bc", "ca", "ac")]},
        {"max_turns": 4},
    ),
    SoakTeam(
        "graph",
        "graph",
        ("a", "b", "z"),
        {
            "edges": [
                {"from": "a", "to": "b", "when": "state.turns.a < 3"},
                {"from": "a", "to": "z"},
                {"from": "b", "to": "a"},
            ]
        },
        {"max_turns": 9},
    ),
    SoakTeam(
        "fan_out",
        "fan_out",
        ("a", "b", "swallowing", "z"),
        {"chunks": ["one", "two", "three"], "max_parallel": 3, "answer": "z"},
        ordered=False,
    ),
    SoakTeam(
        "dag",
        "dag",
        ("a", "b", "uncancelling", "z"),
        {
            "steps": [
                {"id": "a", "owns": ["docs"]},
                {"id": "b", "owns": ["src"]},
                {"id": "uncancelling", "needs": ["b"], "when": "outputs.b != ''"},
                {"id": "z", "needs": ["a", "uncancelling"]},
            ]
        },
        ordered=False,
    ),
    SoakTeam("plan", "plan", ("a", "b"), {"steps": [{"id": "a"}, {"id": "b", "needs": ["a"]}]}),
    SoakTeam("single", "single", ("a",), {"steps": [{"id": "one", "task": "First"}, {"id": "two", "task": "Second"}]}),
    SoakTeam("lead_subagent", "lead_subagent", ("lead", "a"), {"lead": "lead", "steps": STEPS}, ordered=False),
    SoakTeam("star_team", "star_team", ("lead", "a", "b"), {"lead": "lead", "steps": STEPS}, ordered=False),
    SoakTeam("mesh_team", "mesh_team", ("lead", "a", "b"), {"lead": "lead", "steps": STEPS}, ordered=False),
    SoakTeam("hierarchical", "hierarchical", ("a", "b"), {"lead": "boss", "max_iterations": 4}, ordered=False),
    SoakTeam(
        "reactive",
        "reactive",
        ("a", "b", "c"),
        {
            "subscriptions": [
                {"agent": "a", "on": "workflow.started", "emits": [{"type": "go"}]},
                {"agent": "b", "on": "go"},
                {"agent": "c", "on": "go"},
            ]
        },
        ordered=False,
        last_wins=True,
    ),
    SoakTeam(
        "nested",
        "sequential",
        ("a", "wide", "z"),
        teams={
            "wide": {
                "strategy": "fan_out",
                "members": ["b", "pair"],
                "fan_out": {"chunks": ["one", "two"], "max_parallel": 2},
            },
            "pair": {"strategy": "sequential", "members": ["c", "d"], "share": "output"},
        },
        ordered=False,
    ),
    SoakTeam(
        "models",
        "fan_out",
        ("first", "second"),
        {"chunks": ["one", "two"], "max_parallel": 2},
        agents={"first": _modeller(), "second": _modeller()},
        models=True,
        ordered=False,
    ),
    SoakTeam(
        "model_chain",
        "sequential",
        ("a", "modeller", "z"),
        more={"share": "a2a_lite"},
        agents={"modeller": _modeller()},
        models=True,
    ),
    SoakTeam(
        "approvals",
        "sequential",
        ("a", "asked", "z"),
        agents={"asked": {"function": "members:b", "confirm": {"before": True, "after": True}}},
    ),
    SoakTeam("limits", "sequential", ("a", "twice", "c", "d", "z"), more={"limits": {"calls": 4}}, repeatable=False),
    SoakTeam(
        "blocking",
        "sequential",
        ("a", "thread", "process", "z"),
        agents={
            "thread": {"function": "members:blocking"},
            "process": {"function": "members:blocking", "isolate": "process"},
        },
    ),
)
