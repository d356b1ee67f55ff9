"""The client of thing messaging: what a person calls in a notebook."""
