"""Strategies that work through the steps of a plan."""
