// Which of an input's classes a chart shows, and what it says of them.

import { className, decimal, slotName } from "./format.js";

export const MOST_SLOTS = 12;
const THINNEST = 0.012; // an interval narrower than this is a dot

/** Slots of classes, the largest upper probability at the first level first: so they stay put while alpha moves. */
export function rankedSlots(payload, i) {
  const { slots, width, count, start, models } = payload;
  const at = (start * count + i) * width;
  const reach = (slot) => Math.max(...models.map((model) => model.upper[at + slot] || 0));
  return Array.from({ length: slots }, (_, slot) => slot).sort((a, b) => reach(b) - reach(a) || a - b);
}

/** At most `most` slots, the label's and the predicted ones always among them, then the rest if it is stored. */
export function topSlots(payload, i, most = MOST_SLOTS) {
  const ranked = rankedSlots(payload, i);
  const wanted = [payload.labels?.[i], ...payload.models.map((model) => model.predicted?.[i])];
  const isWanted = (slot) => wanted.includes(payload.slotClass[i * payload.slots + slot]);
  const first = ranked.filter(isWanted);
  const others = ranked.filter((slot) => !isWanted(slot)).slice(0, Math.max(0, most - first.length));
  const shown = new Set([...first, ...others]);
  const top = ranked.filter((slot) => shown.has(slot));
  return payload.rest ? [...top, payload.slots] : top;
}

/** Whether the decision set has the class of a slot. */
function isKept(payload, model, { rule, level, input }, slot) {
  return Boolean((model.kept[rule][level * payload.count + input] >>> slot) & 1);
}

/** How a bar looks: in the decision set, not in it, or all other classes together. */
export function barClass(payload, model, state, slot) {
  const several = payload.models.length > 1 ? " slim" : "";
  const [low, high] = endsNow(payload, model, state, slot);
  const thin = high - low < THINNEST ? " thin" : "";
  const name = `bar model${payload.models.indexOf(model) + 1}${several}${thin}`;
  if (slot >= payload.slots) return `${name} rest`;
  return isKept(payload, model, state, slot) ? name : `${name} dropped`;
}

/** Ends of a slot's interval at a level: [NaN, NaN] where no distribution is plausible. */
export function endsOf(payload, model, level, i, slot) {
  const at = (level * payload.count + i) * payload.width + slot;
  return [model.lower[at], model.upper[at]];
}

/** Ends of a slot's interval of the chosen input as shown now: at the level, or at the cut being dragged. */
export function endsNow(payload, model, { level, input, live }, slot) {
  const dragged = live?.box && live.input === input && model === payload.models[0];
  return dragged ? live.box[payload.slotClass[input * payload.slots + slot]] : endsOf(payload, model, level, input, slot);
}

/** The intervals of an input in words, the first few classes. */
export function intervalsInWords(payload, state, slots) {
  const said = payload.models.map((model) => {
    const parts = slots.slice(0, 5).map((slot) => {
      const [low, high] = endsNow(payload, model, state, slot);
      return `${slotName(payload, model, state.input, slot)} ${decimal(low)} to ${decimal(high)}`;
    });
    return (payload.models.length > 1 ? `${model.name}: ` : "") + parts.join(", ");
  });
  return said.join(". ");
}

/** Names of the classes that a rule says. */
export function ruleSays(payload, model, rule, level, i) {
  const at = level * payload.count + i;
  if (rule.kind === "one") {
    const k = model.takes[rule.key]?.[at] ?? -1;
    return { classes: k < 0 ? [] : [{ k, name: className(model, k) }], more: 0 };
  }
  const bits = model.kept[rule.key][at];
  const classes = rankedSlots(payload, i)
    .filter((slot) => (bits >>> slot) & 1)
    .map((slot) => payload.slotClass[i * payload.slots + slot])
    .map((k) => ({ k, name: className(model, k) }));
  return { classes, more: model.size[rule.key][at] - classes.length };
}
