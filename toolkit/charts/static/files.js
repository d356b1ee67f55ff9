// The downloads of a chart, a picture and a table, and the data of a saved notebook.

import LOOK from "./look.json";
import { firstFrom } from "./lines.js";
import { isoText } from "./numerals.js";

/** Make the browser download a file. */
export function download(name, blob) {
  const link = document.createElement("a");
  document.body.append(link);
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export function savePicture(chart) {
  pictureOf(chart).toBlob(blob => download(`${chart.options.fileName}.png`, blob));
}

export function saveTable(chart) {
  const { timeName, zone, fileName } = chart.options;
  const text = csvOf(chart.visibleLines(), chart.view.min, chart.view.max, timeName, !zone);
  download(`${fileName}.csv`, new Blob([text], { type: "text/csv" }));
}

/** Return a canvas with the legend, headings, panels and the name of the time axis of a chart. */
function pictureOf(chart) {
  const ratio = devicePixelRatio, box = chart.plots.getBoundingClientRect(), canvas = document.createElement("canvas");
  const ctx = canvas.getContext("2d"), font = "12px system-ui, sans-serif";
  ctx.font = font;
  const items = chart.legend.element.hidden ? [] : legendRows(ctx, chart.legend.entries().filter(([, [thing]]) => !chart.hidden.has(thing)), box.width);
  const top = items.length ? 18 * (items.at(-1).row + 1) + 6 : 6;
  canvas.width = box.width * ratio;
  canvas.height = (top + chart.plots.scrollHeight + 20) * ratio;
  ctx.scale(ratio, ratio);
  ctx.fillStyle = backgroundOf(chart.root);
  ctx.fillRect(0, 0, box.width, canvas.height);
  Object.assign(ctx, { font, textBaseline: "top" });
  for (const { name, thing, x, row } of items) {
    const { colour, dash } = chart.style(thing);
    Object.assign(ctx, { strokeStyle: colour, lineWidth: 3 });
    ctx.setLineDash(dash.map(length => length / 2));
    ctx.strokeRect(x, 6 + 18 * row + 6, 14, 0);
    ctx.fillStyle = chart.ink(1);
    ctx.fillText(name, x + 19, 6 + 18 * row);
  }
  const topOf = element => element.getBoundingClientRect().top - box.top + chart.plots.scrollTop + top;
  ctx.fillStyle = chart.ink(1);
  for (const panel of chart.panels) {
    if (chart.isEmpty) break;
    ctx.fillText(panel.heading.textContent, chart.axisWidth, topOf(panel.heading) + 2);
    const { canvas: drawn } = panel.plot.ctx, { width, height } = drawn.getBoundingClientRect();
    ctx.drawImage(drawn, 0, topOf(drawn), width, height);
  }
  ctx.fillText(chart.isEmpty ? chart.message.textContent : chart.axisName.textContent, chart.axisWidth, canvas.height / ratio - 18);
  return canvas;
}

/** Return what saved.js shows: the range and the figure, thinned to what a saved notebook holds. */
export function snapshotOf(chart) {
  const { mostPoints, mostOnLine } = LOOK.saved, { timeName, zone } = chart.options;
  const most = Math.min(mostOnLine, Math.floor(mostPoints / Math.max(1, chart.lines.length)));
  const lines = chart.lines.map(line => {
    const kept = thinned(line.y, most), { thing, field, kind, unit, states, rings } = line;
    const shown = { thing, field, kind, unit, states, x: differences(kept.map(index => line.x[index])), y: kept.map(index => orNull(line.y[index])) };
    if (!rings) return shown;
    const texts = Object.fromEntries(Object.entries(rings).map(([name, values]) => [name, [...values]]));
    return { ...shown, rings: { ...texts, x: differences(texts.x) } };
  });
  const gaps = [...chart.gaps].flatMap(([thing, ends]) => ends.map(each => [thing, ...each]));
  const { shifts, note, range } = chart, things = [...chart.things.keys()];
  return { range, figure: { lines, things, gaps, shifts, note, zone, timeName } };
}

const orNull = value => (Number.isFinite(value) ? value : null);

function differences(seconds) {
  const micros = seconds.map(time => Math.round(time * 1e6));
  return micros.map((time, place) => (place ? time - micros[place - 1] : time));
}

/** Return the indices of at most `most` values: of more, the least and the greatest of each piece. */
function thinned(values, most) {
  if (values.length <= most) return Array.from(values, (_value, index) => index);
  const length = Math.ceil(values.length / Math.floor(most / 2)), kept = [];
  for (let start = 0; start < values.length; start += length) {
    let [least, greatest] = [start, start];
    for (let at = start; at < Math.min(start + length, values.length); at++) {
      if (values[at] < values[least] || Number.isNaN(values[least])) least = at;
      if (values[at] > values[greatest] || Number.isNaN(values[greatest])) greatest = at;
    }
    kept.push(...new Set([Math.min(least, greatest), Math.max(least, greatest)]));
  }
  return kept;
}

function legendRows(ctx, entries, width) {
  let x = 8, row = 0;
  return entries.map(([name, [thing]]) => {
    const entryWidth = ctx.measureText(name).width + 34; // with the swatch and the space around
    if (x + entryWidth > width && x > 8) [x, row] = [8, row + 1];
    x += entryWidth;
    return { name, thing, x: x - entryWidth, row };
  });
}

/** Return the colour behind an element. */
function backgroundOf(element) {
  for (let node = element; node; node = node.parentElement) {
    const colour = getComputedStyle(node).backgroundColor;
    if (!/^(transparent|rgba\(.*, 0\))$/.test(colour)) return colour;
  }
  return "white";
}

/** Yield {time, thing, cells} for each thing and time with a value; cells has {line, index} by field. */
export function* rowsOf(lines, from, to) {
  for (const thing of new Set(lines.map(line => line.thing))) {
    const columns = lines.filter(line => line.thing === thing);
    const next = columns.map(line => firstFrom(line.x, from)); // the index of the next point
    for (;;) {
      const time = Math.min(...columns.map((line, column) => line.x[next[column]] ?? Infinity));
      if (!(time <= to)) break;
      const cells = new Map();
      columns.forEach((line, column) => {
        if (line.x[next[column]] !== time) return;
        const index = next[column]++;
        if (!Number.isNaN(line.y[index])) cells.set(line.field, { line, index }); // otherwise it only interrupts its line
      });
      if (cells.size) yield { time, thing, cells };
    }
  }
}

/** Return CSV: a row for each thing and time with a value, a column for each field; formulas begin with an apostrophe. */
function csvOf(lines, from, to, timeName, naive) {
  const fields = [...new Set(lines.map(line => line.field))], isNamed = lines.some(line => line.thing);
  const rows = [[timeName, ...(isNamed ? ["thing"] : []), ...fields].map(csvName)];
  for (const { time, thing, cells } of rowsOf(lines, from, to)) {
    const values = fields.map(field => (cells.has(field) ? csvValue(cells.get(field)) : ""));
    rows.push([isoText(time, naive), ...(isNamed ? [csvName(thing)] : []), ...values]);
  }
  return rows.map(row => row.join(",")).join("\r\n") + "\r\n";
}

const quoted = text => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const csvName = text => quoted(/^[=+\-@\t\r\n]/.test(text) && !/^[+-]?\d+(\.\d+)?$/.test(text) ? `'${text}` : text);

function csvValue({ line, index }) {
  return line.kind === "number" ? String(line.y[index]) : csvName(line.textOf(index));
}
