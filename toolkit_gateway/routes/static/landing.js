// The landing page, alive: every few seconds the page is fetched again, and its cards replace the values on this one.
// Without this script, the page is as it was when it was loaded.
import { ageText } from "./ages.js";

const POLL_MS = 2000;
const POINTS = 120; // of a sparkline
const MAX_HISTORIES = 24; // cards whose history is fetched for their sparkline
const MAX_CONTENT_BYTES = 2000; // 500 larger contents would be megabytes
const FRESH_SECONDS = 10; // of the green dot
const WIDTH = 100, HEIGHT = 24;
const SVG = "http://www.w3.org/2000/svg";

const list = document.querySelector(".cards"), status = document.querySelector("[role=status]");
const cards = new Map(); // by thing
let behind = 0; // milliseconds from the clock of this machine to that of the gateway
let histories = 0;

/** One thing: its values, how old they are, and its first number as a sparkline. */
class Card {
  constructor(element) {
    this.element = element;
    this.points = [];
    this.spark = document.createElementNS(SVG, "svg");
    this.line = document.createElementNS(SVG, "polyline");
    for (const [name, value] of Object.entries({ viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", class: "spark", "aria-hidden": "true" }))
      this.spark.setAttribute(name, value);
    this.spark.append(this.line);
    this.read(element);
  }

  /** Take the values of the same card on the page that was fetched. */
  read(fetched) {
    const [time, dl] = [fetched.querySelector("time"), fetched.querySelector("dl")];
    const isNew = time.dateTime !== this.time;
    this.time = time.dateTime;
    if (isNew) this.add(Date.parse(this.time), this.numberIn(dl));
    if (fetched !== this.element) {
      this.element.querySelector("time").replaceWith(time);
      this.element.querySelector("dl").replaceWith(dl);
    }
    if (isNew || !this.spark.isConnected) {
      this.element.append(this.spark);
      time.title = time.textContent;
    }
    this.tell();
  }

  /** The first number among the values, whose name stays the same. */
  numberIn(dl) {
    const names = [...dl.querySelectorAll("dt")];
    const found = names.find(dt => (this.name ?? dt.textContent) === dt.textContent && isNumber(dt.nextElementSibling.textContent));
    this.name ??= found?.textContent;
    return found && Number(found.nextElementSibling.textContent);
  }

  add(at, value) {
    if (value === undefined || at <= (this.points.at(-1)?.[0] ?? -Infinity)) return;
    this.points.push([at, value]);
    this.points.splice(0, this.points.length - POINTS);
    this.draw();
  }

  draw() {
    const xs = this.points.map(([x]) => x), ys = this.points.map(([, y]) => y);
    const [left, low] = [xs[0], Math.min(...ys)], [across, up] = [xs.at(-1) - left || 1, Math.max(...ys) - low || 1];
    const place = ([x, y]) => `${((x - left) / across) * WIDTH},${HEIGHT - 2 - ((y - low) / up) * (HEIGHT - 4)}`;
    this.line.setAttribute("points", this.points.length > 1 ? this.points.map(place).join(" ") : "");
  }

  /** Say how old the last dweet is. */
  tell() {
    const time = this.element.querySelector("time");
    const seconds = (Date.now() - behind - Date.parse(this.time)) / 1000;
    time.textContent = ageText(seconds);
    time.classList.toggle("fresh", seconds < FRESH_SECONDS);
  }

  async fetchHistory() {
    const thing = this.element.dataset.thing;
    if (!this.name || histories >= MAX_HISTORIES || Number(this.element.dataset.bytes) > MAX_CONTENT_BYTES) return;
    histories += 1;
    const reply = await fetch(`/get/dweets/for/${encodeURIComponent(thing)}`, { credentials: "omit" });
    const { with: dweets } = await reply.json();
    if (!Array.isArray(dweets)) return;
    const earlier = dweets.map(({ created, content }) => [Date.parse(created), leaf(content, this.name)]);
    const before = this.points[0]?.[0] ?? Infinity;
    this.points.unshift(...earlier.reverse().filter(([at, value]) => typeof value === "number" && at < before));
    this.points.splice(0, this.points.length - POINTS);
    this.draw();
  }
}

const isNumber = text => text !== "" && Number.isFinite(Number(text));

function leaf(content, name) {
  if (name === "content") return content;
  let value = content;
  for (const key of name.split(".")) value = value?.[key];
  return value;
}

const inView = new IntersectionObserver(entries => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    inView.unobserve(target);
    cards.get(target.dataset.thing).fetchHistory().catch(() => {}); // then the sparkline begins now
  }
});

/** Read the cards of a page; known things keep their place, new ones come first. */
function readCards(from) {
  behind = Date.now() - Date.parse(from.dataset.now);
  const names = new Set([...from.children].map(element => element.dataset.thing));
  for (const [thing, { element }] of cards)
    if (!names.has(thing)) { // locked in the meantime, or 100 others were active later
      element.remove();
      cards.delete(thing);
    }
  for (const element of [...from.children].reverse()) {
    const { thing } = element.dataset;
    if (cards.has(thing)) cards.get(thing).read(element);
    else {
      if (element.parentNode !== list) list.prepend(element);
      cards.set(thing, new Card(element));
      inView.observe(element);
    }
  }
}

async function poll() {
  if (!document.hidden)
    try {
      const reply = await fetch("/", { headers: { accept: "text/html" }, cache: "no-store", credentials: "omit" });
      if (!reply.ok) throw new Error();
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      readCards(page.querySelector(".cards"));
      say("");
    } catch {
      say("The gateway does not answer: these are the last values");
    }
  setTimeout(poll, POLL_MS);
}

function say(text) {
  if (status.textContent !== text) status.textContent = text;
  status.hidden = !text;
}

for (const example of document.querySelectorAll("pre")) {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", textContent: "Copy", className: "copy" });
  button.addEventListener("click", async () => {
    getSelection().selectAllChildren(example);
    // Without https, browsers give no clipboard to pages of other machines: the text is selected then.
    await navigator.clipboard?.writeText(example.textContent);
    if (navigator.clipboard) button.textContent = "Copied";
  });
  example.before(button);
}

readCards(list);
setInterval(() => cards.forEach(card => card.tell()), 1000);
setTimeout(poll, POLL_MS);
