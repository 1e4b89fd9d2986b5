// The story's picture: the triangle of all predictions, or the likelihood of shifting one class.

import { chartRoot, fitText, svg } from "./dom.js";
import { linear, linePath, ticksBetween } from "./axes.js";
import { alphaText, className, signed } from "./format.js";
import { endsAt, pointOf } from "./evidence.js";
import { conditionalCorners } from "./corners.js";
import { gainAt } from "./story_numbers.js";

const STEEP = Math.sqrt(3) / 2;
const EDGE_LEFT = 46;
const EDGE_RIGHT = 14;
const ABOVE = 34;
const BELOW = 40;
const SAMPLES = 160;

/** Where the triangle's points are, in pixels: the third class is on top. */
function triangleAt({ width, height }) {
  const side = Math.min(width - 12, (height - 56) / STEEP);
  const [left, bottom] = [(width - side) / 2, (height + side * STEEP) / 2];
  return { at: ([, b, c]) => [left + side * (b + c / 2), bottom - side * STEEP * c], left, side, bottom };
}

const outlined = (at, corners) => `M${corners.map((p) => at(p).map((x) => x.toFixed(2)).join(",")).join("L")}Z`;

/** What does not change while one drags: the regions, the names, and all inputs as points to choose. */
export function drawGround(payload, size, choose) {
  const [model] = payload.models;
  const { at, left, side, bottom } = triangleAt(size);
  const vertex = (k) => [0, 1, 2].map((j) => Number(j === k));
  const half = (k) => [0, 1, 2].map((j) => (j === k ? 0 : 0.5));
  const middle = [1 / 3, 1 / 3, 1 / 3];
  const regions = [0, 1, 2].map((k) =>
    svg("path", { class: `region class${k}`, d: outlined(at, [vertex(k), half((k + 2) % 3), middle, half((k + 1) % 3)]) }),
  );
  const dots = Array.from({ length: payload.count }, (_, i) => {
    const [cx, cy] = at(pointOf(payload, model, i)).map((x) => x.toFixed(1));
    return svg("circle", { class: "other", cx, cy, r: 2.4 }, payload.texts && svg("title", null, payload.texts[i]));
  });
  const name = (k, x, y, anchor) => {
    const shown = fitText(className(model, k), size.width / 2 - 8, 13, 600);
    return svg("text", { class: "corner", x, y, "text-anchor": anchor }, shown, svg("title", null, className(model, k)));
  };
  const names = [
    name(0, Math.max(left - 20, 0), bottom + 20, "start"),
    name(1, Math.min(left + side + 20, size.width), bottom + 20, "end"),
    name(2, size.width / 2, bottom - side * STEEP - 10, "middle"),
  ];
  const nearest = (event) => {
    const { left: x0, top: y0 } = group.ownerSVGElement.getBoundingClientRect();
    const [x, y] = [event.clientX - x0, event.clientY - y0];
    const far = dots.map((dot) => (dot.getAttribute("cx") - x) ** 2 + (dot.getAttribute("cy") - y) ** 2);
    choose(far.indexOf(Math.min(...far)));
  };
  const outline = svg("path", { class: "outline", d: outlined(at, [0, 1, 2].map(vertex)) });
  const group = svg("g", { class: "ground", onclick: nearest }, regions, outline, svg("g", { class: "others" }, dots), names);
  return group;
}

/**
 * The triangle with one input's prediction and, where they are given, the paths of its shifts, its set, and the
 * predictions for which asking is best.
 */
export function drawSimplex(size, ground, { p, paths = [], box = null, askBelow = null, words }) {
  const { at } = triangleAt(size);
  const root = chartRoot(size.width, size.height, words, "story-triangle");
  root.append(ground);
  const asking = askBelow !== null && askBelow > 1 / 3;
  if (asking) {
    const corners = conditionalCorners([0, 1, 2].map(() => [0, askBelow]), [0, 0]);
    root.append(svg("path", { class: "asking", d: outlined(at, corners) }));
  }
  if (box) root.append(svg("path", { class: "credal", d: outlined(at, conditionalCorners(box, [0, 0])), "data-testid": "polygon" }));
  paths.forEach((ends, k) => {
    const [[x1, y1], [x2, y2]] = ends.map(at);
    root.append(svg("line", { class: `path class${k}`, x1, y1, x2, y2 }));
  });
  if (asking && askBelow > 0.45) {
    const [x, y] = at([(1 - askBelow) / 2, (1 - askBelow) / 2, askBelow]);
    root.append(svg("text", { class: "askword", x, y: y + (askBelow > 0.9 ? 44 : 20) }, "ask"));
  }
  const [cx, cy] = at(p);
  root.append(svg("circle", { class: "here", cx, cy, r: 6.5, "data-testid": "here" }));
  return root;
}

/** The scales of the curve's plot, the same for every class. */
export function curveScales({ story }, { width, height }) {
  const [from, to] = story.shifts;
  const best = Math.exp(Math.max(...story.gains, 0));
  const least = story.alphas.at(-1);
  const x = linear([from, to], [EDGE_LEFT, width - EDGE_RIGHT]);
  const y = linear([least, best], [height - BELOW - 2, ABOVE + 8]);
  const inverse = linear([EDGE_LEFT, width - EDGE_RIGHT], [from, to]);
  return { x, y, least, shiftAt: (pixel) => Math.min(Math.max(inverse(pixel), from), to) };
}

/** Evenly spaced shifts, and the likelihood that each keeps. */
function sampled(story, k, [low, high]) {
  const shifts = Array.from({ length: SAMPLES + 1 }, (_, at) => low + ((high - low) * at) / SAMPLES);
  return shifts.map((t) => [t, Math.exp(gainAt(story, k, t))]);
}

/** The likelihood of shifting class k, with a handle at a shift and, where there is one, the cut at alpha. */
export function drawCurve(payload, size, { k, shift, alpha = null, ends = null, words }) {
  const { story, models: [model] } = payload;
  const { x, y, least } = curveScales(payload, size);
  const root = chartRoot(size.width, size.height, words, "story-curve");
  const floor = size.height - BELOW;
  const right = size.width - EDGE_RIGHT;
  for (const r of ticksBetween(least, 1, 5)) {
    root.append(svg("line", { class: "grid", x1: EDGE_LEFT, x2: right, y1: y(r), y2: y(r) }));
    root.append(svg("text", { class: "tick end", x: EDGE_LEFT - 8, y: y(r) + 4 }, `${Number((100 * r).toFixed(2))} %`));
  }
  for (const t of ticksBetween(story.shifts[0], story.shifts[1], 7)) {
    const text = t > 0 ? `+${t}` : String(t).replace("-", "−");
    root.append(svg("text", { class: "tick middle", x: x(t), y: floor + 17 }, text));
  }
  root.append(svg("line", { class: "axis", x1: EDGE_LEFT, x2: right, y1: floor, y2: floor }));
  const [above, below] = [`Likelihood of ${story.examples} labelled ${story.noun}s, on average`, `shift of ${className(model, k)} →`];
  root.append(svg("text", { class: "title", x: 0, y: 12 }, above));
  root.append(svg("text", { class: "title end", x: right, y: size.height - 4 }, below));
  if (alpha !== null) root.append(...cutMarks({ story, x, y, k, alpha, ends, floor, right }));
  const curve = sampled(story, k, endsAt(model.evidence, "class", k, -Math.log(least)));
  root.append(svg("path", { class: `line class${k}`, d: linePath(curve.map(([t, r]) => [x(t), y(r)])) }));
  const [cx, cy] = [x(shift), y(Math.max(Math.exp(gainAt(story, k, shift)), least))];
  root.append(svg("line", { class: `drop class${k}`, x1: cx, x2: cx, y1: cy, y2: floor }));
  const grip = alpha === null ? { class: `handle class${k}`, r: 9 } : { class: `rider class${k}`, r: 5 };
  root.append(svg("circle", { ...grip, cx, cy }));
  return root;
}

/** The cut, the shifts that it allows, and the part of the curve above it. */
function cutMarks({ story, x, y, k, alpha, ends, floor, right }) {
  const top = sampled(story, k, ends).map(([t, r]) => [x(t), y(Math.max(r, alpha))]);
  const [left, far] = ends.map(x);
  const cut = y(alpha);
  const inside = far - left > 70; // room for both numbers between the ends
  const number = (t, side) => {
    const before = inside === Boolean(side);
    const place = { x: x(t) + (before ? -6 : 6), y: floor - 7, "text-anchor": before ? "end" : "start" };
    return svg("text", { class: "endtext", ...place }, signed(t, 2));
  };
  return [
    svg("path", { class: `band class${k}`, d: `${linePath([[left, floor], ...top, [far, floor]])}Z` }),
    ...[left, far].map((at) => svg("line", { class: `drop class${k}`, x1: at, x2: at, y1: cut, y2: floor })),
    ...ends.map(number),
    svg("line", { class: "cutline", x1: EDGE_LEFT, x2: right, y1: cut, y2: cut }),
    svg("circle", { class: "cutgrip", cx: right - 2, cy: cut, r: 8 }),
    svg("text", { class: "cuttext", x: right - 16, y: cut - 8 }, `α ${alphaText(alpha)}`),
  ];
}
