r"""The bytes that callers get: envelopes, receipts, scripts (JSONP), and the two encodings of a live stream.

A frame of a stream is ``<hex length>\r\n"<the dweet as JSON, encoded again as a JSON string>"\r\n``, all ASCII. The
length is that of the quoted string; it begins with a zero. Some old clients parse an unfinished line as JSON after each
byte: they skip the zero, which is a number, but would wait forever at a length that begins with a letter.
"""

import json
import re
import time
from collections.abc import Callable
from functools import lru_cache

from toolkit.errors import ServiceError

#: Encodes the sequence number and the record of a dweet for a stream.
Encoder = Callable[[int, bytes], bytes]

#: A comment line, so that proxies keep the event stream open and the client sees that the server is alive.
EVENT_HEARTBEAT = b":\n\n"
_LINE_END = re.compile(rb"\r\n|\r|\n")


def json_string(text: str) -> bytes:
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:  # most names
        return b'"%b"' % text.encode("ascii")
    return json.dumps(text, ensure_ascii=False).encode("utf-8")


def succeeded(by: str, the: str, data: bytes) -> bytes:
    return b'{"this":"succeeded","by":%b,"the":%b,"with":%b}' % (json_string(by), json_string(the), data)


def failed(error: ServiceError) -> bytes:
    return b'{"this":"failed","with":%d,"because":%b}' % (error.status, json_string(error.message))


def dweet_record(thing: str, at: int, content: bytes) -> bytes:
    second, milliseconds = divmod(at, 1000)
    return b'%b%b.%03dZ","content":%b}' % (_record_start(thing), _second_text(second), milliseconds, content)


@lru_cache(16_384)
def _record_start(thing: str) -> bytes:
    return b'{"thing":%b,"created":"' % json_string(thing)


def receipt(record: bytes, transaction: str) -> bytes:
    """Return the record with its transaction as the last field."""
    return b'%b,"transaction":"%b"}' % (record[:-1], transaction.encode("ascii"))


def posted(record: bytes, transaction: str) -> bytes:
    """Return the response to a post: a `receipt` inside `succeeded`."""
    data = record[:-1], transaction.encode("ascii")
    return b'{"this":"succeeded","by":"dweeting","the":"dweet","with":%b,"transaction":"%b"}}' % data


def created_text(at: int) -> str:
    """Return milliseconds since the epoch as ``YYYY-MM-DDTHH:MM:SS.mmmZ``."""
    second, milliseconds = divmod(at, 1000)
    return f"{_second_text(second).decode('ascii')}.{milliseconds:03d}Z"


@lru_cache(256)
def _second_text(second: int) -> bytes:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)).encode("ascii")


def is_callback(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z_$][A-Za-z0-9_$.\[\]]{0,63}", text) is not None


def jsonp_wrapper(callback: str) -> tuple[bytes, bytes]:
    # The comment keeps browsers from taking the script for another type of content.
    return b"/**/%b(" % callback.encode("ascii"), b");"


def safe_in_script(json_text: bytes) -> bytes:
    return json_text.replace("\u2028".encode(), b"\\u2028").replace("\u2029".encode(), b"\\u2029")


def encode_frame(sequence: int, record: bytes) -> bytes:
    text = json.dumps(record.decode("utf-8")).encode("ascii")
    return b"0%03x\r\n%b\r\n" % (len(text), text)


def encode_event(sequence: int, record: bytes) -> bytes:
    return b"id: %d\ndata: %b\n\n" % (sequence, _LINE_END.sub(b"\ndata: ", record))


def encode_position(sequence: int) -> bytes:
    """Return an event without data; its id is the sequence number after which a client can resume."""
    return b"id: %d\n\n" % sequence
