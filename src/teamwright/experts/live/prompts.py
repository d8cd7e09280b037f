"""What members of a live team are asked. Changing a text here changes prompts, and with them the digests of turns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from teamwright.agents.contract.agent import Agent
from teamwright.experts.live.plan import FORM
from teamwright.strategies.plan.difference import phase_line
from teamwright.strategies.plan.present_members import LiveMembers
from teamwright.strategies.protocol import Task, introduction
from teamwright.values.specs.plan import Plan, Step
from teamwright.values.turns.turn import Turn


def planning_prompt(task: str, members: LiveMembers, plan: Plan | None, problem: str, most: int) -> str:
    """Ask the lead for a plan, or for another one after what is done."""
    done = [phase_line(one) for one in plan.steps if not one.is_open] if plan is not None else []
    open_ = [phase_line(one) for one in plan.steps if one.is_open] if plan is not None else []
    return _joined(
        f"You lead a team. Divide the work into at most {most} steps. Answer with one JSON object:\n{FORM}",
        _listed("The members:", map(introduction, members)),
        _listed("These steps are done and stay as they are; do not list them again:", done),
        _listed("These steps were planned, before the direction changed:", open_),
        f"Your last answer could not be used: {problem}. Plan again." if problem else "",
        f"The task of the team:\n{task}",
    )


def phase_prompt(task: str, phase: Step, expert: Agent, members: LiveMembers, lead: str) -> str:
    """Ask an expert to work on a phase."""
    others = [introduction(one) for one in members if one.name != expert.name]
    left = [f"{name} (has left)" for name in members.left]
    return _joined(
        _listed(f"Your colleagues; {lead} leads the team:", [*others, *left]),
        f"The task of the team:\n{task}" if phase.task else "",
        f"You work on the step {phase.title!r}:\n{phase.task or task}",
    )


def assist_prompt(asker: str, question: str) -> str:
    """Ask a colleague for assistance."""
    return f"{asker} asks for your help. Answer the question, and nothing else:\n{question}"


def answered_prompt(helper: str, phase: Step, task: str) -> str:
    """Let an expert continue after a colleague has answered."""
    return f"{helper} has answered. Finish your step {phase.title!r}:\n{phase.task or task}"


def unknown_prompt(name: str, colleagues: Sequence[str], phase: Step, task: str) -> str:
    """Tell an expert that no member has the name that it asked for."""
    there = ", ".join(colleagues) or "nobody else"
    return (
        f"You have no colleague {name!r}; in the team are: {there}. Ask one of them if you still need help, or finish"
        f" your step {phase.title!r}:\n{phase.task or task}"
    )


def handed_over_prompt(source: str, note: str, phase: Step, task: str) -> str:
    """Ask an expert to finish what another handed over."""
    return f"{source} hands the step {phase.title!r} over to you: {note}\n\nThe step:\n{phase.task or task}"


def decision_prompt(phase: Step, expert: str, rounds: int, task: str) -> str:
    """Ask the lead to end a discussion."""
    return (
        f"The step {phase.title!r} of {expert} was discussed for {rounds} rounds without an end. Decide now: write the"
        f" result of the step, with what is known.\n\nThe step:\n{phase.task or task}"
    )


def synthesis_prompt(task: str) -> str:
    """Ask the lead for the answer of the team."""
    return f"All steps are done. Write the team's answer to the task, from the work above:\n{task}"


def with_files(turn: Turn, task: Task) -> Turn:
    """Return a turn with the files of the team's task, if its prompt has that task."""
    return replace(turn, attachments=task.attachments) if task.text in turn.task else turn


def _joined(*parts: str) -> str:
    return "\n\n".join(filter(None, parts))


def _listed(title: str, lines: Iterable[str]) -> str:
    found = list(lines)
    return "\n".join((title, *(f"- {line}" for line in found))) if found else ""
