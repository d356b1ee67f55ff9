"""Routes of mobile identity; see `toolkit_gateway.http.exchange.Routes`."""

from urllib.parse import urlsplit

import msgspec

from toolkit.errors import KeyRejected, ServiceError
from toolkit.identity import envelope, wire
from toolkit.identity.envelope import refusal
from toolkit.identity.responses import Opened
from toolkit_gateway.http.access import Hosts, is_from_this_machine
from toolkit_gateway.http.exchange import Handler, Header, KeyAttempt, Request, Response, Route, Routes, retry_after
from toolkit_gateway.identity import replies
from toolkit_gateway.identity.callers import echoable_request_id, parse_body
from toolkit_gateway.identity.carrier import PhoneRequest, normal_ip_address
from toolkit_gateway.identity.identity import IdentityService

_CLIENT_NOT_ENABLED = 1005
_PHONE_PATH = wire.OPEN_TARGET.path_for().encode("ascii")
_NO_REFERRER: Header = (b"referrer-policy", b"no-referrer")
SIMULATION_WARNING = (
    f"mobile identity simulates phones: it believes {wire.SIMULATED_ADDRESS_HEADER} in calls to 127.0.0.1, so anybody "
    "who reaches this gateway can pretend to be any phone. Set public_url before you put a proxy in front of it."
)


class IdentityRoutes(Routes):
    first_segments = frozenset({b"account", b"mobileauth"})
    too_many_keys = refusal(2040, retry_after=1)

    def __init__(self, service: IdentityService, *, on_loopback: bool, public_url: str | None) -> None:
        self._service = service
        self._loopback_names = Hosts() if on_loopback else None
        # With a public URL, a proxy on this machine may forward calls of strangers, so no call may name a phone.
        self._simulates_phones = on_loopback and public_url is None
        self._public_parts = urlsplit(public_url or "")
        posts = [Route(post.endpoint, self._handler_of(post), wire.MAX_BODY_BYTES) for post in wire.OPERATIONS]
        self.table = [*posts, Route(wire.OPEN_TARGET, self._open_target, safe=False)]

    def error_response(self, error: ServiceError, request: Request) -> Response:
        is_phone = request.raw_path == _PHONE_PATH
        error = replies.in_dialect(error, is_phone=is_phone)
        if is_phone:
            status, body = replies.phone_failure(error)
            return Response(status, body, headers=(*retry_after(error), _NO_REFERRER))
        status = 200 if self._service.settings.legacy_http_200 else error.status
        return Response(
            status, replies.failure_body(echoable_request_id(request.body), error), headers=retry_after(error)
        )

    def key_attempt(self, request: Request) -> KeyAttempt | None:
        try:
            client_id = parse_body(request.body).get("ApiClientId") if request.body else None
        except ServiceError:  # the handler refuses it, too
            return None
        return KeyAttempt("mobile identity", client_id) if client_id and isinstance(client_id, str) else None

    def is_wrong_key(self, error: KeyRejected) -> bool:
        return error.code == _CLIENT_NOT_ENABLED

    def _handler_of(self, operation: wire.Operation) -> Handler:
        async def answer_operation(request: Request) -> Response:
            origin = self._checked_origin(request)
            if request.media_type != "application/json":
                raise refusal(2, envelope.NOT_JSON_TYPE, http=415)
            body = parse_body(request.body)
            response = await self._service.execute(operation, body, origin)
            return Response(200, replies.success_body(body["RequestId"], response))

        return answer_operation

    async def _open_target(self, request: Request) -> Response:
        self._checked_origin(request)  # only refuses unknown hosts here
        fingerprint, response_form = request.query.get("vfp", ""), request.query.get("r")
        if not fingerprint:
            raise refusal(1000, envelope.FINGERPRINT_NEEDED)
        if response_form not in (None, "f"):
            raise refusal(1000, envelope.R_MUST_BE_F)
        opened = await self._service.open_target(fingerprint, self._phone_request(request))
        if response_form == "f":
            return Response(200, msgspec.json.encode(Opened(opened.fingerprint)), headers=(_NO_REFERRER,))
        # Not 307: the phone would then send its request again, to the final target.
        location: Header = (b"location", opened.location.encode("ascii"))
        return Response(302, b"", b"text/plain", (location, _NO_REFERRER))

    def _checked_origin(self, request: Request) -> str:
        """Return the scheme and host that the caller used; refuse unknown hosts (DNS rebinding, see `Hosts`)."""
        host = request.header(b"host").lower()
        if self._public_parts.netloc and host == self._public_parts.netloc.lower():
            return f"{self._public_parts.scheme}://{self._public_parts.netloc}"
        if self._loopback_names is not None and self._loopback_names.is_served(host.encode("latin-1")):
            return f"http://{host}"
        raise refusal(2, envelope.WRONG_HOST, http=421)

    def _phone_request(self, request: Request) -> PhoneRequest:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.fields.items()}
        may_simulate = self._simulates_phones and is_from_this_machine(request)
        simulated = headers.get(wire.SIMULATED_ADDRESS_HEADER.lower(), "") if may_simulate else ""
        address = normal_ip_address(simulated or request.client) or ""
        return PhoneRequest(request.client, address, headers)
