"""The client of handwriting: the functions that a person calls in a notebook."""
