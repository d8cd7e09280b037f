"""Expressions of conditions and templates: a bounded subset of Jinja."""
