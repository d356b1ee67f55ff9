"""Years of dweets in Parquet files, to be read in Python, by SQL or by Dask.

Read ``file_names`` first, then ``parquet_files`` and ``writer`` (how rows are stored). ``archive`` has the public
class; `toolkit_gateway.dweets.archiving` is the gateway's own archive.
"""
