"""Section A, thing messaging: dweets, streams, locks and alerts.

Read ``wire`` first (the protocol), then one side: ``service`` (the gateway), ``client`` (Python calls), ``widgets`` or
``archive`` (years of history). Both sides use ``stream``, ``conditions`` and the ``content`` modules.
"""
