// The story's arithmetic: what a shift does to the labelled data and to one input, and what follows for a decision.

import { boxAt, endsAt, pointOf, shifted } from "./evidence.js";
import { decideAbstaining } from "./decide.js";

export const ASKING = 3; // the action after those of naming a class
const NO_ASKING = 1; // a cost at which naming any class is at least as good

/** The log-likelihood per labelled input that shifting class k by t gains: a cubic through the four nodes around t. */
export function gainAt({ shifts: [from, to, nodes], gains }, k, t) {
  const place = ((Math.min(Math.max(t, from), to) - from) / (to - from)) * (nodes - 1);
  const first = Math.min(Math.max(Math.floor(place) - 1, 0), nodes - 4);
  const x = place - first;
  return [0, 1, 2, 3].reduce((sum, a) => {
    const weight = [0, 1, 2, 3].reduce((product, b) => (a === b ? product : (product * (x - b)) / (a - b)), 1);
    return sum + weight * gains[(first + a) * 3 + k];
  }, 0);
}

/** All probabilities after class k's logit is shifted by t. */
export function movedBy(p, k, t) {
  const rest = p.reduce((sum, q, j) => (j === k ? sum : sum + q), 0);
  const moved = shifted(p[k], rest, t);
  return p.map((q, j) => (j === k ? moved : rest === 0 ? 0 : (q / rest) * (1 - moved)));
}

/** The budget that the cut leaves. */
export function budgetOf({ story }, { level }) {
  return -Math.log(story.alphas[level]);
}

/** The intervals that hold a prediction and others. */
export function around(p, others) {
  return p.map((q, k) => [Math.min(q, ...others.map((r) => r[k])), Math.max(q, ...others.map((r) => r[k]))]);
}

/** The shifts of class k that a budget allows, where they lead, and the interval of every class between. */
export function sweepOf(payload, i, k, budget) {
  const [model] = payload.models;
  const p = pointOf(payload, model, i);
  const ends = endsAt(model.evidence, "class", k, budget);
  const moved = ends.map((t) => movedBy(p, k, t));
  return { ends, moved, box: around(p, moved) };
}

/** The intervals of all classes, shifted one after the other: decal's credal set. */
export function setOf(payload, i, budget) {
  return boxAt(payload, payload.models[0], i, budget);
}

/** What a rule decides for a box, where abstaining costs so much of an error: actions by number, 3 asks. */
function verdictOf(box, rule, cost) {
  const lower = box.map(([low]) => low);
  const upper = box.map(([, high]) => high);
  return decideAbstaining(lower, upper, rule, cost).kept;
}

/** The labels that are most probable under some plausible prediction. */
export function plausible(box) {
  return verdictOf(box, "e_admissible", NO_ASKING).filter((k) => k < ASKING);
}

/** The rules that the story compares. */
export const STORY_RULES = [
  ["point", "The model alone", "names a class if its probability is worth more than asking"],
  ["gamma_maximin", "Cautious", "names a class if its lower probability is worth more than asking (Γ-maximin)"],
  ["gamma_maximax", "Bold", "names a class if its upper probability is worth more than asking (Γ-maximax)"],
];

/** What one of them does with an input: the class that it names, or 3 to ask. */
export function verdictBy(payload, i, rule, budget, cost) {
  const point = rule === "point" && pointOf(payload, payload.models[0], i).map((q) => [q, q]);
  return verdictOf(point || setOf(payload, i, budget), point ? "gamma_maximin" : rule, cost)[0];
}

/** Over all inputs: the share that a rule leaves to a person, and the errors among the others. */
export function tally(payload, rule, budget, cost) {
  let [asked, wrong] = [0, 0];
  for (let i = 0; i < payload.count; i++) {
    const action = verdictBy(payload, i, rule, budget, cost);
    if (action === ASKING) asked += 1;
    else if (payload.labels && payload.labels[i] !== action) wrong += 1;
  }
  const named = payload.count - asked;
  return { asked: asked / payload.count, wrong: payload.labels && named ? wrong / named : NaN };
}
