// The hands as a grid of small pictures. Only cards that are seen have pictures: the kernel is asked for them, a few at
// a time, so that other controls need not wait for all of them.

const ASKED_AT_ONCE = 6;

function make(tag, className, parent, text = "") {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  parent.append(made);
  return made;
}

function render({ model, el }) {
  const wall = make("div", "toolkit-wall", el);
  wall.setAttribute("role", "listbox");
  wall.setAttribute("aria-label", "Hands");
  wall.dataset.lmSuppressShortcuts = "true"; // otherwise JupyterLab would take the arrow keys for its cells
  const pictures = new Map(); // by title: the URL of a picture, or null while the kernel is asked
  let cards = [], focused = 0;
  const seen = new Set();
  const watcher = new IntersectionObserver(changes => {
    for (const { target, isIntersecting } of changes) {
      isIntersecting ? seen.add(target) : seen.delete(target);
      if (!isIntersecting && pictures.get(target.dataset.title) === "") pictures.delete(target.dataset.title); // to try again
    }
    ask();
  }, { root: wall, rootMargin: "40px" });

  function ask() {
    const isWaiting = [...pictures.values()].includes(null);
    const titles = cards.filter(card => seen.has(card) && !pictures.has(card.dataset.title)).map(card => card.dataset.title);
    if (isWaiting || !titles.length || !model.get("snippet")) return;
    const asked = titles.slice(0, ASKED_AT_ONCE);
    for (const title of asked) pictures.set(title, null);
    model.send({ titles: asked, snippet: model.get("snippet") });
  }

  function receive({ title, snippet, problem }, [png]) {
    if (snippet !== model.get("snippet")) return;
    pictures.set(title, png ? URL.createObjectURL(new Blob([png.buffer.slice(png.byteOffset, png.byteOffset + png.byteLength)])) : "");
    const card = cards.find(one => one.dataset.title === title);
    if (card) showPicture(card, problem);
    ask();
  }

  function showPicture(card, problem = "") {
    const url = pictures.get(card.dataset.title);
    const [picture, words] = card.firstChild.children;
    picture.hidden = !url;
    if (url) picture.src = url;
    words.textContent = problem;
  }

  function forget() {
    for (const url of pictures.values()) if (url) URL.revokeObjectURL(url);
    pictures.clear();
    ask();
  }

  function draw() {
    watcher.disconnect();
    seen.clear();
    wall.replaceChildren();
    cards = model.get("hands").map(({ title, hint, tip }) => {
      const card = make("div", "toolkit-wall-card", wall);
      Object.assign(card, { title: tip });
      card.dataset.title = title;
      card.dataset.lmSuppressShortcuts = "true";
      card.setAttribute("role", "option");
      const picture = make("div", "toolkit-wall-picture", card);
      Object.assign(make("img", "", picture), { alt: "", hidden: true });
      make("span", "toolkit-hint", picture);
      make("b", "", card, title);
      make("span", "toolkit-hint", card, hint);
      card.addEventListener("click", () => choose(card));
      watcher.observe(card);
      if (pictures.get(title)) showPicture(card);
      return card;
    });
    mark();
  }

  function mark() {
    const chosen = cards.findIndex(card => card.dataset.title === model.get("chosen"));
    cards.forEach((card, index) => card.setAttribute("aria-selected", String(index === chosen)));
    move(Math.max(chosen, 0), false);
    requestAnimationFrame(() => { // it may not be laid out yet
      // Not scrollIntoView, which would scroll the page, too.
      if (cards[chosen]) wall.scrollTop = cards[chosen].offsetTop - 4;
    });
  }

  function move(index, takesFocus = true) {
    if (index < 0 || index >= cards.length) return;
    focused = index;
    cards.forEach((card, place) => (card.tabIndex = place === focused ? 0 : -1));
    if (takesFocus) cards[focused].focus();
  }

  function choose(card) {
    model.set("chosen", card.dataset.title);
    model.save_changes();
    move(cards.indexOf(card));
  }

  wall.addEventListener("keydown", event => {
    const columns = cards.filter(card => card.offsetTop === cards[0].offsetTop).length;
    const keys = {
      ArrowLeft: focused - 1, ArrowRight: focused + 1, ArrowUp: focused - columns, ArrowDown: focused + columns,
      Home: 0, End: cards.length - 1,
    };
    if (event.key === "Enter" || event.key === " ") choose(cards[focused]);
    else if (event.key in keys) move(keys[event.key]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  const resize = () => wall.classList.toggle("toolkit-wall-open", model.get("is_open"));
  const events = { "change:hands": draw, "change:chosen": mark, "change:snippet": forget, "change:is_open": resize };
  for (const [name, handler] of Object.entries(events)) model.on(name, handler);
  model.on("msg:custom", receive);
  draw();
  resize();
  return () => {
    watcher.disconnect();
    for (const [name, handler] of Object.entries(events)) model.off(name, handler);
    model.off("msg:custom", receive);
    forget();
  };
}

export default { render };
