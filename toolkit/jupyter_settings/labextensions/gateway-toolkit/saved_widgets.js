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

  const isPicture = type => type.startsWith("image/") || type === "text/html";

  function savedFormats(model, text) {
    const { [VIEW]: _, ...others } = model.data;
    if (Object.keys(others).some(isPicture)) return others;
    return { "text/plain": text || others["text/plain"] || "A widget. Run the cell to use it." };
  }

  // Show what is saved beside the widget's view, unless the widget has come.
  async function showSaved(renderer, model, panel) {
    const { rendermime } = panel.content;
    const text = (panel.model.getMetadata(TEXTS) || {})[model.data[VIEW].model_id];
    if (text === "") {
      renderer.node.replaceChildren();
      return renderer.hide();
    }
    const data = savedFormats(model, text);
    const saved = rendermime.createRenderer(rendermime.preferredMimeType(data, model.trusted ? "any" : "ensure"));
    await saved.renderModel(rendermime.createModel({ data, metadata: model.metadata, trusted: model.trusted }));
    if (!renderer.widgets.length) renderer.node.replaceChildren(saved.node);
  }

  // The renderers of `factory`, which never end with an error, and to which no untrusted output gets.
  function withPictures(factory, panel, shown) {
    const createRenderer = options => {
      const renderer = factory.createRenderer(options);
      const renderWidget = renderer.renderModel.bind(renderer);
      renderer.disposed.connect(() => shown.delete(renderer));
      renderer.renderModel = async model => {
        const { model_id: id } = model.data[VIEW];
        const isThere = shown.get(renderer)?.id === id && renderer.widgets.length > 0; // only its picture has changed
        shown.set(renderer, { id, model });
        if (isThere) return;
        if (!model.trusted) return showSaved(renderer, model, panel);
        const rendered = renderWidget(model);
        // Until the kernel has started; where there is none, or another one, also afterwards.
        if (!panel.sessionContext.isReady) await showSaved(renderer, model, panel);
        await rendered;
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

  // The picture of an output is from the moment when it was displayed: of a live chart, before anything had come.
  function savePictures(panel, shown) {
    for (const [renderer, { model }] of shown) {
      const charts = renderer.widgets.length ? renderer.node.querySelectorAll(".toolkit-chart") : [];
      if (charts.length !== 1 || !("image/png" in model.data)) continue;
      const asked = new CustomEvent("toolkit-picture", { detail: {} });
      charts[0].dispatchEvent(asked);
      const [start, png] = (asked.detail.picture || "").split(",");
      if (start !== "data:image/png;base64" || png === model.data["image/png"]) continue;
      for (const { model: cell } of panel.content.widgets)
        for (let place = 0; place < (cell.outputs?.length ?? 0); place++)
          if (cell.outputs.get(place) === model)
            cell.outputs.set(place, { ...model.toJSON(), data: { ...model.data, "image/png": png } });
    }
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
    addEventListener("pagehide", removeViews);
    panel.disposed.connect(() => removeEventListener("pagehide", removeViews));
    panel.context.saveState.connect((_, state) => {
      if (state !== "started") return;
      savePictures(panel, shown);
      saveTexts(panel.model, shown);
    });
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
