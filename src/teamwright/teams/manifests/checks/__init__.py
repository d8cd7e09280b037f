"""Checks of the declarations in a manifest; they report every problem at once, with its place."""
