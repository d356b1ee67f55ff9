"""Ten attacks on a flow. Each is really sent, and a rule with a name refuses it.

They use their own phones and leave a person's present flow alone; only "let the clock run" makes it older.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from toolkit.errors import ServiceError
from toolkit.identity.client.held_secrets import AuthenticatedUser, PhoneProof
from toolkit.identity.client.identity import IdentityClient
from toolkit.secret import Secret

if TYPE_CHECKING:
    from toolkit.gateway import Gateway


class Scene(NamedTuple):
    """The client that is attacked, another one, and the demo world."""

    client: IdentityClient
    other: IdentityClient
    gateway: Any  # of the demo world, whose clock can be advanced

    def proof(self, preset: str = "no_challenge") -> PhoneProof:
        """Return a fresh proof of a phone."""
        phone = self.gateway.handset(preset)
        return self.client.authenticate_device(self.client.start_authentication(phone), phone)

    def user(self, preset: str = "no_challenge") -> AuthenticatedUser:
        """Return a freshly authenticated user."""
        return self.client.finish_authentication(self.proof(preset))


class Attack(NamedTuple):
    """An attack, the rule and status that refuse it, and the reason for the rule."""

    title: str
    rule: str
    status: int
    because: str
    run: Callable[[Scene], ServiceError | int]


class Outcome(NamedTuple):
    """The result of an attack; `refused` is whether the rule held."""

    title: str
    status: int | str | None
    answer: str
    rule: str
    because: str
    refused: bool


def _replay_final(scene: Scene) -> ServiceError:
    proof = scene.proof()
    user = scene.client.finish_authentication(proof)
    _refused(lambda: scene.client.finish_authentication(proof))
    # The second use also revoked the code of the first.
    return _refused(lambda: scene.client.eligibility(user))


def _replay_first(scene: Scene) -> ServiceError:
    phone = scene.gateway.handset("no_challenge")
    transaction = scene.client.start_authentication(phone)
    scene.client.authenticate_device(transaction, phone)
    return _refused(lambda: scene.client.authenticate_device(transaction, phone))


def _first_at_finish(scene: Scene) -> ServiceError:
    transaction = scene.client.start_authentication(scene.gateway.handset("no_challenge"))
    early = PhoneProof(transaction, transaction.secret("fingerprint"))
    return _refused(lambda: scene.client.finish_authentication(early))


def _planted(scene: Scene) -> ServiceError:
    own = scene.client.start_authentication(scene.gateway.handset("no_challenge"))
    planted = PhoneProof(own, scene.proof("prepaid").secret("fingerprint"))
    return _refused(lambda: scene.client.finish_authentication(planted))


def _swap_alias(scene: Scene) -> ServiceError:
    mine, theirs = scene.user(), scene.user("prepaid")
    return _refused(lambda: scene.client.eligibility(_forged(theirs.service_alias, mine)))


def _swap_client(scene: Scene) -> ServiceError:
    user = scene.user()
    return _refused(lambda: scene.other.eligibility(user))


def _wait(scene: Scene) -> ServiceError:
    user = scene.user()
    scene.gateway.clock.advance(seconds=301)
    # The client does not send an expired code, so the forged user claims a later end.
    return _refused(lambda: scene.client.eligibility(_forged(user.service_alias, user)))


def _open_redirect(scene: Scene) -> ServiceError:
    phone = scene.gateway.handset("no_challenge")
    return _refused(lambda: scene.client.start_authentication(phone, final_target_url="https://evil.example/collect"))


def _guess(scene: Scene) -> ServiceError:
    phone = scene.gateway.handset("no_cards")
    user = scene.user(phone.name)
    scene.client.eligibility(user)

    def answer(given: Secret | None) -> ServiceError:
        return _refused(lambda: scene.client.payment_list(user, answer=given))

    for wrong in ("00000", "11111", "22222"):
        answer(Secret(wrong, guessable=True))
    return answer(phone.answer)


def _preview(scene: Scene) -> int:
    phone = scene.gateway.handset("no_challenge")
    transaction = scene.client.start_authentication(phone)
    status = scene.client.preview(transaction)
    scene.client.finish_authentication(scene.client.authenticate_device(transaction, phone))
    return status


def _forged(alias: str, user: AuthenticatedUser) -> AuthenticatedUser:
    phone = (user.mobile_number, user.mobile_country_code, user.mobile_operator_name)
    a_day_later = round(user.expires_at.timestamp() * 1000) + 86_400_000
    return AuthenticatedUser(alias, user.secret("code"), a_day_later, phone)


def _refused(work: Callable[[], object]) -> ServiceError:
    try:
        work()
    except ServiceError as error:
        return error
    raise AssertionError("this attack was not refused")


_ONCE, _BOUND = "a one-time secret works once: NIST 800-63B", "a code is bound to client and alias: RFC 6749, 10.5"
_STOLEN, _PREVIEW = "used twice is stolen once: RFC 6749, 4.1.2", "only GET uses a fingerprint: the phone still can"
_LIFE, _EXACT = "at most ten minutes: RFC 6749, 4.1.2", "exact match of redirect URIs: RFC 9700, 2.1"
_PKCE, _NETWORK = "PKCE binds it to who began: RFC 7636", "only the network's answer is a proof"
_SAME, _FEW = "and one answer for all mismatches tells nothing", "few attempts, then a lock: NIST 800-63B"

ATTACKS: dict[str, Attack] = {
    "replay the final fingerprint": Attack("Use the final fingerprint twice", "S07", 2012, _STOLEN, _replay_final),
    "replay TargetUrl": Attack("Open TargetUrl twice", "S03", 2003, _ONCE, _replay_first),
    "first fingerprint at Finish": Attack("Finish without any phone", "S05", 1039, _NETWORK, _first_at_finish),
    "plant a fingerprint": Attack("Finish with somebody else's final fingerprint", "S16", 1000, _PKCE, _planted),
    "swap the alias": Attack("Use a code with another user's alias", "S17", 2010, _BOUND, _swap_alias),
    "swap the client": Attack("Use a code as another client", "S17", 2010, _SAME, _swap_client),
    "let the clock run": Attack("Use a code after its end", "S06", 2011, _LIFE, _wait),
    "open redirect": Attack("Send the phone to an address of our own", "S11", 1000, _EXACT, _open_redirect),
    "guess the ZIP code": Attack("Guess three times, then answer rightly", "S22", 2023, _FEW, _guess),
    "link preview": Attack("Let a chat program look at TargetUrl first", "S14", 405, _PREVIEW, _preview),
}


def carry_out(name: str, client: IdentityClient, gateway: Gateway) -> Outcome:
    """Try one of `ATTACKS` on a client of the demo world."""
    attack = ATTACKS[name]
    keys = gateway.credentials
    scene = Scene(client.called_by(keys["ApiClientId"]), client.called_by(keys["OtherApiClientId"]), gateway)
    result = attack.run(scene)
    status, answer = (result, "Use GET.") if isinstance(result, int) else (result.code, str(result).split(" (")[0])
    return Outcome(attack.title, status, answer, attack.rule, attack.because, status == attack.status)
