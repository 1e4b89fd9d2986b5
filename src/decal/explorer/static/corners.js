// The corners of what a box of probabilities leaves plausible for three classes.

const SAME = 1e-12;

/**
 * Corners of the set of conditional distributions of three classes, given that it is one of them, over a box.
 * @param {[number, number][]} three  ends of their intervals
 * @param {[number, number]} others  least and greatest probability of all other classes together
 * @returns {number[][]} distributions of three classes, around the polygon; none where the three may be impossible only
 */
export function conditionalCorners(three, others) {
  const sums = [1 - others[1], 1 - others[0]]; // of the three
  const corners = [];
  for (let bits = 0; bits < 8; bits++) {
    const p = three.map((ends, axis) => ends[(bits >> axis) & 1]);
    const sum = p[0] + p[1] + p[2];
    if (sum >= sums[0] - SAME && sum <= sums[1] + SAME) corners.push(p);
    // Edges from here along each axis whose lower end is taken, where they meet either sum.
    for (let axis = 0; axis < 3; axis++) {
      if ((bits >> axis) & 1) continue;
      for (const wanted of sums) {
        const value = p[axis] + wanted - sum;
        if (value < three[axis][0] - SAME || value > three[axis][1] + SAME) continue;
        corners.push(p.with(axis, Math.min(Math.max(value, three[axis][0]), three[axis][1])));
      }
    }
  }
  const conditional = corners
    .map((p) => [p, p[0] + p[1] + p[2]])
    .filter(([, sum]) => sum > 0)
    .map(([p, sum]) => p.map((x) => x / sum));
  return hull(conditional);
}

/** Corners of the convex hull, anticlockwise (Andrew's monotone chain) in the plane of the first two coordinates. */
function hull(points) {
  const sorted = points.toSorted((a, b) => a[0] - b[0] || a[1] - b[1]);
  const distinct = sorted.filter((p, at) => !at || Math.abs(p[0] - sorted[at - 1][0]) + Math.abs(p[1] - sorted[at - 1][1]) > SAME);
  if (distinct.length < 3) return distinct;
  const turn = (o, a, b) => (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);
  const chain = (all) => {
    const kept = [];
    for (const p of all) {
      while (kept.length > 1 && turn(kept.at(-2), kept.at(-1), p) <= 0) kept.pop();
      kept.push(p);
    }
    return kept.slice(0, -1);
  };
  return [...chain(distinct), ...chain(distinct.toReversed())];
}
