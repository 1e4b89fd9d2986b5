// Which inputs are listed, in which order, with which numbers: state and payload -> plain arrays.

import { className } from "./format.js";

/**
 * @typedef {object} View
 * @property {Uint32Array} order  inputs that match, as sorted
 * @property {Uint8Array} matches 1 where an input matches
 * @property {import("./payload.js").Model[]} shown  the model, or both where they are compared
 * @property {number} first  where the current level starts in the arrays by level
 */

/** The models that the table and the cloud show. */
export function shownModels(payload, state) {
  if (state.show === "difference") return payload.models;
  return [payload.models[Number(state.show) - 1]];
}

/** Whether a model's prediction differs from the label: 1, 0, or NaN where unknown. */
export function errorOf(payload, model, i) {
  if (!payload.labels || !model.predicted) return NaN;
  return model.predicted[i] === payload.labels[i] ? 0 : 1;
}

/** One number of an input by a column's key, at the level that starts at `first`. */
export function valueOf(payload, model, rule, key, first, i) {
  switch (key) {
    case "input":
      return payload.rows[i];
    case "label":
      return payload.labels[i];
    case "prediction":
      return model.predicted ? model.predicted[i] : NaN;
    case "error":
      return errorOf(payload, model, i);
    case "size":
      return model.size[rule][first + i];
    default:
      return model[key][first + i];
  }
}

const AT_CAP = 1e-5; // nats: totals are stored as 32-bit floats

/** Whether equal probabilities are plausible: then the upper entropy is ln K and says no more. */
export function isCapped(payload, model, first, i) {
  return Math.log(model.classes.length) - model.total[first + i] < AT_CAP;
}

const COMPARABLE = ["error", "epistemic", "aleatoric", "total", "size"];

/** The number that the table shows: of the one model, or how much the second exceeds the first. */
export function cellValue(payload, state, view, key, i) {
  const [one, two] = view.shown;
  const value = valueOf(payload, one, state.rule, key, view.first, i);
  if (!two || !COMPARABLE.includes(key)) return value;
  return valueOf(payload, two, state.rule, key, view.first, i) - value;
}

/** A function (payload, state) -> View that remembers searches. */
export function createViewer() {
  const search = createSearch();
  return (payload, state) => {
    const view = { shown: shownModels(payload, state), first: state.level * payload.count };
    view.matches = search(payload, state.query).slice();
    keepClass(payload, state, view);
    keepCases(payload, state, view);
    view.order = sorted(payload, state, view);
    return view;
  };
}

function createSearch() {
  let haystacks = null;
  let last = { query: null, found: null };
  return (payload, query) => {
    if (last.query === query) return last.found;
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length) haystacks ??= Array.from({ length: payload.count }, (_, i) => haystack(payload, i));
    const rows = words.map((word) => (/^#?\d+$/.test(word) ? Number(word.replace("#", "")) : -1));
    const matches = (i) =>
      words.every((word, at) => payload.rows[i] === rows[at] || haystacks[i].includes(word));
    last = { query, found: Uint8Array.from({ length: payload.count }, (_, i) => (matches(i) ? 1 : 0)) };
    return last.found;
  };
}

function haystack(payload, i) {
  const label = payload.labels ? className(payload.models[0], payload.labels[i]) : "";
  const predictions = payload.models.map((model) => (model.predicted ? className(model, model.predicted[i]) : ""));
  return [payload.names?.[i], payload.texts?.[i], label, ...predictions].filter(Boolean).join("\n").toLowerCase();
}

/** Keep the inputs whose label, prediction or decision set has the chosen class. */
function keepClass(payload, { only, where, rule }, { matches, shown, first }) {
  if (only === null) return;
  const { count: n, slots: m, slotClass, labels } = payload;
  const inSet = (model, i) => {
    const slot = slotClass.subarray(i * m, i * m + m).indexOf(only);
    return slot >= 0 && (model.kept[rule][first + i] >>> slot) & 1;
  };
  const has = {
    label: (_, i) => labels[i] === only,
    prediction: (model, i) => model.predicted && model.predicted[i] === only,
    set: inSet,
  }[where];
  for (let i = 0; i < n; i++) if (matches[i] && !shown.some((model) => has(model, i))) matches[i] = 0;
}

/** Keep errors, inputs whose label the decision set misses, or whose truth the intervals miss. */
function keepCases(payload, { cases }, { matches, shown, first }) {
  if (cases === "all") return;
  const is = {
    errors: (model, i) => errorOf(payload, model, i) === 1,
    missed: (model, i) => model.hit && !model.hit[first + i],
    uncovered: (model, i) => model.covered && !model.covered[first + i],
  }[cases];
  for (let i = 0; i < payload.count; i++) if (matches[i] && !shown.some((model) => is(model, i))) matches[i] = 0;
}

function sorted(payload, state, view) {
  const n = payload.count;
  const keys = new Float64Array(n);
  const sign = state.falling ? -1 : 1;
  let found = 0;
  const order = new Uint32Array(n);
  for (let i = 0; i < n; i++) {
    if (!view.matches[i]) continue;
    const value = cellValue(payload, state, view, state.sort, i);
    keys[i] = Number.isNaN(value) ? Infinity : sign * value; // the unknown come last either way
    order[found++] = i;
  }
  const listed = order.slice(0, found);
  if (state.sort !== "size") return listed.sort((a, b) => keys[a] - keys[b] || a - b);
  // Of equally large decision sets, the larger upper entropy is the more uncertain.
  const ties = Float64Array.from({ length: n }, (_, i) => sign * cellValue(payload, state, view, "total", i) || 0);
  return listed.sort((a, b) => keys[a] - keys[b] || ties[a] - ties[b] || a - b);
}
