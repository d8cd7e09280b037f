"""Calibration: profiles fitted to the user's runs, and advice from them and from published findings."""
