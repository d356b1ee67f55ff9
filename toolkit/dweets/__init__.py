"""Section A, thing messaging: dweets, streams, locks and alerts.

Read ``wire`` first (what travels), then ``service`` (the rules, over ``things``, ``locks`` and ``alerts``), then
``client`` (what one types) and ``widget`` (what one clicks). ``stream`` holds the two forms of a live stream,
``alert_conditions`` evaluates JavaScript in a child process, which ``condition_engine`` is; ``content_columns`` makes
typed columns of nested content.

What is done with a history: ``time_axis`` and ``series_analysis`` (pure functions, ``df.dweets`` in ``accessor``),
drawn by ``series_figure`` (matplotlib) and ``svg_chart`` (SVG). ``exploration`` is the HistoryExplorer without its
widget; ``widget`` adds the clicks, ``controls_widget`` the controls. ``live_widget`` is LiveDweets, over
``live_stream``.

Years of history have a folder of their own, ``archive``.
"""
