// What the reader chose, who wants to know, and how it is written in the address.

import { COST_RULES } from "./decide.js";
import { alphaText } from "./format.js";
import { readRegion } from "./region.js";
import { readExtent } from "./zoom.js";

/**
 * @typedef {object} State
 * @property {number} level   index into the alphas
 * @property {string} sort    a column's key
 * @property {boolean} falling  whether the largest comes first
 * @property {string} query   words to search for
 * @property {?number} only   a class's index
 * @property {"label"|"prediction"|"set"} where  what must be that class
 * @property {"all"|"errors"|"missed"|"uncovered"} cases
 * @property {?string} group  "a:b": keep the inputs whose group a has value b
 * @property {string} colour  "errors", or the number of the group that colours the cloud
 * @property {number} groupBy  the group whose table is shown
 * @property {"total"|"aleatoric"|"epistemic"|"size"} measure  what its histograms show
 * @property {number} input   index of the input shown
 * @property {?string} why    the class whose interval is explained, or "scale"
 * @property {?string} three  the classes at the triangle's corners, as "0,1,2"
 * @property {number} cost  of abstaining, where an error costs 1
 * @property {string} costRule  the rule that decides with costs
 * @property {?number[][]} matrix  utilities of naming a class; null for right 1, wrong 0
 * @property {?{budget: number, box: ?[number, number][], input: number}} live  a cut that is being dragged
 * @property {"1"|"2"|"difference"} show  which model the table and the cloud show
 * @property {string} rule    the set rule whose decision sets are shown
 * @property {"coverage"|"missed"|"size"} curve  what is traded against efficiency
 * @property {"split"|"models"} cloud  aleatoric against epistemic, or one model against the other
 * @property {?string} zoom   the part of the cloud in sight, as zoom.js writes it
 * @property {?string} lasso  a region drawn in the cloud, as region.js writes it
 * @property {"table"|"grid"} list  how the inputs are shown
 * @property {"auto"|"light"|"dark"} theme
 */

export const SORTS = ["input", "label", "prediction", "error", "size", "total", "epistemic", "aleatoric"];

/** The choices that this payload offers. @returns {Object<string, string[]>} */
export function choicesOf(payload) {
  const some = (kind) => payload.models.some((model) => model[kind]);
  const two = payload.models.length === 2;
  const errors = payload.labels && some("predicted");
  const unless = { label: payload.labels, prediction: some("predicted"), error: errors };
  return {
    sort: SORTS.filter((sort) => unless[sort] !== null && unless[sort] !== false),
    where: [payload.labels && "label", some("predicted") && "prediction", "set"].filter(Boolean),
    cases: ["all", errors && "errors", some("hit") && "missed", some("covered") && "uncovered"].filter(Boolean),
    show: two ? ["1", "2", "difference"] : ["1"],
    rule: payload.setRules.map((rule) => rule.key),
    curve: ["coverage", "missed", "size"].filter((kind) => payload.models.some((model) => model.curve[kind])),
    cloud: two ? ["split", "models"] : ["split"],
    list: ["table", "grid"],
    theme: ["auto", "light", "dark"],
  };
}

const FIRST_COST = 0.3;

/** @returns {State} */
export function firstState(payload) {
  const { where, curve, rule } = choicesOf(payload);
  return {
    level: payload.start,
    sort: "size",
    falling: true,
    query: "",
    only: null,
    where: where[0],
    cases: "all",
    group: null,
    colour: "errors",
    groupBy: 0,
    measure: "total",
    input: mostUncertain(payload),
    why: null,
    three: null,
    cost: FIRST_COST,
    costRule: "gamma_maximin",
    matrix: null,
    live: null,
    show: "1",
    rule: rule.includes("e_admissible") ? "e_admissible" : rule[0],
    curve: curve[0],
    cloud: "split",
    zoom: null,
    lasso: null,
    list: "table",
    theme: "auto",
  };
}

/** The most classes in the decision set, then the largest upper entropy, then the largest lower one: credal.most_uncertain(). */
function mostUncertain(payload) {
  const first = payload.start * payload.count;
  const { aleatoric, total, size } = payload.models[0];
  const classes = size.e_admissible ?? size[payload.setRules[0].key];
  const by = (values, a, b) => (values[a] || 0) - (values[b] || 0);
  const beats = (a, b) => by(classes, a, b) || by(total, a, b) || by(aleatoric, a, b);
  let best = first;
  for (let at = first; at < first + payload.count; at++) if (beats(at, best) > 0) best = at;
  return best - first;
}

const PLAIN = ["where", "cases", "show", "rule", "curve", "cloud", "list", "theme"];

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
  if (state.why !== null) words.set("why", state.why);
  if (state.three !== null) words.set("three", state.three);
  if (state.group !== null) words.set("group", state.group);
  if (state.colour !== first.colour) words.set("colour", state.colour);
  if (state.groupBy) words.set("by", state.groupBy);
  if (state.measure !== first.measure) words.set("measure", state.measure);
  if (state.cost !== first.cost) words.set("cost", state.cost);
  if (state.costRule !== first.costRule) words.set("decide", state.costRule);
  if (state.matrix) words.set("utility", state.matrix.flat().join(","));
  for (const key of ["zoom", "lasso"]) if (state[key] !== null) words.set(key, state[key]);
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
  const why = words.get("why");
  const scales = payload.models[0].evidence?.directions.includes("temperature") && !payload.rest;
  if ((why === "scale" && scales) || (whole("why") >= 0 && whole("why") < payload.models[0].classes.length)) state.why = why;
  const three = (words.get("three") ?? "").split(",");
  const isClass = (word) => /^\d+$/.test(word) && Number(word) < payload.models[0].classes.length;
  if (new Set(three).size === 3 && three.length === 3 && three.every(isClass)) state.three = three.join(",");
  if (words.get("cost") && Number(words.get("cost")) >= 0 && Number(words.get("cost")) <= 1) state.cost = Number(words.get("cost"));
  if (COST_RULES.some(([name]) => name === words.get("decide"))) state.costRule = words.get("decide");
  state.matrix = matrixIn(words.get("utility"), payload.models[0].classes.length);
  const [, a, b] = /^(\d+):(\d+)$/.exec(words.get("group") ?? "") ?? [];
  if (payload.groups[a]?.values[b] !== undefined) state.group = `${a}:${b}`;
  if (payload.groups[words.get("colour")]) state.colour = words.get("colour");
  if (payload.grouped[words.get("by")]) state.groupBy = Number(words.get("by"));
  if (["total", "aleatoric", "epistemic", "size"].includes(words.get("measure"))) state.measure = words.get("measure");
  if (readExtent(words.get("zoom"))) state.zoom = words.get("zoom");
  if (readRegion(payload, words.get("lasso"))) state.lasso = words.get("lasso");
  const input = payload.rows.indexOf(whole("input"));
  if (input >= 0) state.input = input;
  return state;
}

function matrixIn(text, K) {
  const numbers = (text ?? "").split(",").map((word) => (word.trim() ? Number(word) : NaN));
  if (numbers.length !== K * K || !numbers.every(Number.isFinite)) return null;
  return Array.from({ length: K }, (_, a) => numbers.slice(a * K, (a + 1) * K));
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
  /** @param {State} state @param {(state: State, before: State, asked: number, anew: boolean) => void} listener */
  constructor(state, listener) {
    this.state = state;
    this.listener = listener;
    this.shown = state;
    this.asked = null;
    this.anew = false;
    this.frame = 0;
  }

  /** Change some of the state. The page follows in the next frame. */
  set(change) {
    const differs = Object.keys(change).some((key) => change[key] !== this.state[key]);
    if (!differs) return;
    this.state = { ...this.state, ...change };
    this.ask();
  }

  /** Draw everything again in the next frame. */
  refresh() {
    this.anew = true;
    this.ask();
  }

  ask() {
    this.asked ??= performance.now();
    this.frame ||= requestAnimationFrame(() => this.flush());
  }

  flush() {
    const { state, shown, asked, anew } = this;
    cancelAnimationFrame(this.frame);
    Object.assign(this, { shown: state, asked: null, anew: false, frame: 0 });
    this.listener(state, shown, asked ?? performance.now(), anew);
  }

  stop() {
    cancelAnimationFrame(this.frame);
    this.listener = () => {};
  }
}
