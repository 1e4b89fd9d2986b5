// What the story says: one sentence a step, and a note with the numbers behind it.

import { className, decimal, signed } from "./format.js";
import { pointOf } from "./evidence.js";
import { ASKING, budgetOf, gainAt, movedBy, plausible, setOf, sweepOf, verdictBy } from "./story_numbers.js";

/** 62.1 %, in one piece. */
export function percent(x) {
  return `${(100 * x).toFixed(1)}\u00a0%`;
}

/** The sentence of a step. */
export function sentenceOf(payload, state, step) {
  const { story } = payload;
  const [model] = payload.models;
  const { input, k } = state;
  const name = className(model, k);
  if (step === 1) {
    const first = model.predicted[input];
    const p = pointOf(payload, model, input);
    return `The model says ${className(model, first)}, ${percent(p[first])}. How sure may it be?`;
  }
  if (step === 2) {
    const effect = story.best ? `the labelled ${story.noun}s become less likely` : `so does the likelihood of the labelled ${story.noun}s`;
    return `Shift ${name}: the prediction moves, and ${effect}.`;
  }
  const budget = budgetOf(payload, state);
  if (step === 3) {
    const kept = `${Number((100 * story.alphas[state.level]).toFixed(2))}\u00a0%`;
    const [low, high] = sweepOf(payload, input, k, budget).box[k];
    return `Allow every shift that keeps ${kept} of the likelihood: ${name} is now ${percent(low)} to ${percent(high)}.`;
  }
  const box = setOf(payload, input, budget);
  if (step === 4) {
    const border = plausible(box).length > 1 ? "crosses a border" : "stays on one side";
    return `Do so for each class: the plausible predictions make a set, and it ${border}.`;
  }
  const truth = payload.labels ? ` It is ${className(model, payload.labels[input])}.` : "";
  return decisionOf(payload, state, box, budget) + truth;
}

function decisionOf(payload, { input, cost }, box, budget) {
  const [model] = payload.models;
  const action = verdictBy(payload, input, "gamma_maximin", budget, cost);
  if (action !== ASKING) return `${className(model, action)}: at worst ${percent(box[action][0])}, no need to ask.`;
  const labels = plausible(box);
  if (labels.length > 1) return `${either(model, labels)}: ask a person.`;
  return `${either(model, labels)}, but at worst ${percent(box[labels[0]][0])}: ask a person.`;
}

function either(model, labels) {
  return labels.map((k) => className(model, k)).join(" or ");
}

/** The note of a step. */
export function noteOf(payload, state, step) {
  const { story } = payload;
  const [model] = payload.models;
  const { input, k, shift } = state;
  const budget = budgetOf(payload, state);
  if (step === 1) {
    const fitted = story.best ? `, which is calibrated on ${story.examples} labelled ${story.noun}s` : "";
    return `Every dot is one of ${payload.count} ${story.noun}s: the nearer a corner, the surer the model${fitted}. Choose any.`;
  }
  if (step === 2) {
    if (shift === 0) return "Drag the point along the curve, or move the slider.";
    const moved = movedBy(pointOf(payload, model, input), k, shift)[k];
    const kept = decimal(Math.exp(gainAt(story, k, shift)));
    return `${className(model, k)} gets ${percent(moved)} here; each labelled ${story.noun} is ${kept} times as likely, on average.`;
  }
  if (step === 3) {
    const [low, high] = sweepOf(payload, input, k, budget).ends.map((t) => signed(t, 2));
    return `Shifts from ${low} to ${high} are plausible. Drag the cut.`;
  }
  if (step === 4) {
    const labels = plausible(setOf(payload, input, budget));
    const most = labels.length > 1 ? `${either(model, labels)} may` : `Only ${either(model, labels)} can`;
    return `Coloured: the shifts of each class. Outlined: all predictions within the intervals. ${most} be the most probable.`;
  }
  return `Over all ${payload.count} ${story.noun}s${payload.labels ? "; errs: of those not asked about" : ""}.`;
}
