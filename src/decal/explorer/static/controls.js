// What is set by hand: the level with its effect, the search and the filters.

import { choice, h, select, setText, uniqueId } from "./dom.js";
import { alphaText, className, decimal } from "./format.js";
import { choicesOf, firstState } from "./state.js";
import { term } from "./terms.js";

const READOUTS = [
  ["efficiency", "Efficiency", decimal],
  ["coverage", "Coverage", decimal],
  ["missed", "Missed", (x) => `${decimal(100 * x, 1)} %`],
  ["size", "Set size", (x) => decimal(x, 2)],
];

/** The slider and what the level does over all inputs. */
export function createLevel(payload, store) {
  const { alphas } = payload;
  const id = uniqueId();
  const last = alphas.length - 1;
  const slider = h("input", { id, type: "range", min: 0, max: last, step: 1, "data-testid": "alpha" });
  slider.addEventListener("input", () => store.set({ level: Number(slider.value) }));
  const output = h("output", { for: id, "aria-live": "off", "data-testid": "alpha-value" });
  const ends = [`${alphaText(alphas[0])} narrow`, `cautious ${alphaText(alphas[last])}`];
  const [narrow, cautious] = ends.map((words) => h("span", { "aria-hidden": "true" }, words));
  const track = h("div", { class: "track" }, slider, h("div", { class: "ends" }, narrow, ownLevel(payload, store), cautious));
  const label = h("span", { class: "label" }, h("label", { for: id }, "Level"), term("α", "alpha"));
  const control = h("div", { class: "control" }, label, output, track);
  const readouts = createReadouts(payload.models);
  const group = { class: "panel level", role: "group", "aria-label": "Level", "data-testid": "level" };
  const element = h("div", group, last > 0 && control, readouts.element);

  function update({ level }) {
    const alpha = alphaText(alphas[level]);
    slider.value = level;
    slider.setAttribute("aria-valuetext", `alpha ${alpha}, level ${level + 1} of ${alphas.length}`);
    slider.style.setProperty("--share", String(last ? level / last : 0));
    setText(output, alpha);
    readouts.update(level);
  }
  return { element, update };
}

/** A button that goes to the level the model was fitted with; null where there is none. */
function ownLevel({ alphas, own }, store) {
  if (own === null || alphas.length < 2) return null;
  const words = `model’s own ${alphaText(alphas[own])}`;
  const go = () => store.set({ level: own });
  return h("button", { type: "button", class: "link own", "data-testid": "own", onclick: go }, words);
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

const WHERE = { label: "is the label", prediction: "is predicted", set: "is in the decision set" };
const CASES = {
  all: "all",
  errors: "errors",
  missed: "label outside the set",
  uncovered: "truth outside the intervals",
};

/** Search, filters, and the decision rule whose sets are shown. */
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
  const titles = Object.fromEntries(payload.setRules.map((rule) => [rule.key, rule.title]));
  const values = payload.groups.flatMap(({ name, values: all }, at) => all.map((value, v) => [`${at}:${v}`, `${name}: ${value}`]));
  const group = select("Group", [["", "any"], ...values], (value) => store.set({ group: value || null }), "filter-group");
  const rule = select("Decision set", pick("rule", titles), set("rule"), "filter-rule");

  const reset = () => {
    store.set({ query: "", only: null, where: firstState(payload).where, cases: "all", group: null, lasso: null });
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
    choices.rule.length > 1 && rule.element,
    clear,
  );

  function update(state) {
    if (search.input.value !== state.query) search.input.value = state.query;
    only.list.value = state.only === null ? "" : String(state.only);
    where.list.value = state.where;
    where.element.hidden = state.only === null;
    cases.list.value = state.cases;
    group.list.value = state.group ?? "";
    rule.list.value = state.rule;
    clear.hidden = !state.query && state.only === null && state.cases === "all" && state.group === null && !state.lasso;
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

/** Which model the table and the cloud show; null where there is one only. */
export function createShow(payload, store) {
  if (payload.models.length < 2) return null;
  const names = payload.models.map((model, at) => [String(at + 1), model.name]);
  const [one, two] = payload.models;
  const difference = ["difference", `${two.name} − ${one.name}`];
  return choice("Model shown", [...names, difference], (show) => store.set({ show }), "show");
}
