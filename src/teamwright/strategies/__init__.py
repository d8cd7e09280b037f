"""How members work together: one file per strategy."""
