"""IdentityWalkthrough: the authentication flow step by step, with diagrams and attacks."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING

import ipywidgets
import pandas as pd
import traitlets

from toolkit.errors import InvalidArgument
from toolkit.identity.client.attacks import ATTACKS, Outcome, run_attack
from toolkit.identity.client.handset import Handset
from toolkit.identity.client.held_secrets import AuthenticatedUser
from toolkit.identity.client.request_recorder import Step
from toolkit.identity.flow import State
from toolkit.identity.widgets.flow_diagrams import calls_svg, diagrams_png, states_svg
from toolkit.secret import Secret
from toolkit.widget_family import ServiceWidget, button, html_line, html_pane, in_turn, row, scrolled, sized

if TYPE_CHECKING:
    from toolkit.connection import Connection

#: The labels of the buttons, in the order of the steps.
STEPS: dict[str, str] = {
    "start": "1 Start",
    "open": "2 Open TargetUrl",
    "finish": "3 Finish",
    "eligibility": "4 Eligibility",
    "payment_list": "5 Payment list",
    "payment_details": "6 Details",
}


class IdentityWalkthrough(ServiceWidget):
    """Choose a phone, take the flow step by step, see each request and response, then attack it.

    A step is enabled after the one before it has succeeded. All requests are really sent; secrets appear as hashes.

    Parameters
    ----------
    tk
        A connection to a gateway of this process with the demo world.
    preset
        The phone that is selected first.

    Attributes
    ----------
    preset : ipywidgets.Dropdown
        The phone; another choice restarts the flow.
    start, open, finish, eligibility, payment_list, payment_details, again : ipywidgets.Button
        One button for each step, and one that restarts the flow.
    answer : ipywidgets.Password
        The answer to the challenge, cleared when it is used; if empty, the correct answer is sent.
    attack, attack_button : ipywidgets.Dropdown, ipywidgets.Button
        The choice of an attack, and the button that sends it.
    state : str
        The state of the flow as far as the client knows.
    outcome : Outcome or None
        The result of the last attack.

    Examples
    --------
    >>> import toolkit
    >>> from toolkit.gateway import Gateway
    >>> with Gateway.demo() as gateway:
    ...     walkthrough = IdentityWalkthrough(toolkit.connect(gateway))
    ...     walkthrough.run_all()
    ...     walkthrough
    <IdentityWalkthrough: happy, unlocked after 6 calls, 0 attacks refused>
    """

    state = traitlets.Unicode(State.NEW.value)
    outcome = traitlets.Instance(Outcome, allow_none=True)

    def __init__(self, tk: Connection, *, preset: str = "happy") -> None:
        if tk.gateway is None or not tk.gateway.presets:
            raise InvalidArgument(
                "the walkthrough needs a gateway of this process with the demo world: connect(Gateway.demo())"
            )
        super().__init__()
        self._gateway = tk.gateway
        self._main = tk.identity
        self._session = self._main.session()
        self._refused_attacks = 0
        self._make_controls(tk.gateway.presets, preset)
        self._lay_out()
        self._begin()

    @property
    def trace(self) -> pd.DataFrame:
        """The requests of the current flow; see `IdentityClient.trace`."""
        return self._client.trace()

    @in_turn
    def take(self, step: str) -> None:
        """Take one of `STEPS`, as a click on its button does."""
        label = STEPS[step][2:]
        with self.working(label):
            message: str = getattr(self, f"_{step}")()
            self._done = list(STEPS).index(step) + 1
            self.say(f"{label}: {message}")
        self._refresh()

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
        """Send one of the attacks and return its result, or None if it could not be sent."""
        self.outcome = None
        with self.working(f"Trying: {ATTACKS[name].title}"):
            self.outcome = run_attack(name, self._main, self._gateway)
            self._refused_attacks += self.outcome.refused
            self.result.value = _outcome_html(self.outcome)
            self.say(f"{ATTACKS[name].title}: {'refused' if self.outcome.refused else 'not refused'}.")
        self._refresh()
        return self.outcome

    def picture(self) -> bytes:
        """Return both diagrams as PNG."""
        return diagrams_png(self._states, self._client.steps)

    def summary(self) -> str:
        """Return the phone, the state and the numbers of requests and refused attacks."""
        calls = len(self._client.steps)
        return (
            f"IdentityWalkthrough: {self.preset.value}, {self.state} after {calls} call{'s' * (calls != 1)}, "
            f"{self._refused_attacks} attack{'s' * (self._refused_attacks != 1)} refused"
        )

    @property
    def attacks(self) -> tuple[str, ...]:
        """The names of all attacks."""
        return tuple(ATTACKS)

    def _make_controls(self, presets: dict[str, str], preset: str) -> None:
        options = [(f"{name}: {result}", name) for name, result in presets.items()]
        self.preset = sized(ipywidgets.Dropdown(options=options, value=preset, description="Phone"), "26em")
        self.again = button("Begin again", "refresh", "Forget this flow")
        self._buttons = {name: button(label) for name, label in STEPS.items()}
        self.start, self.open, self.finish, self.eligibility, self.payment_list, self.payment_details = (
            self._buttons.values()
        )
        empty = "empty: the owner answers"
        answer = ipywidgets.Password(description="Answer", placeholder=empty, continuous_update=False)
        self.answer = sized(answer, "20em")
        titles = [(f"{attack.title} ({attack.rule})", name) for name, attack in ATTACKS.items()]
        self.attack = sized(ipywidgets.Dropdown(options=titles, description="Attack"), "32em")
        self.attack_button = button("Try it", "bolt", "Really send this attack")
        self.states, self.sequence, self.exchange, self.result = (html_pane() for _ in range(4))
        self.life = html_line()
        for name, step in self._buttons.items():
            step.on_click(lambda _button, name=name: self.take(name))
        self.again.on_click(lambda _button: self._begin())
        self.attack_button.on_click(lambda _button: self.try_attack(self.attack.value))
        self.preset.observe(lambda _change: self._begin(), "value")

    def _lay_out(self) -> None:
        self.show(
            row(self.preset, self.again),
            row(*self._buttons.values()),
            row(self.answer, self.life),
            row(self.attack, self.attack_button),
            results=(self.result, self.states, self.sequence, self.exchange),
        )

    @in_turn
    def _begin(self) -> None:
        self._session.close()
        self._client = self._main.called_by(self._gateway.credentials["ApiClientId"])
        self._session = self._client.session()
        self._phone: Handset = self._gateway.handset(self.preset.value)
        self._payment_ids: list[str] = []
        self._done, self.outcome, self.result.value = 0, None, ""
        self.say("Choose a phone and start.")
        self._refresh()

    def _start(self) -> str:
        transaction = self._session.start_authentication(self._phone)
        return f"a TargetUrl, valid once and for {transaction.expires_in} seconds."

    def _open(self) -> str:
        self._session.authenticate_device(self._phone)
        return "the phone received a final fingerprint; the next step shows if the network identified it."

    def _finish(self) -> str:
        user = self._session.finish_authentication()
        return f"a code of {user.mobile_operator_name} for the phone {user.mobile_number}."

    def _eligibility(self) -> str:
        eligibility = self._session.eligibility().iloc[0]
        if not eligibility["eligible"]:
            return f"not eligible ({eligibility['ineligible_reason']}); the next step will be refused."
        return str(eligibility["question"]) if pd.notna(eligibility["question"]) else "eligible, without a challenge."

    def _payment_list(self) -> str:
        listed = self._session.payment_list(answer=self._answer())
        self._payment_ids = listed["payment_id"].tolist()
        return f"{len(listed)} payment{'s' * (len(listed) != 1)} on file."

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
        steps = self._client.steps
        return steps[-1].after if steps and steps[-1].after else frozenset({State.NEW})

    def _refresh(self) -> None:
        steps = self._client.steps
        self.state = " or ".join(sorted(self._states))
        self.states.value = scrolled(states_svg(self._states), caption="States")
        self.sequence.value = scrolled(calls_svg(steps), caption="Calls")
        self.exchange.value = _exchange_html(steps[-1]) if steps else ""
        user = self._session.user if self._done > list(STEPS).index("finish") else None
        self.life.value = _life_html(user, self._gateway.clock.now())
        for place, (name, step) in enumerate(self._buttons.items()):
            step.disabled = place > self._done or (place < self._done and name in ("start", "open", "finish"))
            step.button_style = "primary" if place == self._done else ""


def _exchange_html(step: Step) -> str:
    panes = "".join(
        f'<div style="flex:1 1 22em;min-width:0"><b>{escape(title)}</b>'
        f'<pre tabindex="0" role="region" aria-label="{escape(title)}" '
        'style="overflow:auto;max-height:18em;margin:0;font-size:12px">'
        f"{escape(json.dumps(content, indent=1, ensure_ascii=False))}</pre></div>"
        for title, content in (
            (f"Request {step.n}: {step.operation}", step.request),
            (f"Response: HTTP {step.http}", step.response),
        )
    )
    return f'<div style="display:flex;flex-wrap:wrap;gap:1em">{panes}</div>'


def _life_html(user: AuthenticatedUser | None, now: int) -> str:
    if user is None:
        return "no code yet"
    left = user.seconds_left(now)
    until = f"{user.expires_at:%H:%M:%S} UTC"
    return f"the code is valid until {until}, {left:.0f} s left" if left else f"the code expired at {until}"


def _outcome_html(outcome: Outcome) -> str:
    mark = "✓ Refused" if outcome.refused else "✗ Not refused"
    return (
        f'<div role="status"><b>{mark} by rule {escape(outcome.rule)}</b>, status {outcome.status}: '
        f"{escape(outcome.answer)}<br>Because {escape(outcome.because)}.</div>"
    )
