// The story's parts: a bar per class, sliders, the classes to choose from, and the table of decisions.

import { h, setText, uniqueId } from "./dom.js";
import { className } from "./format.js";
import { ASKING, budgetOf, STORY_RULES, tally, verdictBy } from "./story_numbers.js";
import { percent } from "./story_words.js";

/** A bar per class: from 0 to a probability, or from the lower to the upper one. */
export function createBars(model) {
  const rows = [0, 1, 2].map((k) => {
    const [band, own, tip] = ["band", "own", "now"].map((kind) => h("i", { class: kind }));
    const rail = h("span", { class: "rail", "aria-hidden": "true" }, band, own, tip);
    const value = h("span", { class: "value" });
    const who = h("span", { class: "who", title: className(model, k) }, className(model, k));
    return { row: h("li", { class: `class${k}`, "data-testid": `bar-${k}` }, who, rail, value), band, own, tip, value };
  });
  const place = (element, low, high) => {
    element.style.left = `${100 * low}%`;
    element.style.width = `${100 * (high - low)}%`;
  };
  /** `own`: the model's probabilities; `now`: those after a shift; `box`: intervals. */
  function show({ own, now = null, box = null }) {
    rows.forEach(({ row, band, own: mark, tip, value }, k) => {
      const [low, high] = box ? box[k] : [0, now[k]];
      place(band, low, high);
      place(mark, own[k], own[k]);
      if (now) place(tip, now[k], now[k]);
      tip.hidden = !(box && now);
      mark.hidden = !box && now[k] === own[k];
      row.classList.toggle("interval", Boolean(box));
      Object.assign(row.dataset, { low, high });
      setText(value, box ? `${(100 * low).toFixed(1)}–${percent(high)}` : percent(now[k]));
    });
  }
  return { element: h("ul", { class: "probabilities" }, rows.map(({ row }) => row)), show };
}

/** A slider with its name, its value and, where they are given, the names of its ends. */
export function createRange(key, title, bounds, onmove, ends = null) {
  const act = () => onmove(Number(input.value));
  const input = h("input", { type: "range", id: uniqueId(), ...bounds, "data-testid": key, oninput: act });
  const output = h("output", { for: input.id, "data-testid": `${key}-value` });
  const scale = ends && h("div", { class: "ends", "aria-hidden": "true" }, ends.map((text) => h("span", null, text)));
  const element = h("div", { class: "ranged" }, h("label", { for: input.id }, title, " ", output), input, scale);
  const show = (value, text, spoken) => {
    if (Number(input.value) !== value) input.value = value;
    input.style.setProperty("--share", (value - bounds.min) / (bounds.max - bounds.min));
    input.setAttribute("aria-valuetext", `${text}. ${spoken}`);
    setText(output, text);
  };
  return { element, show };
}

/** Three buttons: the class that is shifted. */
export function createChips(model, choose) {
  const button = (k) => {
    const about = { type: "button", class: `class${k}`, "data-testid": `class-${k}`, onclick: () => choose(k) };
    return h("button", about, h("i", { class: "swatch" }), className(model, k));
  };
  const buttons = [0, 1, 2].map(button);
  const show = (k) => buttons.forEach((each, at) => each.setAttribute("aria-pressed", String(at === k)));
  return { element: h("div", { class: "chips", role: "group", "aria-label": "The class that is shifted" }, buttons), show };
}

/** What each rule does with this input, and over all inputs. */
export function createVerdicts(payload) {
  const rows = STORY_RULES.map(([rule, title, meaning]) => {
    const cell = (part, kind) => h("td", { class: kind, "data-testid": `${part}-${rule}` });
    const [says, asks, errs] = [cell("says", null), cell("asks", "numeric"), cell("errs", "numeric")];
    return { rule, says, asks, errs, row: h("tr", null, h("th", { scope: "row", title: meaning }, title), says, asks, payload.labels && errs) };
  });
  const head = ["Rule", `This ${payload.story.noun}`, "asks", payload.labels && "errs"].filter(Boolean);
  const heads = head.map((words, at) => h("th", { scope: "col", class: at > 1 ? "numeric" : null }, words));
  const body = h("tbody", null, rows.map(({ row }) => row));
  const element = h("table", { class: "verdicts" }, h("thead", null, h("tr", null, heads)), body);
  let shown = "";

  /** All inputs are judged, so only what is seen is kept current; the first time, its height is needed. */
  function update(state) {
    const key = [state.input, state.level, state.cost].join(" ");
    if (key === shown || (shown && state.step !== 5)) return;
    shown = key;
    const budget = budgetOf(payload, state);
    for (const { rule, says, asks, errs } of rows) {
      const action = verdictBy(payload, state.input, rule, budget, state.cost);
      const { asked, wrong } = tally(payload, rule, budget, state.cost);
      setText(says, action === ASKING ? "ask" : className(payload.models[0], action));
      setText(asks, percent(asked));
      setText(errs, Number.isNaN(wrong) ? "–" : percent(wrong));
    }
  }
  return { element, update };
}
