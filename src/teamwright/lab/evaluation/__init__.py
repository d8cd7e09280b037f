"""Topologies evaluated with the analytic model."""
