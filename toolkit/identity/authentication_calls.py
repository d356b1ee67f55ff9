"""The client's calls of mobile authentication: from a phone to an authenticated user."""

from __future__ import annotations

from toolkit.contract import Endpoint
from toolkit.errors import InvalidArgument
from toolkit.identity import answers, wire
from toolkit.identity.calls import IdentityCalls
from toolkit.identity.final_target import FinalTargetListener
from toolkit.identity.flow import Call
from toolkit.identity.handset import Handset
from toolkit.identity.held_secrets import AuthenticatedUser, PhoneProof, StartedTransaction, fresh_verifier

#: Where a phone is sent at the end when nobody listens: this machine, any port.
NOBODY_LISTENS = "http://127.0.0.1/done"


class AuthenticationCalls(IdentityCalls):
    """Part of `toolkit.identity.client.IdentityClient`."""

    def start_authentication(
        self,
        handset: Handset | None = None,
        *,
        device_ip: str | None = None,
        carrier_short_code: str | None = None,
        final_target_url: str | FinalTargetListener = NOBODY_LISTENS,
    ) -> StartedTransaction:
        """Begin to authenticate a phone: ``POST /mobileauth/2014/07/01/authenticateByRedirect``.

        Parameters
        ----------
        handset
            A simulated phone: its address and carrier are taken from it.
        device_ip, carrier_short_code
            The phone's address, or the short code of its carrier, or both if they belong together.
        final_target_url
            Where the phone is sent at the end: one that is registered for this client, or a listener.

        Returns
        -------
        StartedTransaction
            Hand it to `authenticate_device`. Only this program can finish it: a PKCE challenge goes with it.

        Raises
        ------
        InvalidArgument
            Neither an address nor a carrier was given.
        MalformedRequest
            1000 a URL that is not registered, 1003 a carrier that is not supported.
        NotAuthenticated
            1038: address and carrier do not belong together.
        """
        if handset is not None:
            device_ip, carrier_short_code = handset.device_ip, handset.carrier_short_code
        if device_ip is None and carrier_short_code is None:
            raise InvalidArgument("give a handset, a device_ip or a carrier_short_code")
        url = final_target_url.url if isinstance(final_target_url, FinalTargetListener) else final_target_url
        verifier, challenge = fresh_verifier()
        fields = {
            "DeviceIp": device_ip,
            "CarrierShortCode": carrier_short_code,
            "FinalTargetUrl": url,
            "CodeChallenge": challenge,
        }

        def read(response: answers.Response) -> StartedTransaction:
            transaction_id, fingerprint, seconds = answers.started(response, self._http.base_url)
            return StartedTransaction(transaction_id, fingerprint, verifier, url, seconds)

        return self._call(wire.START, fields, read, call=Call.START)

    def authenticate_device(self, transaction: StartedTransaction, handset: Handset | None = None) -> PhoneProof:
        """Open TargetUrl as the phone: ``GET /mobileauth/2014/07/01/deviceAuthenticate?vfp=...&r=f``.

        Works once for each transaction, and is never repeated by itself. It succeeds also when the network did not
        identify the phone: that is told by `finish_authentication`.

        Parameters
        ----------
        transaction
            From `start_authentication`.
        handset
            The simulated phone that opens it; None opens it from this machine, over its own network.

        Returns
        -------
        PhoneProof
            Hand it to `finish_authentication`.

        Raises
        ------
        Conflict
            It was opened before, or its 120 seconds are over.
        """
        headers = handset.network_headers if handset is not None else {}
        final = self._open(transaction.secret("fingerprint"), headers, transaction)
        return PhoneProof(transaction, final)

    def preview(self, transaction: StartedTransaction) -> int:
        """Look at TargetUrl with ``HEAD``, as a link preview does, and return the HTTP status: 405, nothing used up."""
        look = Endpoint("HEAD", wire.OPEN_TARGET.template, wire.OPEN_TARGET.query)
        return self._http.call(look, query={"vfp": transaction.secret("fingerprint")}).status

    def await_device(
        self, transaction: StartedTransaction, listener: FinalTargetListener, *, timeout: float = 60.0
    ) -> PhoneProof:
        """Wait until a browser on this machine was sent from TargetUrl to the listener.

        Raises
        ------
        Unreachable
            Nobody came within `timeout` seconds.
        InvalidArgument
            The transaction was started with another final target.
        """
        if transaction.final_target_url != listener.url:
            raise InvalidArgument("this transaction was started with another final target")
        return PhoneProof(transaction, listener.fingerprint(timeout))

    def finish_authentication(self, proof: PhoneProof) -> AuthenticatedUser:
        """Exchange a proof for alias and code: ``POST /mobileauth/2014/07/01/authenticateByRedirectFinish``.

        Works once: a second call with the same proof is refused and revokes the code of the first.

        Parameters
        ----------
        proof
            From `authenticate_device`.

        Returns
        -------
        AuthenticatedUser
            With ``service_alias`` (may be stored) and the code (cannot be).

        Raises
        ------
        NotAuthenticated
            1001 the network did not identify the phone, 1006 suspended, 1007 deactivated, 1038 another carrier.
        Conflict
            2002 too late (60 seconds), 2003 used before.
        """
        fields = {"VerificationFingerprint": proof.secret("fingerprint"), "CodeVerifier": proof.secret("verifier")}
        return self._call(
            wire.FINISH,
            fields,
            lambda response: answers.authenticated(response, self._now()),
            holder=proof,
            call=Call.FINISH,
        )
