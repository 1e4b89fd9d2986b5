// Class frequencies before and now, and what they change for the chosen input.

import { h, panel, setText, svg } from "./dom.js";
import { ticksTo } from "./axes.js";
import { className, count, inPercent, slotName } from "./format.js";
import { endsOf, topSlots } from "./slots.js";

const MOST_CHANGED = 12; // classes listed at once, those that changed most
const INPUT_SLOTS = 6; // classes of the chosen input
const BAR_TALL = 18; // px
const SUPPOSED = "This supposes that the inputs of each class look as they did where the model was calibrated, and that only the frequencies of the classes changed.";

/** The panel; null where no frequencies were observed. */
export function createFrequencies(payload, store, level) {
  const found = payload.frequencies;
  if (!found) return null;
  let showAll = false;
  const toggle = () => {
    showAll = !showAll;
    store.refresh();
  };
  const more = h("button", { type: "button", class: "link", "data-testid": "all-frequencies", onclick: toggle });
  const host = h("div", { class: "group-table", role: "group", "aria-label": "Frequencies", tabindex: "0", "data-testid": "frequency-table" });
  const own = h("div", { "data-testid": "before-and-now" });
  const verdict = `The mix of classes ${found.changed ? "has changed" : "may not have changed"}, by ${count(found.inputs)} unlabelled inputs.`;
  const test = `p-value ${found.p_value} for no change`;
  const part = (title, ...content) => h("div", { class: "part" }, h(`h${level + 1}`, null, title), ...content);
  const element = panel("frequencies", "Has the mix of classes changed?", level, null,
    h("p", { class: "verdict", title: test, "data-testid": "shift-test" }, verdict),
    h("div", { class: "duo" }, part("Of all inputs observed", host, more), part("The chosen input, before and now", own)),
    frequencyLegend(found.confidence),
    h("p", { class: "sentence" }, SUPPOSED),
  );
  const { order } = found;
  more.hidden = order.length <= MOST_CHANGED;
  let listed = null;
  function update(state) {
    if (listed !== showAll) {
      listed = showAll;
      host.replaceChildren(frequencyTable(payload, showAll ? order : order.slice(0, MOST_CHANGED)));
      setText(more, showAll ? `Show the ${MOST_CHANGED} that changed most` : `Show all ${count(order.length)} classes`);
    }
    own.replaceChildren(inputTable(payload, state));
  }
  return { element, update };
}

function frequencyLegend(confidence) {
  const item = (kind, words) => h("li", null, h("i", { class: `key ${kind}` }), words);
  return h("ul", { class: "legend" }, item("tick", "before"), item("dot", "now"), item("model1", `range, sure to ${inPercent(confidence)}`));
}

function frequencyTable(payload, classes) {
  const { before, estimate, lower, upper, p_values: pValues } = payload.frequencies;
  const reach = Math.max(...classes.map((k) => Math.max(upper[k], before[k])));
  const ticks = ticksTo(Math.max(reach, 1e-6), 4);
  const top = Math.min(ticks.at(-1) >= reach ? ticks.at(-1) : ticks.at(-1) + ticks[1], 1);
  const tested = pValues.some((p) => p !== null);
  const line = (k) => {
    const name = className(payload.models[0], k);
    return h("tr", { "data-class": k }, nameCell(name), numberCell(before[k]), numberCell(estimate[k]),
      h("td", { class: "range" }, rangeBar(before[k], estimate[k], lower[k], upper[k], top, name), endsText(lower[k], upper[k])),
      tested && h("td", { class: "numeric" }, pValues[k] ?? "–"));
  };
  return plainTable(["Class", "Before", "Now", `0 to ${inPercent(top)}`, tested && "p-value"], classes.map(line));
}

function inputTable(payload, state) {
  const [model] = payload.models;
  const i = state.input;
  const line = (slot) => {
    const at = i * payload.width + slot;
    const [low, high] = endsOf(payload, model, state.level, i, slot);
    const name = slotName(payload, model, i, slot);
    return h("tr", null, nameCell(name), numberCell(payload.before[at]), numberCell(model.point[at]),
      h("td", { class: "range" }, rangeBar(payload.before[at], model.point[at], low, high, 1, name), endsText(low, high)));
  };
  return plainTable(["Class", "Before", "Now", `0 to ${inPercent(1)}`], topSlots(payload, i, INPUT_SLOTS).map(line));
}

const nameCell = (name) => h("th", { scope: "row", title: name }, h("bdi", null, name));
const numberCell = (x) => h("td", { class: "numeric" }, inPercent(x, 1));
const endsText = (low, high) => h("small", null, `${(100 * low).toFixed(1)}–${inPercent(high, 1)}`);

function plainTable(heads, rows) {
  return h("table", { class: "plain" }, h("thead", null, h("tr", null, heads.map((head) => head && h("th", { scope: "col" }, head)))), h("tbody", null, rows));
}

/** An interval, a tick where it was before, and a dot where it is now. */
function rangeBar(before, now, low, high, top, name) {
  const x = (value) => `${(100 * value) / top}%`; // of whatever width the cell has
  const y = BAR_TALL / 2;
  const about = { class: "chart", width: "100%", height: BAR_TALL, role: "img", "aria-label": `${name}: ${inPercent(before)} before, ${inPercent(now)} now` };
  return svg("svg", about,
    svg("line", { class: "grid", x1: 0, x2: "100%", y1: y, y2: y }),
    svg("line", { class: "bar model1", x1: x(low), x2: x(high), y1: y, y2: y }),
    svg("line", { class: "before", x1: x(before), x2: x(before), y1: 1, y2: BAR_TALL - 1 }),
    svg("circle", { class: "point", cx: x(now), cy: y, r: 4 }));
}
