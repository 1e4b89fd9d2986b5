// One input: what it is, and its charts, numbers and decisions at the current level.

import { fitText, h, setText, uniqueId, watchSize } from "./dom.js";
import { className, inputName, plural } from "./format.js";
import { drawIntervals } from "./intervals.js";
import { drawPaths } from "./path.js";
import { drawSpider } from "./spider.js";
import { createPictures, pictureCanvas } from "./pictures.js";
import { endsOf, MOST_SLOTS } from "./slots.js";
import { createTriangle } from "./triangle.js";
import { createWhy } from "./why.js";
import { numbersTable, rulesTable } from "./verdicts.js";

/** @param {(by: number) => void} step  goes to the previous or next input of the list */
export function createDetail(payload, store, level, step) {
  const id = uniqueId();
  const title = h(`h${level}`, { id, "data-testid": "detail-title" });
  const tools = h("div", { class: "tools" }, stepButton("Previous", "↑", -1, step), stepButton("Next", "↓", 1, step));
  const note = h("p", { class: "note", hidden: true });
  const about = h("div", { class: "about" });

  let showAll = false;
  const toggle = () => {
    showAll = !showAll;
    store.refresh();
  };
  const more = h("button", { type: "button", class: "link", "data-testid": "all-classes", onclick: toggle });
  const charts = {
    spider: chartPlace(store, drawSpider),
    intervals: chartPlace(store, (...given) => drawIntervals(...given, showAll)),
    paths: chartPlace(store, drawPaths),
  };
  const why = createWhy(payload, store);
  const triangle = createTriangle(payload, store);
  const numbers = h("div", { "data-testid": "numbers" });
  const rules = h("div", { "data-testid": "rules" });
  const part = (name, ...content) => h("div", { class: "part" }, h(`h${level + 1}`, null, name), ...content);
  const decisions = part("Decisions", rules);
  const parts = h(
    "div",
    { class: "parts" },
    decisions,
    part("Intervals", charts.intervals.host, more),
    why && part("Why the interval stops there", why.element),
    triangle && part(payload.models[0].classes.length > 3 ? "Three of the classes" : "Triangle", triangle.element),
    part("Numbers", numbers),
    part("Spider", charts.spider.host),
    payload.alphas.length > 1 && part("Growth as α falls", charts.paths.host),
  );
  const names = { class: "panel detail", "aria-labelledby": id, "data-testid": "detail" };
  const head = h("div", { class: "head" }, title, tools);
  const element = h("section", names, head, note, about, parts, detailLegend(payload));
  const drawPicture = createPictures(payload);

  let shown = -1;
  function update(state, view) {
    const i = state.input;
    if (shown !== i) {
      title.textContent = inputName(payload, i);
      about.replaceChildren(...aboutInput(payload, i, drawPicture));
      shown = i;
    }
    const notes = notesOn(payload, state, view);
    note.hidden = !notes;
    setText(note, notes);
    for (const chart of Object.values(charts)) chart.update(payload, state);
    more.hidden = payload.slots <= MOST_SLOTS;
    setText(more, showAll ? `Show the first ${MOST_SLOTS}` : `Show all ${plural(payload.slots, "class")}`);
    why?.update(state);
    triangle?.update(state, view);
    numbers.replaceChildren(numbersTable(payload, state));
    rules.replaceChildren(rulesTable(payload, state));
  }

  const stop = () => {
    Object.values(charts).forEach((chart) => chart.size.stop());
    why?.stop();
    triangle?.stop();
  };
  const drawings = () =>
    Object.entries({ ...charts, why, triangle })
      .filter(([, chart]) => chart)
      .map(([name, { drawn }]) => ({ name, root: drawn() }))
      .filter(({ root }) => root);
  return { element, update, stop, drawings };
}

function notesOn(payload, state, view) {
  const isEmpty = (model) => Number.isNaN(endsOf(payload, model, state.level, state.input, 0)[0]);
  return [
    !view.matches[state.input] && "The current filters leave this input out of the list.",
    payload.models.some(isEmpty) && "The credal set is empty: no distribution satisfies its bounds.",
  ]
    .filter(Boolean)
    .join(" ");
}

function stepButton(word, sign, by, step) {
  const name = `${word} input`;
  const about = { "aria-label": name, title: name, "data-testid": word.toLowerCase() };
  return h("button", { type: "button", class: "icon", ...about, onclick: () => step(by) }, sign);
}

/** A place where a chart is drawn anew whenever the input, the level or the width changes. */
function chartPlace(store, draw) {
  const host = h("div", { class: "plot" });
  const size = watchSize(host, () => store.refresh());
  let drawn = null;
  const update = (payload, state) => {
    if (!size.width) return;
    drawn = draw(payload, state, size.width);
    host.replaceChildren(drawn);
  };
  return { host, size, update, drawn: () => drawn };
}

/** Picture, label, predictions and text, as far as there are any. */
function aboutInput(payload, i, drawPicture) {
  const parts = [];
  const name = inputName(payload, i);
  if (drawPicture) {
    const picture = pictureCanvas(`Picture of ${name}`, "picture");
    drawPicture(picture, i);
    parts.push(picture);
  }
  const facts = h("dl", { class: "facts" });
  const fact = (term, value) => facts.append(h("div", null, h("dt", null, term), h("dd", null, value)));
  if (payload.names) fact("Row", String(payload.rows[i]));
  for (const { name: group, values, codes } of payload.groups) fact(group, values[codes[i]]);
  if (payload.labels) fact("Label", className(payload.models[0], payload.labels[i]));
  for (const model of payload.models) {
    if (!model.predicted) continue;
    const wrong = payload.labels && model.predicted[i] !== payload.labels[i];
    const term = payload.models.length > 1 ? fitText(model.name, 150) : "Prediction";
    const words = className(model, model.predicted[i]);
    fact(term, h("span", { class: wrong ? "wrong" : null }, words, wrong && " (wrong)"));
  }
  if (facts.childElementCount) parts.push(facts);
  const group = { class: "text", role: "group", "aria-label": "Text of the input", tabindex: "0" };
  if (payload.texts?.[i]) parts.push(h("div", { ...group, "data-testid": "text" }, payload.texts[i]));
  return parts;
}

function detailLegend(payload) {
  const item = (mark, words) => h("li", null, h("i", { class: `key ${mark}` }), h("bdi", null, words));
  const several = payload.models.length > 1;
  const items = several
    ? payload.models.map((model, at) => item(`bar model${at + 1}`, model.name))
    : [item("bar model1", "in the decision set")];
  items.push(item("bar model1 dropped", several ? "pale: not in the decision set" : "not in it"));
  if (payload.models.some((model) => model.point)) items.push(item("dot", "model’s prediction"));
  if (payload.truth) items.push(item("diamond", "truth"));
  if (payload.labels) items.push(h("li", null, h("b", null, "Bold"), " label"));
  return h("ul", { class: "legend" }, items);
}
