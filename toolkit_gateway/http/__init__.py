"""HTTP: connections, requests, responses, access."""
