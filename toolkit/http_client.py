"""The HTTP client of all services.

In this module, only `HttpSession._send_revealed` reveals secrets. Errors are raised outside of its frame and from None,
because the messages of HTTP libraries contain query strings, and notebooks save tracebacks.
"""

import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import NamedTuple, TypedDict, Unpack
from urllib.parse import quote, urlencode, urlsplit
from weakref import WeakSet

import requests
from urllib3.exceptions import HTTPError, NameResolutionError

from toolkit.endpoint import Endpoint, is_loopback
from toolkit.errors import ConnectionClosed, InvalidArgument, UnexpectedReply, Unreachable
from toolkit.secret import Secret

StrOrSecret = str | Secret
#: Timeouts in seconds: to connect, and between two reads.
_TIMEOUT_SECONDS = (3.05, 30.0)
#: A larger response is refused; also unpacked, because 0.6 MB of gzip may hold 600 MB.
MAX_RESPONSE_BYTES = 64 * 1024 * 1024
_HEADER_VALUE = re.compile(r"[!-~]([ -~]*[!-~])?")

_IS_TOOLKIT_CALL = ContextVar("toolkit's own call", default=False)


def _is_not_toolkit_call(_record: logging.LogRecord) -> bool:
    # At DEBUG, urllib3 logs the whole URL of every call, with its keys.
    return not _IS_TOOLKIT_CALL.get()


class RequestParts(TypedDict, total=False):
    """The parts of a request besides its method and path; values may be secrets."""

    query: Mapping[str, StrOrSecret | None]
    #: Bytes, which are sent unchanged, or a JSON object whose values may be secrets at any depth.
    body: bytes | Mapping[str, object] | None
    headers: Mapping[str, StrOrSecret]


class HttpReply(NamedTuple):
    status: int
    headers: Mapping[str, str]  #: names match in any case
    body: bytes


class HttpStream:
    """An endless response, read piece by piece; any thread may `stop` it."""

    def __init__(self, response: requests.Response) -> None:
        self._response = response
        self._stopped = False
        self.content_type = response.headers.get("content-type", "")

    def __iter__(self) -> Iterator[bytes]:
        """Yield each piece as it arrives; Unreachable if the connection breaks or is silent for too long."""
        try:
            yield from self._response.raw.stream(65536, decode_content=True)
            broken = False
        except (requests.RequestException, HTTPError, OSError, ValueError, AttributeError):
            # If another thread calls `stop`, the read fails with any of these errors.
            broken = not self._stopped
        finally:
            self._response.close()
        if broken:
            raise Unreachable("the stream broke") from None

    def stop(self) -> None:
        self._stopped = True
        try:
            self._response.raw.shutdown()
        except (ValueError, RuntimeError, OSError):  # already over
            self._response.close()

    def close(self) -> None:
        self._response.close()


class HttpSession:
    """Requests to one server over persistent connections; `kept_object` lives as long as the session."""

    def __init__(self, base_url: str, kept_object: object = None, max_response_bytes: int = MAX_RESPONSE_BYTES) -> None:
        self.base_url = checked_base_url(base_url)
        self._max_response_bytes = max_response_bytes
        self._kept_object = kept_object
        self._is_closed = False
        self._streams: WeakSet[HttpStream] = WeakSet()
        logging.getLogger("urllib3.connectionpool").addFilter(_is_not_toolkit_call)  # adding it again changes nothing
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._session = requests.Session()
        # Proxies and .netrc of the environment apply only to servers on other machines.
        self._session.trust_env = not is_loopback(urlsplit(self.base_url).hostname or "")
        self._session.headers["User-Agent"] = "gateway-toolkit"

    def call(
        self, endpoint: Endpoint, values: Mapping[str, str] | None = None, **parts: Unpack[RequestParts]
    ) -> HttpReply:
        """Return the complete response, with any status. Redirects are not followed."""
        return self._complete_reply(self._send(endpoint, values or {}, parts))

    def stream(
        self, endpoint: Endpoint, values: Mapping[str, str] | None = None, **parts: Unpack[RequestParts]
    ) -> HttpStream | HttpReply:
        """Return an endless response as a stream, and an error or a response with a Content-Length completely."""
        response = self._send(endpoint, values or {}, parts)
        if response.status_code != 200 or "content-length" in response.headers:
            return self._complete_reply(response)
        stream = HttpStream(response)
        self._streams.add(stream)
        return stream

    def close(self) -> None:
        self._is_closed = True
        for stream in list(self._streams):
            stream.stop()
        self._session.close()

    def _complete_reply(self, response: requests.Response) -> HttpReply:
        body, limit = None, self._max_response_bytes
        # Read all at once: requests itself would read the body in many pieces of 10 KB. With a size, urllib3 unpacks no
        # more than that.
        with suppress(HTTPError, OSError):
            body = response.raw.read(limit + 1, decode_content=True)
        if body is not None and len(body) <= limit:
            return HttpReply(response.status_code, response.headers, body)
        response.close()  # the rest may never end
        subject = f"the answer to {response.request.method} {urlsplit(response.url).path}"  # a query may hold a key
        if body is None:
            raise Unreachable(f"{subject} is incomplete") from None
        raise UnexpectedReply(
            f"{subject} is larger than {limit:,} bytes: ask for less, or call toolkit.connect(max_response_bytes=...)"
        )

    def _send(self, endpoint: Endpoint, values: Mapping[str, str], parts: RequestParts) -> requests.Response:
        for name, value in values.items():
            if value in ("", ".", ".."):  # HTTP libraries remove these segments, which gives another path
                raise InvalidArgument(f"{name} cannot be {value!r}")
        try:
            path = endpoint.path_for(**values)
        except UnicodeEncodeError:
            raise InvalidArgument("a name with half of a surrogate pair cannot be sent") from None
        if self._is_closed:  # requests would open a closed session again
            raise ConnectionClosed(f"the connection to {self.base_url} is closed: connect again with toolkit.connect()")
        if self._process != os.getpid():  # a forked process shares its parent's sockets, and could read its responses
            self._begin()
        outcome = self._send_revealed(endpoint.method, path, parts)
        if isinstance(outcome, BaseException):
            raise outcome from None
        return outcome

    def _send_revealed(self, method: str, path: str, parts: RequestParts) -> requests.Response | BaseException:
        """Send a request with its secrets revealed; return an error, so that no traceback shows this frame."""
        request = f"{method} {path}"
        query, headers = _revealed(parts.get("query")), _revealed(parts.get("headers"))
        if wrong := [name for name, value in headers.items() if not _HEADER_VALUE.fullmatch(value)]:
            return InvalidArgument(f"the header {wrong[0]} must be printable ASCII, without spaces around it")
        try:
            url = self.base_url + path + ("?" + urlencode(query, quote_via=quote) if query else "")
        except UnicodeEncodeError:
            return InvalidArgument(f"a value of {request} cannot be sent: it is not UTF-8")
        body = parts.get("body")
        if isinstance(body, Mapping):
            headers.setdefault("Content-Type", "application/json")
            body = json.dumps(body, default=Secret.reveal).encode("ascii")
        token = _IS_TOOLKIT_CALL.set(True)
        try:
            # Streamed: the body is read later, whole or piece by piece.
            return self._session.request(
                method, url, data=body, headers=headers, timeout=_TIMEOUT_SECONDS, stream=True, allow_redirects=False
            )
        except requests.exceptions.InvalidHeader:
            return UnexpectedReply(f"the answer to {request} is not HTTP")
        except (requests.RequestException, HTTPError, OSError) as error:
            return Unreachable(f"no answer from {self.base_url}: {_reason(error, self.base_url)}", request)
        except KeyboardInterrupt:
            return KeyboardInterrupt()
        finally:
            _IS_TOOLKIT_CALL.reset(token)


def checked_base_url(url: str) -> str:
    """Return a base URL without a slash at its end, or raise InvalidArgument if the URL is not valid."""
    with suppress(ValueError, TypeError, AttributeError):  # the port is not a number, or the URL is not a text
        parts = urlsplit(url)
        extra = parts.query or parts.fragment or parts.username or parts.password or " " in url or not url.isprintable()
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not extra:
            return url.rstrip("/")
    # The message does not show the URL: a password in the URL must not get into a traceback.
    raise InvalidArgument("a base URL is http://host[:port][/path] or https://..., without name and password")


def _reason(error: Exception, base_url: str) -> str:
    """Return why there is no answer, and what to do."""
    if isinstance(error, requests.Timeout):
        missed = "accept the connection" if isinstance(error, requests.ConnectTimeout) else "answer"
        return f"it did not {missed} in time"
    if isinstance(error, requests.exceptions.SSLError):
        return "it does not answer as https should, or its certificate is not trusted"
    if isinstance(getattr(error.args[0] if error.args else None, "reason", None), NameResolutionError):
        return "no address was found for this name; check how it is spelt"
    advice = "; start a gateway with `toolkit gateway`" if is_loopback(urlsplit(base_url).hostname or "") else ""
    return f"it refused or closed the connection, or does not speak HTTP{advice}"


def _revealed(values: Mapping[str, StrOrSecret | None] | None) -> dict[str, str]:
    return {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in (values or {}).items()
        if value is not None
    }
