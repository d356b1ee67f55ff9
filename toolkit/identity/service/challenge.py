"""The challenge: one question about the account, which is locked after a few wrong answers.

NIST 800-63B no longer allows such questions; they are here because the service of 2014 asked them.
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
    # Accepts full-width digits, surrounding spaces and ZIP+4.
    typed = _ZIP.fullmatch(unicodedata.normalize("NFKC", answer).strip())
    given = typed[1] if typed else ""
    return hmac.compare_digest(given.encode("ascii"), subscriber.address.postal_code.encode("ascii"))


class Attempts(msgspec.Struct, frozen=True, array_like=True):
    in_a_row: int = 0
    #: The time of each wrong answer of the last hour, in milliseconds since the epoch.
    times: tuple[int, ...] = ()

    def counting_at(self, now: int) -> Attempts:
        """Return the attempts that still count at `now`: an expired lock resets `in_a_row`."""
        times = tuple(time for time in self.times if time > now - _HOUR)
        is_reset = not times or (self.in_a_row >= ATTEMPTS and now >= times[-1] + LOCK_SECONDS * 1000)
        return Attempts(0 if is_reset else self.in_a_row, times)

    def left(self) -> int:
        return max(0, min(ATTEMPTS - self.in_a_row, ATTEMPTS_AN_HOUR - len(self.times)))

    def seconds_locked(self, now: int) -> int:
        ends = []
        if self.in_a_row >= ATTEMPTS:
            ends.append(self.times[-1] + LOCK_SECONDS * 1000)
        if len(self.times) >= ATTEMPTS_AN_HOUR:
            ends.append(self.times[-ATTEMPTS_AN_HOUR] + _HOUR)
        return max(0, -(-(max(ends) - now) // 1000)) if ends else 0


class AttemptRepository:
    """Stores the attempts by alias, durably: neither a new code nor a restart resets them."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def attempts(self, alias: str, subscriber: Subscriber, now: int) -> Attempts:
        return (await self._read(alias, subscriber, now))[1]

    async def evaluate(self, alias: str, subscriber: Subscriber, answer: str, now: int) -> tuple[Fact, Attempts]:
        """Evaluate one answer, unless the question is locked; return the result and the attempts after it.

        Returns after the attempt is stored, so concurrent guesses get no more attempts than sequential ones.
        """
        while True:
            stored, attempts = await self._read(alias, subscriber, now)
            if attempts.seconds_locked(now):
                return Fact.STILL_LOCKED, attempts
            if is_right(answer, subscriber):
                # A right answer resets the row, but wrong answers of the last hour still count.
                fact, after = Fact.RIGHT_ANSWER, Attempts(0, attempts.times)
            else:
                after = Attempts(attempts.in_a_row + 1, (*attempts.times, now))
                fact = Fact.LAST_WRONG_ANSWER if after.seconds_locked(now) else Fact.WRONG_ANSWER
            if await self._records.compare_and_set(
                _SPACE, {alias: stored}, {alias: msgspec.json.encode(after)}, now + _HOUR
            ):
                return fact, after

    async def forget(self, alias: str, now: int) -> bool:
        stored = await self._records.get(_SPACE, alias)
        # An empty record, since the carrier's data would count again without one.
        nothing = msgspec.json.encode(Attempts())
        if stored in (None, nothing):
            return False
        return await self._records.compare_and_set(_SPACE, {alias: stored}, {alias: nothing}, now + _HOUR)

    async def _read(self, alias: str, subscriber: Subscriber, now: int) -> tuple[bytes | None, Attempts]:
        stored = await self._records.get(_SPACE, alias)
        if stored is None and subscriber.wrong_answers:
            # Wrong answers from the carrier's data count as if given now.
            seeded = Attempts(subscriber.wrong_answers, (now,) * subscriber.wrong_answers)
            await self._records.compare_and_set(
                _SPACE, {alias: None}, {alias: msgspec.json.encode(seeded)}, now + _HOUR
            )
            stored = await self._records.get(_SPACE, alias)
        attempts = Attempts() if stored is None else msgspec.json.decode(stored, type=Attempts)
        return stored, attempts.counting_at(now)
