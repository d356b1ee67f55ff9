"""The names of fields and of columns. Plain Python: the command line uses it without pandas.

A frame of dweets has the columns (or the index) ``created`` and ``thing``, so a field of a content with this name is
the column ``content.created`` or ``content.thing``; one with that name has another ``content.`` in front of it.
"""

import re

#: The column with the time of arrival, and the one with the name of the thing.
CREATED, THING = "created", "thing"
_PREFIX = "content."
_TAKEN = re.compile(rf"(content\.)*({CREATED}|{THING})")


def column_of_field(field: str) -> str:
    """Return the name of the column that a field of the contents has in a frame."""
    return _PREFIX + field if _TAKEN.fullmatch(field) else field


def field_of_column(column: str) -> str:
    """Return the name of the field as which a column of a frame is posted: `column_of_field` undone."""
    return column.removeprefix(_PREFIX) if _TAKEN.fullmatch(column) else column
