"""IdentityWalkthrough: the authentication flow step by step, with diagrams and attacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import ipywidgets
import pandas as pd
import traitlets

from toolkit.argument_checks import checked_arguments
from toolkit.errors import InvalidArgument, counted
from toolkit.identity.client.attacks import ATTACKS, Entry, Outcome, run_attack
from toolkit.identity.client.transaction import AuthenticatedUser, Flow
from toolkit.identity.flow import State, in_words
from toolkit.identity.phones import DemoPhones, Handset
from toolkit.identity.widgets.flow_diagrams import exchange_html, outcome_html, sequence_drawing, states_drawing
from toolkit.secret import Secret
from toolkit.widgets.base import (
    ServiceWidget,
    button,
    column,
    html_line,
    html_pane,
    in_turn,
    make,
    row,
    service_of,
    toggle_buttons,
)
from toolkit.widgets.diagrams import DrawingPane, png

if TYPE_CHECKING:
    from toolkit.identity.client.identity import IdentityClient
    from toolkit.widgets.base import ServiceConnection

#: The label and the tooltip of each button, in the order of the steps.
STEPS: dict[str, tuple[str, str]] = {
    "start": ("1 Start", "Your program asks to authenticate the phone"),
    "open": ("2 Open TargetUrl", "The phone opens TargetUrl over its mobile network"),
    "finish": ("3 Finish", "Your program exchanges the final fingerprint for a code; a second time revokes the code"),
    "eligibility": ("4 Eligibility", "Ask whether the user may pay, and which question to answer"),
    "payment_list": ("5 Payment list", "Answer the question and list the payments on file"),
    "payment_details": ("6 Details", "Fetch the listed payments, masked"),
}
_FLOW, _ATTACK = "Flow", "Attack"
#: The seconds by which the clock can be advanced; each label says what then expires in the demo world.
_CLOCK_STEPS = {"61 s: fingerprint": 61, "121 s: TargetUrl": 121, "301 s: code": 301, "901 s: locked question": 901}


@checked_arguments
class IdentityWalkthrough(ServiceWidget):
    """Choose a phone, authenticate it step by step, see each request and response, then try attacks.

    All requests are really sent; secrets appear as hashes. A click on an arrow shows the request and the response. Each
    later step can be repeated, to see the response; if a step is too early, the status names the step to take instead.

    Parameters
    ----------
    tk
        A connection to a gateway with the demo world: of this process, or at a URL on this machine. At a URL, its
        clock must be the real one, and to reset a phone needs the operator key.
    preset
        The phone that is selected first.

    Attributes
    ----------
    preset, answer
        The phone, another choice restarts the flow; the answer to the challenge, cleared when it is used. If it is
        empty, the correct answer is sent.
    start, open, finish, eligibility, payment_list, payment_details, again, reset
        A button for each step; one that restarts the flow; one with which the operator revokes the phone's code and
        forgets the wrong answers.
    seconds, advance
        How much time passes, and the button that advances the clock; fingerprints and codes may then expire.
    attack, attack_button, outcome
        The choice of an attack, the button that runs it, and the result of the last one.
    view, sequence
        What the diagrams show: ``Flow`` or ``Attack``; in the sequence diagram, ``chosen`` is the arrow whose request
        and response are shown.
    state
        The state of the flow as far as the client knows.

    Examples
    --------
    >>> import toolkit
    >>> with toolkit.Gateway.demo() as gateway:
    ...     walkthrough = IdentityWalkthrough(toolkit.connect(gateway))
    ...     walkthrough.run_all()
    ...     walkthrough
    <IdentityWalkthrough: happy, unlocked after 6 calls, 0 attacks refused>
    """

    state = traitlets.Unicode(State.NEW.value)
    outcome = traitlets.Instance(Outcome, allow_none=True)

    def __init__(self, tk: ServiceConnection, *, preset: str = "happy") -> None:
        self._connection_client: IdentityClient = service_of(tk, "identity")
        gateway: DemoPhones = tk.gateway or DemoPhones()
        if not gateway.presets:
            raise InvalidArgument("the walkthrough needs a gateway with the demo world: connect(Gateway.demo())")
        gateway.handset(preset)  # an unknown preset raises an error that lists all presets
        super().__init__()
        self._operator, self._gateway = tk.operator, gateway
        self._session = self._connection_client.session()
        self._refused_attacks = self._steps_done = 0
        self._attack_entries: list[Entry] = []
        self._users: dict[str, AuthenticatedUser] = {}
        self._make_controls(gateway.presets, preset)
        self._lay_out()
        self._begin()

    @property
    def trace(self) -> pd.DataFrame:
        """The requests of the current flow; see `IdentityClient.trace`."""
        return self._client.trace()

    @in_turn
    def take(self, step: str) -> None:
        """Take one of `STEPS`, as a click on its button does."""
        index = list(STEPS).index(_check_name(step, STEPS, "step"))
        label = STEPS[step][0][2:]
        if step == "start" and self._entries:
            self._begin()
        with self.working(label):
            if index > self._steps_done:
                raise InvalidArgument(f"take step {list(STEPS.values())[self._steps_done][0]} first")
            message: str = getattr(self, f"_{step}")()
            self._steps_done = max(self._steps_done, index + 1)
            self.say(f"{label}: {message}")
        self._update_flow()

    @in_turn
    def run_all(self) -> None:
        """Restart the flow and take all steps until one is refused."""
        self._begin()
        for step in STEPS:
            self.take(step)
            if self.error is not None:
                return

    @in_turn
    def try_attack(self, name: str) -> Outcome | None:
        """Run one of the attacks, draw it and return the result, or None if an error prevented the attack."""
        title = ATTACKS[_check_name(name, ATTACKS, "attack")].title
        self.outcome = None
        with self.working(f"Trying: {title}"):
            self.outcome, self._attack_entries = run_attack(
                name, self._connection_client, self._gateway, self._operator.advance
            )
            self._refused_attacks += self.outcome.refused
            self._select_view(_ATTACK)
            self.say(f"{title}: {'refused' if self.outcome.refused else 'not refused'}.")
        return self.outcome

    @in_turn
    def let_pass(self, seconds: int) -> None:
        """Advance the gateway's clock, as the button does."""
        with self.working("Advancing the clock"):
            now = self._operator.advance(seconds)
            self._entries.append(Entry(note=f"{seconds} seconds pass"))
            self.say(f"It is {now:%H:%M:%S} UTC. {self._code_lifetime_text().capitalize()}.")
        self._update_flow()

    @in_turn
    def reset_phone(self) -> None:
        """Revoke the code of the phone's owner and forget the wrong answers, as the button does."""
        with self.working("Resetting the phone"):
            user = self._users.get(self.preset.value)
            if user is None:
                raise InvalidArgument("there is nothing to reset yet: the service knows this phone after step 3")
            changes = self._operator.reset_user(user)
            self._entries.append(Entry(note="an operator resets the phone"))
            self.say(f"The operator reset the phone: {' and '.join(changes)}.")
        self._update_flow()

    def picture(self) -> bytes:
        """Return both diagrams as PNG."""
        return png(*self._drawings)

    def summary(self) -> str:
        """Return the phone, the state and the numbers of requests and refused attacks."""
        calls, attacks = counted(len(self._client.recorder.steps), "call"), counted(self._refused_attacks, "attack")
        return f"IdentityWalkthrough: {self.preset.value}, {self.state} after {calls}, {attacks} refused"

    @property
    def attacks(self) -> tuple[str, ...]:
        """The names of all attacks."""
        return tuple(ATTACKS)

    def _make_controls(self, presets: Mapping[str, str], preset: str) -> None:
        options = [(f"{name}: {result}", name) for name, result in presets.items()]
        tip = "Whose phone it is, and what its network answers"
        self.preset = make(ipywidgets.Dropdown, "Phone", "21em", tip=tip, options=options, value=preset)
        self.again = button("Begin again", "refresh", "Forget this flow", self._begin)
        tip = "The operator revokes its code and forgets its wrong answers"
        self.reset = button("Reset phone", "ban", tip, self.reset_phone)
        tip = "How much time passes, and what is too old then"
        self.seconds = make(ipywidgets.Dropdown, "Clock", "17em", tip=tip, options=_CLOCK_STEPS)
        tip = "Let so much time pass at the gateway"
        self.advance = button("Advance", "clock-o", tip, lambda: self.let_pass(self.seconds.value))
        self._buttons = {name: button(label, "", tip, partial(self.take, name)) for name, (label, tip) in STEPS.items()}
        self.start, self.open, self.finish, self.eligibility, self.payment_list, self.payment_details = (
            self._buttons.values()
        )
        tip, words = "Sent with step 5; empty sends the right answer", "the owner answers"
        self.answer = make(ipywidgets.Password, "Answer", "17em", tip=tip, placeholder=words, continuous_update=False)
        titles = [(f"{attack.title} ({attack.rule})", name) for name, attack in ATTACKS.items()]
        tip = "What an attacker tries, and the rule that refuses it"
        self.attack = make(ipywidgets.Dropdown, "Attack", "27em", tip=tip, options=titles)
        tip = "Really send this attack"
        self.attack_button = button("Try it", "bolt", tip, lambda: self.try_attack(self.attack.value))
        self.view = toggle_buttons({_FLOW: "Your flow", _ATTACK: "The last attack"}, "5.5em", width="auto")
        self.states, self.sequence = DrawingPane(), DrawingPane()
        self.exchange, self.result, self.life = html_pane(), html_pane(), html_line()
        self.preset.observe(lambda _change: self._begin(), "value")
        self.view.observe(self._draw_view, "value")
        self.sequence.observe(self._show_exchange, "chosen")

    def _lay_out(self) -> None:
        diagrams = column(self.states, self.sequence).add_class("toolkit-diagrams")
        self.sequence.add_class("toolkit-sequence")
        chosen = column(self.result, self.exchange).add_class("toolkit-exchange")
        self.show(
            row(self.preset, self.again, self.reset, self.seconds, self.advance),
            row(*self._buttons.values(), self.answer),
            row(self.attack, self.attack_button, self.view, self.life),
            self.status,
            row(diagrams, chosen),
        )

    @in_turn
    def _begin(self) -> None:
        self._session.close()
        self._client = self._connection_client.called_by(self._gateway.credentials["ApiClientId"])
        self._session = self._client.session()
        self._phone: Handset = self._gateway.handset(self.preset.value)
        self._payment_ids: list[str] = []
        self._flow = Flow()
        self._target_url_expires = 0
        self._entries: list[Entry] = []
        self._attack_entries = []
        self._steps_done, self.outcome = 0, None
        self.say("Choose a phone and start.")
        self._update_flow()

    def _start(self) -> str:
        transaction = self._session.start_authentication(self._phone)
        self._flow, seconds = transaction.flow, transaction.expires_in
        self._target_url_expires = self._client.recorder.now() + seconds * 1000
        return f"a TargetUrl, valid once and for {seconds} seconds."

    def _open(self) -> str:
        self._session.authenticate_device(self._phone)
        return "the phone received a final fingerprint; the next step shows if the network identified it."

    def _finish(self) -> str:
        user = self._users[self.preset.value] = self._session.finish_authentication()
        return f"a code of {user.mobile_operator_name} for the phone {user.mobile_number}."

    def _eligibility(self) -> str:
        eligibility = self._session.eligibility().iloc[0]
        if not eligibility["eligible"]:
            return f"not eligible ({eligibility['ineligible_reason']}); the next step will be refused."
        return str(eligibility["question"]) if pd.notna(eligibility["question"]) else "eligible, without a challenge."

    def _payment_list(self) -> str:
        listed = self._session.payment_list(answer=self._answer())
        self._payment_ids = listed["payment_id"].tolist()
        return f"{counted(len(listed), 'payment')} on file."

    def _payment_details(self) -> str:
        if not self._payment_ids:
            raise InvalidArgument("there is no payment on file")
        details = self._session.payment_details(self._payment_ids)
        return ", ".join(details["masked_account_number"].dropna()) or "no card, a carrier bill only."

    def _answer(self) -> Secret | None:
        # Cleared, because the values of widgets are saved with the notebook.
        typed = Secret(self.answer.value, guessable=True)
        self.answer.value = ""
        return typed or self._phone.answer

    @property
    def _states(self) -> frozenset[State]:
        """The states in which the flow can be; the clock tells early that TargetUrl or the code has expired."""
        now, states, user = self._client.recorder.now(), self._flow.states, self._flow.user
        is_url_expired = self._steps_done == 1 and now >= self._target_url_expires
        is_code_expired = user is not None and not user.seconds_left(now)
        is_expired = State.REVOKED not in states and (is_url_expired or is_code_expired)
        return frozenset({State.EXPIRED}) if is_expired else states

    def _update_flow(self) -> None:
        """Add to the flow the requests that were sent since the last call, and draw it."""
        recorded = sum(entry.step is not None for entry in self._entries)
        self._entries += [Entry(step) for step in (*self._client.recorder.steps,)[recorded:]]
        self.state = in_words(self._states)
        for index, step_button in enumerate(self._buttons.values()):
            step_button.button_style = "primary" if index == self._steps_done else ""
        self._select_view(_FLOW)

    def _select_view(self, view: str) -> None:
        if self.view.value == view:
            self._draw_view(None)
        self.view.value = view  # if that is a change, its observer draws

    @in_turn
    def _draw_view(self, _change: object) -> None:
        is_attack = self.view.value == _ATTACK
        if is_attack and not self._attack_entries:
            self.say("No attack was tried yet: choose one and click Try it.")
        drawing, self._steps = sequence_drawing(self._attack_entries if is_attack else self._entries)
        states = self._states
        if is_attack:
            states = self._steps[-1].after if self._steps else frozenset({State.NEW})
        self._drawings = states_drawing(states), drawing
        self.states.show(self._drawings[0])
        self.sequence.show(drawing, len(self._steps) - 1)
        self.result.value = outcome_html(self.outcome) if is_attack else ""
        self.life.value = "" if is_attack else self._code_lifetime_text()  # of the code of the own flow
        self._show_exchange(None)

    @in_turn
    def _show_exchange(self, _change: object) -> None:
        index = self.sequence.chosen
        self.exchange.value = exchange_html(self._steps[index] if 0 <= index < len(self._steps) else None)

    def _code_lifetime_text(self) -> str:
        if (user := self._flow.user) is None:
            return "no code yet"
        if State.REVOKED in self._flow.states:
            return "the code is revoked"
        if left := user.seconds_left(self._client.recorder.now()):
            return f"the code is valid for {left:.0f} s"
        return f"the code expired at {user.expires_at:%H:%M:%S}"


def _check_name(name: str, names: Iterable[str], what: str) -> str:
    if name not in names:
        raise InvalidArgument(f"there is no {what} {name!r}: it is one of {', '.join(names)}")
    return name
