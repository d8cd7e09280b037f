"""Agents: anything that answers a turn."""
