"""The identity client against the real gateway and against a hostile one."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from datetime import timedelta
from functools import partial

import pandas as pd
import pytest

import toolkit
from tests.identity_lab import SHOP, Lab
from tests.literal_server import LiteralServer, Reply, envelope
from toolkit.errors import (
    CodeExpired,
    Conflict,
    InvalidArgument,
    KeyRejected,
    MalformedRequest,
    NotAuthenticated,
    NotEligible,
    NotFound,
    RateLimited,
    ServiceError,
    ServiceFailure,
    SessionClosed,
    ToolkitError,
    UnexpectedReply,
)
from toolkit.identity.client.identity import IdentityClient
from toolkit.identity.client.replies import DETAIL_COLUMNS, ELIGIBILITY_COLUMNS, PAYMENT_COLUMNS
from toolkit.identity.client.request_recorder import TRACE_COLUMNS
from toolkit.identity.client.transaction import AuthenticatedUser, PhoneProof
from toolkit.identity.flow import State
from toolkit_gateway import Gateway

ZIP = "97024"
GUID = "918dabaf-876a-59ff-83bc-1985074aff14"


@pytest.fixture
def lab(shared_lab: Lab) -> Lab:
    """One gateway for all tests of this file: each sees the calls of its own connection only."""
    return shared_lab


@pytest.fixture
def identity(lab: Lab) -> Iterator[IdentityClient]:
    with toolkit.connect(lab.gateway, credentials={"ApiClientId": SHOP}) as tk:
        yield tk.identity


@pytest.fixture
def hostile() -> Iterator[Callable[[Callable[[str, bytes], Reply | None]], tuple[LiteralServer, IdentityClient]]]:
    opened: list[tuple[LiteralServer, toolkit.Connection]] = []

    def make(answer: Callable[[str, bytes], Reply | None]) -> tuple[LiteralServer, IdentityClient]:
        server = LiteralServer(answer)
        tk = toolkit.connect(server.base_url, credentials={"ApiClientId": SHOP})
        opened.append((server, tk))
        return server, tk.identity

    yield make
    for server, tk in opened:
        tk.close()
        server.stop()


def test_the_whole_flow_gives_frames_of_declared_types(lab: Lab, identity: IdentityClient) -> None:
    phone = lab.gateway.handset("happy")
    assert identity.echo("hello, 2014").to_dict("records") == [
        {"echo_message": "hello, 2014", "api_version": "2014/07/25"}
    ]
    transaction = identity.start_authentication(phone)
    proof = identity.authenticate_device(transaction, phone)
    user = identity.finish_authentication(proof)
    assert (user.mobile_number, user.mobile_operator_name) == ("*********00", "Contoso Mobile")
    asked = identity.eligibility(user)
    assert asked.dtypes.astype(str).to_dict() == ELIGIBILITY_COLUMNS
    assert asked.loc[0, "attempts_left"] == 3
    listed = identity.payment_list(user, answer=ZIP)
    assert listed.dtypes.astype(str).to_dict() == PAYMENT_COLUMNS
    assert listed["last_four"].tolist()[0] == "1111"
    details = identity.payment_details(user, listed["payment_id"][::-1])
    assert details.dtypes.astype(str).to_dict() == DETAIL_COLUMNS
    assert details["payment_id"].tolist() == listed["payment_id"].tolist()[::-1]
    assert details["masked_account_number"].tolist()[1] == "411111******1111"


def test_the_case_of_a_host_name_does_not_matter(lab: Lab) -> None:
    url = lab.gateway.base_url.replace("127.0.0.1", "LOCALHOST")
    with toolkit.connect(url, credentials={"ApiClientId": SHOP}) as tk:
        assert tk.identity.start_authentication(lab.gateway.handset("happy")).state == "started"


def test_frames_keep_their_types_when_they_are_empty(lab: Lab, identity: IdentityClient) -> None:
    assert identity.trace().dtypes.astype(str).to_dict() == TRACE_COLUMNS
    with identity.session() as session:
        session.authenticate(lab.gateway.handset("no_cards"))
        session.eligibility()
        listed = session.payment_list(answer=ZIP)
    assert listed.empty
    assert listed.dtypes.astype(str).to_dict() == PAYMENT_COLUMNS


def test_trace_has_one_row_per_call_with_its_next_state(lab: Lab, identity: IdentityClient) -> None:
    with identity.session() as session:
        session.authenticate(lab.gateway.handset("happy"))
        session.eligibility()
        with pytest.raises(KeyRejected, match="2 attempts left"):
            session.payment_list(answer="00000")
        session.payment_list(answer=ZIP)
    trace = identity.trace()
    assert trace["n"].tolist() == [1, 2, 3, 4, 5, 6]
    steps = ["start_authentication", "authenticate_device", "finish_authentication", "eligibility", "payment_list"]
    assert trace["step"].tolist() == [*steps, "payment_list"]
    assert trace["state"].tolist() == ["started", "failed or proven", "finished", "eligible", "eligible", "unlocked"]
    assert json.loads(trace["request"][2])["CodeVerifier"].startswith("Secret(sha256:")
    assert json.loads(trace["response"][4])["AdditionalInfo"] == "2 attempts left."
    assert trace["status"].tolist() == [0, 0, 0, 0, 2022, 0]
    assert trace["http"].tolist() == [200, 200, 200, 200, 403, 200]
    assert trace["seconds_left"].tolist()[2:] == [300.0] * 4
    assert (trace["ms"] > 0).all()


PHONES: dict[str, tuple[type[ServiceError] | None, int]] = {
    "happy": (None, 0),
    "no_challenge": (None, 0),
    "no_cards": (None, 0),
    "carrier_mismatch": (NotAuthenticated, 1038),
    "unsupported": (MalformedRequest, 1003),
    "wifi": (NotAuthenticated, 1001),
    "suspended": (NotAuthenticated, 1006),
    "deactivated": (NotAuthenticated, 1007),
    "ported": (NotAuthenticated, 1038),
    "prepaid": (NotEligible, 1010),
    "business": (NotEligible, 1010),
    "no_record": (NotEligible, 1010),
    "opted_out": (NotEligible, 1010),
    "locked_challenge": (RateLimited, 2023),
    "no_crm": (NotFound, 1012),
}


def test_every_phone_gives_its_status_and_error_class(lab: Lab, identity: IdentityClient) -> None:
    for preset, (kind, code) in PHONES.items():
        expected = pytest.raises(kind) if kind else nullcontext()
        with identity.session() as session, expected as caught:
            session.authenticate(lab.gateway.handset(preset))
            session.eligibility()
            session.payment_list(answer=ZIP)
        assert identity.trace()["status"].tolist()[-1] == code, preset
        if caught is not None:
            assert (caught.value.code, caught.value.service) == (code, "identity")
            assert caught.value.retry_after == (900 if kind is RateLimited else None)


def test_steps_out_of_order_name_the_missing_step(lab: Lab, identity: IdentityClient) -> None:
    with identity.session() as session:
        for call, first in (
            (session.authenticate_device, "start_authentication"),
            (session.finish_authentication, "authenticate_device"),
            (session.eligibility, "finish_authentication"),
        ):
            with pytest.raises(InvalidArgument, match=f"call {first} first"):
                call()
        session.authenticate(lab.gateway.handset("happy"))
        with pytest.raises(Conflict, match="Call eligibility first"):
            session.payment_list()
    with pytest.raises(InvalidArgument, match="handset"):
        identity.start_authentication()


def test_session_never_reuses_an_earlier_phone(lab: Lab, identity: IdentityClient) -> None:
    with identity.session() as session:
        session.authenticate(lab.gateway.handset("happy"))
        with pytest.raises(NotAuthenticated):
            session.authenticate(lab.gateway.handset("wifi"))
        with pytest.raises(InvalidArgument, match="call finish_authentication first"):
            session.eligibility()


@pytest.mark.parametrize("is_failing", [False, True])
def test_closed_session_forgets_its_secrets(lab: Lab, identity: IdentityClient, is_failing: bool) -> None:
    phone = lab.gateway.handset("happy")
    with suppress(RuntimeError), identity.session() as session:
        user = session.authenticate(phone)
        transaction = session.start_authentication(phone)
        if is_failing:
            raise RuntimeError("the person's own mistake")
    calls = len(identity.trace())
    for use in (
        session.eligibility,
        session.payment_list,
        lambda: session.payment_details([GUID]),
        lambda: session.start_authentication(phone),
        session.finish_authentication,
        lambda: identity.eligibility(user),
        lambda: identity.authenticate_device(transaction, phone),
        lambda: user.secret("code"),
    ):
        with pytest.raises(SessionClosed):
            use()
    assert len(identity.trace()) == calls, "nothing was sent"
    assert repr(session) == "<identity session: closed>"


def test_a_holder_of_secrets_is_neither_copied_nor_stored(lab: Lab, identity: IdentityClient) -> None:
    phone = lab.gateway.handset("happy")
    transaction = identity.start_authentication(phone)
    proof = identity.authenticate_device(transaction, phone)
    for holder in (transaction, proof, identity.finish_authentication(proof)):
        for work in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                work(holder)


def test_a_redirect_is_not_followed(hostile: Callable) -> None:
    trap, _ = hostile(lambda path, body: (200, {}, b"{}"))
    server, identity = hostile(lambda path, body: (302, {"Location": trap.base_url + path}, b""))
    with pytest.raises(UnexpectedReply, match="redirect"):
        identity.echo("x")
    assert (len(server.requests), len(trap.requests)) == (1, 0)


def test_planted_fingerprint_is_refused_before_any_call(lab: Lab, identity: IdentityClient) -> None:
    phone = lab.gateway.handset("happy")
    with identity.session() as session, identity.session() as attacker:
        attacker.start_authentication(phone)
        planted = attacker.authenticate_device(phone)
        transaction = session.start_authentication(phone)
        calls = len(identity.trace())
        with pytest.raises(InvalidArgument, match="belongs to another transaction"):
            session.finish_authentication(planted)
        assert len(identity.trace()) == calls
        # One that is given as if it were of this transaction is refused by PKCE.
        planted = PhoneProof(transaction, toolkit.Secret(lab.wire.final()))
        with pytest.raises(ToolkitError, match="CodeVerifier") as caught:
            session.finish_authentication(planted)
        assert caught.value.code == 1000


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOOLKIT_APICLIENTID", raising=False)
    gateway = Gateway(config={"identity": {}})
    with toolkit.connect(gateway) as tk, pytest.raises(InvalidArgument, match="TOOLKIT_APICLIENTID"):
        tk.identity.echo("x")
    monkeypatch.setenv("TOOLKIT_APICLIENTID", "from-the-environment")
    with toolkit.connect(gateway) as tk, pytest.raises(KeyRejected) as caught:
        tk.identity.echo("x")
    gateway.close()
    assert caught.value.code == 1005


@pytest.mark.parametrize("fault", [None, (500, {}, b"{}"), (503, {}, b""), (429, {}, b"{}")])
def test_requests_are_never_repeated(lab: Lab, hostile: Callable, fault: Reply | None) -> None:
    answers: list[Reply | None] = []

    def answer(path: str, body: bytes) -> Reply | None:
        return answers.pop(0) if answers else fault

    server, identity = hostile(answer)
    vfp = "x" * 43
    target = f"{server.base_url}/mobileauth/2014/07/01/deviceAuthenticate?vfp={vfp}"
    started = {"AuthenticateTransactionId": GUID, "TargetUrl": target, "VerificationFingerprint": vfp, "ExpiresIn": 120}
    answers.append(envelope(b'{"RequestId": "req-001"}', started))
    transaction = identity.start_authentication(device_ip="203.0.113.7")
    with pytest.raises(ToolkitError):
        identity.authenticate_device(transaction)
    assert len(server.requests) == 2
    answers.append((200, {}, b'{"vfp": "' + b"y" * 43 + b'"}'))
    proof = identity.authenticate_device(transaction)
    with pytest.raises(ToolkitError):
        identity.finish_authentication(proof)
    assert len(server.requests) == 4


def test_proxies_and_netrc_are_ignored_on_this_machine(
    lab: Lab, hostile: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    trap, _ = hostile(lambda path, body: (200, {}, b"{}"))
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login canary password canary\n")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, trap.base_url)
    monkeypatch.setenv("NETRC", str(netrc))
    server, identity = hostile(lambda path, body: envelope(body, {"EchoMessage": "x", "ApiVersion": "2014/07/25"}))
    assert identity.echo("x").loc[0, "echo_message"] == "x"
    assert (len(trap.requests), len(server.requests)) == (0, 1)
    assert "Authorization" not in server.requests[0][1]


def walk(identity: IdentityClient) -> pd.DataFrame:
    user = identity.finish_authentication(
        identity.authenticate_device(identity.start_authentication(device_ip="203.0.113.7"))
    )
    identity.eligibility(user)
    identity.payment_list(user)
    return identity.payment_details(user, [GUID])


@pytest.fixture
def spoiled_client(hostile: Callable) -> Callable[[str, object], IdentityClient]:
    """Return a client of a server whose answers are right but for one field."""

    def make(name: str, value: object) -> IdentityClient:
        base: list[str] = []
        payment = {"PaymentId": GUID, "PaymentType": "CREDIT_CARD", "Brand": "VISA", "LastFour": "1111"}
        payment |= {"ExpirationMonth": 11, "ExpirationYear": 2031, "IsDefault": True}
        payment |= {"MaskedAccountNumber": "411111******1111", "BillingAddress": {"Line1": "1"}}

        def spoiled(fields: dict[str, object]) -> dict[str, object]:
            wrong = value.replace("{base}", base[0]) if isinstance(value, str) else value
            return {**fields, **({name: wrong} if name in fields else {})}

        def answer(path: str, body: bytes) -> Reply:
            if "deviceAuthenticate" in path:
                return 200, {}, json.dumps(spoiled({"vfp": "y" * 43})).encode()
            if path.endswith("authenticateByRedirect"):
                target = base[0] + path.replace("authenticateByRedirect", "deviceAuthenticate") + "?vfp=" + "x" * 43
                fields = {"AuthenticateTransactionId": GUID, "VerificationFingerprint": "x" * 43}
                fields |= {"TargetUrl": target, "ExpiresIn": 120}
            elif path.endswith("Finish"):
                fields = {"AuthenticateFinishTransactionId": GUID, "ServiceAlias": GUID, "AuthenticationCode": "z" * 43}
                fields |= {"AuthenticationExpiration": "2999-01-01T00:00:00Z", "MobileNumber": "*********03"}
                fields |= {"MobileCountryCode": "US", "MobileOperatorName": "Contoso Mobile"}
            elif path.endswith("getEligibility"):
                fields = {"Eligible": True, "Challenge": None}
            else:
                fields = {"Count": 1, "Payments": [spoiled(payment)]}
            return envelope(body, spoiled(fields))

        server, identity = hostile(answer)
        base.append(server.base_url)
        return identity

    return make


def test_responses_outside_the_contract_are_refused(spoiled_client: Callable) -> None:
    assert walk(spoiled_client("", None))["payment_id"].tolist() == [GUID], "any conforming server is accepted"
    for name, value in [
        ("TargetUrl", "http://evil.example/mobileauth/2014/07/01/deviceAuthenticate?vfp=" + "x" * 43),
        ("TargetUrl", "{base}/mobileauth/2014/07/01/deviceAuthenticate?vfp=" + "q" * 43),
        ("TargetUrl", "{base}@evil.example/mobileauth/2014/07/01/deviceAuthenticate?vfp=" + "x" * 43),
        ("VerificationFingerprint", "short"),
        ("ExpiresIn", 0),
        ("ExpiresIn", 601),
        ("AuthenticateTransactionId", "urn:uuid:" + GUID),
        ("vfp", "x" * 43),
        ("vfp", "&key=1"),
        ("ServiceAlias", "{" + GUID + "}"),
        ("AuthenticationCode", ""),
        ("AuthenticationExpiration", "2014-10-03T18:12:10Z"),
        ("AuthenticationExpiration", "2999-13-45T00:00:00Z"),
        ("MobileNumber", "+12025550103"),
        ("Eligible", 1),
        ("Challenge", "<script>"),
        ("Challenge", {"ChallengeId": "x"}),
        ("Payments", {}),
        ("Count", 2),
        ("PaymentId", "x"),
        ("IsDefault", "yes"),
        ("ExpirationMonth", "eleven"),
        ("LastFour", "1" * 16),
        ("MaskedAccountNumber", "9" * 16),
    ]:
        with pytest.raises(UnexpectedReply) as caught:
            walk(spoiled_client(name, value))
        assert str(value) not in str(caught.value) or value in (None, 0, 1, 2, 5, 7, "")


def test_malformed_envelopes_are_refused(hostile: Callable) -> None:
    replies = [
        *(b"", b"<html>", b"[]", b"null", b"{}", b'{"Status": true}', b'{"Status": 4711}', b'{"Status": 0}'),
        *(b'{"Status": 0, "RequestId": "another", "Response": {}}', b"[" * 100_000),
    ]
    _, identity = hostile(lambda path, body: (200, {}, replies[0]))
    while replies:
        with pytest.raises(UnexpectedReply):
            identity.echo("x")
        replies.pop(0)
    _, identity = hostile(lambda path, body: envelope(body, None, Status=1, Description="x"))
    with pytest.raises(ServiceFailure):
        identity.echo("x")


def test_server_text_is_text_in_every_table(spoiled_client: Callable) -> None:
    evil = "<script>alert(1)</script>"
    question = {"ChallengeId": GUID, "QuestionType": evil, "Question": evil, "AnswerFormat": evil, "AttemptsLeft": 3}
    question["ExpiresAt"] = "2999-01-01T00:00:00Z"
    identity = spoiled_client("Challenge", question)
    user = identity.finish_authentication(
        identity.authenticate_device(identity.start_authentication(device_ip="203.0.113.7"))
    )
    shown = identity.eligibility(user)._repr_html_()
    assert evil not in shown
    assert "&lt;script&gt;" in shown


def test_expired_code_is_reported_before_the_call(lab: Lab, identity: IdentityClient) -> None:
    with identity.session() as session:
        user = session.authenticate(lab.gateway.handset("happy"))
        session.eligibility()
        lab.clock.advance(seconds=299.999)
        assert user.seconds_left(lab.clock.now()) == pytest.approx(0.001)
        session.eligibility()
        lab.clock.advance(seconds=0.001)
        calls = len(identity.trace())
        for use in (session.eligibility, session.payment_list, lambda: session.payment_details([GUID])):
            with pytest.raises(CodeExpired, match="start_authentication"):
                use()
        assert len(identity.trace()) == calls
        assert session.state == "expired"


def finished(identity: IdentityClient, lab: Lab, preset: str = "happy") -> AuthenticatedUser:
    phone = lab.gateway.handset(preset)
    return identity.finish_authentication(identity.authenticate_device(identity.start_authentication(phone), phone))


def test_refusals_say_the_state_of_the_flow(lab: Lab, identity: IdentityClient) -> None:
    phone, again = lab.gateway.handset("happy"), "begin again with start_authentication"
    transaction = identity.start_authentication(phone)
    early = PhoneProof(transaction, transaction.secret("fingerprint"))
    transaction.flow.states = frozenset({State.STARTED})
    expect = partial(_refused, identity)
    expect(1039, "not opened TargetUrl yet. The flow is started.", lambda: identity.finish_authentication(early))
    proof = identity.authenticate_device(transaction, phone)
    expect(2003, "The flow is failed or proven.", lambda: identity.authenticate_device(transaction, phone))
    user = identity.finish_authentication(proof)
    expect(2020, "Call eligibility first. The flow is finished.", lambda: identity.payment_list(user))
    identity.eligibility(user)
    expect(2021, "The flow is eligible.", lambda: identity.payment_list(user))
    expect(2022, "1 attempt left. The flow is eligible.", *[lambda: identity.payment_list(user, answer="00000")] * 2)
    expect(2023, "Retry after 900 seconds. The flow is locked.", lambda: identity.payment_list(user, answer="00000"))
    expect(2003, f"The flow is revoked: {again}.", lambda: identity.finish_authentication(proof))
    expect(2012, f"The flow is revoked: {again}.", lambda: identity.eligibility(user))

    transaction = identity.start_authentication(phone)
    lab.clock.advance(seconds=121)
    expect(2003, "expired or failed or proven.", lambda: identity.authenticate_device(transaction, phone))
    proof = identity.authenticate_device(identity.start_authentication(phone), phone)
    lab.clock.advance(seconds=61)
    expect(2002, f"The flow is expired: {again}.", lambda: identity.finish_authentication(proof))
    user = finished(identity, lab, "prepaid")
    identity.eligibility(user)
    expect(1010, "The flow is not eligible.", lambda: identity.payment_list(user))
    user.expires_at += timedelta(days=1)  # otherwise the client does not send an expired code
    lab.clock.advance(seconds=301)
    expect(2011, "The authentication has expired. Start again at start_authentication. The flow is expired.",
           lambda: identity.eligibility(user))  # fmt: skip
    newer, older = finished(identity, lab), finished(identity, lab, "no_challenge")
    finished(identity, lab, "no_challenge")
    expect(2012, f"The flow is revoked: {again}.", lambda: identity.eligibility(older))
    newer.service_alias = older.service_alias
    expect(2010, "Authentication is required.", lambda: identity.eligibility(newer))


def _refused(identity: IdentityClient, code: int, end: str, *calls: Callable[[], object]) -> None:
    for call in calls:
        with pytest.raises(ServiceError) as caught:
            call()
    assert caught.value.code == code
    assert caught.value.message.endswith(end), caught.value.message
    row = identity.trace().iloc[-1]
    assert code != 2010 or row["state"] == "finished"
    assert row["status"] == code
    assert code == 2010 or row["state"] in caught.value.message


def test_payment_details_accept_rows_series_or_one_id(lab: Lab, identity: IdentityClient) -> None:
    with identity.session() as session:
        session.authenticate(lab.gateway.handset("no_challenge"))
        session.eligibility()
        payments = session.payment_list()
        ids = payments["payment_id"]
        for given in (payments, ids, ids.tolist()):
            assert session.payment_details(given)["payment_id"].tolist() == ids.tolist()
        for given in (ids[0], payments.iloc[0]):
            assert session.payment_details(given)["payment_id"].tolist() == [ids[0]]
