"""Scripted agents: offline models that answer by rules."""
