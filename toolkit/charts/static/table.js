// The rows of a saved explorer: those in the visible range of the chart, to filter and to sort.

import { make } from "./elements.js";
import { rowsOf } from "./files.js";
import { isoText, readable } from "./numerals.js";

const ROWS_PER_PAGE = 50;
const COMPARISON = /^\s*(.+?)\s*(<=|>=|==|!=|<|>|=)\s*(.+?)\s*$/;
const COMPARE = {
  "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b,
  "=": (a, b) => a === b, "==": (a, b) => a === b, "!=": (a, b) => a !== b,
};

export class RowsTable {
  constructor(parent, chart) {
    Object.assign(this, { chart, page: 0, sortedBy: 0, isDescending: false });
    const controls = make("div", "toolkit-table-controls", parent);
    const label = make("label", "", controls, "Filter ");
    this.filter = make("input", "", label);
    Object.assign(this.filter, { type: "search", placeholder: "celsius > 20, or a word" });
    this.filter.addEventListener("input", () => this.show());
    const turn = (text, title, step) => {
      const button = Object.assign(make("button", "toolkit-chart-button", controls, text), { type: "button", title });
      button.addEventListener("click", () => this.show(this.page + step));
      return button;
    };
    this.before = turn("‹", "The rows before", -1);
    this.after = turn("›", "The rows after", 1);
    this.place = make("span", "", controls);
    this.place.setAttribute("role", "status");
    this.table = make("table", "toolkit-table", make("div", "toolkit-table-box", parent));
    this.show();
  }

  show(page = 0) {
    const { lines, options, things, view } = this.chart, fields = [...new Set(lines.map(line => line.field))];
    const spans = new Map(lines.map(line => [line.field, line.extremes()]));
    const named = things.size > 0, columns = [options.timeName, ...(named ? ["thing"] : []), ...fields];
    const all = [...rowsOf(this.chart.visibleLines(), view.min, view.max)].map(({ time, thing, cells }) =>
      [time, ...(named ? [thing] : []), ...fields.map(field => valueOf(cells.get(field)))]);
    const rows = this.filtered(all, columns);
    rows.sort((a, b) => (this.isDescending ? -1 : 1) * compare(a[this.sortedBy], b[this.sortedBy]));
    const first = page * ROWS_PER_PAGE, shown = rows.slice(first, first + ROWS_PER_PAGE);
    Object.assign(this, { page });
    [this.before.disabled, this.after.disabled] = [page === 0, first + ROWS_PER_PAGE >= rows.length];
    const count = number => number.toLocaleString("en");
    this.place.textContent = shown.length ? `${count(first + 1)}–${count(first + shown.length)} of ${count(rows.length)}` : "no row";
    this.table.replaceChildren();
    this.fillHead(columns);
    for (const row of shown) {
      const line = make("tr", "", this.table);
      row.forEach((value, column) => {
        const [least, greatest] = spans.get(columns[column]) ?? [0, 0];
        const text = column === 0 ? isoText(value, !options.zone) : typeof value === "number" ? readable(value, greatest - least) : String(value ?? "");
        make("td", "", line, text);
      });
    }
  }

  fillHead(columns) {
    const head = make("tr", "", this.table);
    columns.forEach((name, column) => {
      const cell = make("th", "", head), isSorted = column === this.sortedBy;
      if (isSorted) cell.setAttribute("aria-sort", this.isDescending ? "descending" : "ascending");
      const button = make("button", "", cell, isSorted ? `${name} ${this.isDescending ? "▼" : "▲"}` : name);
      Object.assign(button, { type: "button", title: `Sort by ${name}` });
      button.addEventListener("click", () => {
        this.isDescending = isSorted && !this.isDescending;
        this.sortedBy = column;
        this.show();
      });
    });
  }

  /** Return the rows that fit a comparison such as "celsius > 20", or that have these words in a text. */
  filtered(rows, columns) {
    const words = this.filter.value.trim().toLowerCase();
    if (!words) return rows;
    const [, name, sign, given] = COMPARISON.exec(this.filter.value) ?? [], column = columns.indexOf(name);
    if (column < 1) return rows.filter(row => row.some(value => typeof value === "string" && value.toLowerCase().includes(words)));
    const text = given.replace(/^(['"])(.*)\1$/, "$2");
    return rows.filter(row => {
      const value = row[column];
      return value !== undefined && COMPARE[sign](value, typeof value === "number" ? Number(text) : text);
    });
  }
}

const valueOf = cell => cell && (cell.line.kind === "number" ? cell.line.y[cell.index] : cell.line.textOf(cell.index));

/** Order values, missing ones last. */
function compare(a, b) {
  if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined);
  return a < b ? -1 : Number(a > b);
}
