"""Placement: branches of a team as child runs, which workers drive."""
