// Scales, ticks and frames that the charts share.

import { svg } from "./dom.js";

/** A straight scale from numbers to pixels. */
export function linear([from, to], [start, end]) {
  const slope = (end - start) / (to - from || 1);
  return (x) => start + (x - from) * slope;
}

/** Round numbers between 0 and `top`, about `wanted` of them. */
export function ticksTo(top, wanted = 5) {
  const rough = top / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const ticks = [];
  for (let at = 0; at * step <= top + step * 1e-4; at++) ticks.push(Number((at * step).toPrecision(6)));
  return ticks;
}

/**
 * The two axes of a plot with grid lines, tick labels and titles.
 * @param {{left: number, top: number, right: number, bottom: number}} box  in pixels
 */
export function frame(box, { x, y, xTicks, yTicks, xTitle, yTitle }) {
  const { left, top, right, bottom } = box;
  const across = yTicks.map((tick) => [
    svg("line", { class: "grid", x1: left, x2: right, y1: y(tick), y2: y(tick) }),
    svg("text", { class: "tick end", x: left - 8, y: y(tick) + 4 }, String(tick)),
  ]);
  const along = xTicks.map((tick) => [
    svg("line", { class: "grid", x1: x(tick), x2: x(tick), y1: top, y2: bottom }),
    svg("text", { class: "tick middle", x: x(tick), y: bottom + 18 }, String(tick)),
  ]);
  const titles = [
    svg("text", { class: "title end", x: right, y: bottom + 36 }, xTitle),
    svg("text", { class: "title", x: left - 34, y: top - 12 }, yTitle),
  ];
  return svg("g", null, across, along, titles);
}

/** Points of a line as an SVG path; breaks where a number is missing. */
export function linePath(points) {
  let pen = "M";
  let path = "";
  for (const [x, y] of points) {
    if (!Number.isFinite(x) || !Number.isFinite(y)) {
      pen = "M";
      continue;
    }
    path += `${pen}${x.toFixed(1)},${y.toFixed(1)}`;
    pen = "L";
  }
  return path;
}

/** An open diamond: where the truth is. A margin in the background's colour sets it off from what it lies on. */
export function diamond(x, y, radius = 5) {
  const d = `M${x},${y - radius}L${x + radius},${y}L${x},${y + radius}L${x - radius},${y}Z`;
  return ["margin", "truth"].map((name) => svg("path", { d, class: name }));
}
