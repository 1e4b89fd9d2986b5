// Which of an input's classes are shown, and what is said of them.

import { className, plural, rangeText, series, slotName } from "./format.js";

const [MOST_SLOTS, MOST_ORDERED] = [6, 12]; // shown at first; of ordered classes the neighbours, too
const MOST_NAMED = 3; // possible classes that are named; of more, their number is
const THINNEST = 0.012; // an interval narrower than this is a dot

/** Slots of classes, the largest upper probability at the first level first: so they stay put while caution moves. */
export function rankedSlots(payload, i) {
  const { slots, width, count, start, models } = payload;
  const at = (start * count + i) * width;
  const reach = (slot) => Math.max(...models.map((model) => model.upper[at + slot] || 0));
  return Array.from({ length: slots }, (_, slot) => slot).sort((a, b) => reach(b) - reach(a) || a - b);
}

/** How many slots are shown at first. */
export const mostSlots = ({ models }) => (models[0].ordered ? MOST_ORDERED : MOST_SLOTS);

/** All slots as they are listed: the most plausible first, or in the order of the classes, then the rest if it is stored. */
export function listedSlots(payload, i, slots = rankedSlots(payload, i)) {
  const listed = payload.models[0].ordered ? slots.toSorted((a, b) => a - b) : slots;
  return payload.rest ? [...listed, payload.slots] : listed;
}

/** The first few, the label's and those that models say always among them. */
export function topSlots(payload, i, most = mostSlots(payload)) {
  const ranked = rankedSlots(payload, i);
  const wanted = [payload.labels?.[i], ...payload.models.map((model) => model.said?.[i])];
  const isWanted = (slot) => wanted.includes(payload.slotClass[i * payload.slots + slot]);
  const first = ranked.filter(isWanted);
  const others = ranked.filter((slot) => !isWanted(slot)).slice(0, Math.max(0, most - first.length));
  const shown = new Set([...first, ...others]);
  return listedSlots(payload, i, ranked.filter((slot) => shown.has(slot)));
}

/** How a bar looks: possible, not possible, or all other classes together. */
export function barClass(payload, model, { level, input }, slot) {
  const several = payload.models.length > 1 ? " slim" : "";
  const [low, high] = endsOf(payload, model, level, input, slot);
  const thin = high - low < THINNEST ? " thin" : "";
  const name = `bar model${payload.models.indexOf(model) + 1}${several}${thin}`;
  if (slot >= payload.slots) return `${name} rest`;
  return (model.kept.possible[level * payload.count + input] >>> slot) & 1 ? name : `${name} dropped`;
}

/** Ends of a slot's interval at a level: [NaN, NaN] where no distribution is plausible. */
export function endsOf(payload, model, level, i, slot) {
  const at = (level * payload.count + i) * payload.width + slot;
  return [model.lower[at], model.upper[at]];
}

/** The intervals of an input in words, the first few classes. */
export function intervalsInWords(payload, { level, input }, slots) {
  const said = payload.models.map((model) => {
    const part = (slot) => `${slotName(payload, model, input, slot)} ${rangeText(...endsOf(payload, model, level, input, slot))}`;
    return (payload.models.length > 1 ? `${model.name}: ` : "") + slots.slice(0, 5).map(part).join(", ");
  });
  return said.join(". ");
}

/** The classes that a rule says, the most probable first or in their order, and how many more there are. */
export function ruleSays(payload, model, rule, level, i) {
  const at = level * payload.count + i;
  if (rule.kind === "one") {
    const k = model.takes[rule.key]?.[at] ?? -1;
    return { classes: k < 0 ? [] : [{ k, name: className(model, k) }], more: 0 };
  }
  const bits = model.kept[rule.key][at];
  const sure = (slot) => (model.ordered ? 0 : (model.point?.[i * payload.width + slot] ?? 0));
  const classOf = (slot) => payload.slotClass[i * payload.slots + slot];
  const classes = Array.from({ length: payload.slots }, (_, slot) => slot)
    .filter((slot) => (bits >>> slot) & 1)
    .sort((a, b) => sure(b) - sure(a) || classOf(a) - classOf(b))
    .map((slot) => ({ k: classOf(slot), name: className(model, classOf(slot)) }));
  return { classes, more: model.size[rule.key][at] - classes.length };
}

/** "Spanish or Galician", "2 to 4" of ordered classes, "4 classes of Iberian" of a tree, "13 classes" */
export function possibleInWords(payload, model, level, i, word = "or") {
  const { classes, more } = ruleSays(payload, model, payload.rules[0], level, i);
  const [names, size] = [classes.map(({ name }) => name), classes.length + more];
  if (!size) return "none";
  const node = model.node?.[level * payload.count + i] ?? 0; // 0 is the root, which says nothing
  if (model.ordered && size > 1 && !more) return `${names[0]} to ${names.at(-1)}`;
  if (size <= MOST_NAMED) return series(names, word);
  return plural(size, "class") + (node > 0 ? ` of ${model.nodes[node]}` : "");
}
