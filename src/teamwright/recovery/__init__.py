"""What to do about failures, as pure functions."""
