// Draws the shapes of drawing.py as SVG. A person chooses a part of the drawing by a click or with the arrow keys.

const SVG = "http://www.w3.org/2000/svg";

function add(parent, name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

function line(group, { start: [x1, y1], end: [x2, y2], dashed, arrow, width }) {
  const length = Math.hypot(x2 - x1, y2 - y1) || 1;
  const [ux, uy] = [(x2 - x1) / length, (y2 - y1) / length];
  const back = arrow ? 6 : 0; // the line ends inside the head of the arrow
  const style = { stroke: "currentColor", "stroke-width": width, "stroke-dasharray": dashed ? "4 3" : "none" };
  add(group, "line", { x1, y1, x2: x2 - ux * back, y2: y2 - uy * back, ...style });
  if (!arrow) return;
  const [bx, by] = [x2 - ux * 7, y2 - uy * 7];
  const corners = [[x2, y2], [bx - uy * 3, by + ux * 3], [bx + uy * 3, by - ux * 3]];
  add(group, "polygon", { points: corners.map((corner) => corner.join()).join(" "), fill: "currentColor" });
}

function box(group, { corner: [x, y], size: [width, height], fill, edge }) {
  const stroke = edge ? "currentColor" : "none";
  add(group, "rect", { x, y, width, height, rx: edge ? 4 : 0, fill: "currentColor", "fill-opacity": fill, stroke });
}

function dot(group, { middle: [cx, cy], fill }) {
  add(group, "circle", { cx, cy, r: 4, fill: "currentColor", "fill-opacity": fill, stroke: "currentColor" });
}

function text(group, { position: [x, y], text: words, anchor, bold }) {
  const weight = bold ? "bold" : "normal";
  const style = { x, y, "text-anchor": anchor, "dominant-baseline": "central", "font-weight": weight };
  add(group, "text", { ...style, fill: "currentColor" }, words);
}

const KINDS = { line, box, dot, text };

function draw(pane, { width, height, description, pace, shapes, parts }) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("role", parts.length ? "listbox" : "img");
  svg.setAttribute("aria-label", description);
  svg.style.width = `${width}px`;
  svg.style.minWidth = `${0.85 * width}px`; // on a narrower page, the drawing scrolls
  pane.replaceChildren(svg);
  const groups = parts.map(({ description, top, height }, index) => {
    const group = add(svg, "g", { role: "option", "aria-label": description, class: "toolkit-part" });
    // A click must also hit between the strokes.
    add(group, "rect", { x: 1, y: top, width: width - 2, height, rx: 3, class: "toolkit-hit" });
    if (pace) group.style.animation = `toolkit-part-appears 0.2s ${index * pace}ms both`;
    // Otherwise the animation would start again when the theme changes.
    group.addEventListener("animationend", () => (group.style.animation = ""));
    return group;
  });
  for (const shape of shapes) {
    const group = add(shape.part === null ? svg : groups[shape.part], "g", { class: `toolkit-${shape.tone}` });
    KINDS[shape.kind](group, shape);
  }
  return groups;
}

function render({ model, el }) {
  const pane = document.createElement("div");
  pane.className = "toolkit-drawing";
  // Otherwise JupyterLab would take the arrow keys for its cells.
  pane.dataset.lmSuppressShortcuts = "true";
  el.append(pane);
  let groups = [];

  function mark() {
    const chosen = model.get("chosen");
    groups.forEach((group, index) => {
      group.setAttribute("aria-selected", String(index === chosen));
      group.setAttribute("tabindex", index === Math.max(chosen, 0) ? 0 : -1);
      group.dataset.lmSuppressShortcuts = "true";
    });
  }

  function choose(index) {
    if (index < 0 || index >= groups.length) return;
    model.set("chosen", index);
    model.save_changes();
    mark();
    groups[index].focus({ preventScroll: true });
    const { top, bottom } = groups[index].getBoundingClientRect();
    const visible = pane.getBoundingClientRect();
    if (top < visible.top) pane.scrollTop -= visible.top - top;
    if (bottom > visible.bottom) pane.scrollTop += bottom - visible.bottom;
  }

  function redraw() {
    const hadFocus = pane.contains(document.activeElement);
    groups = draw(pane, model.get("drawing"));
    groups.forEach((group, index) => group.addEventListener("click", () => choose(index)));
    mark();
    requestAnimationFrame(() => (pane.scrollTop = pane.scrollHeight)); // the drawing may not be in the page yet
    if (hadFocus) groups[Math.max(model.get("chosen"), 0)]?.focus({ preventScroll: true });
  }

  pane.addEventListener("keydown", (event) => {
    const current = groups.indexOf(document.activeElement);
    const keys = { ArrowDown: current + 1, ArrowUp: current - 1, Home: 0, End: groups.length - 1, Enter: current, " ": current };
    const next = keys[event.key];
    if (next === undefined || current < 0) return;
    event.preventDefault();
    event.stopPropagation();
    choose(next);
  });
  model.on("change:drawing", redraw);
  model.on("change:chosen", mark);
  redraw();
}

export default { render };
