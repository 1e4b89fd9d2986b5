// What the reader chose, who wants to know, and how it is written in the address.

import { alphaText } from "./format.js";

/**
 * @typedef {object} State
 * @property {number} level   index into the alphas
 * @property {string} sort    "look", or a column's key
 * @property {boolean} falling  whether the largest comes first
 * @property {string} query   words to search for
 * @property {?number} only   a class's index
 * @property {"label"|"says"|"set"} where  what must be that class
 * @property {"all"|"errors"|"missed"|"uncovered"} cases
 * @property {"all"|"one"|"ask"|"hand"} route  inputs with one class left, with several, or the least sure share
 * @property {number} share   index into the shares that may be handed over
 * @property {?string} group  "a:b": keep the inputs whose group a has value b
 * @property {number} groupBy  the group whose table is shown
 * @property {number} input   index of the input shown
 * @property {?number} open   the input whose likes are listed, too
 * @property {?number} price  index into the prices of asking a person
 * @property {"1"|"2"} show   which model the list shows
 * @property {"table"|"grid"} list  how the inputs are shown
 * @property {"auto"|"light"|"dark"} theme
 */

const SORTS = ["look", "input", "says", "sure", "size", "label"];
const A_TENTH = 0.1;

/** The choices that this payload offers. @returns {Object<string, string[]>} */
export function choicesOf(payload) {
  const some = (kind) => payload.models.some((model) => model[kind]);
  const answers = some("said");
  const unless = { says: answers, sure: answers, label: Boolean(payload.labels) };
  return {
    sort: SORTS.filter((sort) => unless[sort] !== false),
    where: [payload.labels && "label", answers && "says", "set"].filter(Boolean),
    cases: ["all", payload.labels && answers && "errors", some("hit") && "missed", some("covered") && "uncovered"].filter(Boolean),
    route: ["all", "one", "ask", some("asked") && "hand"].filter(Boolean),
    show: payload.models.length === 2 ? ["1", "2"] : ["1"],
    list: ["table", "grid"],
    theme: ["auto", "light", "dark"],
  };
}

/** @returns {State} */
export function firstState(payload) {
  return {
    level: payload.start,
    sort: "look",
    falling: false,
    query: "",
    only: null,
    where: choicesOf(payload).where[0],
    cases: "all",
    route: "all",
    share: Math.max(payload.shares.indexOf(A_TENTH), 0),
    group: null,
    groupBy: 0,
    input: payload.first,
    open: null,
    price: payload.models[0].costs?.best ?? null,
    show: "1",
    list: "table",
    theme: "auto",
  };
}

const PLAIN = ["where", "cases", "route", "show", "list", "theme"];

/** The address's hash for a state: only what differs from the first state, and the input. */
export function toHash(state, payload) {
  const first = firstState(payload);
  const words = new URLSearchParams();
  if (payload.alphas[state.level] !== null) words.set("alpha", alphaText(payload.alphas[state.level]));
  if (state.sort !== first.sort || state.falling !== first.falling)
    words.set("sort", (state.falling ? "-" : "") + state.sort);
  if (state.query) words.set("query", state.query);
  if (state.only !== null) words.set("class", state.only);
  for (const key of PLAIN) if (state[key] !== first[key]) words.set(key, state[key]);
  if (state.share !== first.share) words.set("share", payload.shares[state.share]);
  if (state.group !== null) words.set("group", state.group);
  if (state.groupBy) words.set("by", state.groupBy);
  if (state.price !== first.price) words.set("price", payload.models[0].costs.prices[state.price]);
  if (state.open !== null) words.set("open", payload.rows[state.open]);
  words.set("input", payload.rows[state.input]);
  return `#${words}`;
}

/** The state that a hash describes. What it leaves out, or gets wrong, stays as at first. @returns {State} */
export function fromHash(hash, payload) {
  const state = firstState(payload);
  const words = new URLSearchParams(hash.replace(/^#/, ""));
  const choices = choicesOf(payload);
  for (const key of PLAIN) if (choices[key].includes(words.get(key))) state[key] = words.get(key);
  const [, minus, sort] = /^(-?)(\w+)$/.exec(words.get("sort") ?? "") ?? [];
  if (choices.sort.includes(sort)) Object.assign(state, { sort, falling: minus === "-" });
  state.query = (words.get("query") ?? "").slice(0, 200);
  if (words.get("alpha")) state.level = nearestLevel(payload.alphas, Number(words.get("alpha")), state.level);
  const whole = (key) => (/^\d+$/.test(words.get(key) ?? "") ? Number(words.get(key)) : -1);
  const only = whole("class");
  if (only >= 0 && only < payload.models[0].classes.length) state.only = only;
  const place = (key, values) => (words.get(key) ? (values ?? []).indexOf(Number(words.get(key))) : -1);
  for (const [key, values] of [["share", payload.shares], ["price", payload.models[0].costs?.prices]])
    if (place(key, values) >= 0) state[key] = place(key, values);
  const [, a, b] = /^(\d+):(\d+)$/.exec(words.get("group") ?? "") ?? [];
  if (payload.groups[a]?.values[b] !== undefined) state.group = `${a}:${b}`;
  if (payload.grouped[words.get("by")]) state.groupBy = Number(words.get("by"));
  for (const key of ["input", "open"]) {
    const found = payload.rows.indexOf(whole(key));
    if (found >= 0) state[key] = found;
  }
  return state;
}

function nearestLevel(alphas, alpha, otherwise) {
  if (!Number.isFinite(alpha) || alphas[0] === null) return otherwise;
  // Levels may be as small as 1e-120, and 0 besides: compare as written first.
  const same = alphas.findIndex((level) => alphaText(level) === alphaText(alpha));
  if (same >= 0) return same;
  const distance = (level) => Math.abs(alphas[level] - alpha);
  return alphas.reduce((best, _, level) => (distance(level) < distance(best) ? level : best), 0);
}

/** Holds the state and tells its listener, at most once per frame, that it changed. */
export class Store {
  /** @param {State} state @param {(state: State, before: State, asked: number) => void} listener */
  constructor(state, listener) {
    this.state = state;
    this.listener = listener;
    this.shown = state;
    this.asked = null;
    this.frame = 0;
  }

  /** Change some of the state. The page follows in the next frame. */
  set(change) {
    const differs = Object.keys(change).some((key) => change[key] !== this.state[key]);
    if (!differs) return;
    this.state = { ...this.state, ...change };
    this.refresh();
  }

  /** Draw everything again in the next frame. */
  refresh() {
    this.asked ??= performance.now();
    this.frame ||= requestAnimationFrame(() => this.flush());
  }

  flush() {
    const { state, shown, asked } = this;
    cancelAnimationFrame(this.frame);
    Object.assign(this, { shown: state, asked: null, frame: 0 });
    this.listener(state, shown, asked ?? performance.now());
  }

  stop() {
    cancelAnimationFrame(this.frame);
    this.listener = () => {};
  }
}
