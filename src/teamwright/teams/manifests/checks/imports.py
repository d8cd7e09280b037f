"""Checks that functions can be imported, scripts can be read, and extras are installed.

It imports the modules that a manifest names, so only commands that may load code call it. It starts nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from teamwright.agents.clients.providers import MODEL, missing_extra
from teamwright.agents.functions.agent import required_parameters
from teamwright.agents.functions.guardrails import FORM as GUARDRAIL
from teamwright.agents.functions.imports import Function, load_function
from teamwright.agents.functions.instructions import check_arity
from teamwright.agents.scripted import Script
from teamwright.agents.tools.registry import find_kind, kinds_in
from teamwright.documents.nodes import Fields, Items, Node, ProblemReport, Scalar
from teamwright.documents.schema_check import import_path_in, is_import_path
from teamwright.errors import ManifestError
from teamwright.teams.manifests.checks.references import functions_around
from teamwright.teams.manifests.declarations import Declaration, Declarations

SCRIPTED = "scripted:"


def check_imports(declared: Declarations, report: ProblemReport, *, models_replaced: bool) -> None:
    """Report every function and script that can't be used, and warn about extras that are not installed."""
    checks = _ImportChecks(report)
    for tool in declared.every("tool"):
        checks.check_tool(tool.fields, tool.words)
    for agent in declared.every("agent"):
        checks.check_agent(agent)
    if models_replaced:
        return
    for model in declared.every("model"):
        checks.check_model(model.node, model)
    for agent in declared.every("agent"):
        checks.check_models(agent)


@dataclass(slots=True)
class _ImportChecks:
    report: ProblemReport
    scripts: set[Path] = field(default_factory=set[Path])

    def check_agent(self, agent: Declaration) -> None:
        """Check the agent's function and inline tools."""
        if path := import_path_in(agent.fields):
            function = self._load(path, agent.words)
            if function is not None:
                self.report.collect(path.place, agent.words, required_parameters, function, "'function'")
        for name, path in functions_around(agent).items():
            function = self._load(path, agent.words)
            if function is not None:
                count, form = (1, "a function (ctx)") if name == "instructions" else (2, GUARDRAIL)
                self.report.collect(path.place, agent.words, check_arity, function, count, form, repr(name))
        tools = agent.fields.get("tools")
        for item in tools.items if isinstance(tools, Items) else ():
            if isinstance(item, Fields):
                self.check_tool(item, agent.words)

    def check_tool(self, fields: Fields, owner: str) -> None:
        for name in kinds_in(fields.entries):
            find_kind(name).check_imports(fields, owner, self.report)

    def check_models(self, agent: Declaration) -> None:
        """Check the agent's scripts and inline models."""
        fallback = agent.fields.get("fallback")  # a text is the name of an agent
        for node in (*map(agent.fields.get, ("model", "economy", "stronger")), fallback):
            if node is not None and (node is not fallback or isinstance(node, Fields)):
                self.check_model(node, agent)

    def check_model(self, node: Node, owner: Declaration) -> None:
        """Check the script of a scripted model, or the extra that the model needs."""
        while isinstance(node, Fields):
            inner = node.get("model")
            if inner is None:
                return
            node = inner
        name = str(node.value) if isinstance(node, Scalar) else ""
        if not MODEL.fullmatch(name) or "${" in name:
            return
        if name.startswith(SCRIPTED):
            self._check_script(name.removeprefix(SCRIPTED), owner)
        elif missing := missing_extra(name):
            self.report.warning(node.place, f"{owner.words}: {missing}")

    def _load(self, path: Scalar, owner: str) -> Function | None:
        """Import a function; what is no import path was reported before."""
        if not is_import_path(path):
            return None
        return self.report.collect(path.place, owner, load_function, str(path.value), "the function")

    def _check_script(self, file: str, owner: Declaration) -> None:
        """Report the mistakes of each script once; a missing script was reported before."""
        path = owner.folder / file
        try:
            if "${" in file or path in self.scripts or not path.is_file():
                return
            self.scripts.add(path)
            Script.load(path)
        except (OSError, ValueError):
            return
        except ManifestError as error:
            self.report.problems.extend(error.problems)
