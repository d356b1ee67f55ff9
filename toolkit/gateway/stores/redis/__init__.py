"""The store for many gateways: Redis or Valkey, as one server, behind Sentinel, or as a cluster.

How to read it: `store` puts it together. `address` reads the URL, `servers` knows which server has a key, `link` and
`lane` carry `calls` there and back, `scripts` is what happens in Redis. On these stand `journals` (with `appends`
and `index`) and `records`. What other gateways write is heard by `channels` and put in order by `feed`.

What an acknowledgement means is a setting of that Redis, and of the URL's ``replicas``: see the README.
"""
