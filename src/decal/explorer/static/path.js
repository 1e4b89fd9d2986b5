// How the intervals of an input's most plausible classes grow as alpha falls.

import { chartRoot, fitText, svg } from "./dom.js";
import { linear, linePath } from "./axes.js";
import { alphaText, slotName } from "./format.js";
import { endsOf, topSlots } from "./slots.js";

const TOP = 24;
const TALL = 96;
const GAP = 16;

/** One small chart per class, all on the same scale, levels spaced as on the slider. */
export function drawPaths(payload, state, width) {
  const columns = width > 560 ? 4 : width > 330 ? 3 : 2;
  const slots = topSlots(payload, state.input, columns).slice(0, columns);
  const height = TOP + TALL + 22;
  const left = 30;
  const wide = (width - left - GAP * (slots.length - 1)) / slots.length;
  const root = chartRoot(width, height, pathsInWords(payload, state, slots), "paths");
  slots.forEach((slot, at) => root.append(small(payload, state, slot, left + at * (wide + GAP), wide, at === 0)));
  return root;
}

function small(payload, state, slot, left, wide, first) {
  const { alphas } = payload;
  const x = linear([0, alphas.length - 1], [left, left + wide]);
  const y = linear([0, 1], [TOP + TALL, TOP]);
  const group = svg("g", null);
  const name = slotName(payload, payload.models[0], state.input, slot);
  group.append(svg("text", { class: "spoke", x: left, y: 14 }, fitText(name, wide), svg("title", null, name)));
  for (const tick of [0, 0.5, 1]) {
    group.append(svg("line", { class: "grid", x1: left, x2: left + wide, y1: y(tick), y2: y(tick) }));
    if (first) group.append(svg("text", { class: "tick end", x: left - 6, y: y(tick) + 4 }, String(tick)));
  }
  payload.models.forEach((model, which) => {
    const ends = alphas.map((_, level) => endsOf(payload, model, level, state.input, slot));
    const low = ends.map(([end], level) => [x(level), y(end)]);
    const high = ends.map(([, end], level) => [x(level), y(end)]);
    const known = low.every(([, py]) => Number.isFinite(py));
    const around = `${linePath(high)}${linePath(low.toReversed()).replace("M", "L")}Z`;
    if (known) group.append(svg("path", { class: `band model${which + 1}`, d: around }));
    group.append(svg("path", { class: `edge model${which + 1}`, d: linePath(low) }));
    group.append(svg("path", { class: `edge model${which + 1}`, d: linePath(high) }));
  });
  const now = x(state.level);
  group.append(svg("line", { class: "nowline", x1: now, x2: now, y1: TOP - 4, y2: TOP + TALL + 4 }));
  const ends = [
    [0, "start", left],
    [alphas.length - 1, "end", left + wide],
  ];
  for (const [level, anchor, at] of ends) {
    const place = { class: "tick", x: at, y: TOP + TALL + 18, "text-anchor": anchor };
    group.append(svg("text", place, alphaText(alphas[level])));
  }
  return group;
}

function pathsInWords(payload, state, slots) {
  const last = payload.alphas.length - 1;
  const said = slots.map((slot) => {
    const width = (level) => {
      const [low, high] = endsOf(payload, payload.models[0], level, state.input, slot);
      return Number.isNaN(low) ? "empty" : (high - low).toFixed(2);
    };
    return `${slotName(payload, payload.models[0], state.input, slot)} ${width(0)} to ${width(last)}`;
  });
  const [from, to] = [alphaText(payload.alphas[0]), alphaText(payload.alphas[last])];
  return `Width of the intervals as alpha falls from ${from} to ${to}: ${said.join(", ")}.`;
}
