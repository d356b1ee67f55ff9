"""Years of dweets in a folder of Parquet files.

Read ``files`` first (the folder, and what its names tell), then ``rows``, ``writer`` and ``joining`` (how rows get
there). ``archive`` is what one asks, with ``history``, ``contents``, ``queries`` and ``frames``; ``calls`` is how one
gets it. ``recording`` writes an archive from any gateway over HTTP (``recorded_thing``), ``archiving`` from the
gateway's own store, ``frame_rows`` from frames. ``exclusive_file`` keeps a second writer out.
"""
