"""Evaluation as the core knows it: what an evaluator is, where it is found, and the gate that asks it."""
