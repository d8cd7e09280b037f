"""JSON Schema: what may be declared, and values checked within bounds."""
