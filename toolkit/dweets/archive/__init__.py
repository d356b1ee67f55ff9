"""The archive: a folder of Parquet files with all dweets of years.

Read ``file_names`` first, then ``parquet_files`` and ``writer`` (how rows are stored). A
``follower`` archives the dweets of a source; ``archive`` has the public class.
"""
