"""Runs as traces and metrics: readings of a record in the words of OpenTelemetry and of Prometheus."""
