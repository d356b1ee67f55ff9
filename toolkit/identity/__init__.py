"""Section D, mobile identity and checkout data: a phone proven by its network, then a chain of gated calls.

Read ``wire`` first (endpoints, fields, status table), then ``flow`` (the state machine as one table), then ``service``
(the rules), then ``client`` (what one types) and ``widgets`` (what one clicks). ``service/carrier`` is the mobile
network: a small interface, and the simulated one of the demo world, whose people come from ``subscribers``.
"""
