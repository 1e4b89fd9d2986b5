// What the words mean: one sentence and a formula each, shown beside a word that is pointed at or focused.

import { h, uniqueId } from "./dom.js";

export const TERMS = {
  alpha: [
    "How much worse than the best a model may fit the labelled data and still be heard. More caution hears more models: ranges widen.",
    "plausible ⇔ likelihood ≥ α · likelihood of the reference",
  ],
  efficiency: ["How wide the ranges are, on average over all inputs and classes.", "mean(upper − lower) = 1 − efficiency"],
  coverage: ["Inputs whose true distribution lies inside the ranges of all classes.", "mean [lowerₖ ≤ truthₖ ≤ upperₖ for all k]"],
  missed: ["Inputs whose true class is not among the possible ones: the errors that caution does not catch.", "mean [label ∉ possible classes]"],
  single: ["Inputs that can be filed: only one class is possible.", "mean [number of possible classes = 1]"],
  size: ["How many classes are possible. One can be filed; with several, ask a person.", "k is possible ⇔ k is most probable under some plausible p, or as the promise has it"],
  aleatoric: ["Uncertainty that every plausible distribution has: the least entropy among them.", "min H(p) over plausible p, in nats"],
  epistemic: ["How much the plausible distributions differ in uncertainty.", "max H(p) − min H(p), in nats"],
  total: ["The most uncertainty that any plausible distribution has.", "max H(p) over plausible p ≤ ln K, in nats"],
};

/** Say what a word means while its element is pointed at or has the focus, and what it is `now`. */
export function explain(element, key, now = () => "") {
  const [sentence, formula] = TERMS[key];
  const id = uniqueId();
  const value = h("code");
  const words = [h("span", null, sentence), h("code", null, formula), value];
  const tip = h("div", { id, class: "term-tip", role: "tooltip", popover: "manual", "data-testid": "term-tip" }, words);
  const show = () => {
    const root = element.closest(".decal");
    if (!root || tip.isConnected) return;
    value.textContent = now();
    root.append(tip);
    element.setAttribute("aria-describedby", id);
    tip.showPopover();
    const { left, bottom, top, width } = element.getBoundingClientRect();
    const x = Math.min(Math.max(left + width / 2 - tip.offsetWidth / 2, 8), innerWidth - tip.offsetWidth - 8);
    const fits = bottom + 8 + tip.offsetHeight < innerHeight;
    tip.style.left = `${x}px`;
    tip.style.top = `${fits ? bottom + 8 : Math.max(top - tip.offsetHeight - 8, 8)}px`;
  };
  const hide = () => {
    element.removeAttribute("aria-describedby");
    tip.remove();
  };
  for (const event of ["pointerenter", "focus"]) element.addEventListener(event, show);
  for (const event of ["pointerleave", "blur"]) element.addEventListener(event, hide);
  element.addEventListener("keydown", ({ key: pressed }) => pressed === "Escape" && hide());
  return element;
}

/** A word that explains itself: a button without an action, so that keys and touch reach it. */
export function term(word, key, testid = `term-${key}`, now = undefined) {
  const about = { type: "button", class: "term", "aria-label": word === "?" ? "What is caution?" : null, "data-testid": testid };
  return explain(h("button", about, word), key, now);
}
