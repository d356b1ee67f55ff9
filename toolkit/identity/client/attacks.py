"""Ten attacks on the flow, sent as real requests, each of which one rule of the service must refuse.

They use phones of their own, so they do not affect the current flow; only "let the clock run" advances its clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from toolkit.errors import ServiceError
from toolkit.identity.client.handset import Handset
from toolkit.identity.client.held_secrets import AuthenticatedUser, PhoneProof
from toolkit.identity.client.request_recorder import Step
from toolkit.secret import Secret

if TYPE_CHECKING:
    from toolkit.connection import Connection
    from toolkit.gateway import Gateway

T = TypeVar("T")


class Entry(NamedTuple):
    """One request of a flow, by an attacker or not, or a note about what happened between two requests."""

    step: Step | None = None
    is_attack: bool = False
    note: str = ""


class Scene:
    """The attacked client, a second client, and the gateway with the demo world; `entries` says what was sent."""

    def __init__(self, tk: Connection, gateway: Gateway) -> None:
        keys = gateway.credentials
        self.client = tk.identity.called_by(keys["ApiClientId"])
        self.other = tk.identity.called_by(keys["OtherApiClientId"])
        self.handset: Callable[[str], Handset] = gateway.handset
        self._advance = tk.operator.advance
        self._entries: list[Entry] = []
        self._seen = 0

    def entries(self, *, is_attack: bool = False) -> list[Entry]:
        """Return what was sent so far, in order; what came since the last call is the attacker's or not."""
        # The other client never sends before the attacked one has finished, so the order is that of the requests.
        steps = (*self.client.steps, *self.other.steps)
        self._entries += [Entry(step, is_attack) for step in steps[self._seen :]]
        self._seen = len(steps)
        return self._entries

    def refused(self, work: Callable[[], object]) -> ServiceError:
        """Do what an attacker does and return the error that refuses it."""
        return self.as_attacker(lambda: _error_of(work))

    def as_attacker(self, work: Callable[[], T]) -> T:
        """Do something whose requests are drawn as those of an attacker."""
        self.entries()
        result = work()
        self.entries(is_attack=True)
        return result

    def wait(self, seconds: int) -> None:
        """Advance the gateway's clock."""
        self._advance(seconds)
        self.entries().append(Entry(note=f"{seconds} seconds pass"))

    def proof(self, preset: str = "no_challenge") -> PhoneProof:
        """Authenticate a new phone up to the proof."""
        phone = self.handset(preset)
        return self.client.authenticate_device(self.client.start_authentication(phone), phone)

    def user(self, preset: str = "no_challenge") -> AuthenticatedUser:
        """Authenticate a new user."""
        return self.client.finish_authentication(self.proof(preset))


class Attack(NamedTuple):
    """An attack, the rule and status that must refuse it, and the reason for the rule."""

    title: str
    rule: str
    status: int
    because: str
    run: Callable[[Scene], ServiceError | int]


class Outcome(NamedTuple):
    """The result of an attack; `refused` says whether the service refused it as expected."""

    title: str
    status: int | str | None
    answer: str
    rule: str
    because: str
    refused: bool


def _replay_final(scene: Scene) -> ServiceError:
    proof = scene.proof()
    user = scene.client.finish_authentication(proof)
    scene.refused(lambda: scene.client.finish_authentication(proof))
    # The second use has also revoked the code of the first.
    return _error_of(lambda: scene.client.eligibility(user))


def _replay_first(scene: Scene) -> ServiceError:
    phone = scene.handset("no_challenge")
    transaction = scene.client.start_authentication(phone)
    scene.client.authenticate_device(transaction, phone)
    return scene.refused(lambda: scene.client.authenticate_device(transaction, phone))


def _first_at_finish(scene: Scene) -> ServiceError:
    transaction = scene.client.start_authentication(scene.handset("no_challenge"))
    early = PhoneProof(transaction, transaction.secret("fingerprint"))
    return scene.refused(lambda: scene.client.finish_authentication(early))


def _planted(scene: Scene) -> ServiceError:
    own = scene.client.start_authentication(scene.handset("no_challenge"))
    planted = PhoneProof(own, scene.proof("prepaid").secret("fingerprint"))
    return scene.refused(lambda: scene.client.finish_authentication(planted))


def _swap_alias(scene: Scene) -> ServiceError:
    mine, theirs = scene.user(), scene.user("prepaid")
    return scene.refused(lambda: scene.client.eligibility(_forged(theirs.service_alias, mine)))


def _swap_client(scene: Scene) -> ServiceError:
    user = scene.user()
    return scene.refused(lambda: scene.other.eligibility(user))


def _wait(scene: Scene) -> ServiceError:
    user = scene.user()
    scene.wait(301)
    # The client does not send an expired code, so the forged user has a later expiry time.
    return scene.refused(lambda: scene.client.eligibility(_forged(user.service_alias, user)))


def _open_redirect(scene: Scene) -> ServiceError:
    phone = scene.handset("no_challenge")
    return scene.refused(
        lambda: scene.client.start_authentication(phone, final_target_url="https://evil.example/collect")
    )


def _guess(scene: Scene) -> ServiceError:
    phone = scene.handset("no_cards")
    user = scene.user(phone.name)
    scene.client.eligibility(user)

    def answer(given: Secret | None) -> ServiceError:
        return scene.refused(lambda: scene.client.payment_list(user, answer=given))

    for wrong in ("00000", "11111", "22222"):
        answer(Secret(wrong, guessable=True))
    return answer(phone.answer)


def _preview(scene: Scene) -> int:
    phone = scene.handset("no_challenge")
    transaction = scene.client.start_authentication(phone)
    status = scene.as_attacker(lambda: scene.client.preview(transaction))
    scene.client.finish_authentication(scene.client.authenticate_device(transaction, phone))
    return status


def _forged(alias: str, user: AuthenticatedUser) -> AuthenticatedUser:
    phone = (user.mobile_number, user.mobile_country_code, user.mobile_operator_name)
    a_day_later = round(user.expires_at.timestamp() * 1000) + 86_400_000
    return AuthenticatedUser(alias, user.secret("code"), a_day_later, phone)


def _error_of(work: Callable[[], object]) -> ServiceError:
    try:
        work()
    except ServiceError as error:
        return error
    raise AssertionError("this attack was not refused")


_ONCE, _BOUND = "a one-time secret works once: NIST 800-63B", "a code is bound to client and alias: RFC 6749, 10.5"
_STOLEN = "a second use means that it was stolen: RFC 6749, 4.1.2"
_PREVIEW = "a preview sends HEAD, only GET uses the fingerprint, so the phone still can"
_LIFE, _EXACT = (
    "a code lives five minutes; RFC 6749, 4.1.2, allows ten",
    "redirect URIs must match exactly: RFC 9700, 2.1",
)
_PKCE, _NETWORK = "PKCE binds it to the start that it came from: RFC 7636", "only the network can prove a phone"
_SAME, _FEW = (
    "a code is for the client that got it, and all mismatches get the same error",
    "too many attempts lock the question: NIST 800-63B",
)

ATTACKS: dict[str, Attack] = {
    "replay the final fingerprint": Attack("Use the final fingerprint twice", "S07", 2012, _STOLEN, _replay_final),
    "replay TargetUrl": Attack("Open TargetUrl twice", "S03", 2003, _ONCE, _replay_first),
    "first fingerprint at Finish": Attack("Finish without any phone", "S05", 1039, _NETWORK, _first_at_finish),
    "plant a fingerprint": Attack("Finish with somebody else's final fingerprint", "S16", 1000, _PKCE, _planted),
    "swap the alias": Attack("Use a code with another user's alias", "S17", 2010, _BOUND, _swap_alias),
    "swap the client": Attack("Use a code as another client", "S17", 2010, _SAME, _swap_client),
    "let the clock run": Attack("Use an expired code", "S06", 2011, _LIFE, _wait),
    "open redirect": Attack("Send the phone to an address of our own", "S11", 1000, _EXACT, _open_redirect),
    "guess the ZIP code": Attack("Guess three times, then answer correctly", "S22", 2023, _FEW, _guess),
    "link preview": Attack("Let a chat program preview TargetUrl first", "S14", 405, _PREVIEW, _preview),
}


def run_attack(name: str, tk: Connection, gateway: Gateway) -> tuple[Outcome, list[Entry]]:
    """Send one of `ATTACKS` as a client of the demo world; return its result, and what was sent in which order."""
    attack, scene = ATTACKS[name], Scene(tk, gateway)
    result = attack.run(scene)
    status, answer = (result, "Use GET.") if isinstance(result, int) else (result.code, str(result).split(" (")[0])
    outcome = Outcome(attack.title, status, answer, attack.rule, attack.because, status == attack.status)
    return outcome, scene.entries()
