"""Names of moments and devices, and the time of a session, as requests have them."""

import hashlib
import re
import unicodedata
import uuid
from datetime import UTC, datetime

from toolkit.argument_checks import checked_arguments
from toolkit.errors import InvalidArgument
from toolkit.rewards import wire

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def checked_moment_id(moment_id: object) -> str:
    """Return a moment_id in NFC; InvalidArgument unless it has 1 to 128 characters, and no control characters."""
    name = unicodedata.normalize("NFC", moment_id) if isinstance(moment_id, str) else ""
    if not 1 <= len(name) <= wire.MAX_MOMENT_CHARACTERS or _CONTROL_CHARACTERS.search(name):
        raise InvalidArgument(wire.BAD_MOMENT_ID)
    return name


def device_label(device_id: str) -> str:
    """Return the label of a device in decisions, a hash of the device id; its UUID may be in any case."""
    normal = device_id[:-36] + device_id[-36:].lower()
    return f"dev-{hashlib.sha256(normal.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"


def start_text(start: datetime) -> str:
    """Format a time in UTC with ``Z``, and with decimals of the second only if they are not zero."""
    return start.astimezone(UTC).isoformat().replace("+00:00", "Z")


@checked_arguments
def new_device_id(company_token: str) -> str:
    """Return a new device id for a user who opted out of advertiser tracking; the app must store it on the device.

    The id has the form ``<company_token>-<8 hex>-<4 hex>-<4 hex>-<4 hex>-<12 hex>``.

    Examples
    --------
    >>> new_device_id("acme").startswith("acme-")
    True
    """
    if re.fullmatch(wire.COMPANY_TOKEN_PATTERN, company_token) is None:
        raise InvalidArgument("a company token has 1 to 64 letters, digits, dots, dashes or underscores")
    return f"{company_token}-{uuid.uuid4()}"
