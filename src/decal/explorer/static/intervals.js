// One input as a list of intervals, the most plausible class first, with its numbers.

import { chartRoot, fitText, svg, textWidth } from "./dom.js";
import { diamond, linear } from "./axes.js";
import { decimal, slotName } from "./format.js";
import { barClass, endsNow, intervalsInWords, rankedSlots, topSlots } from "./slots.js";

const HEAD = 22;
const NUMBERS = 92; // pixels for "0.123–0.456"

/** The slots listed: the first dozen, or all, the most plausible first; the rest at the end. */
export function listedSlots(payload, i, all) {
  if (!all) return topSlots(payload, i);
  const ranked = rankedSlots(payload, i);
  return payload.rest ? [...ranked, payload.slots] : ranked;
}

export function drawIntervals(payload, state, width, all) {
  const i = state.input;
  const slots = listedSlots(payload, i, all);
  const [model] = payload.models;
  const pitch = payload.models.length > 1 ? 32 : 26;
  const names = slots.map((slot) => slotName(payload, model, i, slot));
  const left = Math.min(Math.max(...names.map((name) => textWidth(name, 12, 600))) + 12, width * 0.34);
  const x = linear([0, 1], [left, width - NUMBERS - 10]);
  const height = HEAD + slots.length * pitch + 4;
  const root = chartRoot(width, height, `Intervals. ${intervalsInWords(payload, state, slots)}.`, "intervals");
  for (const tick of [0, 0.25, 0.5, 0.75, 1]) {
    const named = tick % 0.5 === 0 || width > 420;
    if (named) root.append(svg("text", { class: "tick middle", x: x(tick), y: 12 }, String(tick)));
    root.append(svg("line", { class: "grid", x1: x(tick), x2: x(tick), y1: HEAD - 4, y2: height - 4 }));
  }
  slots.forEach((slot, at) => {
    const y = HEAD + (at + 0.5) * pitch;
    const k = slot < payload.slots ? payload.slotClass[i * payload.slots + slot] : -1;
    const isLabel = payload.labels?.[i] === k;
    const shown = fitText(names[at], left - 12, 12, isLabel ? 600 : 400);
    const text = { class: isLabel ? "spoke label" : "spoke", x: left - 10, y: y + 4, "text-anchor": "end" };
    root.append(svg("text", text, shown, svg("title", null, names[at])));
    payload.models.forEach((each, which) => root.append(...rowMarks(payload, state, each, which, slot, x, y, width)));
    if (payload.truth) root.append(...diamond(x(payload.truth[i * payload.width + slot]), y));
  });
  return root;
}

function rowMarks(payload, state, model, which, slot, x, middle, width) {
  const several = payload.models.length > 1;
  const y = middle + (several ? (which - 0.5) * 12 : 0);
  const [low, high] = endsNow(payload, model, state, slot);
  if (Number.isNaN(low)) return [svg("text", { class: "tick end", x: width - 2, y: y + 4 }, "empty")];
  const marks = [
    svg("line", { class: barClass(payload, model, state, slot), x1: x(low), x2: x(high), y1: y, y2: y }),
    svg("text", { class: "number end", x: width - 2, y: y + 4 }, `${decimal(low)}–${decimal(high)}`),
  ];
  if (model.point) {
    const cx = x(model.point[state.input * payload.width + slot]);
    marks.push(svg("circle", { class: `point model${which + 1}`, cx, cy: y, r: several ? 3 : 4 }));
  }
  return marks;
}
