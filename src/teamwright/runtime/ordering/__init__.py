"""Ordered delivery, which makes a replay deterministic."""
