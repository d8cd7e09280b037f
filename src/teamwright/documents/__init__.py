"""Reads YAML files with positions, so that every mistake is reported with its line and column."""
