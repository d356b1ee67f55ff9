// Elements of a page.

/** A new element at the end of `parent`. Texts are isolated, so that right-to-left text does not reorder what is around. */
export function make(tag, className, parent, text = "") {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  if (text) made.dir = "auto";
  parent?.append(made);
  return made;
}

/** The CSS background of a swatch, which looks like a short piece of a line. */
export function swatch({ colour, dash }) {
  if (!dash.length) return colour;
  const [on, off] = [dash[0] / 2, (dash[0] + dash[1]) / 2];
  return `repeating-linear-gradient(90deg, ${colour} 0 ${on}px, transparent ${on}px ${off}px)`;
}
