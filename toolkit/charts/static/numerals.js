// Numbers and times as text: distinct tick labels, values with enough digits to tell them apart, times in their zone.

const LEAST_PLAIN = 1e-4, GREATEST_PLAIN = 1e15, MOST_DIGITS = 17; // outside of this range, as 1.5e-9

const isPlain = size => size === 0 || (LEAST_PLAIN <= size && size < GREATEST_PLAIN);

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
  for (let decimals = 0; decimals < MOST_DIGITS; decimals++) {
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
  return Math.ceil(Math.log10((size || 1) / smallest)) + 4;
}

/** Return a function from seconds since 1970 to a Date whose local fields (getHours, ...) are those of the zone. */
export function dateIn(zone) {
  if (zone && zone !== "UTC") return seconds => zoned(seconds, zone);
  return seconds => {
    const utc = new Date(seconds * 1000);
    return new Date(
      utc.getUTCFullYear(), utc.getUTCMonth(), utc.getUTCDate(),
      utc.getUTCHours(), utc.getUTCMinutes(), utc.getUTCSeconds(), utc.getUTCMilliseconds(),
    );
  };
}

const formats = new Map();

function zoned(seconds, zone) {
  if (!formats.has(zone))
    formats.set(zone, new Intl.DateTimeFormat("en-US", {
      timeZone: zone, hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric",
      hour: "numeric", minute: "numeric", second: "numeric",
    }));
  const time = new Date(seconds * 1000), part = {};
  for (const { type, value } of formats.get(zone).formatToParts(time)) part[type] = Number(value);
  return new Date(part.year, part.month - 1, part.day, part.hour, part.minute, part.second, time.getMilliseconds());
}

const twoDigits = number => String(number).padStart(2, "0");

/** Return a time as text in its zone, as precise as an axis of `span` seconds needs. */
export function timeText(seconds, toDate, span) {
  const date = toDate(seconds);
  const day = `${date.getFullYear()}-${twoDigits(date.getMonth() + 1)}-${twoDigits(date.getDate())}`;
  const clock = `${twoDigits(date.getHours())}:${twoDigits(date.getMinutes())}`;
  if (span > 400 * 86400 && clock === "00:00" && date.getSeconds() === 0) return day;
  if (span > 2 * 86400 && date.getSeconds() === 0) return `${day} ${clock}`;
  const fraction = span < 60 || date.getMilliseconds() ? `.${String(date.getMilliseconds()).padStart(3, "0")}` : "";
  return `${day} ${clock}:${twoDigits(date.getSeconds())}${span < 3600 ? fraction : ""}`;
}

/** Return seconds since 1970 as ISO 8601 with microseconds, for files; `naive` leaves out the Z. */
export function isoText(seconds, naive) {
  let whole = Math.floor(seconds), micros = Math.round((seconds - whole) * 1e6);
  if (micros === 1e6) [whole, micros] = [whole + 1, 0];
  const text = new Date(whole * 1000).toISOString().slice(0, 19);
  return text + (micros ? `.${String(micros).padStart(6, "0")}` : "") + (naive ? "" : "Z");
}
