"""The archive: a folder of Parquet files with all dweets of years.

Read ``file_names`` first, then ``parquet_files`` and ``writer`` (how rows are stored). ``archive`` has the public
class; the gateway's own archive is in ``service/archiving``.
"""
