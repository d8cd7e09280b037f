"""Experiments: teams measured on data sets, with what chance alone would explain."""
