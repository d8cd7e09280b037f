"""Driving one run from a terminal."""
