"""Manifests: reads and checks the YAML that declares agents, teams and plans. Nothing here runs a team."""
