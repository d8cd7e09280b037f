"""Ratings of experts and templates, read from past runs."""
