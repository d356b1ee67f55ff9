"""Section C, mobile rewards: sessions, moments, an engine that explains itself, and the funnel.

Read ``wire`` (what travels), ``forms`` (a body becomes a session or a moment), ``configuration`` and ``engine``
(the ordered rules), ``ledger`` (decisions that never overspend), ``service`` (what the gateway does), ``client``
(what one types), ``analysis``, ``funnels`` and ``experiments`` (what the decisions say), ``widget`` (what one clicks).
"""
