// What is set by hand: caution with its effect, the search and the filters.

import { choice, h, select, setText, uniqueId } from "./dom.js";
import { alphaText, className, decimal, inPercent, sentence } from "./format.js";
import { choicesOf, firstState } from "./state.js";
import { term } from "./terms.js";

const READOUTS = [
  ["efficiency", "Average range", (x) => inPercent(1 - x)],
  ["missed", "True class missed", (x) => inPercent(x, 1)],
  ["coverage", "Truth inside", (x) => inPercent(x, 1)],
  ["size", "Classes left", (x) => decimal(x, 1)],
];

/** The slider, what is promised, and what the level does over all inputs. */
export function createLevel(payload, store) {
  const { alphas, own, promise } = payload;
  const id = uniqueId();
  const last = alphas.length - 1;
  const slider = h("input", { id, type: "range", min: 0, max: last, step: 1, "data-testid": "caution" });
  slider.addEventListener("input", () => store.set({ level: Number(slider.value) }));
  const output = h("output", { for: id, "aria-live": "off", title: promise?.text, "data-testid": "promise" });
  const back = h("button", { type: "button", class: "link own", "data-testid": "own", onclick: () => store.set({ level: own }) }, "back to the model’s own");
  const ends = h("div", { class: "ends" }, h("span", { "aria-hidden": "true" }, "bold"), own !== null && back, h("span", { "aria-hidden": "true" }, "careful"));
  const alpha = () => `α = ${alphaText(alphas[store.state.level])}`;
  const label = h("span", { class: "label" }, h("label", { for: id }, "Caution"), " ", term("?", "alpha", "term-alpha", alpha));
  const control = h("div", { class: "control" }, label, h("div", { class: "track" }, slider, ends), output);
  const readouts = createReadouts(payload.models);
  const said = h("p", { class: "settled", "data-testid": "settled" });
  const group = { class: "panel level", role: "group", "aria-label": "Caution", "data-testid": "level" };
  const element = h("div", group, last > 0 && control, readouts.element, said);

  function update(state) {
    const { level } = state;
    const words = levelInWords(payload, level);
    slider.value = level;
    slider.setAttribute("aria-valuetext", `${level + 1} of ${alphas.length}: ${words}`);
    slider.style.setProperty("--share", String(last ? level / last : 0));
    setText(output, sentence(words));
    back.hidden = level === own;
    readouts.update(level);
    setText(said, settledInWords(payload.models[Number(state.show) - 1].curve, level));
  }
  return { element, update };
}

/** What holds at a level: the promise at the model's own; else what happens on these inputs. */
function levelInWords({ own, promise, models: [{ curve }] }, level) {
  if (level === own && promise) return promise.brief;
  const where = own === null ? "" : level === own ? "the model’s own level" : `${level < own ? "bolder" : "more careful"} than the model’s own`;
  const here = curve.missed ? `misses ${inPercent(curve.missed[level], 1)} here` : "";
  return [where, here].filter(Boolean).join(", ") || `ranges of ${inPercent(1 - curve.efficiency[level])} on average`;
}

/** What the sets settle, and how wrong as many would be that confidence settles. */
function settledInWords({ single, settled_wrong: wrong, alone_wrong: alone, recalibrated_wrong: better }, level) {
  const settled = `${inPercent(single[level])} have one class left`;
  if (!wrong || !single[level]) return `${settled}.`;
  const others = alone ? ` By the model’s confidence, as many: ${inPercent(alone[level], 1)}.` : "";
  const last = better ? ` By recalibrated confidence: ${inPercent(better[level], 1)}.` : "";
  return `${settled}, ${inPercent(wrong[level], 1)} of these are wrong.${others}${last}`;
}

/** A small table of the curves' values at the level, a row per model. */
function createReadouts(models) {
  const several = models.length > 1;
  const kinds = READOUTS.filter(([kind]) => models.some((model) => model.curve[kind]));
  const cells = models.map(() => kinds.map(([kind]) => h("td", { "data-testid": `readout-${kind}` })));
  const corner = several && h("th", { scope: "col" }, h("span", { class: "unseen" }, "Model"));
  const titles = kinds.map(([kind, title]) => h("th", { scope: "col" }, term(title, kind)));
  const nameOf = (model, at) =>
    several && h("th", { scope: "row" }, h("i", { class: `key bar model${at + 1}` }), h("bdi", null, model.name));
  const rows = models.map((model, at) => h("tr", null, nameOf(model, at), cells[at]));
  const about = { "data-testid": "readouts", "aria-label": "Means over all inputs" };
  const element = h(
    "table",
    { class: several ? "readouts several" : "readouts", ...about },
    h("thead", null, h("tr", null, corner, titles)),
    h("tbody", null, rows),
  );
  function update(level) {
    models.forEach(({ curve }, at) =>
      kinds.forEach(([kind, , write], k) => setText(cells[at][k], curve[kind] ? write(curve[kind][level]) : "–")),
    );
  }
  return { element, update };
}

const ROUTES = { all: "All", one: "One class left", ask: "Ask a person", hand: "Hand over" };
const WHERE = { label: "is the true class", says: "is what the model says", set: "is possible" };
const CASES = { all: "all", errors: "model is wrong", missed: "true class missed", uncovered: "truth outside the ranges" };

/** Who decides: inputs with one class left, those for a person, or the least sure share of all. */
export function createRoutes(payload, store) {
  const routes = choicesOf(payload).route.map((route) => [route, ROUTES[route]]);
  const who = choice("Who decides", routes, (route) => store.set({ route }), "route");
  const shares = payload.shares.map((share, at) => [String(at), `the least sure ${inPercent(share)}`]);
  const share = select("How many", shares, (value) => store.set({ share: Number(value) }), "share");
  share.element.classList.add("beside");
  const element = h("div", { class: "routes" }, who.element, share.element);
  function update(state) {
    who.show(state.route);
    share.element.hidden = state.route !== "hand";
    share.list.value = String(state.share);
  }
  return { element, update };
}

/** Search and filters. */
export function createFilters(payload, store) {
  const choices = choicesOf(payload);
  const pick = (key, titles) => choices[key].map((value) => [value, titles[value]]);
  const set = (key) => (value) => store.set({ [key]: value });
  const search = createSearchField(store);

  const [model] = payload.models;
  const classes = [["", "any"], ...model.classes.map((_, k) => [String(k), className(model, k)])];
  const setClass = (value) => store.set({ only: value === "" ? null : Number(value) });
  const only = select("Class", classes, setClass, "filter-class");
  const where = select("Where it", pick("where", WHERE), set("where"), "filter-where");
  const cases = select("Cases", pick("cases", CASES), set("cases"), "filter-cases");
  const values = payload.groups.flatMap(({ name, values: all }, at) => all.map((value, v) => [`${at}:${v}`, `${name}: ${value}`]));
  const group = select("Group", [["", "any"], ...values], (value) => store.set({ group: value || null }), "filter-group");

  const reset = () => {
    store.set({ query: "", only: null, where: firstState(payload).where, cases: "all", route: "all", group: null });
    search.input.focus();
  };
  const about = { type: "button", class: "link", "data-testid": "clear" };
  const clear = h("button", { ...about, onclick: reset }, "Clear filters");
  const element = h(
    "div",
    { class: "filters", role: "search", "aria-label": "Filter the inputs" },
    search.element,
    only.element,
    where.element,
    choices.cases.length > 1 && cases.element,
    payload.groups.length > 0 && group.element,
    clear,
  );

  function update(state) {
    if (search.input.value !== state.query) search.input.value = state.query;
    only.list.value = state.only === null ? "" : String(state.only);
    where.list.value = state.where;
    where.element.hidden = state.only === null;
    cases.list.value = state.cases;
    group.list.value = state.group ?? "";
    clear.hidden = !state.query && state.only === null && state.cases === "all" && state.route === "all" && state.group === null;
  }
  return { element, update, focus: () => search.input.focus() };
}

function createSearchField(store) {
  const input = h("input", {
    type: "search",
    placeholder: "Name, text, row or class",
    "aria-keyshortcuts": "/",
    autocomplete: "off",
    spellcheck: "false",
    "data-testid": "search",
  });
  input.addEventListener("input", () => store.set({ query: input.value }));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") store.set({ query: "" });
  });
  const hint = h("kbd", { "aria-hidden": "true" }, "/");
  return { element: h("label", { class: "field search" }, h("span", null, "Search"), input, hint), input };
}

/** Which model the list shows; null where there is one only. */
export function createShow(payload, store) {
  if (payload.models.length < 2) return null;
  const names = payload.models.map((model, at) => [String(at + 1), model.name]);
  return choice("Model shown", names, (show) => store.set({ show }), "show");
}
