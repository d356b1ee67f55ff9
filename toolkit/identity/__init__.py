"""Section D, mobile identity and checkout data: a phone proven by its network, then a chain of gated calls.

Read ``wire`` first (endpoints, fields, status table), then ``flow`` (the state machine as one table), then
``service`` (the rules, over ``one_time``, ``challenge``, ``callers`` and ``rate_limits``), then ``client`` (what one
types) and ``widget`` (what one clicks). ``carrier`` is the mobile network: a small interface, and the simulated one
of the demo world, whose people come from ``subscribers``.
"""
