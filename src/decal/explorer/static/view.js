// Which inputs are listed, and in which order: state and payload -> plain arrays.

import { className } from "./format.js";

/**
 * @typedef {object} View
 * @property {import("./payload.js").Model} model  the model that the list shows
 * @property {Uint8Array} matches 1 where an input matches
 * @property {Uint32Array} order  inputs that match, as sorted: what is counted and exported
 * @property {number[]} listed  the same, but of inputs with the same answer only the first, unless they are opened
 * @property {Map<number, number>} alike  how many of the order have that answer, by the first input that has it
 * @property {number} first  where the current level starts in the arrays by level
 */

/** The model that the list shows. */
export function shownModel(payload, state) {
  return payload.models[Number(state.show) - 1];
}

/** Whether what a model says differs from the label. */
export function isWrong(payload, model, i) {
  return Boolean(payload.labels && model.said && model.said[i] !== payload.labels[i]);
}

/** Whether a person should look: the share handed over has the input or, by default, several classes are left. */
export function isForPerson(payload, model, { level, route, share }, i) {
  const at = level * payload.count + i;
  return route === "hand" ? Boolean((model.asked[at] >>> share) & 1) : model.size.possible[at] !== 1;
}

/** A function (payload, state) -> View that remembers searches. */
export function createViewer() {
  const search = createSearch();
  return (payload, state) => {
    const model = shownModel(payload, state);
    const first = state.level * payload.count;
    const found = search(payload, state.query);
    const keep = filtersOf(payload, state, model, first);
    const matches = Uint8Array.from({ length: payload.count }, (_, i) => (found[i] && keep.every((test) => test(i)) ? 1 : 0));
    const order = sorted(payload, state, model, first, matches);
    return { model, first, matches, order, ...grouped(payload, state, order) };
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
  const said = payload.models.map((model) => (model.said ? className(model, model.said[i]) : ""));
  const values = payload.groups.map(({ values: all, codes }) => all[codes[i]]);
  return [payload.names?.[i], payload.texts?.[i], label, ...said, ...values].filter(Boolean).join("\n").toLowerCase();
}

/** The tests that an input must pass. */
function filtersOf(payload, state, model, first) {
  const { only, where, cases, route, group } = state;
  const { slots: m, slotClass, labels } = payload;
  const inSet = (i) => {
    const slot = slotClass.subarray(i * m, i * m + m).indexOf(only);
    return slot >= 0 && (model.kept.possible[first + i] >>> slot) & 1;
  };
  const byClass = { label: (i) => labels[i] === only, says: (i) => model.said?.[i] === only, set: inSet };
  const byCase = {
    errors: (i) => isWrong(payload, model, i),
    missed: (i) => model.hit && !model.hit[first + i],
    uncovered: (i) => model.covered && !model.covered[first + i],
  };
  const byRoute = { one: (i) => model.size.possible[first + i] === 1, hand: (i) => isForPerson(payload, model, state, i) };
  const [at, value] = (group ?? "").split(":").map(Number);
  return [
    only !== null && byClass[where],
    byCase[cases],
    route === "ask" ? byRoute.hand : byRoute[route],
    group !== null && ((i) => payload.groups[at].codes[i] === value),
  ].filter(Boolean);
}

/** The matching inputs by a column; in the order of Python's worth_a_look, if none was chosen. */
function sorted(payload, { sort, falling }, model, first, matches) {
  const order = payload.look.filter((i) => matches[i]);
  if (sort === "look") return falling ? order.reverse() : order;
  const value = {
    input: (i) => payload.rows[i],
    label: (i) => payload.labels[i],
    says: (i) => model.said?.[i] ?? -1,
    sure: (i) => model.sure?.[i] ?? -1,
    size: (i) => model.size.possible[first + i],
  }[sort];
  const values = Float64Array.from({ length: payload.count }, (_, i) => (falling ? -value(i) : value(i)));
  return order.sort((a, b) => values[a] - values[b]); // stable: of ties, the one more worth a look
}

/** Inputs with the same answer stand in one line, until it is opened. */
function grouped({ alike: like }, { open }, order) {
  const alike = new Map();
  const firsts = [];
  for (const i of order) {
    if (!alike.has(like[i])) firsts.push(i);
    alike.set(like[i], (alike.get(like[i]) ?? 0) + 1);
  }
  if (open === null) return { alike, listed: firsts };
  const others = order.filter((i) => like[i] === like[open]);
  return { alike, listed: firsts.flatMap((i) => (like[i] === like[open] ? [...others] : [i])) };
}
