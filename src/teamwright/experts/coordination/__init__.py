"""Coordinators of expert teams: plan, assign, evaluate, revise, and recover from failures."""
