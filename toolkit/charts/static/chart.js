// An interactive chart of measurements over time, without any dependency on Jupyter.
//
//   const chart = createChart(element, {
//     zone: "UTC",            IANA name of the time zone in which times are shown; null if times have no zone
//     timeName: "created",    name of the time axis
//     height: 300,            height of the plots in pixels, without the time axis; several panels may need more: the
//                             chart grows with them up to the height of the window, and then the plots scroll
//     empty: "no data",       text to show if there are no points
//     fileName: "chart",      name of downloads, without suffix
//     onRange: range => {},   a person zoomed or panned: [from, to] in seconds since 1970, or null for everything
//     onView: () => {},       the visible range or the visible things have changed, by a person or by code
//     files: {},              further downloads: {svg: () => {...}}; a "csv" replaces the built-in download
//   });
//   chart.setData(lines, {things, gaps, shifts, thresholds, empty, note})
//                           lines: [{thing, field, kind, unit, x, y, states, rings}]: a panel for each field, a colour for
//                           each thing; x (seconds since 1970, ascending) and y are Float64Arrays, NaN where a value is
//                           missing; kind is "number", "boolean" (y is 0 or 1) or "text" (y is an index into states);
//                           rings are the outliers: {x, y, expected, score}, four Float64Arrays;
//                           things: names in the order of their colours; without it, in the order of their lines. A thing
//                           keeps its colour as long as the chart lives;
//                           gaps: [[thing, from, to], ...]; shifts: [[thing, from, to, field, why], ...];
//                           thresholds: {field: [number, ...]}, drawn as level lines;
//                           note is a text beside the name of the time axis
//   chart.append(x, y, keep, gaps)  add points (and gaps: [[from, to], ...]) to the first line, and keep its last `keep`
//                           points; paint at most 15 times per second
//   chart.setRange([from, to])  or null for everything; does not call onRange
//   chart.setAxis(timeName, zone)
//   chart.range             [from, to], or null if everything is shown
//   chart.destroy()         remove it from the page, with all of its listeners
//
// By mouse: drag to zoom, shift-drag or wheel to pan, control-wheel to zoom, double-click to show everything; a click
// in the legend hides or shows a thing, shift-click shows that thing alone. By keyboard: arrows move the crosshair, + and -
// zoom, shift-arrows pan, Home shows everything, Escape hides the crosshair.

import LOOK from "./look.json";
import { savePicture, saveTable, snapshotOf } from "./files.js";
import { make } from "./elements.js";
import { Legend } from "./legend.js";
import { Line, firstFrom, styleAt } from "./lines.js";
import { dateIn } from "./numerals.js";
import { Panel } from "./panel.js";
import { Tip, summaryOf } from "./tip.js";

const PAINT_MS = 1000 / 15, LEAST_SPAN_SECONDS = 0.01, HEADING = 24; // the heading of a panel, in pixels
const LONGEST_LABELLED_SECONDS = 500 * 365 * 86400; // of more years, uPlot labels few or none
const DEFAULTS = {
  zone: "UTC", timeName: "time", height: 300, empty: "no data", fileName: "chart", onRange: () => {}, onView: () => {}, files: {},
};

export function createChart(element, options = {}) {
  return new Chart(element, { ...DEFAULTS, ...options });
}

class Chart {
  constructor(element, options) {
    Object.assign(this, {
      options, lines: [], panels: [], things: new Map(), gaps: new Map(), shifts: [], thresholds: new Map(), hidden: new Set(), range: null,
      extent: [0, 1], view: { min: 0, max: 1 }, axisWidth: 40, pointerTime: null, aborter: new AbortController(), lastPaint: 0,
    });
    this.root = make("div", "toolkit-chart", element);
    this.legend = new Legend(this);
    this.plots = make("div", "toolkit-chart-plots", this.root);
    Object.assign(this.plots, { tabIndex: 0, role: "group" });
    this.plots.dataset.lmSuppressShortcuts = "true"; // JupyterLab would take the arrows for its cells
    this.message = make("div", "toolkit-chart-empty", this.plots, options.empty);
    this.foot = make("div", "toolkit-chart-foot", this.root);
    this.axisName = make("span", "toolkit-chart-axis", this.foot);
    this.setAxis(options.timeName, options.zone);
    this.makeButtons();
    this.tip = new Tip(this);
    this.announcement = make("div", "toolkit-chart-said", this.root);
    this.announcement.setAttribute("aria-live", "polite");
    this.addListeners();
    this.paint();
  }

  makeButtons() {
    const button = (text, title, action) => {
      const made = make("button", "toolkit-chart-button", this.foot, text);
      Object.assign(made, { type: "button", title });
      made.addEventListener("click", action);
      return made;
    };
    this.home = button("All", "Show the whole time (Home, or double click)", () => this.reset());
    this.larger = button("Larger", "Show the chart on the whole screen", () =>
      (document.fullscreenElement === this.root ? document.exitFullscreen() : this.root.requestFullscreen()));
    this.larger.hidden = !document.fullscreenEnabled;
    button("PNG", "Download what is shown as a picture", () => savePicture(this));
    const files = { csv: () => saveTable(this), ...this.options.files };
    for (const [kind, save] of Object.entries(files))
      button(kind.toUpperCase(), kind === "csv" ? "Download what is shown as a table" : `Download what is shown as ${kind.toUpperCase()}`, save);
  }

  addListeners() {
    const { signal } = this.aborter;
    const on = (target, name, handler, more = {}) => target.addEventListener(name, handler, { signal, ...more });
    on(this.plots, "keydown", event => this.onKey(event));
    on(this.plots, "wheel", event => this.onWheel(event), { passive: false });
    on(this.plots, "mouseleave", () => this.hidePointer());
    on(this.plots, "blur", () => this.hidePointer());
    // For the code that saves a notebook.
    on(this.root, "toolkit-snapshot", ({ detail }) => Object.assign(detail, snapshotOf(this)));
    on(document, "fullscreenchange", () => {
      this.larger.textContent = document.fullscreenElement === this.root ? "Smaller" : "Larger";
      this.paint();
    });
    this.sizes = new ResizeObserver(() => this.plots.clientWidth !== this.paintedWidth && this.paint());
    this.sizes.observe(this.plots);
    const recolour = () => this.paint();
    this.themes = new MutationObserver(recolour);
    const watched = { attributes: true, attributeFilter: ["class", "data-jp-theme-light", "data-theme", "style"] };
    for (const element of [document.documentElement, document.body]) this.themes.observe(element, watched);
    on(matchMedia("(prefers-color-scheme: dark)"), "change", recolour);
  }

  setAxis(timeName, zone) {
    Object.assign(this.options, { timeName, zone });
    this.toDate = dateIn(zone);
    this.nameAxis();
  }

  nameAxis() {
    const { timeName, zone } = this.options;
    this.axisName.textContent = `${timeName} (${zone || "no time zone"})${this.note ? ` · ${this.note}` : ""}`;
  }

  // -- data -------------------------------------------------------------------------------------------------

  setData(lines, { things = [], gaps = [], shifts = [], thresholds = {}, empty = this.options.empty, note = "" } = {}) {
    this.lines = lines.map(line => new Line(line));
    for (const thing of [...things, ...this.lines.map(line => line.thing)])
      if (thing && !this.things.has(thing)) this.things.set(thing, this.things.size);
    this.gaps = new Map();
    for (const [thing, ...ends] of gaps) this.gaps.set(thing, [...(this.gaps.get(thing) ?? []), ends]);
    Object.assign(this, { shifts, thresholds: new Map(Object.entries(thresholds)) }); // a field may be called constructor
    this.message.textContent = empty;
    this.note = note;
    this.nameAxis();
    this.rebuild();
  }

  /** Return how the lines of a thing are drawn; a thing without a name is the only one. */
  style(thing) {
    return styleAt(this.things.get(thing) ?? 0);
  }

  gapsOf(thing) {
    return this.gaps.get(thing) ?? [];
  }

  isVisible(line) {
    return !this.hidden.has(line.thing);
  }

  append(x, y, keep = Infinity, gaps = []) {
    const [line] = this.lines;
    line.append(x, y, keep);
    this.gaps.set(line.thing, [...this.gapsOf(line.thing), ...gaps].filter(([, end]) => end >= line.x[0]));
    this.waiting ??= setTimeout(() => {
      this.waiting = null;
      this.paint();
    }, Math.max(0, PAINT_MS - (performance.now() - this.lastPaint)));
  }

  rebuild() {
    const fields = [...new Set(this.lines.map(line => line.field))];
    const groups = fields.map(field => this.lines.filter(line => line.field === field));
    this.findExtent();
    this.isLong = this.extent[1] - this.extent[0] > LONGEST_LABELLED_SECONDS;
    const before = new Map(this.panels.map(panel => [panel.key, panel]));
    this.panels = groups.map((group, index) => {
      const isLast = index === groups.length - 1, things = group.map(line => line.thing);
      const key = JSON.stringify([this.isLong, isLast, this.things.size > 1, group[0].field, group[0].kind, group[0].unit, things]);
      const panel = before.get(key) ?? new Panel(this, group, isLast);
      before.delete(key);
      return Object.assign(panel, { key, lines: group });
    });
    for (const panel of before.values()) panel.destroy();
    this.plots.append(...this.panels.map(panel => panel.element));
    if (before.size) this.axisWidth = 40;
    this.legend.show();
    this.paint();
  }

  // -- painting ---------------------------------------------------------------------------------------------

  /** The text colour of the page, with an opacity from 0 to 1. */
  ink(opacity) {
    const [red, green, blue, alpha = 1] = this.inkParts;
    return `rgba(${red}, ${green}, ${blue}, ${alpha * opacity})`;
  }

  findExtent() {
    let [first, last] = [Infinity, -Infinity];
    for (const { x } of this.lines) if (x.length) [first, last] = [Math.min(first, x[0]), Math.max(last, x[x.length - 1])];
    this.isEmpty = !this.lines.some(line => line.y.some(value => !Number.isNaN(value)));
    if (first > last) [first, last] = [0, 1];
    this.extent = last > first ? [first, last] : [first - 30, last + 30];
    const [min, max] = this.range ?? this.extent;
    this.view = { min, max };
  }

  paint() {
    if (this.aborter.signal.aborted || !this.root.isConnected) return; // the resize observer paints when the chart is in the page
    this.lastPaint = performance.now();
    this.inkParts = getComputedStyle(this.root).color.match(/[\d.]+/g).map(Number);
    this.findExtent();
    const width = this.plots.clientWidth;
    this.paintedWidth = width;
    this.home.disabled = this.range === null;
    this.message.hidden = !this.isEmpty;
    this.plots.setAttribute("aria-label", this.summary());
    for (const panel of this.panels) panel.element.hidden = this.isEmpty;
    if (!width || this.isEmpty) return;
    const fixed = this.panels.reduce((sum, panel) => sum + (panel.fixedHeight() ?? 0), 0);
    const flexible = this.panels.filter(panel => panel.fixedHeight() === null).length;
    const rest = this.room() - fixed - HEADING * (flexible - 1);
    const share = Math.max(LOOK.panelPixels, rest / Math.max(1, flexible));
    for (const panel of this.panels) panel.draw(width, Math.round(panel.fixedHeight() ?? share));
    queueMicrotask(() => this.alignPanels()); // uPlot draws, and finds its labels, in an earlier microtask
    if (this.plots.clientWidth !== width) requestAnimationFrame(() => this.paint()); // a scroll bar appeared or disappeared
  }

  /** Return the height of all plots together, if their panels do not need more. */
  room() {
    if (document.fullscreenElement !== this.root) return this.options.height;
    return innerHeight - this.legend.element.offsetHeight - this.foot.offsetHeight - 2 * HEADING - 40; // 40: the time axis
  }

  alignPanels() {
    const widest = Math.max(...this.panels.map(panel => panel.axisWidth));
    if (widest !== this.axisWidth) {
      this.axisWidth = widest;
      for (const panel of this.panels) panel.plot?.redraw(false, true);
    }
    for (const panel of this.panels) panel.heading.style.paddingLeft = `${widest}px`;
  }

  /** Return the width of a value axis: enough for its labels, and as wide as in the other panels. */
  axisWidthOf(panel, plot, texts) {
    plot.ctx.save();
    plot.ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
    const widest = Math.max(0, ...texts.map(text => plot.ctx.measureText(text).width / devicePixelRatio));
    plot.ctx.restore();
    panel.axisWidth = Math.max(40, 8 * Math.ceil((widest + 14) / 8)); // in steps, so that live charts do not shake
    return Math.max(panel.axisWidth, this.axisWidth);
  }

  // -- range ------------------------------------------------------------------------------------------------

  setRange(range) {
    this.range = range === null ? null : [...range];
    this.hidePointer();
    this.paint();
    this.options.onView();
  }

  zoom(from, to) {
    const middle = (from + to) / 2, half = Math.max(LEAST_SPAN_SECONDS, to - from) / 2;
    const range = [Math.max(middle - half, this.extent[0]), Math.min(middle + half, this.extent[1])];
    const isAll = range[0] <= this.extent[0] && range[1] >= this.extent[1];
    if (!(range[1] > range[0])) return;
    this.setRange(isAll ? null : range);
    this.options.onRange(this.range);
  }

  reset() {
    this.setRange(null);
    this.options.onRange(null);
  }

  /** Move the visible range by a number of seconds; return false if the data ends there. */
  shift(seconds) {
    const { min, max } = this.view, [first, last] = this.extent;
    const distance = Math.min(Math.max(seconds, first - min), last - max);
    if (!distance) return false;
    this.setRange([min + distance, max + distance]);
    this.options.onRange(this.range);
    return true;
  }

  secondsPerPixel() {
    return (this.view.max - this.view.min) / Math.max(1, this.plots.clientWidth - this.axisWidth - 26);
  }

  pan(event) {
    event.preventDefault();
    const start = { ...this.view }, from = event.clientX, scale = this.secondsPerPixel(), drag = new AbortController();
    const signal = AbortSignal.any([drag.signal, this.aborter.signal]);
    const move = moving => this.shift(start.min - (moving.clientX - from) * scale - this.view.min);
    document.addEventListener("mousemove", move, { signal });
    document.addEventListener("mouseup", () => drag.abort(), { signal });
  }

  onWheel(event) {
    const { min, max } = this.view;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const middle = this.pointerTime ?? (min + max) / 2, factor = Math.exp(event.deltaY / 300);
      this.zoom(middle - (middle - min) * factor, middle + (max - middle) * factor);
    } else if (this.range && this.shift((event.deltaX || event.deltaY) * this.secondsPerPixel())) event.preventDefault();
  }

  onKey(event) {
    const { min, max } = this.view, span = max - min;
    const actions = {
      ArrowLeft: () => (event.shiftKey ? this.shift(-span / 4) : this.step(-1)),
      ArrowRight: () => (event.shiftKey ? this.shift(span / 4) : this.step(1)),
      "+": () => this.zoomAround(0.5), "=": () => this.zoomAround(0.5), "-": () => this.zoomAround(2),
      Home: () => this.reset(), Escape: () => this.hidePointer(),
    };
    if (!actions[event.key] || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    actions[event.key]();
  }

  zoomAround(factor) {
    const { min, max } = this.view, middle = this.pointerTime ?? (min + max) / 2;
    this.zoom(middle - (middle - min) * factor, middle + (max - middle) * factor);
  }

  // -- the pointer ------------------------------------------------------------------------------------------

  visibleLines() {
    return this.lines.filter(line => this.isVisible(line));
  }

  /** Move the crosshair to the next point of any visible line that is at least a pixel away. */
  step(direction) {
    const { min, max } = this.view, pixel = this.secondsPerPixel();
    const start = this.pointerTime ?? (direction > 0 ? min - pixel : max + pixel);
    const candidates = this.visibleLines().map(({ x }) =>
      direction > 0 ? x[firstFrom(x, start + pixel)] : x[firstFrom(x, start - pixel + 1e-9) - 1]);
    const inside = candidates.filter(time => time >= min && time <= max);
    if (!inside.length) return;
    const time = direction > 0 ? Math.min(...inside) : Math.max(...inside);
    for (const { plot } of this.panels) plot.setCursor({ left: plot.valToPos(time, "x"), top: -10 }, false);
    const box = this.panels[0].plot.over.getBoundingClientRect();
    this.announcement.textContent = this.point(time, box.left + this.panels[0].plot.valToPos(time, "x"), box.top + 10);
  }

  /** Handle a move of the pointer over a panel: show the crosshair in all panels, and the values at its time. */
  onPointer(panel, plot) {
    if (this.isPointing || plot.cursor.event === null || plot.cursor.event === undefined) return;
    const { left, top } = plot.cursor;
    if (left < 0) return this.hidePointer();
    this.isPointing = true;
    for (const other of this.panels) if (other !== panel) other.plot.setCursor({ left, top: -10 }, false);
    this.isPointing = false;
    const box = plot.over.getBoundingClientRect();
    this.point(plot.posToVal(left, "x"), box.left + left, box.top + top, panel, plot.posToVal(top, "y"));
  }

  /** Show the values at a time, and return them as a text. */
  point(...place) {
    const { text, time } = this.tip.show(...place);
    this.pointerTime = time;
    return text;
  }

  hidePointer() {
    if (this.isPointing) return;
    this.isPointing = true;
    for (const { plot } of this.panels) plot?.setCursor({ left: -10, top: -10 }, false);
    this.isPointing = false;
    this.pointerTime = null;
    this.tip.hide();
  }

  /** Return the name of a line: its thing, its field, or both, as it takes to tell it from the others. */
  nameOf({ thing, field }) {
    if (!thing || this.things.size < 2) return field;
    return this.panels.length > 1 ? `${thing} ${field}` : thing;
  }

  toggle(things, isAlone) {
    const isHidden = this.hidden.has(things[0]);
    if (isAlone) this.hidden = new Set([...this.things.keys()].filter(other => !things.includes(other)));
    else for (const thing of things) isHidden ? this.hidden.delete(thing) : this.hidden.add(thing);
    this.legend.showHidden();
    this.hidePointer();
    this.paint();
    this.options.onView();
  }

  // -- summary and files ------------------------------------------------------------------------------------

  summary() {
    return summaryOf(this);
  }

  destroy() {
    this.aborter.abort();
    clearTimeout(this.waiting);
    this.sizes.disconnect();
    this.themes.disconnect();
    for (const panel of this.panels) panel.destroy();
    this.root.remove();
  }
}
