// A saved chart or explorer, shown from data in the page itself: it needs no kernel and makes no request.
//
//   showSaved(element, {options, range, figure, rows, tables})
//     options, range     of createChart and of chart.setRange
//     figure             as in chart.setData and chart.setAxis, but x are microseconds, each but the first as the
//                        difference from the one before, and y has null where a value is missing
//     rows               whether a table shows the rows below the chart
//     tables             {name: {columns: [text, ...], rows: [[text, ...], ...]}} below the rows

import { createChart } from "./chart.js";
import { make } from "./elements.js";
import { RowsTable } from "./table.js";

function secondsOf(differences) {
  let microseconds = 0;
  return Float64Array.from(differences, difference => (microseconds += difference) / 1e6);
}

const numbersOf = values => Float64Array.from(values, value => value ?? NaN);

function lineOf({ x, y, rings, ...line }) {
  const outliers = rings && { ...Object.fromEntries(Object.entries(rings).map(([name, values]) => [name, numbersOf(values)])), x: secondsOf(rings.x) };
  return { ...line, x: secondsOf(x), y: numbersOf(y), rings: outliers };
}

export function showSaved(element, { options, range, figure, rows, tables }) {
  let table;
  const chart = createChart(element, { ...options, onView: () => table?.show() });
  chart.setAxis(figure.timeName, figure.zone);
  chart.setData(figure.lines.map(lineOf), figure);
  if (range) chart.setRange(range);
  if (rows) table = new RowsTable(element, chart);
  for (const [name, { columns, rows: texts }] of Object.entries(tables)) {
    make("h2", "toolkit-table-name", element, name);
    const body = make("table", "toolkit-table", make("div", "toolkit-table-box", element));
    for (const [tag, cells] of [["th", columns], ...texts.map(row => ["td", row])]) {
      const line = make("tr", "", body);
      for (const cell of cells) make(tag, "", line, cell);
    }
  }
  return chart;
}
