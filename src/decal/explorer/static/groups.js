// How good the sets are in each group, and how uncertain its inputs: a table with a histogram a row.

import { h, select, svg, uniqueId } from "./dom.js";
import { count, decimal } from "./format.js";
import { term } from "./terms.js";
import { shownModels } from "./view.js";

const BINS = 24;
const HISTOGRAM = { width: 150, height: 26 };
const MEASURES = [["total", "Total"], ["aleatoric", "Aleatoric"], ["epistemic", "Epistemic"], ["size", "Set size"]];
const MEANS = [
  ["accuracy", "Accuracy", (x) => `${decimal(100 * x, 1)} %`],
  ["missed", "Missed", (x) => `${decimal(100 * x, 1)} %`],
  ["coverage", "Coverage", (x) => decimal(x)],
  ["size", "Set size", (x) => decimal(x, 2)],
  ["efficiency", "Efficiency", (x) => decimal(x)],
];

/** Codes of the shown inputs for a group of the table: a column given, or the label. */
function codesOf(payload, at) {
  return payload.groups[at]?.codes ?? payload.labels;
}

/** How many of a group's shown inputs fall into each bin from 0 to `top`. */
export function histogram(values, first, codes, code, top) {
  const bins = new Uint32Array(BINS);
  for (let i = 0; i < codes.length; i++) {
    const value = values[first + i];
    if (codes[i] === code && value >= 0) bins[Math.min(Math.floor((value / top) * BINS), BINS - 1)]++;
  }
  return bins;
}

/** The panel; null where there are no groups. */
export function createGroups(payload, store, level) {
  if (!payload.grouped.length) return null;
  const by = select("Group by", payload.grouped.map(({ name }, at) => [String(at), name]), (value) => store.set({ groupBy: Number(value) }), "group-by");
  const measure = select("Histograms of", MEASURES, (value) => store.set({ measure: value }), "group-measure");
  const colours = [["errors", "errors"], ...payload.groups.map(({ name }, at) => [String(at), name])];
  const colour = select("Colour the cloud by", colours, (value) => store.set({ colour: value }), "group-colour");
  const host = h("div", { class: "group-table", role: "group", "aria-label": "Groups", tabindex: "0", "data-testid": "group-table" });
  const id = uniqueId();
  const fields = h("div", { class: "filters" }, by.element, measure.element, payload.groups.length > 0 && colour.element);
  const head = h("div", { class: "head" }, h(`h${level}`, { id }, "Groups"));
  const element = h("section", { class: "panel groups", "aria-labelledby": id, "data-testid": "groups" }, head, fields, host);
  let seen = false;
  let last = null;
  let key = "";
  const watcher = new IntersectionObserver((entries) => {
    seen = entries.some((entry) => entry.isIntersecting);
    if (seen && last) update(last);
  });
  watcher.observe(element);

  function update(state) {
    last = state;
    by.list.value = String(state.groupBy);
    measure.list.value = state.measure;
    colour.list.value = state.colour;
    const now = [state.level, state.groupBy, state.measure, state.show, state.rule, state.group].join(" ");
    if (!seen || now === key) return;
    key = now;
    host.replaceChildren(groupTable(payload, state, store));
  }
  return { element, update, stop: () => watcher.disconnect() };
}

function groupTable(payload, state, store) {
  const [model] = shownModels(payload, state);
  const { values } = payload.grouped[state.groupBy];
  const rows = model.groups[state.groupBy];
  const kinds = MEANS.filter(([kind]) => rows.some((row) => row[kind]));
  const numbers = state.measure === "size" ? model.size[state.rule] : model[state.measure];
  const first = state.level * payload.count;
  const top = state.measure === "size" ? model.classes.length + 1e-9 : Math.log(model.classes.length) + 1e-6;
  const codes = codesOf(payload, state.groupBy);
  const heads = ["Group", "Inputs", ...kinds.map(([kind, title]) => (kind === "accuracy" ? title : term(title, kind, `group-${kind}`))), MEASURES.find(([name]) => name === state.measure)[1]];
  const given = state.groupBy < payload.groups.length;
  const line = (value, at) => {
    const name = given ? `${state.groupBy}:${at}` : null;
    const keep = () => store.set({ group: state.group === name ? null : name });
    const label = given ? h("button", { type: "button", class: "link", "aria-pressed": String(state.group === name), onclick: keep }, value) : value;
    const means = kinds.map(([kind, , write]) => h("td", { class: "numeric", "data-kind": kind }, rows[at].inputs ? write(rows[at][kind][state.level]) : "–"));
    const bins = histogram(numbers, first, codes, at, top);
    return h("tr", { "data-group": at }, h("th", { scope: "row" }, h("bdi", null, label)), h("td", { class: "numeric" }, count(rows[at].inputs)), means, h("td", null, drawHistogram(bins, value)));
  };
  return h("table", { class: "plain" }, h("thead", null, h("tr", null, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", null, values.map(line)));
}

function drawHistogram(bins, name) {
  const { width, height } = HISTOGRAM;
  const most = Math.max(...bins, 1);
  const wide = width / BINS;
  const about = { class: "chart", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "data-bins": bins.join(" ") };
  const bars = [...bins].map((n, at) => n && svg("rect", { class: "histogram", x: at * wide + 0.5, width: wide - 1, y: height - (height * n) / most, height: (height * n) / most }));
  return svg("svg", { ...about, "aria-label": `Histogram of ${name}` }, bars, svg("line", { class: "grid", x1: 0, x2: width, y1: height, y2: height }));
}
