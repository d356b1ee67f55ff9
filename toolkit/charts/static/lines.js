// The data of a chart: lines of times and values, and the selection of points that a screen can show.

// Colour-blind people can tell these apart; contrast above 3 on white and on #111. The same as PALETTE in series.py.
export const PALETTE = [
  "#17A0CD", "#975D94", "#9A7CFA", "#9A4945", "#1C73E2",
  "#3C6C6A", "#C26C6B", "#6E7F36", "#7645C0", "#A28D16",
];

/** Return the colour of a line that has no other line beside it. The same as `styles_of` of series.py. */
export function colourOf(name) {
  let hash = 2166136261;
  for (const byte of new TextEncoder().encode(name)) hash = Math.imul(hash ^ byte, 16777619) >>> 0;
  return PALETTE[hash % PALETTE.length];
}

/** Return the index of the first x that is not below a limit. */
export function firstFrom(x, limit) {
  let low = 0, high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class Line {
  constructor({
    name, field = name, thing = "", kind = "number", unit = "", panel = "", colour = colourOf(name), dash = [],
    x = [], y = [], states = [], rings = null,
  }) {
    Object.assign(this, { name, field, thing, kind, unit, panel, colour, dash, states, rings });
    this.x = new Float64Array(x);
    this.y = new Float64Array(y);
  }

  /** Return the index of the point nearest to a time, or -1; points without a value do not count. */
  nearestIndex(time) {
    const after = firstFrom(this.x, time);
    let right = after, left = after - 1;
    while (right < this.x.length && Number.isNaN(this.y[right])) right++;
    while (left >= 0 && Number.isNaN(this.y[left])) left--;
    if (left < 0) return right < this.x.length ? right : -1;
    if (right >= this.x.length) return left;
    return time - this.x[left] <= this.x[right] - time ? left : right;
  }

  /** Return the index of the last point at or before a time, or -1: a state lasts until the next point. */
  indexAt(time) {
    return firstFrom(this.x, time + 1e-7) - 1; // 1e-7: times have microseconds
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
    this.bounds = undefined;
  }

  /** Return times and values (null if missing) to draw between two times; if more than `most`, two for each piece. */
  pointsBetween(from, to, pieces, most) {
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
      let least = -1, greatest = -1, count = 0; // indices of the two values
      for (; at < last && (this.x[at] < end || (piece === pieces - 1 && this.x[at] <= to)); at++, count++) {
        const value = this.y[at];
        if (!Number.isFinite(value)) continue;
        if (least < 0 || value < this.y[least]) least = at;
        if (greatest < 0 || value >= this.y[greatest]) greatest = at;
      }
      if (!count) continue;
      // The same times in all lines, so that the joined table of the lines stays small.
      const times = [from + (piece + 0.25) * step, from + (piece + 0.75) * step];
      if (least < 0) put(times[0], NaN);
      else if (least === greatest || this.y[least] === this.y[greatest]) put(times[0], this.y[least]);
      else {
        const rises = this.kind === "boolean" ? this.y[at - 1] === this.y[greatest] : least < greatest;
        put(times[0], this.y[rises ? least : greatest]);
        put(times[1], this.y[rises ? greatest : least]);
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
