"""Section C, mobile rewards: sessions, moments, an engine that explains itself, and the funnel.

Read ``wire`` (what travels), ``forms`` (a body becomes a session or a moment), ``configuration`` and ``engine`` (the
ordered rules), ``service`` (what the gateway does; its ``ledger`` never overspends), ``client`` (what one types),
``analysis`` (what the decisions say) and ``widgets`` (what one clicks).
"""
