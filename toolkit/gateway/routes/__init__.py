"""One file a service: which endpoint is answered by which call, and how its results become replies."""
