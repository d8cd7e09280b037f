"""Manifests: agents and teams declared in YAML, native or ARK's, loaded with every mistake told at its place."""

from teamwright.teams.manifest.declared import Query
from teamwright.teams.manifest.load import Loaded, load
from teamwright.teams.manifest.schema import manifest_schema
from teamwright.teams.manifest.secrets import resolve_secrets

__all__ = ["Loaded", "Query", "load", "manifest_schema", "resolve_secrets"]
