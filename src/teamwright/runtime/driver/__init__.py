"""What one driver of a run works with: recorder, lock, clock, redaction, and cancellation that is sure to end."""
