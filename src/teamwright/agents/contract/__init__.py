"""What every agent has, and how the engine reads it: the protocol, its policy, its context and its effects."""
