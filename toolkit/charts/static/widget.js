// The chart as an anywidget: the kernel sends lines as buffers, and the browser reports the visible range.

import { createChart } from "./chart.js";
import { download, saveTable } from "./files.js";

const numbers = view => new Float64Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));

function lineOf({ x, y, rings, ...line }, axes) {
  const outliers = rings && {
    x: axes[rings.x], y: numbers(rings.y), expected: numbers(rings.expected), score: numbers(rings.score),
  };
  return { ...line, x: axes[x], y: numbers(y), rings: outliers };
}

const rangeOf = model => (model.get("_range").length ? model.get("_range") : null);

const SETTLED_MS = 150; // while a person pans or turns the wheel, the kernel gets only the last range

export default {
  initialize({ model }) {
    model.on("msg:custom", ({ download: name }, buffers) => {
      if (name) download(name, new Blob(buffers.map(view => view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength))));
    });
  },

  render({ model, el }) {
    const askKernel = kind => () => model.send({ ask: kind, things: chart.visibleLines().map(line => line.thing) });
    let waiting;
    const chart = createChart(el, {
      ...model.get("_options"),
      // If the data was thinned, only the kernel has all of it.
      files: { csv: () => (model.get("_data").isThinned ? askKernel("csv")() : saveTable(chart)), svg: askKernel("svg") },
      onRange: range => {
        clearTimeout(waiting);
        waiting = setTimeout(() => {
          model.set("_range", range ?? []);
          model.save_changes();
        }, SETTLED_MS);
      },
    });
    const show = () => {
      const { axes, lines, zone, timeName, ...others } = model.get("_data"), times = axes.map(numbers);
      chart.setAxis(timeName, zone);
      chart.setData(lines.map(line => lineOf(line, times)), others);
    };
    const follow = () => JSON.stringify(rangeOf(model)) !== JSON.stringify(chart.range) && chart.setRange(rangeOf(model));
    show();
    follow();
    model.on("change:_data", show);
    model.on("change:_range", follow);
    return () => {
      model.off("change:_data", show);
      model.off("change:_range", follow);
      clearTimeout(waiting);
      chart.destroy();
    };
  },
};
