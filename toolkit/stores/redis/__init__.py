"""The store for many gateways: Redis or Valkey, as one server, behind Sentinel, or as a cluster.

How to read it: `store` puts it together. `address` reads the URL, `topology` knows which server has a key, `node`
sends batches of calls to a server, the `scripts` are what happens in Redis. On these stand `journals` and `records`.
Other gateways' changes are heard by `listener`. Connections, responses, pub/sub and the layout of a cluster are
redis-py's work.

What an acknowledgement means is a setting of that Redis, and of the URL's ``replicas``: see the README.
"""
