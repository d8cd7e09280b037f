"""Simulation: the real engine with simulated agents on a virtual clock."""
