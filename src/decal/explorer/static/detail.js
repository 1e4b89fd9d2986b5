// One input: what it is, its ranges, and what they come to in one sentence; decision rules are folded away.

import { h, setText, uniqueId, watchSize } from "./dom.js";
import { inputName, plural } from "./format.js";
import { drawIntervals } from "./intervals.js";
import { createPictures, pictureCanvas } from "./pictures.js";
import { endsOf, mostSlots } from "./slots.js";
import { numbersTable, rulesTable, sentenceOf } from "./verdicts.js";

/** How one input is drawn, by what it is: maps of pixels and ordered classes belong here, too. */
const DRAWINGS = { classes: drawIntervals };

/** @param {(by: number) => void} step  goes to the previous or next input of the list */
export function createDetail(payload, store, level, step) {
  const id = uniqueId();
  const title = h(`h${level}`, { id, "data-testid": "detail-title" });
  const tools = h("div", { class: "tools" }, stepButton("Previous", "↑", -1, step), stepButton("Next", "↓", 1, step));
  const note = h("p", { class: "note", hidden: true });
  const about = h("div", { class: "about" });
  const host = h("div", { class: "plot" });
  const size = watchSize(host, () => store.refresh());
  let showAll = false;
  const toggle = () => {
    showAll = !showAll;
    store.refresh();
  };
  const link = (testid, onclick) => h("button", { type: "button", class: "link", "data-testid": testid, onclick });
  const more = link("all-classes", toggle);
  const alike = link("alike", () => store.set({ open: isOpen(payload, store.state) ? null : store.state.input }));
  const sentences = payload.models.map(() => h("p", { class: "verdict", "data-testid": "sentence" }));
  const numbers = h("div", { "data-testid": "numbers" });
  const rules = h("div", { "data-testid": "rules" });
  const folded = h("details", { class: "folded", "data-testid": "folded" }, h("summary", null, "Decision rules and uncertainties"), rules, numbers);
  folded.addEventListener("toggle", () => store.refresh());
  const names = { class: "panel detail", "aria-labelledby": id, "data-testid": "detail" };
  const element = h("section", names, h("div", { class: "head" }, title, tools), note, about, host, more, sentences, alike, detailLegend(payload), folded);
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
    if (size.width) host.replaceChildren(DRAWINGS[payload.view](payload, state, size.width, showAll));
    more.hidden = payload.slots <= mostSlots(payload);
    setText(more, showAll ? `Show the first ${mostSlots(payload)}` : `Show all ${plural(payload.slots, "class")}`);
    payload.models.forEach((model, at) => {
      const said = sentenceOf(payload, model, state);
      setText(sentences[at], payload.models.length > 1 && said ? `${model.name}: ${said}` : said);
    });
    const others = (view.alike.get(payload.alike[i]) ?? 1) - 1;
    alike.hidden = others < 1;
    const open = isOpen(payload, state) ? "Fold" : "List";
    setText(alike, `${open} the ${plural(others, "other")} with the same answer`);
    if (!folded.open) return;
    numbers.replaceChildren(numbersTable(payload, state));
    rules.replaceChildren(rulesTable(payload, state));
  }
  return { element, update, stop: size.stop };
}

const isOpen = ({ alike }, { open, input }) => open !== null && alike[open] === alike[input];

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

/** Picture, text, row and groups, as far as there are any. */
function aboutInput(payload, i, drawPicture) {
  const parts = [];
  if (drawPicture) {
    const picture = pictureCanvas(`Picture of ${inputName(payload, i)}`, "picture");
    drawPicture(picture, i);
    parts.push(picture);
  }
  const group = { class: "text", role: "group", "aria-label": "Text of the input", tabindex: "0" };
  if (payload.texts?.[i]) parts.push(h("div", { ...group, "data-testid": "text" }, payload.texts[i]));
  const fact = (term, value) => h("div", null, h("dt", null, term), h("dd", null, value));
  const facts = payload.groups.map(({ name, values, codes }) => fact(name, values[codes[i]]));
  if (payload.names) facts.unshift(fact("Row", String(payload.rows[i])));
  if (facts.length) parts.push(h("dl", { class: "facts" }, facts));
  return parts;
}

function detailLegend(payload) {
  const item = (mark, words) => h("li", null, h("i", { class: `key ${mark}` }), h("bdi", null, words));
  const several = payload.models.length > 1;
  const items = several
    ? payload.models.map((model, at) => item(`bar model${at + 1}`, model.name))
    : [item("bar model1", "possible")];
  items.push(item("bar model1 dropped", several ? "pale: not possible" : "not possible"));
  if (payload.models.some((model) => model.says)) items.push(item("dot", "model says"));
  if (payload.truth) items.push(item("diamond", "truth"));
  if (payload.labels) items.push(h("li", null, h("b", null, "✓"), " true class"));
  return h("ul", { class: "legend" }, items);
}
