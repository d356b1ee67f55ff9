"""How long claimed work of a gateway is left alone by the other gateways on its store."""

# Without a renewal for this long, another gateway takes the work over.
LEASE_SECONDS = 15.0
