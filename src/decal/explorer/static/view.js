// Which inputs are listed, in which order, with which numbers: state and payload -> plain arrays.

import { className } from "./format.js";
import { membersOf, readRegion } from "./region.js";

/**
 * @typedef {object} View
 * @property {Uint32Array} order  inputs that match, as sorted
 * @property {Uint8Array} matches 1 where an input matches
 * @property {import("./payload.js").Model[]} shown  the model, or both where they are compared
 * @property {?object} region  the region drawn in the cloud, with the number of inputs inside it
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
  const regionOf = createRegions();
  return (payload, state) => {
    const view = { shown: shownModels(payload, state), first: state.level * payload.count };
    view.matches = search(payload, state.query).slice();
    keepClass(payload, state, view);
    keepCases(payload, state, view);
    keepGroup(payload, state, view);
    view.region = regionOf(payload, state.lasso);
    if (view.region) for (let i = 0; i < payload.count; i++) view.matches[i] &= view.region.members[i];
    view.order = sorted(payload, state, view);
    return view;
  };
}

function createRegions() {
  let last = { text: null, region: null };
  return (payload, text) => {
    if (text === last.text) return last.region;
    const region = text && readRegion(payload, text);
    const members = region && membersOf(payload, region);
    last = { text, region: region && { ...region, members, count: members.reduce((sum, one) => sum + one, 0) } };
    return last.region;
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
  predictions.push(...payload.groups.map(({ values, codes }) => values[codes[i]]));
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

/** Keep the inputs of one group. */
function keepGroup(payload, { group }, { matches }) {
  if (group === null) return;
  const [at, value] = group.split(":").map(Number);
  const { codes } = payload.groups[at];
  for (let i = 0; i < payload.count; i++) if (codes[i] !== value) matches[i] = 0;
}

function sorted(payload, state, view) {
  const { count: n } = payload;
  let order = new Uint32Array(n);
  let found = 0;
  for (let i = 0; i < n; i++) if (view.matches[i]) order[found++] = i;
  order = order.slice(0, found);
  // Of equally large decision sets, the larger upper entropy is the more uncertain; at the cap, the larger lower one.
  const keys = { size: ["aleatoric", "total", "size"], total: ["aleatoric", "total"] }[state.sort] ?? [state.sort];
  const sign = state.falling ? -1 : 1;
  if (view.shown.length > 1) return sortedByDifference(payload, state, view, order, keys, sign);
  for (const key of keys) order = sortStably(order, ranks(column(payload, view, state.rule, key), order, sign));
  return order;
}

function sortedByDifference(payload, state, view, order, keys, sign) {
  const values = keys.toReversed().map((key) =>
    Float64Array.from({ length: payload.count }, (_, i) => {
      const value = cellValue(payload, state, view, key, i);
      return Number.isNaN(value) ? Infinity : sign * value; // the unknown come last either way
    }),
  );
  return order.sort((a, b) => values.reduce((found, of) => found || of[a] - of[b], 0) || a - b);
}

/** One number per input, as 32-bit floats, which hold all that columns do. */
function column(payload, { shown: [model], first }, rule, key) {
  const { count: n } = payload;
  const stored = { size: model.size[rule], epistemic: model.epistemic, aleatoric: model.aleatoric, total: model.total }[key];
  if (stored) return stored.subarray(first, first + n);
  return Float32Array.from({ length: n }, (_, i) => valueOf(payload, model, rule, key, first, i));
}

/** Whole numbers in the order of the listed inputs' values; the unknown come last either way. */
function ranks(values, order, sign) {
  const floats = new Float32Array(order.length);
  for (let at = 0; at < order.length; at++) {
    const value = sign * values[order[at]];
    floats[at] = Number.isNaN(value) ? Infinity : value + 0; // no negative zero
  }
  const bits = new Uint32Array(floats.buffer);
  for (let at = 0; at < bits.length; at++) bits[at] = bits[at] & 0x80000000 ? ~bits[at] : bits[at] | 0x80000000;
  return bits;
}

/** The order sorted by ranks, 16 bits at a time: a hundred thousand inputs in a few milliseconds. */
function sortStably(order, keys) {
  for (const shift of [0, 16]) {
    const starts = new Uint32Array(65537);
    for (let at = 0; at < keys.length; at++) starts[((keys[at] >>> shift) & 0xffff) + 1]++;
    for (let digit = 0; digit < 65536; digit++) starts[digit + 1] += starts[digit];
    const [nextOrder, nextKeys] = [new Uint32Array(order.length), new Uint32Array(order.length)];
    for (let at = 0; at < keys.length; at++) {
      const place = starts[(keys[at] >>> shift) & 0xffff]++;
      nextOrder[place] = order[at];
      nextKeys[place] = keys[at];
    }
    [order, keys] = [nextOrder, nextKeys];
  }
  return order;
}
