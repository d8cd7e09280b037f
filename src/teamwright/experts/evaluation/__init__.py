"""Evaluation: the rubric with its checks, and judges."""
