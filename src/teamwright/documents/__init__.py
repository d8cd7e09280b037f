"""YAML files that people write, read with positions, so that every mistake is told where it stands."""
