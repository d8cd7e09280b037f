"""The ledger of what may be spent, and rate limits."""
