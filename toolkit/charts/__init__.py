"""One interactive chart: in a notebook, and on pages of the gateway."""
