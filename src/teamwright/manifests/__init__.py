"""Manifests: YAML that declares agents, teams and plans, read and checked as a whole. Nothing here runs a team."""
