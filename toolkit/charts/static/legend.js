// The legend of a chart: one entry for each thing; a click hides or shows it, a shift-click shows it alone.

import { make, swatch } from "./elements.js";

export class Legend {
  constructor(chart) {
    this.chart = chart;
    this.element = make("div", "toolkit-chart-legend", chart.root);
  }

  /** Return the entries, [name, things]; the things that have no colour of their own share one. */
  entries() {
    const { chart } = this, drawn = new Set(chart.lines.map(line => line.thing));
    const things = [...chart.things.keys()].filter(thing => drawn.has(thing));
    const rest = things.filter(thing => !chart.style(thing).isDistinct);
    const named = things.filter(thing => !rest.includes(thing)).map(thing => [thing, [thing]]);
    return rest.length ? [...named, [`and ${rest.length} more`, rest]] : named;
  }

  show() {
    const entries = this.entries();
    this.element.replaceChildren();
    this.element.hidden = entries.length < 2;
    for (const [name, things] of entries) {
      const item = make("button", "toolkit-chart-item", this.element);
      Object.assign(item, { type: "button", title: `${name}: click to hide or show, shift-click to show it alone` });
      make("i", "", item).style.background = swatch(this.chart.style(things[0]));
      make("span", "", item, name);
      item.addEventListener("click", event => this.chart.toggle(things, event.shiftKey));
    }
    this.showHidden();
  }

  showHidden() {
    this.entries().forEach(([, [first]], index) =>
      this.element.children[index].setAttribute("aria-pressed", String(!this.chart.hidden.has(first))));
  }
}
