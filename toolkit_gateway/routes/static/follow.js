// The page that follows a thing: its stream, the latest value of each field, a chart of each number.
import { ageText } from "./ages.js";
import { createChart } from "./chart.js";

const MAX_POINTS = 2000; // shown in a chart
const BACKLOG = 500; // dweets from before the page was opened
const MAX_CHARTS = 24;
const MAX_FIELDS = 200;
const LONGEST_TEXT = 200;
const LONGEST_NAME = 80;
const CHART_PIXELS = 130;
const PAINT_MS = 80;
const SILENCE_MS = 40000; // the gateway sends a heartbeat every 15 s
const KEPT_TIMES = 200; // of the last dweets: for their rate and their usual pause
const GAP_FACTOR = 1.5; // a pause this many times as long as usual is a gap, as in a history ...
const LEAST_GAP = 2; // ... if it is not only a short delay on the way (seconds)
const LEAST_SILENCE = 10, PAUSES = 3; // as in LiveDweets: silent after 10 s, and after three usual pauses
const WAITS_MS = [100, 200, 500, 1000, 2000, 5000];

const find = (id) => document.getElementById(id);
const status = document.querySelector("[role=status]");
const thing = document.querySelector("main").dataset.thing;
const address = "/listen/for/dweets/from/" + encodeURIComponent(thing);

let key = ""; // kept only here, never in the address bar, the history or a storage
let last; // sequence number of the last dweet
let count = 0;
let newest = "";
let painting = null;
let isConnected = false;
let head; // sequence number of the last dweet when the page was opened
let behind = Infinity; // milliseconds from the time of a new dweet to the clock of this machine
let times = []; // seconds since 1970
const fields = new Map();

// -- the stream -----------------------------------------------------------------------------------------------------

class Refused extends Error {
  constructor({ with: code, because }) {
    super(because);
    this.code = code;
  }
}

async function follow() {
  for (let attempt = 0; ; ) {
    let why = "The stream ended";
    await becomesVisible();
    try {
      await listen(() => (attempt = 0));
    } catch (error) {
      if (error instanceof Refused && [403, 429].includes(error.code)) {
        isConnected = false;
        await askForKey(error.message);
        continue;
      }
      why = error instanceof Refused ? error.message : "The connection is lost";
    }
    if (document.hidden) continue;
    isConnected = false;
    say("lost", `${why}, reconnecting ...`);
    await pause(WAITS_MS[Math.min(attempt++, WAITS_MS.length - 1)]);
  }
}

/** Read the stream until it ends: first what was posted before the page was opened. */
async function listen(connected) {
  if (last === undefined)
    for await (const { id } of events("", connected)) {
      [head, last] = [id, Math.max(0, id - BACKLOG)];
      break;
    }
  for await (const { id, dweet } of events(last, connected)) {
    last = id;
    if (dweet && id > head) behind = Math.min(behind, Date.now() - Date.parse(dweet.created));
    if (dweet) add(dweet);
    isConnected = true;
    tell();
  }
}

/** The events of the stream: first a position, then dweets. Throws Refused if the gateway refuses. */
async function* events(since, connected) {
  const end = new AbortController();
  let silence = setTimeout(() => end.abort(), SILENCE_MS);
  // A browser opens at most six connections to a gateway, so a page in the background closes its own for a while.
  const endIfHidden = () => document.hidden && end.abort();
  document.addEventListener("visibilitychange", endIfHidden, { signal: end.signal });
  try {
    const response = await fetch(`${address}?${new URLSearchParams({ key, since })}`, {
      headers: { accept: "text/event-stream" }, cache: "no-store", credentials: "omit", signal: end.signal,
    });
    if (!response.headers.get("content-type").startsWith("text/event-stream")) throw new Refused(await response.json());
    connected();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; ; ) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(silence);
      silence = setTimeout(() => end.abort(), SILENCE_MS);
      const complete = (text + value).split("\n\n");
      text = complete.pop();
      yield* complete.filter((event) => event.startsWith("id: ")).map(parsed);
    }
  } finally {
    clearTimeout(silence);
    end.abort();
  }
}

function parsed(event) {
  const [id, ...data] = event.split("\n").map((line) => line.slice(line.indexOf(" ") + 1));
  return { id: Number(id), dweet: data.length ? JSON.parse(data.join("\n")) : null };
}

async function becomesVisible() {
  while (document.hidden)
    await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
}

function pause(milliseconds) {
  return new Promise((resolve) => {
    const goOn = () => {
      clearTimeout(timer);
      removeEventListener("online", goOn);
      resolve();
    };
    const timer = setTimeout(goOn, milliseconds);
    addEventListener("online", goOn);
  });
}

// -- the key --------------------------------------------------------------------------------------------------------

function askForKey(why) {
  const form = find("unlock");
  say("lost", why.charAt(0).toUpperCase() + why.slice(1));
  form.hidden = false;
  find("key").focus();
  return new Promise((resolve) => {
    form.onsubmit = (event) => {
      event.preventDefault();
      key = find("key").value;
      form.reset();
      form.hidden = true;
      say("", "Connecting ...");
      resolve();
    };
  });
}

// -- what is shown --------------------------------------------------------------------------------------------------

/** Set the status line, which screen readers read aloud when it changes. */
function say(state, text) {
  if (status.textContent === text) return;
  status.dataset.state = state;
  status.textContent = text;
}

function add(dweet) {
  const time = Date.parse(dweet.created) / 1000;
  const before = times.at(-1), limit = Math.max(LEAST_GAP, GAP_FACTOR * usualPause());
  if (times.length > 1 && time - before > limit) for (const field of fields.values()) field.interrupt([before, time]);
  times.push(time);
  times = times.slice(-KEPT_TIMES);
  count += 1;
  newest = dweet.created;
  for (const [name, value] of leaves(dweet.content)) {
    if (!fields.has(name) && fields.size >= MAX_FIELDS) find("rest").hidden = false;
    else {
      if (!fields.has(name)) fields.set(name, new Field(name));
      fields.get(name).add(time, value);
    }
  }
  painting ??= setTimeout(paint, Math.max(PAINT_MS, 10 * Field.charts)); // many charts take a while to paint
}

function paint() {
  painting = null;
  for (const field of fields.values()) field.paint();
}

/** Say whether dweets come, how many, and how long ago the last one came. */
function tell() {
  if (!count) return void (isConnected && say("", "Nothing yet: waiting for the first dweet"));
  const now = Date.now() - (behind === Infinity ? 0 : behind);
  const age = Math.max(0, now / 1000 - times.at(-1)), isSilent = age > Math.max(LEAST_SILENCE, PAUSES * usualPause());
  if (isConnected) say(isSilent ? "" : "live", isSilent ? "Connected, but nothing comes" : "Live");
  const time = newest.slice(0, 19).replace("T", " ");
  const dweets = `${count.toLocaleString("en")} ${count === 1 ? "dweet" : "dweets"}`;
  find("newest").textContent = `${dweets}, the last at ${time} UTC, ${ageText(age)} · ${isSilent ? "0 / s" : rateText()}`;
}

function usualPause() {
  const pauses = times.slice(1).map((time, index) => time - times[index]).sort((a, b) => a - b);
  return pauses[pauses.length >> 1] ?? 0;
}

/** The rate of the last minute in which dweets came. */
function rateText() {
  const last = times.filter(time => time >= times.at(-1) - 60), rate = (last.length - 1) / (last.at(-1) - last[0]);
  if (!Number.isFinite(rate)) return "–";
  return rate >= 1 ? `${rate.toFixed(1)} / s` : `${(60 * rate).toFixed(1)} / min`;
}

setInterval(tell, 1000);

/** The leaves of a content with dotted names, as in the toolkit's frames. Not recursive: contents may nest deeply. */
function* leaves(content) {
  const isBranch = (value) => value && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length;
  const waiting = [isBranch(content) ? ["", content] : ["content", content]];
  while (waiting.length) {
    const [name, value] = waiting.pop();
    if (!isBranch(value)) yield [name, value];
    else for (const key of Object.keys(value).reverse()) waiting.push([name ? `${name}.${key}` : key, value[key]]);
  }
}

function worded(value) {
  if (typeof value === "number") {
    const size = Math.abs(value);
    if (size && (size < 1e-6 || size > Number.MAX_SAFE_INTEGER)) return value.toExponential(6).replace(/\.?0+e/, "e");
    return value.toLocaleString("en", { maximumFractionDigits: 12 });
  }
  return shortened(typeof value === "string" ? value : JSON.stringify(value), LONGEST_TEXT);
}

function shortened(text, longest) {
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}

/** A new element with isolated text, so that right-to-left text does not reorder the text around it. */
function make(tag, text, parent) {
  const element = document.createElement(tag);
  element.append(document.createElement("bdi"));
  element.firstChild.textContent = text;
  parent.append(element);
  return element;
}

/** One field: a row in the list of values, or a card with a chart once it has a number or a truth value. */
class Field {
  static charts = 0;

  constructor(name) {
    Object.assign(this, { name, title: shortened(name, LONGEST_NAME), x: [], y: [], gaps: [], lastTime: -Infinity, isNew: true });
    this.row = [make("dt", this.title, find("values")), make("dd", "", find("values"))];
    this.shown = this.row[1].firstChild;
  }

  add(time, value) {
    Object.assign(this, { value, isNew: true });
    this.kind ??= ["number", "boolean"].includes(typeof value) ? typeof value : undefined;
    if (typeof value !== this.kind) return;
    this.lastTime = Math.max(time, this.lastTime); // ascending, even if the clock of the gateway was set back
    this.x.push(this.lastTime);
    this.y.push(value);
  }

  /** Draw no line across a gap. */
  interrupt(gap) {
    this.gaps.push(gap);
    this.x.push((gap[0] + gap[1]) / 2);
    this.y.push(NaN);
  }

  paint() {
    if (!this.isNew) return;
    this.isNew = false;
    if (this.kind && !this.chart) this.makeChart();
    this.shown.textContent = worded(this.value);
    this.chart?.append(this.x, this.y, MAX_POINTS, this.gaps);
    this.x = [];
    this.y = [];
    this.gaps = [];
  }

  makeChart() {
    if (Field.charts === MAX_CHARTS) return void (find("rest").hidden = false);
    Field.charts += 1;
    for (const part of this.row) part.remove();
    const card = document.createElement("section");
    find("charts").append(card);
    const head = document.createElement("header");
    card.append(head);
    make("h2", this.title, head);
    this.shown = make("strong", "", head).firstChild;
    const [height, fileName] = [CHART_PIXELS, `${thing} ${this.name}`];
    this.chart = createChart(card, { timeName: "created", height, fileName });
    this.chart.setData([{ name: this.name, kind: this.kind }]);
  }
}

follow();
