"""Years of dweets in a folder of Parquet files.

Read ``files`` first (the folder and its file names), then ``rows``, ``parquet`` and ``writer`` (how rows are stored). A
``follower`` writes what a source delivers: ``http_source`` listens to any gateway, and a gateway supplies the source of
its own store. ``epochs`` is the one place that knows epochs and gaps. ``archive`` is the public reader; it uses
``queries`` and ``frame_rows``.
"""
