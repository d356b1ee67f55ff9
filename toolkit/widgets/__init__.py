"""The base of all widgets, and their diagrams."""
