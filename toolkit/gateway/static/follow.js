// The page that follows a thing: its stream, the latest value of each field, a chart of each number.
import { createChart } from "./chart.js";

const POINTS = 2000; // of a chart
const BACKLOG = 500; // dweets before the page was opened
const MOST_CHARTS = 24;
const MOST_FIELDS = 200;
const LONGEST_TEXT = 200;
const PAINT_MS = 80;
const SILENCE_MS = 40000; // the gateway sends a heartbeat every 15 s
const WAITS_MS = [100, 200, 500, 1000, 2000, 5000];

const find = (id) => document.getElementById(id);
const status = document.querySelector("[role=status]");
const dark = matchMedia("(prefers-color-scheme: dark)");
const thing = document.querySelector("main").dataset.thing;
const address = "/listen/for/dweets/from/" + encodeURIComponent(thing);

let key = ""; // only here: never in the address bar, the history or a storage
let last; // sequence number of the last dweet
let count = 0;
let newest = "";
const fields = new Map();
let leftOut = 0;
let painting = 0;

// -- the stream -----------------------------------------------------------------------------------------------------

class Refused extends Error {
  constructor({ with: code, because }) {
    super(because);
    this.code = code;
  }
}

async function follow() {
  for (let attempt = 0; ; ) {
    try {
      await listen(() => (attempt = 0));
      say("lost", "The stream ended, reconnecting ...");
    } catch (error) {
      if (error instanceof Refused && error.code < 500) {
        await askForKey(error.message);
        continue;
      }
      const why = error instanceof Refused ? error.message : "The connection is lost";
      say("lost", `${why}, reconnecting ...`);
    }
    await pause(WAITS_MS[Math.min(attempt++, WAITS_MS.length - 1)]);
  }
}

async function listen(connected) {
  const query = new URLSearchParams();
  if (key) query.set("key", key);
  if (last !== undefined) query.set("since", last);
  const abort = new AbortController();
  let silence;
  const heard = () => {
    clearTimeout(silence);
    silence = setTimeout(() => abort.abort(), SILENCE_MS);
  };
  heard();
  try {
    const response = await fetch(`${address}?${query}`, {
      headers: { accept: "text/event-stream" },
      cache: "no-store",
      credentials: "omit",
      signal: abort.signal,
    });
    if (!response.headers.get("content-type").startsWith("text/event-stream")) throw new Refused(await response.json());
    connected();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events) if (take(event)) return await listenAgain(abort, connected);
    }
  } finally {
    clearTimeout(silence);
    abort.abort();
  }
}

function listenAgain(abort, connected) {
  abort.abort();
  return listen(connected);
}

// Take an event; true if it told where the stream is for the first time: then the dweets before that are read, too.
function take(event) {
  const isFirst = last === undefined;
  const lines = event.split("\n");
  const data = lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice(6));
  const id = lines.find((line) => line.startsWith("id: "));
  if (id) last = Number(id.slice(4));
  if (data.length) add(JSON.parse(data.join("\n")));
  else if (isFirst && last > 0) {
    last = Math.max(0, last - BACKLOG);
    return true;
  } else if (id) say("live", count ? "Live" : "Nothing yet: waiting for the first dweet");
  return false;
}

function pause(milliseconds) {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
    addEventListener("online", resolve, { once: true });
  });
}

// -- the key --------------------------------------------------------------------------------------------------------

function askForKey(why) {
  say("lost", why.charAt(0).toUpperCase() + why.slice(1));
  const form = find("unlock");
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

function say(state, text) {
  if (status.textContent === text) return;
  status.dataset.state = state;
  status.textContent = text;
}

function add(dweet) {
  count += 1;
  newest = dweet.created;
  for (const [name, value] of leaves(dweet.content)) fieldOf(name)?.add(Date.parse(dweet.created) / 1000, value);
  painting ||= setTimeout(paint, PAINT_MS);
}

function fieldOf(name) {
  if (!fields.has(name) && fields.size >= MOST_FIELDS) leftOut = Math.max(leftOut, 1);
  else if (!fields.has(name)) fields.set(name, new Field(name));
  return fields.get(name);
}

// The leaves of a content with dotted names, as the frames of the toolkit have them. Not recursive: contents nest deep.
function* leaves(content) {
  const isBranch = (value) => value && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length;
  const waiting = isBranch(content) ? [["", content]] : [["content", content]];
  while (waiting.length) {
    const [name, value] = waiting.pop();
    if (!isBranch(value)) yield [name, value];
    else for (const inner of Object.keys(value).reverse()) waiting.push([name ? `${name}.${inner}` : inner, value[inner]]);
  }
}

function shown(value) {
  if (typeof value === "string") return short(value);
  if (typeof value !== "number") return short(JSON.stringify(value));
  const size = Math.abs(value);
  if (size && (size < 1e-6 || size > Number.MAX_SAFE_INTEGER)) return value.toPrecision(7);
  return value.toLocaleString("en", { maximumFractionDigits: 12 });
}

function short(text) {
  return text.length > LONGEST_TEXT ? text.slice(0, LONGEST_TEXT) + "…" : text;
}

function make(tag, text = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}

class Field {
  constructor(name) {
    this.name = name;
    this.times = [];
    this.numbers = [];
    this.isChanged = false;
  }

  add(time, value) {
    this.value = value;
    this.isChanged = true;
    if (typeof value !== "number") return;
    this.times.push(time);
    this.numbers.push(value);
  }

  paint() {
    if (!this.isChanged) return;
    this.isChanged = false;
  }
}

follow();
