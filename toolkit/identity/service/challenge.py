"""The challenge: one question about the account, few attempts, then a lock.

It shows how 2014 worked. NIST 800-63B no longer allows knowledge questions as authentication.
"""

from __future__ import annotations

import hmac
import re
import unicodedata

import msgspec

from toolkit.identity.flow import Fact
from toolkit.identity.service.carrier import Subscriber
from toolkit.stores import Records

ATTEMPTS = 3
ATTEMPTS_AN_HOUR = 10
LOCK_SECONDS = 900
_HOUR = 3_600_000
_SPACE = "identity.challenges"

QUESTION_TYPE = "BILLING_POSTAL_CODE"
QUESTION = "What is the billing ZIP code of this account?"
ANSWER_FORMAT = "^[0-9]{5}$"
_ZIP = re.compile(r"([0-9]{5})(?:-?[0-9]{4})?")


def is_right(answer: str, subscriber: Subscriber) -> bool:
    # However it was typed: full-width digits, spaces around, ZIP+4.
    typed = _ZIP.fullmatch(unicodedata.normalize("NFKC", answer).strip())
    given = typed[1] if typed else ""
    return hmac.compare_digest(given.encode("ascii"), subscriber.address.postal_code.encode("ascii"))


class Attempts(msgspec.Struct, frozen=True, array_like=True):
    """Wrong answers for one alias."""

    in_a_row: int = 0
    #: When each wrong answer of the last hour was given.
    times: tuple[int, ...] = ()

    def at(self, now: int) -> Attempts:
        """Return what still counts: the end of a lock also ends its row of answers."""
        times = tuple(time for time in self.times if time > now - _HOUR)
        over = not times or (self.in_a_row >= ATTEMPTS and now >= times[-1] + LOCK_SECONDS * 1000)
        return Attempts(0 if over else self.in_a_row, times)

    def left(self) -> int:
        return max(0, min(ATTEMPTS - self.in_a_row, ATTEMPTS_AN_HOUR - len(self.times)))

    def seconds_locked(self, now: int) -> int:
        ends = []
        if self.in_a_row >= ATTEMPTS:
            ends.append(self.times[-1] + LOCK_SECONDS * 1000)
        if len(self.times) >= ATTEMPTS_AN_HOUR:
            ends.append(self.times[-ATTEMPTS_AN_HOUR] + _HOUR)
        return max(0, -(-(max(ends) - now) // 1000)) if ends else 0


class ChallengeBook:
    """The attempts of all aliases, stored durably: neither a new code nor a restart gives new ones."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def attempts(self, alias: str, subscriber: Subscriber, now: int) -> Attempts:
        return (await self._read(alias, subscriber, now))[1]

    async def evaluate(self, alias: str, subscriber: Subscriber, answer: str, now: int) -> tuple[Fact, Attempts]:
        """Evaluate one answer, unless locked; return the result and the attempts after it.

        It returns only once the attempt is stored, so a hundred guesses at once learn no more than three in a row.
        """
        while True:
            stored, attempts = await self._read(alias, subscriber, now)
            if attempts.seconds_locked(now):
                return Fact.STILL_LOCKED, attempts
            if is_right(answer, subscriber):
                # A right answer ends the row of wrong ones but not their hour.
                fact, after = Fact.RIGHT_ANSWER, Attempts(0, attempts.times)
            else:
                after = Attempts(attempts.in_a_row + 1, (*attempts.times, now))
                fact = Fact.LAST_WRONG_ANSWER if after.seconds_locked(now) else Fact.WRONG_ANSWER
            if await self._records.compare_and_set(
                _SPACE, {alias: stored}, {alias: msgspec.json.encode(after)}, now + _HOUR
            ):
                return fact, after

    async def _read(self, alias: str, subscriber: Subscriber, now: int) -> tuple[bytes | None, Attempts]:
        stored = await self._records.get(_SPACE, alias)
        if stored is None and subscriber.wrong_answers:
            # Wrong answers in the carrier's own file count as given just now.
            seeded = Attempts(subscriber.wrong_answers, (now,) * subscriber.wrong_answers)
            await self._records.compare_and_set(
                _SPACE, {alias: None}, {alias: msgspec.json.encode(seeded)}, now + _HOUR
            )
            stored = await self._records.get(_SPACE, alias)
        attempts = Attempts() if stored is None else msgspec.json.decode(stored, type=Attempts)
        return stored, attempts.at(now)
