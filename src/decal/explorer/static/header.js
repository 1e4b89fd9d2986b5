// The title, what is shown of how much, what the models are, and what there is to do.

import { h, setText } from "./dom.js";
import { alphaText, count, decimal } from "./format.js";
import { choicesOf } from "./state.js";
import { listedInWords } from "./table.js";

/** @param {Object<string, () => void>} actions  exports by name */
export function createHeader(payload, store, level, actions) {
  const { count: shown, total } = payload;
  const words = `${count(shown)} of ${count(total)} inputs shown; curves are over all.`;
  const partly = shown < total && h("p", { class: "partly", "data-testid": "partly" }, words);
  const guide = createGuide(payload);
  const themes = choicesOf(payload).theme;
  const next = () => themes[(themes.indexOf(store.state.theme) + 1) % themes.length];
  const turn = () => store.set({ theme: next() });
  const theme = h("button", { type: "button", "data-testid": "theme", onclick: turn });
  const buttons = Object.entries(actions).map(([name, act]) => {
    const about = { "aria-label": `Export as ${name}`, "data-testid": `export-${name.toLowerCase()}` };
    return h("button", { type: "button", onclick: act, ...about }, name);
  });
  const exports = h("div", { class: "exports", role: "group", "aria-label": "Export" });
  exports.append(h("span", { "aria-hidden": "true" }, "Export"), ...buttons);
  const element = h(
    "div",
    { class: "header" },
    h("div", { class: "names" }, h(`h${level}`, null, payload.title), partly),
    h("div", { class: "tools" }, guide.element, theme, exports),
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
  const [{ curve, classes }] = payload.models;
  const alpha = alphaText(payload.alphas[level]);
  const opened = alphaText(payload.alphas[payload.start]);
  const size = decimal(curve.size[level], 2);
  const labelled = curve.missed && `, and ${decimal(100 * curve.missed[level], 1)} % of the labels are outside it`;
  return [
    `A classifier gives each input one probability per class. Here each class has an interval instead: the bar shows every probability that is still plausible, given the data.`,
    alpha &&
      `α says how cautious to be. Models that keep at least α times the reference’s likelihood count as plausible; at α ${alpha} intervals are ${decimal(1 - curve.efficiency[level], 2)} wide on average.`,
    `The decision set holds the classes that are most probable under some plausible distribution: ${size} of ${count(classes.length)} on average${labelled || ""}.`,
    `The list begins with the inputs most in doubt: the most classes in the decision set, then the largest total uncertainty. Choose one to see its bars and what each rule would decide.`,
    payload.opened && `The page opened at α ${opened}: ${payload.opened}.`,
  ].filter(Boolean);
}

/** Tells those who do not see the page what it now shows, once it has settled. */
export function createAnnouncer(payload) {
  const about = { role: "status", "aria-live": "polite", "data-testid": "status" };
  const element = h("div", { class: "unseen", ...about });
  let timer = 0;
  const update = (state, view) => {
    const alpha = alphaText(payload.alphas[state.level]);
    const all = view.order.length === payload.count;
    const said = `${alpha && `Alpha ${alpha}. `}${listedInWords(payload, view)}${all ? "" : " match"}.`;
    clearTimeout(timer);
    timer = setTimeout(() => setText(element, said), 300);
  };
  return { element, update, stop: () => clearTimeout(timer) };
}
