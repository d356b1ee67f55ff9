"""Years of dweets in Parquet files, to be read in Python, by SQL or by Dask.

Read ``file_names`` first, then ``parquet_files`` and ``writer`` (how rows are stored). ``archive`` has the public
class; `toolkit_gateway.dweets.archiving` is the gateway's own archive.
"""

from typing import TYPE_CHECKING

from toolkit.public_api import lazy_names

if TYPE_CHECKING:
    from toolkit.archive.archive import Archive

__all__ = ["Archive"]

__getattr__, __dir__ = lazy_names(__name__, {"Archive": "toolkit.archive.archive"})
