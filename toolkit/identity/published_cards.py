"""Card numbers that card networks publish for tests. The only full numbers in the project: a test allows this file."""

from __future__ import annotations

#: Brand and number; every number passes the Luhn check and belongs to nobody.
PUBLISHED_TEST_NUMBERS: tuple[tuple[str, str], ...] = (
    ("VISA", "4111111111111111"),
    ("VISA", "4242424242424242"),
    ("VISA", "4012888888881881"),
    ("MASTERCARD", "5555555555554444"),
    ("MASTERCARD", "5105105105105100"),
    ("AMERICAN_EXPRESS", "378282246310005"),
    ("AMERICAN_EXPRESS", "371449635398431"),
    ("DISCOVER", "6011111111111117"),
    ("DISCOVER", "6011000990139424"),
    ("DINERS_CLUB", "30569309025904"),
    ("DINERS_CLUB", "38520000023237"),
    ("JCB", "3530111333300000"),
    ("JCB", "3566002020360505"),
)


def first_six_and_last_four(index: int) -> tuple[str, str, str, int]:
    """Return brand, first six, last four and length of one of the numbers; the number itself goes no further."""
    brand, number = PUBLISHED_TEST_NUMBERS[index % len(PUBLISHED_TEST_NUMBERS)]
    return brand, number[:6], number[-4:], len(number)
