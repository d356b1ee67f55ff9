"""A secret value: it is never printed, pickled or copied."""

from __future__ import annotations

import hashlib
import hmac
from typing import NoReturn

from toolkit.errors import InvalidArgument


class Secret:
    """A key or a code that is sent to a service but never displayed; made of a text, or of another Secret.

    Equal secrets show the same short hash, so that a person can see that they are equal. A value that can be
    guessed from its hash (a ZIP code, a birthday) is made with ``guessable=True`` and shows no hash.

    Examples
    --------
    >>> Secret("correct horse")
    Secret(sha256:4104d36f)
    >>> f"{Secret('97024', guessable=True)}"
    'Secret(***)'
    """

    __slots__ = ("__label", "__value")

    def __init__(self, value: str | Secret, *, guessable: bool = False) -> None:
        if not isinstance(value, str | Secret):
            kind = type(value).__name__
            raise InvalidArgument(f"a secret is text, not {'an' if kind[0] in 'aeiou' else 'a'} {kind}")
        self.__value: str = value.__value if isinstance(value, Secret) else value  # noqa: SLF001 - of its own class
        digest = hashlib.sha256(self.__value.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        hidden = value.__label == "***" if isinstance(value, Secret) else guessable  # noqa: SLF001
        self.__label: str = "***" if hidden else f"sha256:{digest}"

    def reveal(self) -> str:
        """Return the raw text. To store a key, write it to a file that only you can read."""
        return self.__value

    def __repr__(self) -> str:
        return f"Secret({self.__label})"

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def _repr_html_(self) -> str:
        return f"<code>{self!r}</code>"

    def __bool__(self) -> bool:
        return bool(self.__value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        left, right = (value.encode("utf-8", "surrogatepass") for value in (self.__value, other.__value))
        return hmac.compare_digest(left, right)

    def __hash__(self) -> int:
        return hash((Secret, self.__value))

    def _refuse_copy(self, *_: object) -> NoReturn:
        raise TypeError(
            "a secret is neither copied nor pickled; to store a key, write its reveal() to a file that only you can "
            "read, or to an environment variable, and make a new Secret of that text"
        )

    __copy__ = __deepcopy__ = __reduce_ex__ = __reduce__ = __getstate__ = _refuse_copy


def masked(text: str, secret: Secret) -> str:
    """Return a text with the short hash of a secret instead of its value."""
    return text.replace(secret.reveal(), repr(secret)) if secret else text
