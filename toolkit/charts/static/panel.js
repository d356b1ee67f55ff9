// One panel of a chart, the values of a field: a uPlot with axes, gaps, level shifts, rings around outliers, steps of
// truth values, bands of states.

import uPlot from "./uplot/uPlot.js";
import LOOK from "./look.json";
import { firstFrom, translucent } from "./lines.js";
import { tickLabels, ticksBetween, timeLabels } from "./numerals.js";

const FONT = "12px system-ui, sans-serif", ROW = 22, STEPS = 32, TIME_AXIS = 40, TOP = 8; // heights in pixels
const LOW_STEP = 0.15, STEP_HEIGHT = 0.7; // of a truth value, in a row of height 1

export class Panel {
  /** `chart` has what panels share (ink, view, styles, gaps); panels report pointer and selection to it. */
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
    const [{ field, unit }] = this.lines;
    return unit ? `${field} (${unit})` : field;
  }

  /** Return the height without the time axis; null if the panel takes a share of the free height. */
  fixedHeight() {
    const rows = this.lines.length;
    if (this.kind === "boolean") return Math.max(56, STEPS * rows + TOP);
    return this.kind === "text" ? ROW * rows + TOP : null;
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
    const visible = this.lines.filter(line => this.chart.isVisible(line));
    const most = Math.max(400, 12000 / Math.max(1, visible.length)); // about 12,000 points in all lines
    this.dense = new Map();
    this.spread = [Infinity, -Infinity];
    const tables = this.lines.map((line, row) => {
      if (!visible.includes(line)) return [[min], [null]];
      const points = line.pointsBetween(min, max, pieces, most);
      if (points.low.length) this.dense.set(line, points);
      for (const value of points.low) if (value !== null && value < this.spread[0]) this.spread[0] = value;
      for (const value of points.high) if (value !== null && value > this.spread[1]) this.spread[1] = value;
      const toRow = value => (value === null ? null : this.lines.length - 1 - row + LOW_STEP + STEP_HEIGHT * value);
      return distinct(points.xs, this.kind === "boolean" ? points.ys.map(toRow) : points.ys);
    });
    // Mode 2 of uPlot: a missing value interrupts its line, even if other lines have points at other times.
    return uPlot.join(tables, tables.map(() => [1, 2]));
  }

  options(width, height) {
    const { chart } = this;
    return {
      width, height, padding: [TOP, 26, this.isLast ? 0 : 2, 0], pxAlign: false,
      legend: { show: false },
      tzDate: seconds => new Date(chart.toDate(seconds).toISOString().slice(0, -1)), // with these local fields
      scales: { x: { range: () => [chart.view.min, chart.view.max] }, y: { dir: this.kind === "text" ? -1 : 1, range: (_plot, ...ends) => this.range(...ends) } },
      series: [{}, ...this.lines.map((line, row) => this.series(line, row))],
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
        drawAxes: [plot => this.drawBehind(plot)],
        draw: [plot => (this.kind === "text" ? this.states(plot) : this.rings(plot))],
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

  series(line, row) {
    if (this.kind === "text") return { paths: () => null, points: { show: false } };
    const { colour, dash, isDistinct } = this.chart.style(line.thing);
    const stroke = () => (this.dense.has(this.lines[row]) ? translucent(colour, LOOK.mean) : colour);
    const points = { show: true, size: 5, width: 0, fill: colour, filter: (plot, seriesIndex) => dots(plot, seriesIndex) };
    const common = { stroke, width: isDistinct ? 1.5 : 0.8, spanGaps: false, points };
    if (this.kind === "number") return { ...common, dash, paths: uPlot.paths.linear() };
    const fillTo = () => this.lines.length - 1 - row + LOW_STEP;
    return { ...common, paths: uPlot.paths.stepped({ align: 1 }), fill: translucent(colour, LOOK.band), fillTo };
  }

  range(least, greatest) {
    if (this.kind !== "number") return [0, this.lines.length];
    if (least === null || least === undefined) return this.lastRange ?? [0, 1]; // all lines are hidden
    const limits = this.thresholds();
    [least, greatest] = [Math.min(least, this.spread[0], ...limits), Math.max(greatest, this.spread[1], ...limits)];
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
    const { kind, lines } = this, isNamed = lines.length > 1, rows = lines.map((_line, row) => row + 0.5);
    const names = lines.map(line => (isNamed ? shortened(line.thing) : ""));
    const axes = {
      number: {
        values: (_plot, ticks) => tickLabels(ticks),
        splits: (plot, _axis, least, greatest) => ticksBetween(least, greatest, LOOK.mostTicks - (plot.bbox.height / devicePixelRatio < 110)),
      },
      boolean: isNamed
        ? { values: () => names.toReversed(), splits: () => rows }
        : { values: () => ["false", "true"], splits: () => [LOW_STEP, LOW_STEP + STEP_HEIGHT] },
      text: { values: () => names, splits: () => rows },
    };
    return {
      ...axes[kind], stroke: () => this.chart.ink(0.8), font: FONT, gap: 5,
      size: (plot, texts) => this.chart.axisWidthOf(this, plot, texts ?? []),
      grid: { show: kind === "number", stroke: () => this.chart.ink(0.15), width: 1 },
      ticks: { show: false, size: 0 },
    };
  }

  /** Draw what lies behind the lines: gaps, level shifts, and the span of lines that have many points to a pixel. */
  drawBehind(plot) {
    const { ctx, bbox } = plot, rows = this.kind === "number" ? 1 : this.lines.length;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const [row, { thing }] of this.lines.entries()) {
      if (this.chart.hidden.has(thing)) continue;
      const height = bbox.height / rows, top = bbox.top + height * (rows > 1 ? row : 0);
      // The gaps of one thing are grey; of several things, each has its colour.
      ctx.fillStyle = this.chart.things.size > 1 ? translucent(this.chart.style(thing).colour, LOOK.gap) : this.chart.ink(LOOK.gap);
      let end = bbox.left;
      for (const [start, stop] of this.chart.gapsOf(thing)) {
        const from = Math.max(plot.valToPos(start, "x", true), end), to = plot.valToPos(stop, "x", true);
        if (to <= end) continue;
        end = Math.max(to, from + 1); // at least a pixel, and none twice
        ctx.fillRect(from, top, end - from, height);
      }
    }
    this.drawShifts(plot);
    this.drawThresholds(plot);
    for (const [line, points] of this.dense ?? []) this.drawSpan(plot, line, points);
    ctx.restore();
  }

  thresholds() {
    return (this.kind === "number" && this.chart.thresholds.get(this.lines[0].field)) || [];
  }

  drawThresholds(plot) {
    const { ctx, bbox } = plot, ratio = devicePixelRatio;
    Object.assign(ctx, { strokeStyle: this.chart.ink(0.8), lineWidth: ratio });
    ctx.setLineDash([6 * ratio, 4 * ratio]);
    for (const limit of this.thresholds()) {
      const y = plot.valToPos(limit, "y", true);
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
    }
    ctx.setLineDash([]);
  }

  drawShifts(plot) {
    const { ctx, bbox } = plot, ratio = devicePixelRatio;
    Object.assign(ctx, { font: `${11 * ratio}px system-ui, sans-serif`, textBaseline: "top", textAlign: "left" });
    for (const [thing, start, end, field, why] of this.chart.shifts) {
      if (field !== this.lines[0].field || this.chart.hidden.has(thing)) continue;
      const from = plot.valToPos(start, "x", true), width = Math.max(plot.valToPos(end, "x", true) - from, 2 * ratio);
      ctx.fillStyle = translucent(this.chart.style(thing).colour, LOOK.shift);
      ctx.fillRect(from, bbox.top, width, bbox.height);
      ctx.fillStyle = this.chart.ink(1);
      const text = fitting(ctx, why || "level shift", width - 6 * ratio);
      if (text) ctx.fillText(text, from + 3 * ratio, bbox.top + 2 * ratio);
    }
  }

  drawSpan(plot, line, { xs, low, high }) {
    const { ctx } = plot, { colour } = this.chart.style(line.thing);
    const path = new Path2D(), ends = [];
    const at = (index, values) => [plot.valToPos(xs[index], "x", true), plot.valToPos(values[index], "y", true)];
    for (let start = 0, index = 0; index <= xs.length; index++) {
      if (index < xs.length && high[index] !== null) continue;
      if (index > start) ends.push([start, index]);
      start = index + 1;
    }
    for (const [start, end] of ends) {
      path.moveTo(...at(start, high));
      for (let index = start + 1; index < end; index++) path.lineTo(...at(index, high));
      for (let index = end - 1; index >= start; index--) path.lineTo(...at(index, low));
      path.closePath();
    }
    ctx.fillStyle = translucent(colour, LOOK.band);
    ctx.fill(path);
    ctx.strokeStyle = translucent(colour, 2 * LOOK.band); // so that a spike of one value is seen
    ctx.lineWidth = devicePixelRatio;
    ctx.stroke(path);
  }

  rings(plot) {
    const { ctx, bbox } = plot, ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left - 6 * ratio, bbox.top - 6 * ratio, bbox.width + 12 * ratio, bbox.height + 12 * ratio);
    ctx.clip();
    ctx.strokeStyle = this.chart.ink(1);
    ctx.lineWidth = 1.5 * ratio;
    const { least, greatest } = LOOK.rings;
    for (const line of this.lines) {
      if (!line.rings || !this.chart.isVisible(line)) continue;
      const most = Math.max(...line.rings.score);
      line.rings.x.forEach((time, index) => {
        if (time < this.chart.view.min || time > this.chart.view.max) return;
        const radius = least + (greatest - least) * Math.sqrt(line.rings.score[index] / most);
        ctx.beginPath();
        ctx.arc(plot.valToPos(time, "x", true), plot.valToPos(line.rings.y[index], "y", true), radius * ratio, 0, 7);
        ctx.stroke();
      });
    }
    ctx.restore();
  }

  states(plot) {
    const { ctx, bbox } = plot, ratio = devicePixelRatio, { min, max } = this.chart.view;
    ctx.save();
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    Object.assign(ctx, { textBaseline: "middle", textAlign: "left" });
    this.lines.forEach((line, row) => {
      if (!this.chart.isVisible(line)) return;
      const { colour } = this.chart.style(line.thing), top = plot.valToPos(row, "y", true) + 2 * ratio, height = ROW * ratio - 4 * ratio;
      for (const [start, end, state] of segments(line, min, max, this.chart.extent[1], (max - min) / bbox.width)) {
        const from = Math.max(plot.valToPos(start, "x", true), bbox.left);
        const width = Math.max(Math.min(plot.valToPos(end, "x", true), bbox.left + bbox.width) - from, 2 * ratio);
        ctx.fillStyle = translucent(colour, LOOK.states[state % LOOK.states.length]);
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
