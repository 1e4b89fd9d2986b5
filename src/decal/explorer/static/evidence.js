// Reading the likelihood curves: which shifts and scales a budget allows, and what they do to one input.

const ROOTS = 80; // bisections: as exact as a number can be

/** The two ends that a budget allows on a stored curve: of class k's shift, or of the scale (k = 0). */
export function endsAt({ budgets, curves }, name, k, budget) {
  const wide = curves[name].length / (2 * budgets.length);
  const at = (side, node) => curves[name][(side * budgets.length + node) * wide + k];
  return [0, 1].map((side) => interpolated(budgets, (node) => at(side, node), budget));
}

/** A cubic through the four nodes around a budget, in its square root, in which curves are nearly straight. */
function interpolated(budgets, value, budget) {
  const last = budgets.length - 1;
  if (budget >= budgets[last]) return value(last);
  const above = budgets.findIndex((node) => node >= budget);
  if (budgets[above] === budget) return value(above);
  const first = Math.min(Math.max(above - 2, 0), last - 3);
  const nodes = [0, 1, 2, 3].map((step) => first + step);
  const x = Math.sqrt(budget);
  if (!Number.isFinite(value(above - 1) + value(above))) return value(above);
  if (!nodes.every((node) => Number.isFinite(value(node)))) {
    const [a, b] = [Math.sqrt(budgets[above - 1]), Math.sqrt(budgets[above])];
    return value(above - 1) + ((x - a) / (b - a)) * (value(above) - value(above - 1));
  }
  const roots = nodes.map((node) => Math.sqrt(budgets[node]));
  return nodes.reduce((sum, node, a) => {
    const weight = roots.reduce((product, root, b) => (a === b ? product : (product * (x - root)) / (roots[a] - root)), 1);
    return sum + weight * value(node);
  }, 0);
}

/** The model's prediction for an input, as 64-bit numbers; null unless all classes are stored. */
export function pointOf(payload, model, i) {
  if (payload.rest || !model.point) return null;
  return Array.from(model.point.subarray(i * payload.width, (i + 1) * payload.width));
}

/** Whether the page can compute intervals at a level that is not stored. */
export function isLive(payload, model) {
  return Boolean(model.evidence?.whole && model.point && !payload.rest);
}

/** A probability after its class's logit is shifted by t. */
export function shifted(p, rest, t) {
  if (p === 0 || rest === 0) return p === 0 ? 0 : 1;
  const odds = (p / rest) * Math.exp(t);
  return odds === Infinity ? 1 : odds / (1 + odds);
}

/** Probabilities after all logits are multiplied by s. */
export function scaled(p, s) {
  const most = Math.max(...p);
  const power = (q) => (s === Infinity ? Number(q === most) : q > 0 ? Math.exp(s * Math.log(q / most)) : 0);
  const e = p.map(power);
  const sum = e.reduce((a, b) => a + b, 0);
  return e.map((x) => x / sum);
}

/**
 * The interval of every class at a budget: the same box that decal's predict returns.
 * @returns {[number, number][]}
 */
export function boxAt(payload, model, i, budget) {
  const p = pointOf(payload, model, i);
  const box = p.map((q) => [q, q]);
  const include = (j, q) => {
    box[j][0] = Math.min(box[j][0], q);
    box[j][1] = Math.max(box[j][1], q);
  };
  const { evidence } = model;
  for (const name of evidence.directions) {
    if (name === "class") shiftBox(evidence, p, budget, include);
    if (name === "temperature") scaleBox(p, endsAt(evidence, name, 0, budget), include);
    if (name === "local") p.forEach((_, k) => localEnds(evidence.local, p, k, budget).forEach((q) => include(k, q)));
  }
  return box;
}

function shiftBox(evidence, p, budget, include) {
  p.forEach((own, k) => {
    const rest = p.reduce((sum, q, j) => (j === k ? sum : sum + q), 0);
    for (const t of endsAt(evidence, "class", k, budget)) {
      const moved = shifted(own, rest, t);
      include(k, moved);
      if (!evidence.joint || rest === 0) continue;
      p.forEach((q, j) => j !== k && include(j, (q / rest) * (1 - moved)));
    }
  });
}

/** A probability has one peak in s: where the mean log-probability reaches its own. */
function scaleBox(p, [low, high], include) {
  for (const s of [low, high]) scaled(p, s).forEach((q, j) => include(j, q));
  const logs = p.map((q) => Math.log(q));
  const mean = (s) => scaled(p, s).reduce((sum, q, j) => (q > 0 ? sum + q * logs[j] : sum), 0);
  p.forEach((q, j) => {
    if (!(q > 0)) return;
    let [a, b] = [low, Math.min(high, 1e6)];
    if (mean(a) >= logs[j] || mean(b) <= logs[j]) return;
    for (let step = 0; step < ROOTS; step++) {
      const middle = (a + b) / 2;
      if (mean(middle) < logs[j]) a = middle;
      else b = middle;
    }
    include(j, scaled(p, a)[j]);
  });
}

/** The center and the budget of a local set's question about class k, in nats. */
export function localQuestion({ mix, by_entropy: byEntropy, per_example: perExample }, p, k, budget) {
  const centers = p.map((q) => (1 - mix) * q + mix / p.length);
  const entropy = centers.reduce((sum, q) => (q > 0 ? sum - q * Math.log(q) : sum), 0);
  return { center: centers[k], budget: budget * perExample * (byEntropy === null ? 1 : entropy + byEntropy) };
}

/** KL divergence of q from c, of two outcomes. */
export function divergence(q, c) {
  const term = (x, y) => (x === 0 ? 0 : x * Math.log(x / y));
  return term(q, c) + term(1 - q, 1 - c);
}

function localEnds(local, p, k, budget) {
  const { center, budget: own } = localQuestion(local, p, k, budget);
  return [0, 1].map((end) => {
    if (divergence(end, center) <= own) return end;
    let [inside, outside] = [center, end];
    for (let step = 0; step < ROOTS; step++) {
      const middle = (inside + outside) / 2;
      if (divergence(middle, center) <= own) inside = middle;
      else outside = middle;
    }
    return inside;
  });
}
