// What a chart says in words: its tooltip, the values, gaps and level shifts at a time; and a summary of all.

import { make, swatch } from "./elements.js";
import { lengthText, readable, timeText } from "./numerals.js";

const REACH = 24; // pixels from the pointer to a point

export class Tip {
  constructor(chart) {
    this.chart = chart;
    this.element = make("div", "toolkit-chart-tip", chart.root);
    this.element.hidden = true;
  }

  hide() {
    this.element.hidden = true;
  }

  /** Show the values of visible lines at a time; of many lines, those nearest to the pointer. Return {text, time}. */
  show(time, clientX, clientY, panel = null, height = 0) {
    const { chart } = this, found = [], reach = Math.max(REACH * chart.secondsPerPixel(), 1e-6);
    for (const line of chart.visibleLines()) {
      const index = line.kind === "number" ? line.nearestIndex(time) : line.indexAt(time);
      const isNear = index >= 0 && (line.kind !== "number" || Math.abs(line.x[index] - time) <= reach);
      if (isNear && !Number.isNaN(line.y[index])) found.push({ line, index });
    }
    const [nearest = time] = found.filter(({ line }) => line.kind === "number").map(({ line, index }) => line.x[index])
      .sort((a, b) => Math.abs(a - time) - Math.abs(b - time));
    const zone = chart.options.zone ? ` ${chart.options.zone}` : "";
    const head = timeText(nearest, chart.toDate, chart.extent[1] - chart.extent[0]) + zone;
    const values = found.map(hit => ({ ...hit, thing: hit.line.thing, name: chart.nameOf(hit.line), text: valueText(hit) }));
    const rows = [...this.marksAt(time), ...values];
    const distance = ({ line, index }) =>
      line ? (panel?.lines.includes(line) ? Math.abs(line.y[index] - height) : Infinity) : -1;
    this.fill(head, rows, [...rows].sort((a, b) => distance(a) - distance(b)));
    this.place(clientX, clientY);
    return { text: `${head}: ${rows.map(({ name, text }) => `${name} ${text}`).join(", ")}`, time: nearest };
  }

  /** Return the gaps and level shifts at a time, as rows. */
  marksAt(time) {
    const { chart } = this, seen = [...new Set(chart.visibleLines().map(line => line.thing))];
    const gaps = seen.flatMap(thing => chart.gapsOf(thing).filter(([start, end]) => start < time && time < end)
      .map(([start, end]) => ({ thing, name: `${thing} gap`.trim(), text: lengthText(end - start) })));
    const shifts = chart.shifts.filter(([thing, start, end]) => seen.includes(thing) && start <= time && time <= end)
      .map(([thing, , , field, why]) => ({ thing, name: `${thing} ${field}`.trim(), text: `level shift${why ? `: ${why}` : ""}` }));
    return [...gaps, ...shifts];
  }

  /** Show the rows in order; if they cover more than a third of the chart, only the first ones of `byDistance`. */
  fill(head, rows, byDistance) {
    const box = this.chart.root.getBoundingClientRect(), most = (box.width * Math.min(box.height, innerHeight)) / 3;
    this.element.hidden = false;
    for (let count = rows.length; ; count--) {
      const kept = new Set(byDistance.slice(0, count));
      this.element.replaceChildren(make("div", "toolkit-chart-tip-time", null, head));
      for (const { thing, name, text } of rows.filter(row => kept.has(row))) {
        const row = make("div", "toolkit-chart-tip-row", this.element);
        make("i", "", row).style.background = swatch(this.chart.style(thing));
        make("span", "", row, name);
        make("b", "", row, text);
      }
      if (count < rows.length) make("div", "", this.element, `and ${rows.length - count} more`);
      if (!rows.length) make("div", "", this.element, "nothing here");
      const { offsetWidth, offsetHeight } = this.element, share = (offsetWidth * offsetHeight) / most;
      if (count <= 1 || share <= 1) return;
      count = Math.min(count, Math.ceil(count / share)); // then one row less, until it fits
    }
  }

  place(clientX, clientY) {
    const box = this.chart.root.getBoundingClientRect(), { offsetWidth: width, offsetHeight: height } = this.element;
    const x = clientX - box.left, y = clientY - box.top;
    const isLeft = x > box.width / 2, left = isLeft ? Math.max(0, x - 16 - width) : Math.min(x + 16, box.width - width);
    this.element.style.left = `${left}px`;
    this.element.style.top = `${Math.max(0, Math.min(y + 12, box.height - height))}px`;
  }
}

function valueText({ line, index }) {
  if (line.kind !== "number") return line.textOf(index);
  const [least, greatest] = (line.bounds ??= line.extremes());
  const text = readable(line.y[index], greatest - least) + (line.unit ? ` ${line.unit}` : "");
  const ring = line.rings ? [...line.rings.x].indexOf(line.x[index]) : -1;
  if (ring < 0) return text;
  return `${text} – outlier, usual is ${readable(line.rings.expected[ring], greatest - least)}`;
}

/** Return what a screen reader reads of a chart. */
export function summaryOf(chart) {
  if (chart.isEmpty) return `Chart: ${chart.message.textContent}`;
  const time = seconds => timeText(seconds, chart.toDate, chart.extent[1] - chart.extent[0]);
  const sentences = chart.lines.slice(0, 6).map(line => {
    const [least, greatest] = (line.bounds ??= line.extremes()), last = line.nearestIndex(Infinity);
    if (line.kind !== "number" || last < 0) return `${chart.nameOf(line)}: last ${last < 0 ? "nothing" : line.textOf(last)}`;
    const [low, high, end] = [least, greatest, line.y[last]].map(value => readable(value, greatest - least));
    return `${chart.nameOf(line)}${line.unit ? ` in ${line.unit}` : ""}: from ${low} to ${high}, last ${end}`;
  });
  const more = chart.lines.length > 6 ? ` And ${chart.lines.length - 6} more lines.` : "";
  return `Chart over ${chart.axisName.textContent} from ${time(chart.view.min)} to ${time(chart.view.max)}. ` +
    `${sentences.join(". ")}.${more} Arrow keys read the values.`;
}
