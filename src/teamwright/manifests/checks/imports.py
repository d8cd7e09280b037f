"""Checks that what agents are made of is there: functions can be imported, scripts read, and extras are installed.

It runs the modules that a manifest names, so it is only for those who are about to use them; where no code is loaded it
runs none. It starts nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from teamwright.agents.model.models import missing_extra
from teamwright.agents.scripted.agent import Script
from teamwright.agents.tools.python import load_function
from teamwright.agents.tools.registry import find_kind, kinds_in
from teamwright.documents.field_checks import import_path_in
from teamwright.documents.nodes import Fields, Items, Node, Scalar
from teamwright.documents.problems import ProblemReport
from teamwright.errors import ManifestError, UsageError
from teamwright.manifests.checks.references import MODEL
from teamwright.manifests.declarations import Declaration, Declared

SCRIPTED = "scripted:"


def check_parts(declared: Declared, report: ProblemReport, *, models_replaced: bool) -> None:
    """Note every function and script that can't be used, and warn of extras that are not installed."""
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
        """Look for its function and the tools that it has for itself."""
        if path := import_path_in(agent.fields):
            self._check_function(path, agent.words)
        tools = agent.fields.get("tools")
        for item in tools.items if isinstance(tools, Items) else ():
            if isinstance(item, Fields):
                self.check_tool(item, agent.words)

    def check_tool(self, fields: Fields, owner: str) -> None:
        """Look for what the tool needs."""
        for name in kinds_in(fields.entries):
            find_kind(name).check_imports(fields, owner, self.report)

    def check_models(self, agent: Declaration) -> None:
        """Read its scripts, and look for what the models need that are written out in it."""
        if script := agent.fields.text("scripted"):
            self._check_script(str(script.value), agent)
        fallback = agent.fields.get("fallback")  # as a text it is the name of an agent
        for node in (agent.fields.get("model"), agent.fields.get("economy"), fallback):
            if node is not None and (node is not fallback or isinstance(node, Fields)):
                self.check_model(node, agent)

    def check_model(self, node: Node, owner: Declaration) -> None:
        """Read the script that a model is, or look for what the model needs."""
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

    def _check_function(self, path: Scalar, owner: str) -> None:
        try:
            load_function(str(path.value), "the function")
        except UsageError as error:
            self.report.problem(path.place, f"{owner}: {error}")

    def _check_script(self, file: str, owner: Declaration) -> None:
        """Tell the mistakes of each script once, at their places there; one that is missing has been told of."""
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
