"""What travels with a submitted run: its manifest, files and code, and when it is due."""
