// JupyterLab and Notebook 7: where a saved widget has no model any more, show the picture or the text of its output.
//
// A notebook holds only the identifier of a widget's model. Once its kernel has ended, ipywidgets says "Error displaying
// widget: model not found" and never tries the other formats of the output. Saving the states of all widgets does not
// help: opening such a notebook marks it as changed, and the next save drops them (ipywidgets issue 3888).
//
// This is a module federation container, as JupyterLab loads it. It has no dependencies, so nothing has to build it.
"use strict";

(() => {
  const VIEW = "application/vnd.jupyter.widget-view+json";
  // In the metadata of the notebook: by model, what a widget without a picture said when the notebook was saved, such
  // as the last numbers of a progress bar (its text/plain is from its beginning). Empty where it had been closed.
  const TEXTS = "saved_widgets";

  // Pictures of elements, and texts as gzip in base64.
  const pictures = (() => {
    // The last are the variables of JupyterLab, two of three properties of each element; their values are in the others.
    const SKIPPED = /^(animation|transition|transform-origin|perspective-origin|cursor|--)/;
    const MOST_PIXELS = 4000; // height

    // Return an image of an element: a copy with all of its styles inside, in an SVG that the browser draws.
    async function pictureOf(element) {
      const { width, height } = element.getBoundingClientRect(), canvas = document.createElement("canvas");
      Object.assign(canvas, { width: Math.ceil(width), height: Math.min(Math.ceil(height), MOST_PIXELS) });
      const plain = document.createElement("div");
      plain.style.all = "initial";
      document.body.append(plain);
      const style = getComputedStyle(plain), names = [...style].filter(name => !SKIPPED.test(name));
      const initial = names.map(name => [name, style.getPropertyValue(name)]);
      plain.remove();
      const content = new XMLSerializer().serializeToString(copyOf(element, initial));
      const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${canvas.width}" height="${canvas.height}">` +
        `<foreignObject width="100%" height="100%">${content.replace(/[\x00-\x08\x0b\x0c\x0e-\x1f]/g, "")}</foreignObject></svg>`;
      const image = new Image();
      image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
      await image.decode();
      const ctx = canvas.getContext("2d");
      ctx.fillStyle = groundOf(element);
      ctx.fillRect(0, 0, canvas.width, canvas.height);
      ctx.drawImage(image, 0, 0);
      return canvas;
    }

    // Return a copy of what can be seen of an element, with its own values of the `initial` properties.
    function copyOf(element, initial) {
      const isHidden = element.matches("option") ? !element.selected && !isList(element.closest("select")) : !element.checkVisibility();
      if (isHidden || element.matches("script, style")) return document.createTextNode("");
      const style = getComputedStyle(element), isPicture = element.matches("canvas, img, .fa");
      const copy = isPicture ? document.createElement("img") : element.cloneNode(false);
      if (isPicture) copy.src = dataOf(element);
      if (element.matches("input")) {
        copy.setAttribute("value", element.value);
        copy.toggleAttribute("checked", element.checked);
      }
      if (element.matches("option")) copy.toggleAttribute("selected", element.selected);
      const values = initial.map(([name, before]) => [name, before, style.getPropertyValue(name)]);
      const own = values.filter(([, before, value]) => value !== before).map(([name, , value]) => `${name}:${value}`);
      copy.setAttribute("style", `all:initial;${own.join(";")}`);
      if (element.matches("textarea")) copy.textContent = element.value;
      else if (!isPicture)
        for (const child of element.childNodes)
          copy.append(child.nodeType === Node.ELEMENT_NODE ? copyOf(child, initial) : child.cloneNode());
      if (element.scrollTop) // a copy is at its top
        for (const child of copy.children) child.style.translate = `0 ${-element.scrollTop}px`;
      return copy;
    }

    const isList = select => select.multiple || select.size > 1;

    function dataOf(element) {
      if (element.matches(".fa")) return iconOf(element);
      if (element.matches("canvas")) return element.width && element.height ? element.toDataURL() : "";
      if (element.src.startsWith("data:")) return element.src;
      const canvas = Object.assign(document.createElement("canvas"), { width: element.naturalWidth, height: element.naturalHeight });
      if (!canvas.width) return "";
      canvas.getContext("2d").drawImage(element, 0, 0);
      return canvas.toDataURL();
    }

    // An SVG in an image has no fonts of the page.
    function iconOf(element) {
      const { width, height } = element.getBoundingClientRect(), style = getComputedStyle(element, "::before");
      const canvas = Object.assign(document.createElement("canvas"), { width: Math.ceil(width), height: Math.ceil(height) });
      const ctx = canvas.getContext("2d");
      Object.assign(ctx, { font: `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`, fillStyle: style.color });
      Object.assign(ctx, { textAlign: "center", textBaseline: "middle" });
      ctx.fillText(style.content.replaceAll('"', ""), width / 2, height / 2);
      return canvas.width && canvas.height ? canvas.toDataURL() : "";
    }

    function groundOf(element) {
      const colour = element && getComputedStyle(element).backgroundColor;
      return !element ? "white" : /^(transparent|rgba\(.*, 0\))$/.test(colour) ? groundOf(element.parentElement) : colour;
    }

    const through = (content, stream) => new Response(new Blob([content]).stream().pipeThrough(stream));

    const unpacked = text =>
      through(Uint8Array.from(atob(text), each => each.charCodeAt(0)), new DecompressionStream("gzip")).text();

    async function packed(text) {
      const bytes = new Uint8Array(await through(text, new CompressionStream("gzip")).arrayBuffer());
      return btoa(Array.from(bytes, each => String.fromCharCode(each)).join(""));
    }

    return { pictureOf, packed, unpacked };
  })();

  const isPicture = type => type.startsWith("image/") || type === "text/html";

  function savedFormats(model, text) {
    const { [VIEW]: _, ...others } = model.data;
    const images = Object.entries(others).filter(([type]) => type.startsWith("image/"));
    if (!model.trusted && images.length) return Object.fromEntries(images); // scripts of its HTML would not run
    if (Object.keys(others).some(isPicture)) return others;
    return { "text/plain": text || others["text/plain"] || "A widget. Run the cell to use it." };
  }

  const savedNodes = new WeakMap(); // by renderer, so that a saved chart that a person has zoomed stays as it is

  // Show what is saved beside the widget's view, unless the widget has come.
  async function showSaved(renderer, model, panel) {
    const { rendermime } = panel.content;
    const text = (panel.model.getMetadata(TEXTS) || {})[model.data[VIEW].model_id];
    if (text === "") {
      renderer.node.replaceChildren();
      return renderer.hide();
    }
    if (savedNodes.get(renderer)?.model !== model) {
      const data = savedFormats(model, text);
      const saved = rendermime.createRenderer(rendermime.preferredMimeType(data, model.trusted ? "any" : "ensure"));
      await saved.renderModel(rendermime.createModel({ data, metadata: model.metadata, trusted: model.trusted }));
      savedNodes.set(renderer, { model, node: saved.node });
    }
    if (!renderer.widgets.length) renderer.node.replaceChildren(savedNodes.get(renderer).node);
  }

  // The renderers of `factory`, which never end with an error, and to which no untrusted output gets.
  function withPictures(factory, panel, shown) {
    const createRenderer = options => {
      const renderer = factory.createRenderer(options);
      const renderWidget = renderer.renderModel.bind(renderer);
      // ipywidgets waits two seconds for a model. It also says that there is none if it comes at the end of that time.
      const tryAgain = async model => {
        renderer.removeClass("jupyter-widgets");
        const rendered = renderWidget(model);
        await showSaved(renderer, model, panel);
        await rendered;
      };
      const watch = watching(renderer.node);
      renderer.disposed.connect(() => {
        watch.stop();
        shown.delete(renderer);
      });
      renderer.renderModel = async model => {
        const { model_id: id } = model.data[VIEW];
        const isThere = shown.get(renderer)?.id === id && renderer.widgets.length > 0; // only its picture has changed
        shown.set(renderer, { id, model, watch });
        if (isThere) return;
        if (!model.trusted) return showSaved(renderer, model, panel);
        const rendered = renderWidget(model);
        // Until the kernel has started; where there is none, or another one, also afterwards.
        if (!panel.sessionContext.isReady) await showSaved(renderer, model, panel);
        await rendered;
        if (renderer.hasClass("jupyter-widgets")) await tryAgain(model);
        if (!renderer.widgets.length && id) await showSaved(renderer, model, panel);
      };
      return renderer;
    };
    return { ...factory, safe: true, createRenderer };
  }

  function saveTexts(notebook, shown) {
    const before = notebook.getMetadata(TEXTS) || {};
    const texts = {};
    for (const [renderer, { id, model }] of shown) {
      const isAlive = renderer.widgets.length > 0;
      const words = renderer.node.innerText.replace(/\s+/g, " ").trim().slice(0, 200);
      if (renderer.isHidden) texts[id] = "";
      else if (!isAlive && id in before) texts[id] = before[id];
      else if (isAlive && words && !Object.keys(model.data).some(isPicture)) texts[id] = words;
    }
    if (Object.keys(texts).length) notebook.setMetadata(TEXTS, texts);
    else if (Object.keys(before).length) notebook.deleteMetadata(TEXTS);
  }

  // The formats of an output are from the moment when it was displayed. When the notebook is saved they become what the
  // widget shows then: a picture of all of it and, where it has one chart, the data of that chart.
  async function saveOutputs(panel, shown) {
    for (const [renderer, { model, watch }] of shown) {
      if (!renderer.widgets.length || !("image/png" in model.data) || !watch.hasChanged()) continue;
      // The page inside cannot be drawn; without its kernel, a widget shows only that it has ended.
      if (renderer.node.querySelector("iframe, .jupyter-widgets-disconnected")) continue;
      const canvas = await pictures.pictureOf(renderer.node);
      const data = { ...model.data, "image/png": canvas.toDataURL().split(",")[1] };
      const charts = renderer.node.querySelectorAll(".toolkit-chart");
      if (charts.length === 1 && "text/html" in data) data["text/html"] = await withSnapshot(data["text/html"], charts[0], canvas);
      for (const { model: cell } of panel.content.widgets)
        for (let place = 0; place < (cell.outputs?.length ?? 0); place++)
          if (cell.outputs.get(place) === model) cell.outputs.set(place, { ...model.toJSON(), data });
    }
  }

  // HTML as output_html of saved.py makes it.
  async function withSnapshot(html, chart, canvas) {
    const page = document.createElement("template"); // nothing in it is loaded or run
    page.innerHTML = html;
    const script = page.content.querySelector(".toolkit-saved > script[type='application/json']");
    const asked = new CustomEvent("toolkit-snapshot", { detail: {} });
    chart.dispatchEvent(asked);
    if (!script || !asked.detail.figure) return html;
    const packed = JSON.parse(script.textContent), before = JSON.parse(await pictures.unpacked(packed.page));
    // Its tables, which only the kernel can compute, may be of other values.
    packed.page = await pictures.packed(JSON.stringify({ ...before, ...asked.detail, tables: {} }));
    script.textContent = JSON.stringify(packed);
    page.content.querySelector(".toolkit-saved > img").src = canvas.toDataURL("image/webp", 0.85);
    return page.innerHTML;
  }

  // Whether an element has changed since the last question.
  function watching(node) {
    let changed = true;
    const observer = new MutationObserver(() => (changed = true));
    observer.observe(node, { subtree: true, childList: true, attributes: true, characterData: true });
    return { stop: () => observer.disconnect(), hasChanged: () => [changed, (changed = false)][0] };
  }

  function extend(panel) {
    const { rendermime } = panel.content;
    const shown = new Map(); // by renderer: the identifier of its model, and its output
    const addFactory = rendermime.addFactory.bind(rendermime);
    // ipywidgets adds its factory when the notebook has opened, which may be earlier or later than this.
    rendermime.addFactory = (factory, rank) =>
      addFactory(factory.mimeTypes.includes(VIEW) ? withPictures(factory, panel, shown) : factory, rank);
    const factory = rendermime.getFactory(VIEW);
    if (factory) rendermime.addFactory(factory, rendermime.getRank(VIEW));
    // Without this, a kernel never hears that a closed notebook or page does not show its widgets any more: ipywidgets
    // counts the views of a notebook down when its connection to the kernel is gone, and those of a page not at all.
    const removeViews = () => [...shown.keys()].forEach(renderer => renderer.dispose());
    panel.context.sessionContext.disposed.connect(removeViews);
    // ipywidgets marks the widgets of a kernel that restarts, and not those of one that is shut down.
    panel.context.sessionContext.statusChanged.connect((_, status) => {
      if (status !== "terminating") return;
      for (const widget of panel.node.querySelectorAll(".toolkit-widget")) widget.classList.add("jupyter-widgets-disconnected");
    });
    addEventListener("pagehide", removeViews);
    panel.disposed.connect(() => removeEventListener("pagehide", removeViews));
    panel.context.saveState.connect((_, state) => {
      if (state !== "started") return;
      saveTexts(panel.model, shown);
    });
    // A picture takes a moment, which the state "started" does not wait for.
    const save = panel.context.save.bind(panel.context);
    panel.context.save = async () => {
      await saveOutputs(panel, shown).catch(error => console.warn("no picture of a widget", error));
      return save();
    };
  }

  const plugin = {
    id: "gateway-toolkit:saved-widgets",
    description: "Shows the pictures of saved widgets.",
    autoStart: true,
    activate: app => void app.docRegistry.addWidgetExtension("Notebook", { createNew: extend }),
  };

  const widgetKeys = {
    id: "gateway-toolkit:widget-keys",
    description: "Leaves the arrow keys to sliders and lists of widgets: JupyterLab takes them for its cells.",
    autoStart: true,
    activate: () =>
      document.addEventListener("focusin", ({ target }) => {
        if (target.matches?.(".noUi-handle, .widget-dropdown select")) target.dataset.lmSuppressShortcuts = "true";
      }),
  };

  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB["gateway-toolkit"] = {
    init: () => undefined,
    get: async () => () => ({ __esModule: true, default: [plugin, widgetKeys] }),
  };
})();
