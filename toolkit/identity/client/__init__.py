"""The client of mobile identity."""
