"""What one would write instead of the gateway: Starlette and redis-py; run as a program with its port and Redis's.

POST, the latest dweet and the last 500 of a thing, without locks, alerts, streams, limits and the rest.
"""

import sys
import uuid
from datetime import UTC, datetime
from typing import Any

import orjson
import uvicorn
from redis.asyncio import Redis
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

MAX_BYTES, KEEP = 64 * 1024, 500
client: Redis


def succeeded(by: str, the: str, data: bytes) -> Response:
    body = b'{"this":"succeeded","by":"%b","the":"%b","with":%b}' % (by.encode(), the.encode(), data)
    return Response(body, media_type="application/json")


def failed(code: int, because: str) -> Response:
    body = orjson.dumps({"this": "failed", "with": code, "because": because})
    return Response(body, media_type="application/json")


async def post(request: Request) -> Response:
    thing, body = request.path_params["thing"], await request.body()
    if len(body) > MAX_BYTES:
        return failed(413, "the dweet is too large")
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        return failed(400, "the body is not JSON")
    created = datetime.now(UTC).isoformat(timespec="milliseconds")
    dweet = {"thing": thing, "created": created, "content": content, "transaction": str(uuid.uuid4())}
    data = orjson.dumps(dweet)
    await client.xadd(f"dweets:{thing}", {"dweet": data}, maxlen=KEEP, approximate=True)
    return succeeded("dweeting", "dweet", data)


async def read(request: Request, count: int) -> Response:
    entries: list[Any] = await client.xrevrange(f"dweets:{request.path_params['thing']}", count=count)
    if not entries:
        return failed(404, "we couldn't find this")
    return succeeded("getting", "dweets", b"[%b]" % b",".join([fields[b"dweet"] for _, fields in entries]))


async def latest(request: Request) -> Response:
    return await read(request, 1)


async def history(request: Request) -> Response:
    return await read(request, KEEP)


routes = [
    Route("/dweet/for/{thing}", post, methods=["POST"]),
    Route("/get/latest/dweet/for/{thing}", latest),
    Route("/get/dweets/for/{thing}", history),
]

if __name__ == "__main__":
    client = Redis(host="127.0.0.1", port=int(sys.argv[2]), max_connections=1_000)
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False)
