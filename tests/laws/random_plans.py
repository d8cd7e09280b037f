"""Random teams that work through a plan: settings drawn over every axis, what people change, budgets and crashes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, NamedTuple, cast

from hypothesis import strategies as st

from teamwright.agents.agent import Agent
from teamwright.strategies.plan.options import PlanOptions
from teamwright.strategies.registry import find_strategy
from teamwright.teams.team import Team
from teamwright.values.limits import Limits
from teamwright.values.people import (
    AddMember,
    EditPlan,
    PauseMember,
    RaiseBudget,
    RemoveMember,
    RestorePlan,
    ResumeMember,
    Steer,
    StopStep,
    Tell,
)
from tests.laws import plan_members
from tests.laws.plan_members import Desk, Habits

SOURCES = ("steps", "planned", "stepwise", "roles")
PRESETS: dict[str, tuple[str, ...]] = {
    "plain": ("plan",),
    "preset": (
        "dag", "single", "lead_subagent", "star_team", "mesh_team",
        "collaborate", "dispatch", "expert", "live", "react",
    ),
}  # fmt: skip
"""The presets by whether they change defaults."""
PLAIN = ("boss", "a", "b", "c")
STEPS_OF: dict[str, tuple[str, ...]] = {
    "steps": ("s1", "s2", "s3"),
    "planned": ("s1", "s2", "r1-1"),
    "stepwise": ("d1-1", "d1-2", "d2-1"),
    "roles": ("a", "b", "boss", "writer"),
}
"""The ids that steps mostly have, by where the plan comes from."""
SENT = (
    "say",
    "pause",
    "resume",
    "raise",
    "edit",
    "edit",
    "restore",
    "restore",
    "stop",
    "stop",
    "add",
    "remove",
    "never",
)
STEERS_MEMBER = {"pause": PauseMember, "resume": ResumeMember, "remove": RemoveMember}
NEVER = "never"
"""The sender of what no team can take, so that it is never acknowledged."""
JUDGE, FINAL_JUDGE, CHIEF, CLOSER = "judge", "second", "chief", "closer"
PANEL, MIXED = "panel", "mixed"
"""Teams that judge: of others, and with a member among them, which may be the author."""
GOOD = {"id": "good", "contains": "good"}
ASKED = {"id": "asked", "judge": "Is it good?"}
OWN_EVALUATOR = f"{plan_members.__name__}:{plan_members.OwnEvaluator.__name__}"
ABLE_TO_CLIMB = plan_members.POLICY.changed(stronger="test:strong", economy="test:cheap")
NEWCOMER: Any = {"function": f"{plan_members.__name__}:{plan_members.joined.__name__}"}


@dataclass(frozen=True)
class NestedPlan:
    """A team within the team, which works through a plan of its own."""

    strategy: str
    options: dict[str, Any]


class Cut(NamedTuple):
    """Where a record is cut: at the end of one of its writes; of those where an intervention waits for its effect."""

    place: int
    pending: bool = False


@dataclass(frozen=True)
class PlanCase:
    """A team, how its members behave, what people do, and where the run is cut."""

    strategy: str
    options: dict[str, Any]
    members: tuple[str, ...]
    helpers: tuple[str, ...]
    share: str | None
    salt: int
    habits: Habits
    limits: Limits | None
    nested: NestedPlan | None
    sent: tuple[tuple[int, Steer], ...]
    cuts: tuple[Cut, ...]
    upgraded: tuple[str, ...] = ()
    """The members with a stronger and a cheaper model."""
    axes: tuple[str, ...] = field(default=(), compare=False)

    def desk(self) -> Desk:
        """What the members of one run are asked."""
        return Desk(self.salt, self.habits, self.members)

    def team(self, desk: Desk) -> Team:
        """Make the team; raises `UsageError` where settings don't go together."""
        given: dict[str, Any] = {"share": self.share} if self.share else {}
        members = {name: self._member(name, desk) for name in self.members}
        panels = {PANEL: [desk.member("p")], MIXED: [desk.member("q"), members["b"]]}
        return Team(
            "t",
            members=[*members.values()],
            helpers=[
                Team(name, members=panels[name]) if name in panels else desk.member(name) for name in self.helpers
            ],
            strategy=self.strategy,
            options=self.options,
            limits=self.limits,
            **given,
        )

    def _member(self, name: str, desk: Desk) -> Agent:
        if name == "c" and self.nested is not None:
            inner = [desk.member(one) for one in ("x", "y", "z")]
            return Team("c", members=inner, strategy=self.nested.strategy, options=self.nested.options)
        able = ("depth",) if name in ("b", "c") else ()
        made = desk.member(name, talks=self.talks, able=able)
        if name in self.upgraded:
            made.policy = ABLE_TO_CLIMB
        return made

    @property
    def has_limits(self) -> bool:
        """Whether calls that broke off leave less for others."""
        return self.limits is not None or any("limits" in step for step in self.options.get("steps", ()))

    @cached_property
    def talks(self) -> bool:
        """Whether members may ask each other."""
        options = cast("type[PlanOptions]", find_strategy(self.strategy).options).model_validate(self.options)
        return options.talks and options.rounds_of_talk > 0


_numbers = cache(st.integers)


class PlanDraw:
    """Draws one case; each choice is noted as a value of an axis."""

    def __init__(self, draw: st.DrawFn, source: str, presets: Sequence[str]) -> None:
        self._draw, self.source, self._presets = draw, source, presets
        self.axes: list[str] = [f"source={source}"]
        self.panels: dict[str, None] = {}

    def pick(self, axis: str, *values: Any) -> Any:
        value = self.of(*values)
        self.axes.append(f"{axis}={value if isinstance(value, str | bool | int | None) else type(value).__name__}")
        return value

    def of(self, *values: Any) -> Any:
        return values[self.number(0, len(values) - 1)]

    def number(self, least: int, most: int) -> int:
        return self._draw(_numbers(least, most))

    def case(self) -> PlanCase:
        strategy = self.pick("preset", *self._presets)
        lead = self._lead(strategy)
        roles = self._roles()
        options: dict[str, Any] = self._conduct(strategy, lead)
        options |= {"lead": lead} if lead else {}
        options |= {"roles": roles} if roles else {}
        members = PLAIN if self.of(True, True, False) else PLAIN[:3]
        nested = self._nested() if len(members) > 3 and self.pick("nested", False, False, True) else None
        options["decide"] = "stepwise" if self.source == "stepwise" else "ahead"
        if self.source == "steps":
            options["steps"] = list(self._steps(members, options))
            ends = [step["id"] for step in options["steps"]]
            if options.get("answer") is None and strategy == "plan":
                options["answer"] = self.pick("answer", None, "lead", "decision", ends[-1])
        limits, is_open = self._limits(), options["talk"] == "all" or strategy == "live"
        return PlanCase(
            strategy,
            {name: value for name, value in options.items() if value is not None or name in ("timeout", "answer")},
            members,
            (JUDGE, FINAL_JUDGE, CHIEF, CLOSER, *self.panels),
            self.pick("share", None, None, None, "transcript", "a2a_lite", *(() if is_open else ("output",))),
            self.number(0, 1 << 16),
            self._habits(),
            limits,
            nested,
            self._sent(members),
            tuple(self._cut() for _ in range(self.pick("crashes", 1, 1, 2, 0))),
            self.pick("other_models", (), (), ("a",), PLAIN),
            tuple(self.axes),
        )

    def _cut(self) -> Cut:
        return Cut(self.number(0, 200), self.pick("cut_while_pending", False, True))

    def _lead(self, strategy: str) -> str | None:
        if self.source == "roles":
            return None
        if self.source == "steps":
            return self.pick("lead", None, "boss", CHIEF)
        return self.pick("lead", "boss", "boss", CHIEF)

    def _roles(self) -> dict[str, Any]:
        if self.source == "roles" and self.of(True, False):
            return {}
        named = self.pick("roles", False, False, True)
        return {"writer": {"agent": "a"}, "deep": {"capabilities": "depth", "instructions": "Dig."}} if named else {}

    def _conduct(self, strategy: str, lead: str | None) -> dict[str, Any]:
        """The settings of all steps: review, failures, talk, what is seen, and who changes the plan."""
        led = lead is not None
        risk = self.pick("risk", None, None, "low", "medium", "high")
        talk = self.pick("talk", None, None, "none", "lead", "all")
        handout = self.pick("handout", None, None, None, "step", "batch") if led else None
        options: dict[str, Any] = {
            "risk": risk,
            "evaluate": self._review("team_review", risk),
            "revisions": self.pick("revisions", None, 0, 1, 2),
            "talk": talk,
            "rounds_of_talk": self.pick("rounds", None, 0, 1, 2) if talk in ("lead", "all") else None,
            "handout": handout,
            "sees": self.pick("sees", None, None, None, "all"),
            "max_parallel": self.pick("width", None, 1, 2),
            "on_failure": self._ladder(led),
            "pool": self.pick("pool", None, None, None, None, True, "first", ("a", "b")),
            "timeout": self.pick("timeout", None, None, 600.0),
            "confirm": self.pick("confirm", None, None, True),
            "proposals": self.pick("proposals", None, 0, 2) if led else None,
            "shared_steps": self.pick("shared", None, True) if led else None,
            "create_roles": self.pick("create_roles", None, None, True) if led else None,
            "max_steps": self.pick("most", None, 2, 4) if led else None,
        }
        if self.source == "planned" and self.of(True, False):
            options["on_planner_failure"] = self.pick(
                "planner_failure", "fail_fast", "single_step_fallback", "step_each", "finish"
            )
        if led and self.source != "steps":
            options["answer"] = self.pick("answer", None, "lead", "decision")
        return options

    def _ladder(self, led: bool) -> Any:
        chosen = self.pick("on_failure", None, "fail", "cancel", "skip", "collect", "ladder", "ladder", "ladder")
        if chosen != "ladder":
            return chosen
        finish = (False, False, True, CLOSER) if led else (False, CLOSER)
        attempts = range(self.pick("attempts", 0, 1, 2))
        rungs = [self.pick("attempt", "retry", "other_member", "adjust") for _ in attempts]
        rungs += [one for one in ("upgrade_model", "downgrade_model") if self.pick(one, True, False)]
        rungs += ["replan"] * self.pick("replans", 0, 1, 2) if led else []
        rungs += ["skip_step"] if self.pick("skip_step", False, True) else []
        last = self.pick("finish", *finish)
        rungs += [{"finish": last}] if isinstance(last, str) else ["finish"] if last else []
        return rungs or None

    def _review(self, axis: str, risk: str | None) -> dict[str, Any] | None:
        kinds = (None, None, "not_blank", "criteria", "criteria") + (("judge", "both") if risk != "high" else ("both",))
        kind = self.pick(axis, *kinds)
        if kind is None:
            return None
        review: dict[str, Any] = {}
        if kind in ("criteria", "both"):
            review["criteria"] = [{**GOOD, "required": self.of(False, True)}]
        if kind in ("judge", "both"):
            review["criteria"] = [*review.get("criteria", ()), ASKED]
            review["judge"] = judge = self.pick("judge", JUDGE, JUDGE, JUDGE, "b", PANEL, MIXED)
            if judge in (PANEL, MIXED):
                self.panels[judge] = None
            if self.of(True, False, False, False):
                review["judge"] = [judge, FINAL_JUDGE]
        if kind != "not_blank" and self.pick("own_evaluator", False, False, False, False, True):
            review["evaluator"] = OWN_EVALUATOR
        if kind != "not_blank" and self.of(True, False, False, False, False):
            review["on_failure"] = self.pick("exceeded", "ask", "fail")
        return review

    def _steps(self, members: tuple[str, ...], options: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for place in range(1, 1 + self.number(1, 4)):
            step: dict[str, Any] = {"id": f"s{place}", "task": f"Step {place}."}
            step["needs"] = [f"s{one}" for one in range(1, place) if self.of(True, False)]
            step |= self._who(members, options)
            if self.of(True, False, False) and (review := self._review("review", options["risk"])) is not None:
                review |= {"revisions": self.of(0, 1)} if self.of(True, False) else {}
                step["evaluate"] = review
            if self.of(True, *[False] * 7):
                step["when"] = self.pick("when", "1 == 1", "1 == 2")
            elif self.of(True, *[False] * 3):
                step["required"] = self.pick("required", True)
            if self.of(True, *[False] * 7):
                step["owns"] = ["out/*"]
            if self.of(True, *[False] * 9):
                step["nothing_found"] = self.pick("nothing_found", True)
            if self.of(True, *[False] * 11):
                step["limits"] = {"calls": self.number(1, 3)}
            yield step

    def _who(self, members: tuple[str, ...], options: dict[str, Any]) -> dict[str, Any]:
        roles, pooled = bool(options.get("roles")), options["pool"] is not None
        kinds = ["agent", "agent", "race", "parts", "split"]
        kinds += ["role", "role"] if roles else []
        kinds += ["pool", "pool"] if pooled else []
        others = [name for name in members if name != "boss"]
        match self.pick("who", *kinds):
            case "role":
                return {"role": self.of("writer", "deep")}
            case "pool":
                return {}
            case "race":
                merge = self.pick("merge", "best", "vote", "fusion")
                agents = [*others[:2], *(others[2:] if self.of(True, False) else ())]
                few = {"enough": 1} if self.pick("enough", False, False, True) else {}
                return {"parallel": "competitive_parallel", "agents": agents, "merge": merge, **few}
            case "parts":
                parts = [{"id": f"p{place}", "agent": name} for place, name in enumerate(others[:2], start=1)]
                return {"parallel": "subtask_parallel", "parts": parts[: self.of(1, 2, 2)]}
            case "split":
                return {"parallel": "subtask_parallel", **({"agents": others[:2]} if self.of(True, False) else {})}
            case _:
                return {"agent": self.of(*others)}

    def _nested(self) -> NestedPlan:
        strategy = self.pick("inner", "expert", "collaborate", "live", "react", "dag")
        options: dict[str, Any] = {"timeout": None}
        if strategy == "dag" or self.of(True, False):
            options["steps"] = [{"id": "i1", "agent": "y"}, {"id": "i2", "agent": "z", "needs": ["i1"]}]
        if strategy == "react":
            options = {"timeout": None, "lead": "x", "max_steps": 2}
        if strategy != "dag" and self.of(True, False):
            options["evaluate"] = {"criteria": [GOOD]}
        return NestedPlan(strategy, options)

    def _habits(self) -> Habits:
        return Habits(
            fails=self.pick("fails", 0, 0, 10, 30, 90),
            poor=self.pick("poor", 0, 20, 60),
            garbled=self.pick("garbled", 0, 0, 20, 80),
            talks=self.pick("talkative", 0, 30, 80),
            proposes=self.pick("proposes", 0, 0, 30),
            terminates=self.pick("terminates", 0, 0, 0, 4, 25),
            requests=self.pick("requests", 1, 3),
        )

    def _limits(self) -> Limits | None:
        match self.pick("limits", None, None, None, "calls", "tokens"):
            case "calls":
                return Limits(calls=self.number(1, 30))
            case "tokens":
                return Limits(tokens=self.number(30, 900))
            case _:
                return None

    def _sent(self, members: tuple[str, ...]) -> tuple[tuple[int, Steer], ...]:
        sent: list[tuple[int, Steer]] = []
        for _ in range(self.of(0, 0, 1, 2, 4)):
            when = 0 if self.pick("sent_at", 0, "later") == 0 else self.number(1, 9)
            steer = self._steer(members)
            if isinstance(steer, RestorePlan) and self.of(True, True, False):  # of a plan that has changed before
                sent.append((when, EditPlan(plan=self._edit(members))))
                when += self.number(0, 4)
            sent.append((when, steer))
            if isinstance(steer, EditPlan) and self.of(True, False):  # the lead plans again from what was edited
                sent.append((when + self.number(0, 2), Tell(text="Be brief.")))
            elif self.of(True, False) and not isinstance(steer, EditPlan):  # a person edits while others decide
                sent.append((when + self.number(0, 3), EditPlan(plan=self._edit(members))))
        return tuple(sent)

    def _steer(self, members: tuple[str, ...]) -> Steer:
        kind, anyone = self.pick("sent", *SENT), self.of(*members, "new", "stranger")
        if kind == "say":
            return Tell(text="Be brief.", to=self.of("", "", *members))
        if kind in STEERS_MEMBER:
            return STEERS_MEMBER[kind](member=anyone)
        return self._never() if kind == NEVER else self._team_change(kind, members)

    def _team_change(self, kind: str, members: tuple[str, ...]) -> Steer:
        match kind:
            case "raise":
                return RaiseBudget(calls=self.number(5, 60))
            case "edit":
                return EditPlan(plan=self._edit(members))
            case "restore":
                return RestorePlan(plan_version=self.of(1, 1, 1, 2, 3))
            case "stop":
                return StopStep(step=self.of(*STEPS_OF[self.source], "e1"))
            case _:
                return AddMember(member=self.of("new", "a"), spec=NEWCOMER)

    def _edit(self, members: tuple[str, ...]) -> Any:
        """A change of the plan, or a whole plan."""
        name = self.of("s1", "s2", "s3", "e1", STEPS_OF[self.source][0])
        step: dict[str, Any] = {"id": name, "agent": self.of(*members, "new"), "task": "As edited."}
        if self.of(True, False, False):
            step["needs"] = ["s1"] if name != "s1" else []
        if self.of(True, False, False):
            step["evaluate"] = {"judge": self.of(JUDGE, *members), "criteria": [ASKED]}
        if self.pick("edit", "change", "plan") == "change":
            more: dict[str, Any] = {"remove": ["s4"]} if self.of(True, False, False) else {}
            more |= {"variables": {"v": self.number(1, 3)}} if self.of(True, False, False) else {}
            return {"put": [step], **more}
        return {"steps": [{"id": "s1", "agent": "a", "task": "Step 1."}, *([step] if name != "s1" else [])]}

    def _never(self) -> Steer:
        cycle = [{"id": "s1", "agent": "a", "needs": ["e1"]}, {"id": "e1", "agent": "a", "needs": ["s1"]}]
        plans: list[Any] = [None, "no plan", {"steps": []}, {"steps": cycle}, {"put": cycle}, {"put": []}, 7]
        edits = [EditPlan(plan=plan, by=NEVER) for plan in plans]
        joins = [AddMember(member=name, spec=NEWCOMER, by=NEVER) for name in (JUDGE, CHIEF, CLOSER, "b")]
        strangers = [RemoveMember(member=name, by=NEVER) for name in ("stranger", "nobody")]
        return self.of(*edits, *joins, *strangers)


@st.composite
def plan_cases(draw: st.DrawFn, source: str, presets: Sequence[str]) -> PlanCase:
    """A random case whose plan comes from there, with the defaults of one of these presets."""
    return PlanDraw(draw, source, presets).case()
