"""What a call needs before it may start: budget, rate limits, degradation."""
