"""An empty replacement of a module that jsonschema imports if it is installed: see ``tests/first.py``."""

raise ImportError("left out of the tests")
