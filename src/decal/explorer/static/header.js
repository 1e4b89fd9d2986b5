// The title, what is shown of how much, what the models are, and what there is to do.

import { h, setText } from "./dom.js";
import { count, decimal, inPercent } from "./format.js";
import { choicesOf } from "./state.js";
import { listedInWords } from "./table.js";

export function createHeader(payload, store, level) {
  const { count: shown, total } = payload;
  const words = `${count(shown)} of ${count(total)} inputs shown; curves are over all.`;
  const partly = shown < total && h("p", { class: "partly", "data-testid": "partly" }, words);
  const guide = createGuide(payload);
  const themes = choicesOf(payload).theme;
  const next = () => themes[(themes.indexOf(store.state.theme) + 1) % themes.length];
  const turn = () => store.set({ theme: next() });
  const theme = h("button", { type: "button", "data-testid": "theme", onclick: turn });
  const element = h(
    "div",
    { class: "header" },
    h("div", { class: "names" }, h(`h${level}`, null, payload.title), partly),
    h("div", { class: "tools" }, guide.element, theme),
  );
  const update = (state) => {
    setText(theme, `Theme: ${state.theme}`);
    guide.update(state);
  };
  return { element, update };
}

/** What the page shows, in sentences about these very numbers, and the models' settings: opened on demand. */
function createGuide(payload) {
  const words = h("div", { class: "words", "data-testid": "guide" });
  const pair = ([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value));
  const list = (model) => {
    const name = h("div", { class: "of" }, h("dt", null, "model"), h("dd", null, model.name));
    return h("dl", null, name, [...model.summary, ...model.settings].map(pair));
  };
  const settings = h("div", { class: "models" }, payload.models.map(list));
  const about = { class: "card", role: "group", "aria-label": "What this page shows", tabindex: "0" };
  const card = h("div", about, words, settings);
  const summary = h("summary", null, "What am I seeing?");
  const element = h("details", { class: "settings", "data-testid": "settings" }, summary, card);
  element.addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget && !element.contains(relatedTarget)) element.open = false;
  });
  element.addEventListener("keydown", ({ key }) => {
    if (key === "Escape") element.open = false;
  });
  const tell = (state) => words.replaceChildren(...guideTo(payload, state).map((line) => h("p", null, line)));
  let last = null;
  element.addEventListener("toggle", () => last && tell(last));
  const update = (state) => {
    last = state;
    if (element.open) tell(state);
  };
  return { element, update };
}

function guideTo(payload, { level }) {
  const [{ curve, classes, said }] = payload.models;
  const several = payload.alphas.length > 1;
  const missed = curve.missed && ` The true class is missed for ${inPercent(curve.missed[level], 1)} of the inputs here.`;
  return [
    `A classifier gives each class one probability. Here each class has a range: all probabilities that the data allow.`,
    several && `Models that fit the labelled data nearly as well as the best say different things; a range holds what they say. Caution sets what “nearly” means. Now ranges are ${inPercent(1 - curve.efficiency[level])} wide on average.`,
    payload.promise && `Promise: ${payload.promise.text}`,
    `A class is possible if it can come first within the ranges: ${decimal(curve.size[level], 1)} of ${count(classes.length)} are, on average. If one class is left, file it. If several are left, ask a person.${missed || ""}`,
    said && `“Hand over” lists the inputs of whose answer decal is least sure, as report(check=…) does. Export writes what is listed.`,
  ].filter(Boolean);
}

/** Tells those who do not see the page what it now shows, once it has settled. */
export function createAnnouncer(payload) {
  const about = { role: "status", "aria-live": "polite", "data-testid": "status" };
  const element = h("div", { class: "unseen", ...about });
  let timer = 0;
  const update = (state, view) => {
    const all = view.order.length === payload.count;
    const level = payload.alphas.length > 1 ? `Caution ${state.level + 1} of ${payload.alphas.length}. ` : "";
    const said = `${level}${listedInWords(payload, view)}${all ? "" : " match"}.`;
    clearTimeout(timer);
    timer = setTimeout(() => setText(element, said), 300);
  };
  return { element, update, stop: () => clearTimeout(timer) };
}
