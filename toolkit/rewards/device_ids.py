"""Device identifiers: the advertiser's, or a generated one where the user opted out; and what is kept of them."""

from __future__ import annotations

import hashlib
import re
import uuid

from toolkit.argument_checks import checked_arguments
from toolkit.errors import InvalidArgument
from toolkit.rewards import wire

_COMPANY_TOKEN = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
_DEVICE_ID = re.compile(
    rf"((?P<token>{_COMPANY_TOKEN})-)?(?P<uuid>[0-9A-Fa-f]{{8}}(-[0-9A-Fa-f]{{4}}){{3}}-[0-9A-Fa-f]{{12}})"
)
# The advertiser identifier that operating systems return when the user has opted out of tracking.
_OPTED_OUT = "00000000-0000-0000-0000-000000000000"


def checked_device_id(device_id: object, company_token: str) -> str:
    """Return the device id with its UUID in lower case, or raise the refusal of the rule that it breaks."""
    if device_id is None or device_id == "":
        raise wire.refusal("empty_advertiser_id")
    parts = _DEVICE_ID.fullmatch(device_id) if isinstance(device_id, str) else None
    if parts is None:
        raise wire.refusal("bad_device_id")
    if parts["uuid"] == _OPTED_OUT:
        raise wire.refusal("empty_advertiser_id")
    if parts["token"] is None:
        return parts["uuid"].lower()
    if parts["token"] != company_token:
        raise wire.refusal("wrong_company_token")
    return f"{company_token}-{parts['uuid'].lower()}"


@checked_arguments
def new_device_id(company_token: str) -> str:
    """Return a new device id for a user who opted out of advertiser tracking; keep it on the device.

    It has the form ``<company_token>-<8 hex>-<4 hex>-<4 hex>-<4 hex>-<12 hex>``.

    Examples
    --------
    >>> new_device_id("acme").startswith("acme-")
    True
    """
    if re.fullmatch(_COMPANY_TOKEN, company_token) is None:
        raise InvalidArgument("a company token has 1 to 64 letters, digits, dots, dashes or underscores")
    return f"{company_token}-{uuid.uuid4()}"


def device_label(device_id: str) -> str:
    """Return the name of a device in decisions: the same for the same device, and not its identifier."""
    return f"dev-{hashlib.sha256(device_id.encode('utf-8')).hexdigest()[:10]}"


def app_label(app_key: str) -> str:
    return hashlib.sha256(app_key.encode("utf-8")).hexdigest()[:8]
