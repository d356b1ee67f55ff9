"""The challenge: one question about the account. After a few wrong answers the question is locked.

NIST 800-63B no longer allows such questions; this service asks because the service of 2014 did.
"""

from __future__ import annotations

import hmac
import re
import unicodedata

import msgspec

from toolkit.identity.flow import Fact
from toolkit_gateway.identity.carrier import Subscriber
from toolkit_gateway.stores import Records

MAX_ATTEMPTS = 3
MAX_WRONG_ANSWERS_PER_HOUR = 10
LOCK_SECONDS = 900
_HOUR_MS = 3_600_000
_CHALLENGES_SPACE = "identity.challenges"

QUESTION_TYPE = "BILLING_POSTAL_CODE"
QUESTION = "What is the billing ZIP code of this account?"
ANSWER_FORMAT = "^[0-9]{5}$"
_ZIP_PATTERN = re.compile(r"([0-9]{5})(?:-?[0-9]{4})?")


def is_right_answer(answer: str, subscriber: Subscriber) -> bool:
    # Accepts full-width digits, surrounding spaces and ZIP+4.
    match = _ZIP_PATTERN.fullmatch(unicodedata.normalize("NFKC", answer).strip())
    zip_code = match[1] if match else ""
    return hmac.compare_digest(zip_code.encode("ascii"), subscriber.address.postal_code.encode("ascii"))


class WrongAnswers(msgspec.Struct, frozen=True, array_like=True):
    #: How many answers were wrong since the last right answer or lock.
    in_a_row: int = 0
    #: The time of each wrong answer of the last hour, in milliseconds since the epoch.
    times: tuple[int, ...] = ()

    def still_counted(self, now: int) -> WrongAnswers:
        """Return those of the hour before `now` (ms); `in_a_row` is 0 if there are none, or if its lock has expired."""
        times = tuple(time for time in self.times if time > now - _HOUR_MS)
        is_reset = not times or (self.in_a_row >= MAX_ATTEMPTS and now >= times[-1] + LOCK_SECONDS * 1000)
        return WrongAnswers(0 if is_reset else self.in_a_row, times)

    def attempts_left(self) -> int:
        return max(0, min(MAX_ATTEMPTS - self.in_a_row, MAX_WRONG_ANSWERS_PER_HOUR - len(self.times)))

    def seconds_locked(self, now: int) -> int:
        ends = []
        if self.in_a_row >= MAX_ATTEMPTS:
            ends.append(self.times[-1] + LOCK_SECONDS * 1000)
        if len(self.times) >= MAX_WRONG_ANSWERS_PER_HOUR:
            ends.append(self.times[-MAX_WRONG_ANSWERS_PER_HOUR] + _HOUR_MS)
        return max(0, -(-(max(ends) - now) // 1000)) if ends else 0  # rounded up


class WrongAnswerRepository:
    """Stores the wrong answers of each alias durably: neither a new code nor a restart resets them."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def read(self, alias: str, subscriber: Subscriber, now: int) -> tuple[bytes | None, WrongAnswers]:
        """Return the stored record and the wrong answers that count at `now`."""
        stored = await self._records.get(_CHALLENGES_SPACE, alias)
        if stored is None and subscriber.wrong_answers:
            # Wrong answers from the carrier's data count as if given now.
            seeded = WrongAnswers(subscriber.wrong_answers, (now,) * subscriber.wrong_answers)
            await self._write(alias, None, seeded)
            stored = await self._records.get(_CHALLENGES_SPACE, alias)
        wrong = WrongAnswers() if stored is None else msgspec.json.decode(stored, type=WrongAnswers)
        return stored, wrong.still_counted(now)

    async def evaluate(self, alias: str, subscriber: Subscriber, answer: str, now: int) -> tuple[Fact, WrongAnswers]:
        """Evaluate one answer, unless the question is locked; return the result and the new count of wrong answers.

        The count is stored before the result is returned, so concurrent guesses get no additional attempts.
        """
        while True:
            stored, wrong = await self.read(alias, subscriber, now)
            if wrong.seconds_locked(now):
                return Fact.STILL_LOCKED, wrong
            if is_right_answer(answer, subscriber):
                # A right answer resets `in_a_row`, but wrong answers of the last hour still count.
                fact, after = Fact.RIGHT_ANSWER, WrongAnswers(0, wrong.times)
            else:
                after = WrongAnswers(wrong.in_a_row + 1, (*wrong.times, now))
                fact = Fact.LAST_WRONG_ANSWER if after.seconds_locked(now) else Fact.WRONG_ANSWER
            is_unchanged = stored is None and after == WrongAnswers()
            if is_unchanged or await self._write(alias, stored, after):
                return fact, after

    async def forget(self, alias: str, now: int) -> bool:
        stored = await self._records.get(_CHALLENGES_SPACE, alias)
        if stored is None or msgspec.json.decode(stored, type=WrongAnswers).still_counted(now) == WrongAnswers():
            return False
        return await self._write(alias, stored, WrongAnswers())

    async def _write(self, alias: str, stored: bytes | None, after: WrongAnswers) -> bool:
        # The record never expires; otherwise the wrong answers from the carrier's data would count again.
        return await self._records.compare_and_set(
            _CHALLENGES_SPACE, {alias: stored}, {alias: msgspec.json.encode(after)}
        )
