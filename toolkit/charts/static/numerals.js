// Numbers and times as text: distinct tick labels, values with enough digits to tell them apart, times in their zone.

import LOOK from "./look.json";

const { leastPlain, greatestPlain, mostDigits, fewestDigits } = LOOK.numbers; // outside of this range, as 1.5e-9

const isPlain = size => size === 0 || (leastPlain <= size && size < greatestPlain);

function written(value, decimals, scientific) {
  if (value === 0 && scientific) return "0";
  if (scientific) return value.toExponential(decimals).replace("e+", "e");
  const fixed = Math.abs(value).toFixed(decimals), [whole, rest] = fixed.split(".");
  const sign = value < 0 && Number(fixed) !== 0 ? "-" : "";
  return sign + whole.replace(/\B(?=(\d{3})+$)/g, ",") + (rest ? `.${rest}` : "");
}

/** Labels for the ticks of an axis, all with the same number of decimals. */
export function tickLabels(ticks) {
  if (!ticks.length) return [];
  const steps = ticks.slice(1).map((tick, index) => Math.abs(tick - ticks[index]));
  const step = (steps.length ? Math.min(...steps) : 0) || Math.abs(ticks[0]) || 1;
  const exact = ticks.map(tick => (Math.abs(tick) < step / 100 ? 0 : tick));
  const greatest = Math.max(...exact.map(Math.abs));
  if (!isPlain(greatest)) return distinctLabels(exact, step, true);
  const plain = distinctLabels(exact, step, false);
  if (greatest < 1e9) return plain;
  const short = distinctLabels(exact, step, true), length = texts => Math.max(...texts.map(text => text.length));
  return length(short) < length(plain) - 4 ? short : plain; // 5e12, but 1,234,567,890
}

function distinctLabels(exact, step, scientific) {
  let texts = [];
  for (let decimals = 0; decimals < mostDigits; decimals++) {
    texts = exact.map(tick => written(tick, decimals, scientific));
    if (texts.every((text, index) => Math.abs(Number(text.replaceAll(",", "")) - exact[index]) <= step / 100)) break;
  }
  return texts;
}

/** Return a value with the digits that matter if the values of its line span `span`: 1,234,567,890.25, but 21.5. */
export function readable(value, span) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (!isPlain(size)) return value.toExponential(Math.max(3, Math.min(15, digitsFor(size, span)))).replace(/\.?0+e/, "e");
  const decimals = Math.min(15, Math.max(0, digitsFor(size, span) - Math.floor(Math.log10(size || 1))));
  const text = written(value, decimals, false);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

function digitsFor(size, span) {
  const smallest = Math.min(span > 0 ? span : size || 1, size || 1);
  return Math.ceil(Math.log10((size || 1) / smallest)) + fewestDigits;
}

/** Ticks of an axis: two to `most` multiples of 1, 2, 2.5 or 5 times a power of ten. */
export function ticksBetween(least, greatest, most) {
  const power = 10 ** Math.floor(Math.log10((greatest - least) / most));
  const step = [1, 2, 2.5, 5, 10, 20].map(factor => factor * power).find(size => Math.floor(greatest / size) - Math.ceil(least / size) < most);
  const first = Math.ceil(least / step), count = Math.floor(greatest / step) - first + 1;
  return Array.from({ length: count }, (_, index) => Number(((first + index) * step).toPrecision(15)));
}

/** A length of time as text, in its two greatest units: 2 d 3 h, 1 min 20 s. */
export function lengthText(seconds) {
  const sizes = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const place = sizes.findIndex(([, size]) => Math.round(seconds) >= size);
  if (place < 0) return `${Number(seconds.toPrecision(2))} s`;
  const [unit, size] = sizes[place], [smaller, part] = sizes[place + 1] ?? ["", 1];
  const parts = Math.round(seconds / part), whole = Math.floor((parts * part) / size), rest = parts - (whole * size) / part;
  return `${whole} ${unit}${smaller && rest ? ` ${rest} ${smaller}` : ""}`;
}

/** Return a function from seconds since 1970 to a Date whose UTC fields (getUTCHours, ...) are those of the zone. */
export function dateIn(zone) {
  if (!zone || zone === "UTC") return seconds => new Date(seconds * 1000);
  // Swedish times are written as in ISO 8601, but for the zeros before a short year.
  const format = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" });
  return seconds => {
    const time = new Date(seconds * 1000), [day, clock] = format.format(time).padStart(19, "0").split(" ");
    return new Date(Date.parse(`${day}T${clock}Z`) + time.getUTCMilliseconds());
  };
}

/** Return a time as text in its zone, as precise as an axis of `span` seconds needs. */
export function timeText(seconds, toDate, span) {
  const [day, clock] = toDate(seconds).toISOString().slice(0, -1).split("T");
  if (span > 400 * 86400 && clock.startsWith("00:00:00")) return day;
  if (span > 2 * 86400 && clock.slice(6, 8) === "00") return `${day} ${clock.slice(0, 5)}`;
  const isFine = span < 60 || (span < 3600 && !clock.endsWith(".000"));
  return `${day} ${isFine ? clock : clock.slice(0, 8)}`;
}

/** Labels for ticks `step` seconds apart: what differs within a year or day, and below it the year or day if it is another. */
export function timeLabels(times, toDate, step) {
  let before = "";
  return times.map(time => {
    const date = toDate(time), [, day, month, year, clock] = date.toUTCString().split(" ");
    const dayText = `${Number(day)} ${month}`, fraction = date.toISOString().slice(-5, -1);
    let texts = [clock.slice(3) + fraction, `${dayText} ${year} ${clock.slice(0, 5)}`];
    if (step >= 365 * 86400) texts = [year, ""];
    else if (step >= 28 * 86400) texts = [month, year];
    else if (step >= 86400) texts = [dayText, year];
    else if (step >= 1) texts = [step >= 60 ? clock.slice(0, 5) : clock, `${dayText} ${year}`];
    const [text, below] = texts, isNew = below !== before;
    before = below;
    return isNew ? `${text}\n${below}` : text;
  });
}

/** Return seconds since 1970 as ISO 8601 with microseconds, for files; `naive` leaves out the Z. */
export function isoText(seconds, naive) {
  let whole = Math.floor(seconds), micros = Math.round((seconds - whole) * 1e6);
  if (micros === 1e6) [whole, micros] = [whole + 1, 0];
  const text = new Date(whole * 1000).toISOString().slice(0, 19);
  return text + (micros ? `.${String(micros).padStart(6, "0")}` : "") + (naive ? "" : "Z");
}
