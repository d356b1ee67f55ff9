"""The store for many gateways: Redis or Valkey, as one server, behind Sentinel, or as a cluster."""
