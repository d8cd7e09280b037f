"""Strategies in which one member speaks after another."""
