// What the words mean: one sentence and a formula each, shown beside a word that is pointed at or focused.

import { h, uniqueId } from "./dom.js";

export const TERMS = {
  alpha: [
    "How likely a model must be, relative to the reference, for its predictions to count as plausible. Smaller is more cautious.",
    "plausible ⇔ likelihood ≥ α · likelihood of the reference",
  ],
  efficiency: [
    "How precise the intervals are: 1 if every interval is a point, 0 if every one runs from 0 to 1. Mean over all inputs and classes.",
    "1 − mean(upper − lower)",
  ],
  coverage: [
    "Share of inputs whose true distribution lies inside the intervals of all classes.",
    "mean [lowerₖ ≤ truthₖ ≤ upperₖ for all k]",
  ],
  missed: [
    "Share of inputs whose label is not in the decision set: the errors that caution did not catch.",
    "mean [label ∉ decision set]",
  ],
  size: [
    "How many classes stay in the decision set. One class is a decision; more are an honest “one of these”.",
    "number of k that are most probable under some plausible p",
  ],
  aleatoric: [
    "Uncertainty that every plausible distribution has: the least entropy among them.",
    "min H(p) over plausible p, in nats",
  ],
  epistemic: [
    "How much the plausible distributions differ in uncertainty. Near the cap it is ln K − aleatoric, largest where the model is surest: do not look for errors by it alone.",
    "max H(p) − min H(p), in nats",
  ],
  total: [
    "The most uncertainty that any plausible distribution has. It cannot exceed the cap, ln K.",
    "max H(p) over plausible p ≤ ln K, in nats",
  ],
  cap: [
    "Equal probabilities are plausible for such an input, so its upper entropy is as large as it can be, and ranks it no further.",
    "max H(p) = ln K",
  ],
  risk: [
    "Share of errors among the inputs that are decided.",
    "errors ÷ inputs decided",
  ],
};

/** Say what a word means while its element is pointed at or has the focus. */
export function explain(element, key) {
  const [sentence, formula] = TERMS[key];
  const id = uniqueId();
  const words = [h("span", null, sentence), h("code", null, formula)];
  const tip = h("div", { id, class: "term-tip", role: "tooltip", popover: "manual", "data-testid": "term-tip" }, words);
  const show = () => {
    const root = element.closest(".decal");
    if (!root || tip.isConnected) return;
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
export function term(word, key, testid = `term-${key}`) {
  return explain(h("button", { type: "button", class: "term", "data-testid": testid }, word), key);
}
