// One panel of a chart: a uPlot with axes, shaded gaps, rings around outliers, steps of truth values, bands of states.

import uPlot from "./uplot/uPlot.js";
import { PALETTE, firstFrom } from "./lines.js";
import { tickLabels, timeLabels } from "./numerals.js";

const FONT = "12px system-ui, sans-serif", ROW = 22, TIME_AXIS = 40, TOP = 8; // heights in pixels

export class Panel {
  /** `chart` has what panels share (ink, view, gaps, toDate, axisWidth); panels report pointer and selection to it. */
  constructor(chart, lines, isLast) {
    Object.assign(this, { chart, lines, isLast, axisWidth: 0 });
    this.kind = lines[0].kind;
    this.element = document.createElement("div");
    this.element.className = "toolkit-chart-panel";
    this.heading = document.createElement("div");
    this.heading.className = "toolkit-chart-heading";
    this.heading.textContent = this.heading.title = this.title();
    this.element.append(this.heading);
    this.plot = null;
  }

  title() {
    const fields = [...new Set(this.lines.map(line => line.field))], units = new Set(this.lines.map(line => line.unit));
    const unit = units.size === 1 ? [...units][0] : "";
    if (fields.length === 1) return unit ? `${fields[0]} (${unit})` : fields[0];
    return unit || fields.join(", ");
  }

  /** Return the height without the time axis; null if the panel takes a share of the free height. */
  fixedHeight() {
    if (this.kind === "boolean") return 56;
    return this.kind === "text" ? ROW * this.lines.length + TOP : null;
  }

  draw(width, height) {
    const full = height + (this.isLast ? TIME_AXIS : 6);
    if (this.plot === null) this.plot = new uPlot(this.options(width, full), this.data(width), this.element);
    else {
      if (this.plot.width !== width || this.plot.height !== full) this.plot.setSize({ width, height: full });
      this.plot.setData(this.data(width));
    }
    this.plot.root.setAttribute("aria-hidden", "true");
  }

  destroy() {
    this.plot?.destroy();
    this.element.remove();
  }

  data(width) {
    const { min, max } = this.chart.view, pieces = Math.max(100, width - this.chart.axisWidth);
    if (this.kind === "text") return [[min, max], ...this.lines.map(() => [null, null])];
    const visible = this.lines.filter(line => !this.chart.hidden.has(line.name));
    const most = Math.max(400, 12000 / Math.max(1, visible.length)); // about 12,000 points in all lines
    const tables = this.lines.map(line =>
      this.chart.hidden.has(line.name) ? [[min], [null]] : line.pointsBetween(min, max, pieces, most));
    // Mode 2 of uPlot: a missing value interrupts its line, even if other lines have points at other times.
    return uPlot.join(tables.map(([xs, ys]) => distinct(xs, ys)), tables.map(() => [1, 2]));
  }

  options(width, height) {
    const { chart } = this;
    return {
      width, height, padding: [TOP, 26, this.isLast ? 0 : 2, 0], pxAlign: false,
      legend: { show: false },
      tzDate: seconds => new Date(chart.toDate(seconds).toISOString().slice(0, -1)), // with these local fields
      scales: { x: { range: () => [chart.view.min, chart.view.max] }, y: { dir: this.kind === "text" ? -1 : 1, range: (_plot, ...ends) => this.range(...ends) } },
      series: [{}, ...this.lines.map(line => this.series(line))],
      axes: [this.timeAxis(), this.valueAxis()],
      cursor: {
        x: true, y: this.kind === "number", drag: { x: true, y: false, setScale: false }, focus: { prox: -1 },
        points: { size: 7, width: 2, show: this.kind !== "text" },
        bind: {
          mousedown: (_plot, _target, handle) => event => {
            if (event.button === 0 && event.shiftKey) chart.pan(event);
            else handle(event);
          },
          dblclick: () => () => chart.reset(),
        },
      },
      hooks: {
        drawAxes: [plot => this.shade(plot)],
        draw: [plot => (this.kind === "text" ? this.bands(plot) : this.rings(plot))],
        setCursor: [plot => chart.onPointer(this, plot)],
        setSelect: [plot => this.onSelect(plot)],
      },
    };
  }

  onSelect(plot) {
    const { left, width } = plot.select;
    if (width < 3) return; // pixels: a click, not a drag
    const ends = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.chart.zoom(...ends);
  }

  series(line) {
    const stroke = line.colour;
    if (this.kind === "text") return { paths: () => null, points: { show: false } };
    const paths = this.kind === "boolean" ? uPlot.paths.stepped({ align: 1 }) : uPlot.paths.linear();
    return {
      stroke, width: 1.5, dash: line.dash, paths, spanGaps: false,
      points: { show: true, size: 5, width: 0, fill: stroke, filter: (plot, seriesIndex) => dots(plot, seriesIndex) },
    };
  }

  range(least, greatest) {
    if (this.kind === "boolean") return [-0.15, 1.15];
    if (this.kind === "text") return [0, this.lines.length];
    if (least === null || least === undefined) return this.lastRange ?? [0, 1]; // all lines are hidden
    const size = Math.max(Math.abs(least), Math.abs(greatest));
    // Values that differ only by rounding are drawn as a level line.
    const margin = greatest - least > size * 1e-12 ? (greatest - least) * 0.06 : size * 0.05 || 0.5;
    return (this.lastRange = [least - margin, greatest + margin]);
  }

  timeAxis() {
    const common = { stroke: () => this.chart.ink(0.8), font: FONT, grid: { stroke: () => this.chart.ink(0.09), width: 1 } };
    if (!this.isLast) return { ...common, size: 6, values: (_plot, ticks) => ticks.map(() => ""), ticks: { show: false } };
    const { chart } = this, span = () => chart.view.max - chart.view.min;
    const ticks = { stroke: () => chart.ink(0.3), size: 4, width: 1 };
    const values = (_plot, times, _axis, _space, step) => timeLabels(times, chart.toDate, step);
    const shown = { ...common, size: TIME_AXIS, space: 74, gap: 4, ticks, values };
    if (!chart.isLong) return shown;
    return { ...shown, incrs: () => [span() / 4], splits: () => [1, 3, 5, 7].map(eighth => chart.view.min + span() * eighth / 8) };
  }

  valueAxis() {
    const { kind, lines } = this, named = new Set(lines.map(line => line.thing)).size > 1;
    const labels = {
      number: (_plot, ticks) => tickLabels(ticks),
      boolean: (_plot, ticks) => ticks.map(tick => (tick ? "true" : "false")),
      text: (_plot, ticks) => ticks.map((_tick, row) => (named ? shortened(lines[row].thing) : "")),
    };
    const splits = {
      boolean: () => [0, 1],
      text: () => lines.map((_line, row) => row + 0.5),
    };
    return {
      stroke: () => this.chart.ink(0.8), font: FONT, gap: 5, space: 30, values: labels[kind], splits: splits[kind],
      size: (plot, texts) => this.chart.axisWidthOf(this, plot, texts ?? []),
      grid: { show: kind === "number", stroke: () => this.chart.ink(0.15), width: 1 },
      ticks: { show: false, size: 0 },
    };
  }

  shade(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.fillStyle = this.chart.ink(0.13);
    for (const [start, end] of this.chart.gaps) {
      const from = Math.max(plot.valToPos(start, "x", true), bbox.left);
      const to = Math.min(plot.valToPos(end, "x", true), bbox.left + bbox.width);
      if (to > from) ctx.fillRect(from, bbox.top, Math.max(to - from, 1), bbox.height);
    }
    ctx.restore();
  }

  rings(plot) {
    const { ctx, bbox } = plot, ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left - 6 * ratio, bbox.top - 6 * ratio, bbox.width + 12 * ratio, bbox.height + 12 * ratio);
    ctx.clip();
    ctx.strokeStyle = this.chart.ink(1);
    ctx.lineWidth = 1.5 * ratio;
    for (const line of this.lines) {
      if (!line.rings || this.chart.hidden.has(line.name)) continue;
      line.rings.x.forEach((time, index) => {
        if (time < this.chart.view.min || time > this.chart.view.max) return;
        ctx.beginPath();
        ctx.arc(plot.valToPos(time, "x", true), plot.valToPos(line.rings.y[index], "y", true), 5 * ratio, 0, 7);
        ctx.stroke();
      });
    }
    ctx.restore();
  }

  bands(plot) {
    const { ctx, bbox } = plot, ratio = devicePixelRatio, { min, max } = this.chart.view;
    ctx.save();
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    Object.assign(ctx, { textBaseline: "middle", textAlign: "left" });
    this.lines.forEach((line, row) => {
      if (this.chart.hidden.has(line.name)) return;
      const top = plot.valToPos(row, "y", true) + 2 * ratio, height = ROW * ratio - 4 * ratio;
      for (const [start, end, state] of segments(line, min, max, this.chart.extent[1], (max - min) / bbox.width)) {
        const from = Math.max(plot.valToPos(start, "x", true), bbox.left);
        const width = Math.max(Math.min(plot.valToPos(end, "x", true), bbox.left + bbox.width) - from, 2 * ratio);
        const colour = PALETTE[state % PALETTE.length];
        ctx.fillStyle = colour + "59"; // the last two digits are the opacity
        ctx.fillRect(from, top, width, height);
        ctx.fillStyle = colour;
        ctx.fillRect(from, top, Math.min(width, 2 * ratio), height);
        const text = fitting(ctx, line.states[state], width - 10 * ratio);
        ctx.fillStyle = this.chart.ink(1);
        if (text) ctx.fillText(text, from + 6 * ratio, top + height / 2);
      }
    });
    ctx.restore();
  }
}

/** Yield start, end and state of each band; changes within one pixel, given in seconds, belong to the band before. */
function* segments(line, min, max, end, pixel) {
  let index = Math.max(0, firstFrom(line.x, min) - 1);
  while (index < line.x.length && line.x[index] <= max) {
    const state = line.y[index], start = line.x[index];
    let next = index + 1;
    while (next < line.x.length && (line.y[next] === state || line.x[next] - start < pixel)) next++;
    if (!Number.isNaN(state)) yield [start, line.x[next] ?? Math.max(end, start), state];
    index = next;
  }
}

function fitting(ctx, text, width) {
  if (ctx.measureText(text).width <= width) return text;
  let shown = text.slice(0, 200);
  while (shown && ctx.measureText(`${shown}…`).width > width) shown = shown.slice(0, -1);
  return shown.length > 1 ? `${shown}…` : "";
}

const shortened = text => (text.length > 24 ? `${text.slice(0, 23)}…` : text);

/** Return each time once, as uPlot needs it; of several values at one time, the last. */
function distinct(xs, ys) {
  const isLast = xs.map((x, index) => x !== xs[index + 1]);
  return isLast.every(Boolean) ? [xs, ys] : [xs.filter((_x, index) => isLast[index]), ys.filter((_y, index) => isLast[index])];
}

/** Return the indices of the points to draw as dots: all if they are few, otherwise those without a neighbour. */
function dots(plot, seriesIndex) {
  const values = plot.data[seriesIndex], all = [], isolated = [];
  let before = null, candidate = -1;
  values.forEach((value, index) => {
    if (value === undefined) return; // a point of another line
    if (value === null) {
      if (candidate >= 0) isolated.push(candidate);
      candidate = -1;
    } else {
      all.push(index);
      candidate = before === null ? index : -1;
    }
    before = value;
  });
  if (candidate >= 0) isolated.push(candidate);
  return all.length * 12 < plot.bbox.width / devicePixelRatio ? all : isolated; // few: at least 12 pixels per dot
}
