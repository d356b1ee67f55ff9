"""The configuration of a gateway: one file or dict with a table for the gateway and for each service."""

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from toolkit.endpoint import is_loopback
from toolkit.errors import InvalidArgument
from toolkit.secret import Secret
from toolkit.settings import Table, Text, checked
from toolkit_gateway.dweets.dweets import DweetSettings
from toolkit_gateway.handwriting.handwriting import HandwritingSettings
from toolkit_gateway.http.access import Hosts, Proxies
from toolkit_gateway.identity.callers import IdentitySettings
from toolkit_gateway.rewards.settings import RewardSettings

EXAMPLE = Path(__file__).with_name("gateway.example.toml")

#: The configuration that `Gateway` takes: the path of a file, or its tables.
Source = str | os.PathLike[str] | Mapping[str, Any]
_KEYS = ("apikey", "gatewaykey", "api_client_id")
_LEAST_CHARACTERS, _LEAST_DIFFERENT = 16, 8
_MOST_BYTES = 4_000_000  # of a file: a device such as /dev/zero never ends


def _check_redis(url: Secret) -> None:
    from toolkit_gateway.stores.redis.address import RedisAddress

    RedisAddress(url.reveal())


class GatewaySettings(Table, frozen=True):
    """Where the gateway listens, where it keeps everything, and who reaches it."""

    folder: Path | None = None
    #: ``redis://...``; it may hold a password.
    store: Secret | None = None
    host: Text = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    #: The origin by which callers and browsers reach the gateway, if other machines do.
    public_url: Text | None = None
    allow_hosts: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    cors: bool = True
    #: Serve the demo world also to other machines, although its keys are public.
    demo: bool = False

    def __post_init__(self) -> None:
        if self.public_url is not None and not _is_origin(self.public_url):
            raise InvalidArgument("public_url: expected an https origin, as https://gateway.example")
        if self.folder is not None and self.store is not None:
            raise InvalidArgument("store: give a folder or a store, not both: everything is kept in one of them")
        checks: dict[str, Callable[[Any], object]]
        checks = {"allow_hosts": Hosts, "trusted_proxies": Proxies, "store": _check_redis}
        for key, check in checks.items():
            try:
                if value := getattr(self, key):
                    check(value)
            except InvalidArgument as error:
                raise InvalidArgument(f"{key}: {error}") from None

    @property
    def is_exposed(self) -> bool:
        """Whether anybody but programs on this machine may reach the gateway."""
        exposing = self.public_url, self.allow_hosts, self.trusted_proxies
        return any(exposing) or not is_loopback(self.host)

    @property
    def hosts(self) -> Hosts | None:
        """The host names that are answered; None for any name."""
        if not is_loopback(self.host) and not self.allow_hosts:
            return None  # callers on other machines may use names that the gateway cannot know
        public = urlsplit(self.public_url or "").hostname
        return Hosts([*self.allow_hosts, *([public] if public else [])])


class Configuration(Table, frozen=True):
    """All settings of a gateway. A service whose table is None gets the demo world's, if that may be served."""

    gateway: GatewaySettings = GatewaySettings()
    dweets: DweetSettings = DweetSettings()
    handwriting: HandwritingSettings = HandwritingSettings()
    rewards: RewardSettings | None = None
    identity: IdentitySettings | None = None


def configuration_of(source: Source | None, changes: Mapping[str, Mapping[str, object]] | None = None) -> Configuration:
    """Read a configuration, replace values by table and key (None or empty changes nothing), and check the result."""
    return checked(with_changes(tables_of(source), changes or {}), Configuration)


def tables_of(source: Source | None) -> dict[str, Any]:
    """Return the tables of a configuration; those of a file are checked, so that an error names the file."""
    if source is None:
        return {}
    if isinstance(source, Mapping):
        return dict(source)
    if not isinstance(source, str | os.PathLike):
        raise InvalidArgument(f"config is the path of a file or a dict, not {type(source).__name__}")
    table = read_table(source)
    try:
        checked(table, Configuration)
    except InvalidArgument as error:
        raise InvalidArgument(f"{os.fspath(source)}: {error}") from None
    return table


def read_table(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a ``.json`` file, or a file of any other name as TOML."""
    try:
        file = Path(path).expanduser()
        with file.open("rb") as opened:
            data = opened.read(_MOST_BYTES + 1)
    except (OSError, RuntimeError, ValueError) as error:  # ValueError: NUL in the path; RuntimeError: ~NAME of no user
        reason = getattr(error, "strerror", None) or "there is no such path"
        raise InvalidArgument(f"the configuration {path} cannot be read: {reason}") from None
    if len(data) > _MOST_BYTES:
        raise InvalidArgument(f"the configuration {file} is larger than {_MOST_BYTES // 1_000_000} MB")
    is_json = file.suffix == ".json"
    try:
        table = (msgspec.json.decode if is_json else tomllib.loads)(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        # Show only the position of the error: the text there may hold a secret.
        position = re.search(r"\((?:at|byte) .*?\)", str(error))
        raise InvalidArgument(
            f"the configuration {file} is not {'JSON' if is_json else 'TOML'}{' ' + position[0] if position else ''}"
        ) from None
    if not isinstance(table, dict):
        raise InvalidArgument(f"the configuration {file} is not a table of keys and values")
    return table


def with_changes(tables: Mapping[str, Any], changes: Mapping[str, Mapping[str, object]]) -> dict[str, Any]:
    """Replace values in the tables of a configuration; None and empty values change nothing."""
    merged = dict(tables)
    for name, table in changes.items():
        before = merged.get(name, {})
        if isinstance(before, Mapping):  # otherwise the check reports the wrong type
            merged[name] = {**before, **{key: value for key, value in table.items() if value not in (None, (), {})}}
    return merged


def secrets_in(value: object, path: str = "") -> Iterator[tuple[str, Secret]]:
    """Yield each secret in a value, after the path of its key, such as ``rewards.partners[0].gatewaykey``."""
    if isinstance(value, Secret):
        yield path, value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from secrets_in(getattr(value, name), f"{path}.{name}" if path else name)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from secrets_in(item, f"{path}.{name}")
    elif isinstance(value, tuple | frozenset):
        for index, item in enumerate(value):
            yield from secrets_in(item, f"{path}[{index}]" if isinstance(value, tuple) else path)


def check_keys(configuration: Configuration) -> None:
    """Raise InvalidArgument for a key that might be guessed. An app_key is no secret, and an apisecret is optional."""
    for path, secret in secrets_in(configuration):
        is_key, text = path.startswith("dweets.locks.") or path.rpartition(".")[2] in _KEYS, secret.reveal()
        if is_key and (len(text) < _LEAST_CHARACTERS or len(set(text)) < _LEAST_DIFFERENT):
            raise InvalidArgument(
                f"{path}: this key might be guessed: it needs at least {_LEAST_CHARACTERS} characters, at least "
                f"{_LEAST_DIFFERENT} of them different. This prints a good one: "
                "python -c 'import secrets; print(secrets.token_urlsafe())'"
            )


def _is_origin(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    is_plain = not (parts.path or parts.query or parts.fragment or "@" in parts.netloc or "\\" in url)
    return parts.scheme == "https" and bool(host) and port != 0 and is_plain and url.isascii() and url.isprintable()
