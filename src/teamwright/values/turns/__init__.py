"""A member's turn: the messages and envelopes it receives, and the reply or failure that it gives."""
