"""Order of delivery: what makes a replay deterministic."""
