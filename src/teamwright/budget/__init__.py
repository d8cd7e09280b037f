"""What may be spent, and what has been."""
