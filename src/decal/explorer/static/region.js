// A region drawn in the cloud: a polygon with the level and the axes it was drawn at, and the inputs inside it.

import { alphaText } from "./format.js";

const MOST_CORNERS = 40; // so that the region fits into the address
const PER_NAT = 1e5; // places are rounded to this, a third of a pixel where the cloud is nearest
const LEAST_OFF = 1; // pixels by which leaving out corners may move the line

/** Numbers in nats as the address has them: "0.5_1.25". */
export function placeText(numbers) {
  return numbers.map((x) => Math.round(x * PER_NAT) / PER_NAT).join("_");
}

/** The numbers that the cloud shows across and upward, over all levels. */
export function cloudAxes({ models }, { cloud, show }) {
  if (cloud === "models") return [models[0].epistemic, models[1].epistemic];
  const model = models[show === "2" ? 1 : 0];
  return [model.aleatoric, model.epistemic];
}

const axesName = ({ cloud, show }) => (cloud === "models" ? "models" : `split${show === "2" ? 2 : 1}`);

/** "0.8_split1_x_y_x_y…": what the state and the address hold. @param {number[][]} corners  in nats */
export function writeRegion(payload, state, corners) {
  return [alphaText(payload.alphas[state.level]), axesName(state), placeText(corners.flat())].join("_");
}

/** The level, axes and corners of a text; null where it is none of this payload. */
export function readRegion(payload, text) {
  const [alpha, name, ...words] = (text ?? "").split("_");
  const level = payload.alphas.findIndex((each) => alphaText(each) === alpha);
  const axes = { split1: { cloud: "split", show: "1" } };
  if (payload.models.length > 1) Object.assign(axes, { split2: { cloud: "split", show: "2" }, models: { cloud: "models" } });
  const numbers = words.map((word) => (word ? Number(word) : NaN));
  const isPolygon = numbers.length >= 6 && numbers.length <= 2 * MOST_CORNERS && numbers.length % 2 === 0;
  if (level < 0 || !Object.hasOwn(axes, name) || !isPolygon || !numbers.every(Number.isFinite)) return null;
  const corners = Array.from({ length: numbers.length / 2 }, (_, at) => numbers.slice(2 * at, 2 * at + 2));
  return { level, ...axes[name], corners };
}

/** Whether the cloud shows now what it showed when the region was drawn. */
export function isDrawnHere(region, state) {
  return region.level === state.level && axesName(region) === axesName(state);
}

/** 1 for every input inside the region where it was drawn: the same inputs at every level. */
export function membersOf(payload, region) {
  const [across, upward] = cloudAxes(payload, region);
  const first = region.level * payload.count;
  const isInside = polygonTest(region.corners);
  const members = new Uint8Array(payload.count);
  for (let i = 0; i < payload.count; i++) members[i] = isInside(across[first + i], upward[first + i]);
  return members;
}

/** A function (x, y) that says whether a ray from there crosses the polygon an odd number of times. */
export function polygonTest(corners) {
  const [xs, ys] = [0, 1].map((axis) => Float64Array.from(corners, (corner) => corner[axis]));
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  return (x, y) => {
    if (!(x >= left && x <= right && y >= low && y <= high)) return false;
    let odd = false;
    for (let a = xs.length - 1, b = 0; b < xs.length; a = b++) {
      if (ys[a] > y === ys[b] > y) continue;
      if (x < xs[a] + ((xs[b] - xs[a]) * (y - ys[a])) / (ys[b] - ys[a])) odd = !odd;
    }
    return odd;
  };
}

/** The part of a polygon inside a box, both in pixels (Sutherland and Hodgman). */
export function clipped(corners, { left, top, right, bottom }) {
  const sides = [[0, left, 1], [0, right, -1], [1, top, 1], [1, bottom, -1]];
  return sides.reduce((polygon, [axis, limit, sign]) => {
    const depth = (point) => sign * (point[axis] - limit);
    return polygon.flatMap((to, at) => {
      const from = polygon.at(at - 1);
      const share = depth(from) / (depth(from) - depth(to));
      const crossing = from.map((x, k) => x + share * (to[k] - x));
      const crosses = depth(from) < 0 !== depth(to) < 0;
      return [...(crosses ? [crossing] : []), ...(depth(to) < 0 ? [] : [to])];
    });
  }, corners);
}

/** A drawn line with as few corners as keep it within a pixel or so (Douglas and Peucker). @param {number[][]} points  in pixels */
export function simplified(points) {
  let corners = points;
  for (let off = LEAST_OFF; off === LEAST_OFF || corners.length > MOST_CORNERS; off *= 1.5) corners = thinned(points, off);
  return corners;
}

function thinned(points, off) {
  if (points.length < 3) return points;
  const [[x1, y1], [x2, y2]] = [points[0], points.at(-1)];
  const length = Math.hypot(x2 - x1, y2 - y1);
  const distance = ([x, y]) =>
    length ? Math.abs((x2 - x1) * (y - y1) - (y2 - y1) * (x - x1)) / length : Math.hypot(x - x1, y - y1);
  let [farthest, most] = [0, off];
  points.forEach((point, at) => {
    if (distance(point) > most) [farthest, most] = [at, distance(point)];
  });
  if (!farthest) return [points[0], points.at(-1)];
  return [...thinned(points.slice(0, farthest + 1), off), ...thinned(points.slice(farthest), off).slice(1)];
}
