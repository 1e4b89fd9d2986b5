// One input as a list of ranges, the most plausible class first, or in the order of the classes: what the model says, and what the data allow.

import { chartRoot, fitText, svg, textWidth } from "./dom.js";
import { diamond, linear } from "./axes.js";
import { inPercent, rangeText, slotName } from "./format.js";
import { barClass, endsOf, intervalsInWords, listedSlots, topSlots } from "./slots.js";

const HEAD = 22;
const CRAMPED = 420; // pixels: where less is left for words
const WIDE = { range: 74, says: 66, heads: ["data allow", "model says"] }; // pixels, and what stands above
const SLIM = { range: 60, says: 46, heads: ["allowed", "says"] };

export function drawIntervals(payload, state, width, all) {
  const i = state.input;
  const slots = (all ? listedSlots : topSlots)(payload, i);
  const [model] = payload.models;
  const pitch = payload.models.length > 1 ? 34 : 26;
  const isLabel = (slot) => slot < payload.slots && payload.labels?.[i] === payload.slotClass[i * payload.slots + slot];
  const names = slots.map((slot) => slotName(payload, model, i, slot) + (isLabel(slot) ? " ✓" : ""));
  const left = Math.min(Math.max(...names.map((name) => textWidth(name, 12, 600))) + 12, width * 0.4);
  const room = width < CRAMPED ? SLIM : WIDE;
  const says = payload.models.some((each) => each.says) ? room.says : 0;
  const x = linear([0, 1], [left, width - room.range - says - 22]);
  const height = HEAD + slots.length * pitch + 4;
  const root = chartRoot(width, height, `Ranges. ${intervalsInWords(payload, state, slots)}.`, "intervals");
  for (const tick of [0, 0.5, 1]) {
    root.append(svg("text", { class: "tick middle", x: x(tick), y: 12 }, `${100 * tick}`));
    root.append(svg("line", { class: "grid", x1: x(tick), x2: x(tick), y1: HEAD - 4, y2: height - 4 }));
  }
  const head = (words, at) => svg("text", { class: "tick end", x: at, y: 12 }, words);
  root.append(head(room.heads[0], width - 2));
  if (says) root.append(head(room.heads[1], width - room.range));
  slots.forEach((slot, at) => {
    const y = HEAD + (at + 0.5) * pitch;
    const bold = isLabel(slot);
    const shown = fitText(names[at], left - 12, 12, bold ? 600 : 400);
    const text = { class: bold ? "spoke label" : "spoke", x: left - 10, y: y + 4, "text-anchor": "end" };
    root.append(svg("text", text, shown, svg("title", null, names[at])));
    payload.models.forEach((each, which) => root.append(...rowMarks(payload, state, each, which, slot, x, y, [width - 2, width - room.range])));
    if (payload.truth) root.append(...diamond(x(payload.truth[i * payload.width + slot]), y));
  });
  return root;
}

function rowMarks(payload, state, model, which, slot, x, middle, [rangeEnd, saysEnd]) {
  const several = payload.models.length > 1;
  const y = middle + (several ? (which - 0.5) * 13 : 0);
  const [low, high] = endsOf(payload, model, state.level, state.input, slot);
  const marks = [svg("text", { class: "number range end", x: rangeEnd, y: y + 4 }, rangeText(low, high))];
  if (!Number.isNaN(low)) marks.push(svg("line", { class: barClass(payload, model, state, slot), x1: x(low), x2: x(high), y1: y, y2: y }));
  if (!model.says) return marks;
  const said = model.says[state.input * payload.width + slot];
  const dot = svg("circle", { class: `point model${which + 1}`, cx: x(said), cy: y, r: several ? 3 : 4 });
  return [...marks, dot, svg("text", { class: "number says end", x: saysEnd, y: y + 4 }, inPercent(said))];
}
