"""SVG and tables for the lab's reports."""
