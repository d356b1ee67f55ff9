"""Ten attacks on the authentication flow. Each sends real requests, and one rule of the service must refuse it.

They affect the current flow only if its phone is no_challenge, prepaid or no_cards, or if they "let the clock run".
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from toolkit.errors import ServiceError
from toolkit.identity.client.identity import IdentityClient
from toolkit.identity.client.request_recorder import Step
from toolkit.identity.client.transaction import AuthenticatedUser, Flow, PhoneProof
from toolkit.identity.flow import State
from toolkit.identity.phones import Handset
from toolkit.secret import Secret


class Entry(NamedTuple):
    """A row of a sequence diagram: one request, sent by an attacker or not, or a note between two requests."""

    step: Step | None = None
    is_attack: bool = False
    note: str = ""


class AttackContext:
    """The attacked client, a second client, and the demo phones; `entries` are the requests so far."""

    def __init__(self, client: IdentityClient, gateway: Any, advance: Callable[[int], object]) -> None:  # noqa: ANN401
        keys: Mapping[str, Secret] = gateway.credentials
        self.client = client.called_by(keys["ApiClientId"])
        self.second_client = client.called_by(keys["OtherApiClientId"])
        self.handset: Callable[[str], Handset] = gateway.handset
        self._advance = advance
        self.entries: list[Entry] = []
        self._recorded = 0

    def record_requests(self, *, by_attacker: bool = False) -> None:
        """Append the requests that were sent since the last call to `entries`."""
        # The second client never sends before the attacked client has finished, so the requests are in order.
        steps = (*self.client.recorder.steps, *self.second_client.recorder.steps)
        self.entries += [Entry(step, by_attacker) for step in steps[self._recorded :]]
        self._recorded = len(steps)

    def attack(self, work: Callable[[], object]) -> object:
        """Call `work` as the attacker and return its result, or the error with which the service refuses it."""
        self.record_requests()
        result = _result_or_error(work)
        self.record_requests(by_attacker=True)
        return result

    def wait(self, seconds: int) -> None:
        self._advance(seconds)
        self.record_requests()
        self.entries.append(Entry(note=f"{seconds} seconds pass"))

    def new_proof(self, preset: str = "no_challenge") -> PhoneProof:
        phone = self.handset(preset)
        return self.client.authenticate_device(self.client.start_authentication(phone), phone)

    def new_user(self, preset: str = "no_challenge") -> AuthenticatedUser:
        return self.client.finish_authentication(self.new_proof(preset))


class Attack(NamedTuple):
    """An attack, the rule and status with which the service must refuse it, and the reason for the rule."""

    title: str
    rule: str
    status: int
    because: str
    run: Callable[[AttackContext], object]


class Outcome(NamedTuple):
    """The result of an attack; `refused` says whether the service refused it as expected."""

    title: str
    status: int | str | None
    answer: str
    rule: str
    because: str
    refused: bool


# Reasons for the rules; the widget writes "because" before each.
_STOLEN = "a second use means that it was stolen: RFC 6749, 4.1.2"
_ONCE = "a one-time secret works once: NIST 800-63B"
_NETWORK = "only the network can prove a phone"
_PKCE = "PKCE binds a fingerprint to one transaction: RFC 7636"
_BOUND_CODE = "a code is bound to client and alias: RFC 6749, 10.5"
_ONE_CLIENT = "a code is valid for one client only, and all mismatches get the same error"
_CODE_LIFE = "a code lives five minutes; RFC 6749, 4.1.2, allows ten"
_EXACT_URI = "redirect URIs must match exactly: RFC 9700, 2.1"
_ATTEMPTS = "too many attempts lock the question: NIST 800-63B"
_PREVIEW = "a preview sends HEAD; only GET uses the fingerprint, so the phone can still use it"


def _replay_proof(context: AttackContext) -> object:
    proof = context.new_proof()
    user = context.client.finish_authentication(proof)
    context.attack(lambda: context.client.finish_authentication(proof))
    # The second use has also revoked the code that the first use returned.
    return _result_or_error(lambda: context.client.eligibility(user))


def _replay_target_url(context: AttackContext) -> object:
    phone = context.handset("no_challenge")
    transaction = context.client.start_authentication(phone)
    context.client.authenticate_device(transaction, phone)
    return context.attack(lambda: context.client.authenticate_device(transaction, phone))


def _finish_without_phone(context: AttackContext) -> object:
    transaction = context.client.start_authentication(context.handset("no_challenge"))
    proof = PhoneProof(transaction, transaction.secret("fingerprint"))
    return context.attack(lambda: context.client.finish_authentication(proof))


def _plant_proof(context: AttackContext) -> object:
    transaction = context.client.start_authentication(context.handset("no_challenge"))
    planted = PhoneProof(transaction, context.new_proof("prepaid").secret("fingerprint"))
    return context.attack(lambda: context.client.finish_authentication(planted))


def _swap_alias(context: AttackContext) -> object:
    mine, theirs = context.new_user(), context.new_user("prepaid")
    return context.attack(lambda: context.client.eligibility(_forged_user(theirs.service_alias, mine)))


def _swap_client(context: AttackContext) -> object:
    user = context.new_user()
    return context.attack(lambda: context.second_client.eligibility(user))


def _use_expired_code(context: AttackContext) -> object:
    user = context.new_user()
    context.wait(301)  # the code expires after 300 seconds
    # The client does not send an expired code, so the forged user has a later expiry time.
    return context.attack(lambda: context.client.eligibility(_forged_user(user.service_alias, user)))


def _open_redirect(context: AttackContext) -> object:
    phone = context.handset("no_challenge")
    return context.attack(
        lambda: context.client.start_authentication(phone, final_target_url="https://evil.example/collect")
    )


def _guess_zip_code(context: AttackContext) -> object:
    phone = context.handset("no_cards")
    user = context.new_user(phone.name)
    context.client.eligibility(user)

    def answer(zip_code: Secret | None) -> object:
        return context.attack(lambda: context.client.payment_list(user, answer=zip_code))

    for guess in ("00000", "11111", "22222"):
        answer(Secret(guess, guessable=True))
    return answer(phone.answer)


def _preview_link(context: AttackContext) -> object:
    phone = context.handset("no_challenge")
    transaction = context.client.start_authentication(phone)
    status = context.attack(lambda: context.client.preview(transaction))
    context.client.finish_authentication(context.client.authenticate_device(transaction, phone))
    return status


def _forged_user(alias: str, user: AuthenticatedUser) -> AuthenticatedUser:
    phone = (user.mobile_number, user.mobile_country_code, user.mobile_operator_name)
    flow, a_day_later = Flow(), user.expires_at + timedelta(days=1)
    flow.states = frozenset({State.FINISHED})
    return AuthenticatedUser(flow, alias, user.secret("code"), a_day_later, phone)


def _result_or_error(work: Callable[[], object]) -> object:
    try:
        return work()
    except ServiceError as error:
        return error


ATTACKS = {
    "replay the final fingerprint": Attack("Use the final fingerprint twice", "S07", 2012, _STOLEN, _replay_proof),
    "replay TargetUrl": Attack("Open TargetUrl twice", "S03", 2003, _ONCE, _replay_target_url),
    "first fingerprint at Finish": Attack("Finish without any phone", "S05", 1039, _NETWORK, _finish_without_phone),
    "plant a fingerprint": Attack("Finish with somebody else's final fingerprint", "S16", 1000, _PKCE, _plant_proof),
    "swap the alias": Attack("Use a code with another user's alias", "S17", 2010, _BOUND_CODE, _swap_alias),
    "swap the client": Attack("Use a code as another client", "S17", 2010, _ONE_CLIENT, _swap_client),
    "let the clock run": Attack("Use an expired code", "S06", 2011, _CODE_LIFE, _use_expired_code),
    "open redirect": Attack("Send the phone to an address of our own", "S11", 1000, _EXACT_URI, _open_redirect),
    "guess the ZIP code": Attack("Guess three times, then answer correctly", "S22", 2023, _ATTEMPTS, _guess_zip_code),
    "link preview": Attack("Let a chat program preview TargetUrl first", "S14", 405, _PREVIEW, _preview_link),
}


def run_attack(
    name: str,
    client: IdentityClient,
    gateway: Any,  # noqa: ANN401 - a `toolkit.Gateway` with the demo world, or `DemoPhones`
    advance: Callable[[int], object],
) -> tuple[Outcome, list[Entry]]:
    """Run one of `ATTACKS` on clients of the demo world; return the result, and the requests in order.

    `advance` advances the gateway's clock by some seconds.
    """
    attack, context = ATTACKS[name], AttackContext(client, gateway, advance)
    result = attack.run(context)
    status, answer = None, "The request was answered."
    if isinstance(result, ServiceError):
        status, answer = result.code, str(result).split(" (")[0]
    elif isinstance(result, int):  # only the attack "link preview" returns an HTTP status
        status, answer = result, "Use GET."
    outcome = Outcome(attack.title, status, answer, attack.rule, attack.because, status == attack.status)
    context.record_requests()
    return outcome, context.entries
