// One input as a spider: a spoke per class, a thick bar from its lower to its upper probability.

import { chartRoot, fitText, svg, textWidth } from "./dom.js";
import { diamond } from "./axes.js";
import { slotName } from "./format.js";
import { barClass, endsNow, intervalsInWords, topSlots } from "./slots.js";

const RINGS = [0.25, 0.5, 0.75, 1];
const HOLE = 0.16; // radius of the empty middle, in units of probability: bars start apart
const SPREAD = 0.52; // share of the angle between two spokes that the bars of two models take
const CRAMPED = 420; // pixels: where less is left for names
const LABEL_GAP = 14;
const LINE = 15; // pixels between lines of labels
const LONG_NAME = 90; // pixels: wider names are set in two lines
const LEAST_RADIUS = 0.27; // of the chart's width, however long the names

export function drawSpider(payload, state, width) {
  const model = payload.models[0];
  const i = state.input;
  const slots = topSlots(payload, i);
  if (slots.length <= 13 && !payload.rest) slots.sort((a, b) => a - b);
  const names = slots.map((slot) => slotName(payload, model, i, slot));
  const step = (2 * Math.PI) / slots.length;
  const angles = slots.map((_, at) => at * step - Math.PI / 2);

  const radius = largestRadius(names, angles, width);
  const height = 2 * (radius + LABEL_GAP + LINE) + 4;
  const [cx, cy] = [width / 2, height / 2];
  const reach = (probability) => (radius * (HOLE + probability)) / (HOLE + 1);
  const at = (angle, p) => [cx + Math.cos(angle) * reach(p), cy + Math.sin(angle) * reach(p)];

  const root = chartRoot(width, height, `Spider. ${intervalsInWords(payload, state, slots)}.`, "spider");
  root.append(...[0, ...RINGS].map((p) => svg("circle", { class: "grid", cx, cy, r: reach(p) })));
  angles.forEach((angle, spoke) => {
    const [[x1, y1], [x2, y2]] = [at(angle, 0), at(angle, 1)];
    root.append(svg("line", { class: "grid", x1, y1, x2, y2 }));
    const bold = isLabel(payload, i, slots[spoke]);
    root.append(spokeLabel(names[spoke], angle, bold, { cx, cy, radius, width, step, spokes: slots.length }));
  });
  angles.forEach((angle, spoke) => root.append(...spokeMarks(payload, state, slots[spoke], angle, step, at)));
  root.append(...[0.5, 1].map((p) => ringText(p, at(angles[0] + step / 2, p))));
  return root;
}

/** The largest circle that leaves every label its width, or a fair share of the chart's. */
function largestRadius(names, angles, width) {
  const share = names.length <= 8 ? 0.3 : width < CRAMPED ? 0.17 : 0.22;
  const rooms = names.map((name, at) => {
    const text = Math.min(Math.max(...twoLines(name).map((line) => textWidth(line, 12, 600))), width * share);
    return (width / 2 - text - 6) / Math.max(Math.abs(Math.cos(angles[at])), 0.1) - LABEL_GAP;
  });
  return Math.max(60, width * LEAST_RADIUS, Math.min(...rooms, 160));
}

/** A long name as two lines of similar length. */
function twoLines(name) {
  const words = name.split(/\s+/);
  if (words.length < 2 || textWidth(name) < LONG_NAME) return [name];
  const cuts = words.slice(1).map((_, at) => [words.slice(0, at + 1).join(" "), words.slice(at + 1).join(" ")]);
  const longest = (lines) => Math.max(...lines.map((line) => textWidth(line)));
  return cuts.reduce((best, lines) => (longest(lines) < longest(best) ? lines : best));
}

function ringText(p, [x, y]) {
  return svg("text", { class: "ringtext middle", x, y: y + 4 }, String(p));
}

function isLabel(payload, i, slot) {
  return slot < payload.slots && payload.labels?.[i] === payload.slotClass[i * payload.slots + slot];
}

/** The bars of one class, one per model side by side, with what the models predict and the truth. */
function spokeMarks(payload, state, slot, angle, step, at) {
  const i = state.input;
  const several = payload.models.length > 1;
  const marks = payload.models.flatMap((model, which) => {
    const aside = several ? (which - 0.5) * Math.min((SPREAD * step) / 2, 0.2) : 0;
    const moved = (p) => at(angle + aside, p);
    const [low, high] = endsNow(payload, model, state, slot);
    if (Number.isNaN(low)) return [];
    const [[x1, y1], [x2, y2]] = [moved(low), moved(high)];
    const bar = svg("line", { class: barClass(payload, model, state, slot), x1, y1, x2, y2 });
    if (!model.point) return [bar];
    const [px, py] = moved(model.point[i * payload.width + slot]);
    return [bar, svg("circle", { class: `point model${which + 1}`, cx: px, cy: py, r: several ? 3 : 4 })];
  });
  if (payload.truth) marks.push(...diamond(...at(angle, payload.truth[i * payload.width + slot])));
  return marks;
}

/** A class's name at the end of its spoke, cut so that it touches neither an edge nor its neighbours. */
function spokeLabel(name, angle, bold, { cx, cy, radius, width, step, spokes }) {
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  const x = cx + cos * (radius + LABEL_GAP);
  const y = cy + sin * (radius + LABEL_GAP);
  const upright = Math.abs(cos) < 0.15;
  const beside = (radius + LABEL_GAP) * Math.abs(Math.sin(step)) * 2 - 2 * LABEL_GAP;
  const crowded = spokes > 6 && (radius + LABEL_GAP) * (1 - Math.cos(step)) < LINE;
  const room = upright ? (crowded ? Math.max(beside, 24) : width - 8) : (cos > 0 ? width - x : x) - 4;
  const anchor = upright ? "middle" : cos > 0 ? "start" : "end";
  const weight = bold ? 600 : 400;
  const fits = textWidth(name, 12, weight) <= room;
  const lines = (fits || upright ? [name] : twoLines(name)).map((line) => fitText(line, room, 12, weight));
  const place = { x, y: y + 4 + sin * 4 - ((lines.length - 1) * LINE) / 2, "text-anchor": anchor };
  const spans = lines.map((line, at) => (at ? svg("tspan", { x, dy: LINE - 1 }, line) : line));
  return svg("text", { ...place, class: bold ? "spoke label" : "spoke" }, spans, svg("title", null, name));
}
