"""One file for each service: its endpoints, their handlers, and its error dialect."""
