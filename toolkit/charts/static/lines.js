// The data of a chart: lines of times and values, and the few points of them that a screen can show.

// Told apart by colour-blind eyes, contrast above 3 on white and on #111; the same as PALETTE in series.py.
export const PALETTE = [
  "#17A0CD", "#975D94", "#9A7CFA", "#9A4945", "#1C73E2",
  "#3C6C6A", "#C26C6B", "#6E7F36", "#7645C0", "#A28D16",
];

// Beyond ten lines, patterns tell apart what has the same colour.
const DASHES = [[], [8, 4], [2, 3], [12, 3, 2, 3]];

/** How lines that are drawn together look; `known` remembers it. The same as `styles_of` of series.py. */
export function stylesOf(names, known) {
  const found = new Map();
  for (const name of [...names].sort((one, other) => known.has(other) - known.has(one))) {
    const used = [...found.values()];
    if (!known.has(name) || used.includes(known.get(name))) {
      const uses = PALETTE.map(colour => used.filter(style => style.colour === colour).length);
      const least = Math.min(...uses);
      let place = hashOf(name) % PALETTE.length;
      while (uses[place] > least) place = (place + 1) % PALETTE.length;
      known.set(name, styles[place][least % DASHES.length]);
    }
    found.set(name, known.get(name));
  }
  return found;
}

const styles = PALETTE.map(colour => DASHES.map(dash => ({ colour, dash })));

function hashOf(name) {
  let hash = 2166136261;
  for (const byte of new TextEncoder().encode(name)) hash = Math.imul(hash ^ byte, 16777619) >>> 0;
  return hash;
}

/** Index of the first x that is not below `at`. */
export function firstFrom(x, at) {
  let low = 0, high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class Line {
  constructor({ name, field = name, thing = "", kind = "number", unit = "", colour, dash = [], x, y, states = [], rings = null }) {
    Object.assign(this, { name, field, thing, kind, unit, colour, dash, states, rings, isStyled: colour !== undefined });
    this.x = new Float64Array(x);
    this.y = new Float64Array(y);
  }

  /** The index of the point nearest to a time, -1 without any; missing values count as none. */
  nearest(at) {
    const after = firstFrom(this.x, at);
    let right = after, left = after - 1;
    while (right < this.x.length && Number.isNaN(this.y[right])) right++;
    while (left >= 0 && Number.isNaN(this.y[left])) left--;
    if (left < 0) return right < this.x.length ? right : -1;
    if (right >= this.x.length) return left;
    return at - this.x[left] <= this.x[right] - at ? left : right;
  }

  /** The index of what holds at a time: of the last point not after it. */
  last(at) {
    return firstFrom(this.x, at + 1e-7) - 1;
  }

  extremes() {
    let least = Infinity, greatest = -Infinity;
    for (const value of this.y) {
      if (value < least && value > -Infinity) least = value;
      if (value > greatest && value < Infinity) greatest = value;
    }
    return [least, greatest];
  }

  textOf(index) {
    return this.kind === "boolean" ? (this.y[index] ? "true" : "false") : this.states[this.y[index]];
  }

  append(x, y, keep) {
    const drop = Math.max(0, this.x.length + x.length - keep);
    this.x = joined(this.x, x, drop);
    this.y = joined(this.y, y, drop);
  }

  /** Times and values (null where missing) to draw between two times, at most two for each of `pieces` if too many. */
  shown(from, to, pieces, most) {
    const first = Math.max(0, firstFrom(this.x, from) - 1), last = Math.min(this.x.length, firstFrom(this.x, to) + 1);
    const xs = [], ys = [];
    const put = (x, y) => {
      xs.push(x);
      ys.push(Number.isFinite(y) ? y : null);
    };
    if (last - first <= most) {
      for (let at = first; at < last; at++) put(this.x[at], this.y[at]);
      return [xs, ys];
    }
    const step = (to - from) / pieces;
    if (this.x[first] < from) put(this.x[first], this.y[first]);
    let at = firstFrom(this.x, from);
    for (let piece = 0; piece < pieces && at < last; piece++) {
      const end = from + (piece + 1) * step;
      let least = -1, greatest = -1, count = 0;
      for (; at < last && (this.x[at] < end || (piece === pieces - 1 && this.x[at] <= to)); at++, count++) {
        const value = this.y[at];
        if (!Number.isFinite(value)) continue;
        if (least < 0 || value < this.y[least]) least = at;
        if (greatest < 0 || value >= this.y[greatest]) greatest = at;
      }
      if (!count) continue;
      // All lines have the same places, so that many of them share their times.
      const places = [from + (piece + 0.25) * step, from + (piece + 0.75) * step];
      if (least < 0) put(places[0], NaN);
      else if (least === greatest || this.y[least] === this.y[greatest]) put(places[0], this.y[least]);
      else {
        const rises = this.kind === "boolean" ? this.y[at - 1] === this.y[greatest] : least < greatest;
        put(places[0], this.y[rises ? least : greatest]);
        put(places[1], this.y[rises ? greatest : least]);
      }
    }
    if (at < this.x.length) put(this.x[at], this.y[at]);
    return [xs, ys];
  }
}

function joined(before, added, drop) {
  const all = new Float64Array(before.length + added.length - drop);
  all.set(before.subarray(Math.min(drop, before.length)));
  all.set(Float64Array.from(added).subarray(Math.max(0, drop - before.length)), Math.max(0, before.length - drop));
  return all;
}

/** Group lines into panels: fields of unlike magnitude, truth values and texts have panels of their own. */
export function panelsOf(lines, together) {
  const numbers = lines.filter(line => line.kind === "number"), groups = new Map();
  const sizes = new Map();
  for (const line of numbers) {
    const size = Math.max(...line.extremes().map(Math.abs));
    if (Number.isFinite(size)) sizes.set(line.field, Math.max(size, sizes.get(line.field) ?? 0));
  }
  const positive = [...sizes.values()].filter(size => size > 0);
  const units = new Set(numbers.map(line => line.unit));
  const alike = together ?? (units.size < 2 && Math.max(...positive, 0) <= 10 * Math.min(...positive, Infinity));
  for (const line of lines) {
    const key = line.kind === "number" ? (alike ? "number" : `number ${line.field}`) : `${line.kind} ${line.field}`;
    groups.set(key, [...(groups.get(key) ?? []), line]);
  }
  return [...groups.values()];
}
