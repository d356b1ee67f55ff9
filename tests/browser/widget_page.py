"""A widget on a page, as the eye, the hand and the keyboard meet it."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import ElementHandle, Error, Locator, Page, expect

# The same in two frames after each other: a page lays itself out some frames after it was changed.
_SETTLED_BOX = """element => new Promise(resolve => {
  element.scrollIntoViewIfNeeded();
  const look = () => { const box = element.getBoundingClientRect(); return [box.x, box.y, box.width, box.height]; };
  const again = (before, same) => requestAnimationFrame(() => {
    const now = look();
    if (!element.isConnected) return resolve(null);
    const still = now.every((number, place) => number === before[place]) ? same + 1 : 0;
    if (still >= 3) resolve(now); else again(now, still);
  });
  again(look(), 0);
})"""

_STOPS = """widget => [...widget.querySelectorAll('button, input, select, textarea, a, [tabindex], .widget-readout')]
  .filter(one => !one.disabled && (one.tabIndex >= 0 || one.isContentEditable) && one.getClientRects().length)"""

# The next control that was not used yet and can be used now; toggle buttons last, because they may hide others. A link
# or button that the widget has drawn again after another control is the same one.
_NEXT_CONTROL = """widget => {
  const controls = [...widget.querySelectorAll('button, input, select, textarea, a[href], .noUi-handle')];
  const hides = one => one.matches('.widget-toggle-button');
  const ordered = [...controls.filter(one => !hides(one)), ...controls.filter(hides)];
  const used = widget.usedControls ??= new Set();
  const kind = one => one.matches('a, button') ? `${one.tagName} ${one.title} ${one.textContent}` : one;
  const next = ordered.find(one => !one.disabled && !used.has(kind(one)) && one.getClientRects().length);
  if (next) used.add(kind(next));
  return next || null;
}"""
_MOST_CONTROLS = 100
# What a widget may say when a control is used: that it shows nothing without a thing, that no phone was used yet.
_MAY_BE_SAID = ("Choose at least one", "There is nothing to reset yet")

# The words of what has the focus.
_TOLD = """widget => {
  const focused = document.activeElement;
  if (!widget.contains(focused)) return '';
  return focused.closest('.widget-slider')?.querySelector('.widget-label')?.textContent
    || focused.labels?.[0]?.textContent || focused.getAttribute('aria-label') || focused.textContent;
}"""

# What Tab reaches, told apart by their place among all of them; how the focus shows; whether one can see it.
_FOCUS = """widget => {
  const focused = document.activeElement, style = getComputedStyle(focused), box = focused.getBoundingClientRect();
  if (!widget.contains(focused)) return {place: -1, told: '', ring: 0, seen: false};
  return {
    place: (STOPS)(widget).indexOf(focused),
    told: (TOLD)(widget),
    ring: style.outlineStyle === 'none' ? 0 : parseFloat(style.outlineWidth),
    seen: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
  };
}""".replace("STOPS", _STOPS).replace("TOLD", _TOLD)

# Controls that say nothing when the pointer rests on them; also those in a section that is closed. An ipywidgets slider
# without a tooltip says "null".
_UNEXPLAINED = """widget => {
  const titled = '[title]:not([title=""], [title="null"])';
  const controls = [...widget.querySelectorAll('button, input, select, textarea, .noUi-handle, a[href]')];
  const around = one => one.closest('.jupyter-widgets.widget-inline-hbox');
  return controls.filter(one => !one.closest(titled) && !around(one)?.querySelector(titled))
    .map(one => one.labels?.[0]?.textContent || one.textContent || one.outerHTML);
}"""

# Parts that are wider than the widget (unless they scroll), and controls that lie on each other.
_LAYOUT_FAULTS = """widget => {
  const edge = widget.getBoundingClientRect().right + 0.5, faults = [];
  const name = one => one.labels?.[0]?.textContent || one.textContent.slice(0, 40) || one.className || one.tagName;
  const scrolls = one => one !== widget && (getComputedStyle(one).overflowX === 'auto' || scrolls(one.parentElement));
  for (const one of widget.querySelectorAll('*'))
    if (one.getClientRects().length && one.getBoundingClientRect().right > edge && !scrolls(one))
      faults.push(`sticks out: ${name(one)}`);
  for (const one of widget.querySelectorAll('.widget-label, .widget-label-basic > span'))
    if (one.scrollWidth > one.clientWidth + 1 && one.clientWidth) faults.push(`cut off: ${name(one)}`);
  const controls = (STOPS)(widget).filter(one => !one.matches('.noUi-handle, [role=region]'));
  const boxes = controls.map(one => one.getBoundingClientRect());
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b, j) => {
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (across > 1 && down > 1) faults.push(`${name(controls[i])} lies on ${name(controls[i + 1 + j])}`);
  }));
  return faults;
}""".replace("STOPS", _STOPS)

# Words whose colour is too near to what is behind them (WCAG: 4.5 to 1), except on what cannot be used now.
_PALE_WORDS = """widget => {
  const parse = text => { const n = text.match(/[\\d.]+/g).map(Number); return [...n.slice(0, 3), n[3] ?? 1]; };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const light = c => { const [r, g, b] = c.slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = one => { if (!one) return [255, 255, 255, 1];
    const colour = parse(getComputedStyle(one).backgroundColor);
    return colour[3] === 1 ? colour : over(colour, behind(one.parentElement)); };
  const opacity = one => one === widget ? 1 : parseFloat(getComputedStyle(one).opacity) * opacity(one.parentElement);
  const pale = new Set();
  const walker = document.createTreeWalker(widget, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const words = walker.currentNode.textContent.trim(), one = walker.currentNode.parentElement;
    if (words.length < 2 || !one.getClientRects().length || one.closest('style, option, :disabled')) continue;
    const style = getComputedStyle(one), ground = behind(one);
    const ink = parse(one.closest('svg') ? style.fill : style.color);
    ink[3] *= opacity(one);
    const [a, b] = [light(over(ink, ground)), light(ground)].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) pale.add(`${words.slice(0, 40)}: ${((a + 0.05) / (b + 0.05)).toFixed(1)}`);
  }
  return [...pale];
}"""


def settled_box(part: Locator) -> tuple[float, float, float, float]:
    """Scroll it into view, wait until it stays where it is, and return left, top, width and height.

    Not before the widget is done with the last thing: it writes parts of the page anew, and a click would miss them.
    """
    box = None
    while box is None:  # the part was replaced while its box was measured
        part.page.wait_for_function("!document.querySelector('.toolkit-busy')")
        box = part.evaluate(_SETTLED_BOX)
    left, top, width, height = box
    return left, top, width, height


def point(part: Locator, across: float = 0.5, down: float = 0.5) -> tuple[float, float]:
    left, top, width, height = settled_box(part)
    return left + width * across, top + height * down


def click(part: Locator) -> None:
    """Click where it is, as a hand does, on whatever lies on top there; not before it can be used."""
    expect(part).to_be_enabled()
    part.page.mouse.click(*point(part))


def drag(part: Locator, onto: Locator, across: float) -> None:
    """Take its middle with the mouse and let go over `onto`, at this share of its width."""
    mouse = part.page.mouse
    target = point(onto, across)
    mouse.move(*point(part))
    mouse.down()
    mouse.move(*target, steps=6)
    mouse.up()


def stops(widget: Locator) -> int:
    count: int = widget.evaluate(f"widget => ({_STOPS})(widget).length")
    return count


def use_every_control(widget: Locator) -> list[str]:
    """Use all controls, also those that another one enables, and return the errors that the widget then showed."""
    errors = []
    for _ in range(_MOST_CONTROLS):
        control = widget.evaluate_handle(_NEXT_CONTROL).as_element()
        if control is None:
            return errors
        name = control.evaluate("one => one.labels?.[0]?.textContent || one.title || one.textContent || one.className")
        try:
            _use(control)
        except Error:
            if control.evaluate("one => one.isConnected"):
                raise
            continue  # the widget drew this part again before the click; its new form is another control
        ask_kernel(widget.page, "0")  # it has heard of the control
        widget.page.wait_for_function("!document.querySelector('.toolkit-busy')")
        shown = widget.locator("[role=alert]").all_inner_texts()
        errors += [f"{name}: {text}" for text in shown if text.strip() and not any(map(text.count, _MAY_BE_SAID))]
    raise AssertionError(f"the widget still has unused controls after {_MOST_CONTROLS}, the last was {name!r}")


_KEYS = {
    "SELECT": ("End", "Home"),  # back to the first: the last phone, say, is one that its network refuses
    "DIV": ("ArrowRight",),  # the handle of a slider
    "TEXTAREA": ("End",),
    "text": ("Enter",),
    "number": ("Enter",),
    "color": (),  # its palette is a window of the browser; the same colour can be typed
}


def _use(control: ElementHandle) -> None:
    kind = control.evaluate("one => one.tagName === 'INPUT' ? one.type : one.tagName")
    for key in _KEYS.get(kind, ()):
        control.press(key)
    if kind not in _KEYS:
        control.click(force=True)
        if kind == "checkbox":
            control.click(force=True)


def focus_first(widget: Locator) -> None:
    widget.evaluate(f"widget => ({_STOPS})(widget)[0].focus()")


def focus(widget: Locator) -> dict[str, Any]:
    """Return what has the focus: its place among the stops, its words, its ring in pixels, whether it is seen."""
    found: dict[str, Any] = widget.evaluate(_FOCUS)
    return found


def tab_to(widget: Locator, words: str, presses: int = 60) -> None:
    """Press Tab until what has these words has the focus."""
    for _ in range(presses):
        if words in widget.evaluate(_TOLD).replace("\xa0", " "):
            return
        widget.page.keyboard.press("Tab")
    raise AssertionError(f"Tab never reaches {words!r}")


def unexplained(widget: Locator) -> list[str]:
    silent: list[str] = widget.evaluate(_UNEXPLAINED)
    return silent


def layout_faults(widget: Locator) -> list[str]:
    """Return what sticks out of the widget, is cut off, or lies on something else, once it is laid out."""
    settled_box(widget)
    faults: list[str] = widget.evaluate(_LAYOUT_FAULTS)
    return faults


def pale_words(widget: Locator) -> list[str]:
    pale: list[str] = widget.evaluate(_PALE_WORDS)
    return pale


def slider_of(widget: Locator, label: str) -> Locator:
    return widget.locator(".widget-slider", has=widget.page.get_by_text(label, exact=True))


def ask_kernel(page: Page, expression: str) -> str:
    """Return what an expression is in the kernel of the open notebook, without running a cell."""
    found: str = page.evaluate(
        """async expression => {
          const kernel = window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel;
          const asked = {code: '', user_expressions: {it: expression}, store_history: false};
          return (await kernel.requestExecute(asked).done).content.user_expressions.it.data['text/plain'];
        }""",
        expression,
    )
    return found
