// The title, what is shown of how much, what the models are, and what there is to do.

import { h, setText } from "./dom.js";
import { alphaText, count } from "./format.js";
import { choicesOf } from "./state.js";
import { listedInWords } from "./table.js";

/** @param {Object<string, () => void>} actions  exports by name */
export function createHeader(payload, store, level, actions) {
  const { count: shown, total } = payload;
  const words = `${count(shown)} of ${count(total)} inputs shown; curves are over all.`;
  const partly = shown < total && h("p", { class: "partly", "data-testid": "partly" }, words);
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
    h("div", { class: "tools" }, aboutModels(payload.models), theme, exports),
  );
  const update = (state) => setText(theme, `Theme: ${state.theme}`);
  return { element, update };
}

/** What each model is, how it was set and how it does: opened on demand. */
function aboutModels(models) {
  const pair = ([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value));
  const list = (model) => {
    const name = h("div", { class: "of" }, h("dt", null, "model"), h("dd", null, model.name));
    return h("dl", null, name, [...model.summary, ...model.settings].map(pair));
  };
  const card = h("div", { class: "card" }, models.map(list));
  const summary = h("summary", null, "About");
  const element = h("details", { class: "settings", "data-testid": "settings" }, summary, card);
  element.addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget && !element.contains(relatedTarget)) element.open = false;
  });
  element.addEventListener("keydown", ({ key }) => {
    if (key === "Escape") element.open = false;
  });
  return element;
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
