"""The client of handwriting: what a person calls in a notebook."""
