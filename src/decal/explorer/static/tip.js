// What is said of an input in brief: in a tile, and beside the pointer.

import { h } from "./dom.js";
import { className, decimal, inputName } from "./format.js";
import { createPictures, pictureCanvas } from "./pictures.js";
import { ruleSays } from "./slots.js";
import { errorOf, isCapped } from "./view.js";

/** Words that differ between models, the first model's first. */
export function change(words) {
  return [...new Set(words)].join(" → ");
}

/** What the models shown predict; "" where they predict nothing. */
export function predictionInWords(view, i) {
  return change(view.shown.filter((model) => model.predicted).map((model) => className(model, model.predicted[i])));
}

/** The label, where a model shown gets it wrong; else null. */
export function missedLabel(payload, view, i) {
  const wrong = view.shown.some((model) => errorOf(payload, model, i) === 1);
  return wrong ? className(payload.models[0], payload.labels[i]) : null;
}

/** The decision set: its classes' names, and how many they are. Of two models, their sizes only. */
export function setInBrief(payload, state, view, i) {
  const sizes = view.shown.map((model) => model.size[state.rule][view.first + i]);
  if (sizes.length > 1) return { names: "size", size: change(sizes.map(String)) };
  const rule = payload.rules.find(({ key }) => key === state.rule);
  const { classes } = ruleSays(payload, view.shown[0], rule, state.level, i);
  return { names: classes.map(({ name }) => name).join(", "), size: String(sizes[0]) };
}

/** All of it in a sentence. */
function inBrief(payload, state, view, i) {
  const [predicted, label] = [predictionInWords(view, i), missedLabel(payload, view, i)];
  const { names, size } = setInBrief(payload, state, view, i);
  const wrong = label === null ? "" : `, wrong: ${label}`;
  return [predicted && `Predicted ${predicted}${wrong}`, `Decision set, ${size}: ${names}`].filter(Boolean).join(". ");
}

/** A tip about an input, with its picture and text: fill(state, view, i) */
export function createTip(payload, { letters = 160 } = {}) {
  const element = h("div", { class: "tip", "aria-hidden": "true", hidden: true });
  const drawPicture = createPictures(payload);
  const picture = pictureCanvas();
  function fill(state, view, i) {
    const [{ aleatoric, epistemic }] = view.shown;
    const at = view.first + i;
    const capped = isCapped(payload, view.shown[0], view.first, i) && "at the cap";
    const numbers = [`aleatoric ${decimal(aleatoric[at])}`, `epistemic ${decimal(epistemic[at])}`, capped];
    const words = [inputName(payload, i), ...numbers].filter(Boolean).join(" · ");
    const text = payload.texts && h("div", { class: "excerpt" }, payload.texts[i].slice(0, letters));
    drawPicture?.(picture, i);
    element.replaceChildren(...(drawPicture ? [picture] : []), h("div", null, words, h("div", { class: "brief" }, inBrief(payload, state, view, i)), text));
  }
  return { element, fill };
}
