"""Years of dweets in a folder of Parquet files.

Read ``files`` first (the folder and its file names), then ``tables`` and ``writer`` (how rows are stored). A
``follower`` archives the dweets of a source; ``archive`` has the public class.
"""
