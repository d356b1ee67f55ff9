// The data of a chart: lines of times and values, and the selection of points that a screen can show.

import LOOK from "./look.json";

/** Return how the lines of the thing at this place are drawn. The same as `style_at` of look.py. */
export function styleAt(place) {
  const { palette, dashes, rest } = LOOK, round = Math.floor(place / palette.length);
  if (round >= dashes.length) return { colour: rest, dash: [], isDistinct: false };
  return { colour: palette[place % palette.length], dash: dashes[round], isDistinct: true };
}

/** A colour with an opacity from 0 to 1. */
export const translucent = (colour, opacity) => colour + Math.round(255 * opacity).toString(16).padStart(2, "0");

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
    name = "", field = name, thing = "", kind = "number", unit = "", x = [], y = [], states = [], rings = null,
  }) {
    Object.assign(this, { field, thing, kind, unit, states, rings });
    [this.x, this.y] = [x, y].map(values => (values instanceof Float64Array ? values : new Float64Array(values)));
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

  /**
   * Return times and values (null if missing) to draw between two times. If more than `most`, numbers have the mean of
   * each piece, and `low` and `high` have its least and greatest value; truth values have both.
   */
  pointsBetween(from, to, pieces, most) {
    const first = Math.max(0, firstFrom(this.x, from) - 1), last = Math.min(this.x.length, firstFrom(this.x, to) + 1);
    const points = { xs: [], ys: [], low: [], high: [], isDense: last - first > most };
    const put = (x, y, low = y, high = y) => {
      points.xs.push(x);
      points.ys.push(Number.isFinite(y) ? y : null);
      if (!points.isDense || this.kind === "boolean") return;
      points.low.push(Number.isFinite(y) ? low : null);
      points.high.push(Number.isFinite(y) ? high : null);
    };
    if (!points.isDense) {
      for (let at = first; at < last; at++) put(this.x[at], this.y[at]);
      return points;
    }
    const step = (to - from) / pieces;
    if (this.x[first] < from) put(this.x[first], this.y[first]);
    let at = firstFrom(this.x, from);
    for (let piece = 0; piece < pieces && at < last; piece++) {
      const end = from + (piece + 1) * step, start = at;
      let low = Infinity, high = -Infinity, sum = 0, count = 0;
      for (; at < last && (this.x[at] < end || (piece === pieces - 1 && this.x[at] <= to)); at++) {
        const value = this.y[at];
        if (!Number.isFinite(value)) continue;
        if (value < low) low = value;
        if (value > high) high = value;
        sum += value;
        count += 1;
      }
      if (at === start) continue;
      // The same times in all lines, so that the joined table of the lines stays small.
      const early = from + (piece + 0.25) * step, late = from + (piece + 0.75) * step;
      if (!count) put(early, NaN);
      else if (this.kind !== "boolean") put(early, sum / count, low, high);
      else {
        const last = this.y[at - 1];
        if (low !== high || Number.isNaN(last)) put(early, last === low ? high : low);
        put(late, last);
      }
    }
    if (at < this.x.length) put(this.x[at], this.y[at]);
    return points;
  }
}

function joined(before, added, drop) {
  const all = new Float64Array(before.length + added.length - drop);
  all.set(before.subarray(Math.min(drop, before.length)));
  all.set(Float64Array.from(added).subarray(Math.max(0, drop - before.length)), Math.max(0, before.length - drop));
  return all;
}
