// The downloads of a chart: a picture and a table.

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

/** Return a canvas with the legend, headings, panels and the name of the time axis of a chart. */
export function pictureOf(chart) {
  const ratio = devicePixelRatio, box = chart.plots.getBoundingClientRect(), canvas = document.createElement("canvas");
  const ctx = canvas.getContext("2d"), font = "12px system-ui, sans-serif";
  ctx.font = font;
  const items = chart.legend.hidden ? [] : legendRows(ctx, chart.visibleLines().filter(line => line.kind !== "text"), box.width);
  const top = items.length ? 18 * (items.at(-1).row + 1) + 6 : 6;
  canvas.width = box.width * ratio;
  canvas.height = (top + chart.plots.scrollHeight + 20) * ratio;
  ctx.scale(ratio, ratio);
  ctx.fillStyle = backgroundOf(chart.root);
  ctx.fillRect(0, 0, box.width, canvas.height);
  Object.assign(ctx, { font, textBaseline: "top" });
  for (const { line, x, row } of items) {
    Object.assign(ctx, { strokeStyle: line.colour, lineWidth: 3 });
    ctx.setLineDash(line.dash.map(length => length / 2));
    ctx.strokeRect(x, 6 + 18 * row + 6, 14, 0);
    ctx.fillStyle = chart.ink(1);
    ctx.fillText(line.name, x + 19, 6 + 18 * row);
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

function legendRows(ctx, lines, width) {
  let x = 8, row = 0;
  return lines.map(line => {
    const entryWidth = ctx.measureText(line.name).width + 34; // with the swatch and the space around
    if (x + entryWidth > width && x > 8) [x, row] = [8, row + 1];
    x += entryWidth;
    return { line, x: x - entryWidth, row };
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

/** Return CSV: a row for each thing and time with a value, a column for each field; formulas begin with an apostrophe. */
export function csvOf(lines, from, to, timeName, naive) {
  const fields = [...new Set(lines.map(line => line.field))], things = [...new Set(lines.map(line => line.thing))];
  const named = things.some(Boolean), rows = [[timeName, ...(named ? ["thing"] : []), ...fields].map(csvName)];
  for (const thing of things) {
    const columns = fields.map(field => lines.find(line => line.thing === thing && line.field === field));
    const next = columns.map(line => (line ? firstFrom(line.x, from) : 0)); // the index of the next point
    for (;;) {
      const time = Math.min(...columns.map((line, column) => line?.x[next[column]] ?? Infinity));
      if (!(time <= to)) break;
      let hasValue = false; // a point without a value only interrupts its line
      const cells = columns.map((line, column) => {
        if (line?.x[next[column]] !== time) return "";
        hasValue ||= !Number.isNaN(line.y[next[column]]);
        return csvValue(line, next[column]++);
      });
      if (hasValue) rows.push([isoText(time, naive), ...(named ? [csvName(thing)] : []), ...cells]);
    }
  }
  return rows.map(row => row.join(",")).join("\r\n") + "\r\n";
}

const quoted = text => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const csvName = text => quoted(/^[=+\-@\t\r\n]/.test(text) && !/^[+-]?\d+(\.\d+)?$/.test(text) ? `'${text}` : text);

function csvValue(line, index) {
  if (Number.isNaN(line.y[index])) return "";
  return line.kind === "number" ? String(line.y[index]) : csvName(line.textOf(index));
}
