"""The client of mobile identity: what a person calls in a notebook."""
