// Decisions from a box of probabilities: the arithmetic of decal.credal.decisions, live in the page.

export const TIE_TOLERANCE = 1e-12;
export const ADMISSIBLE_TOLERANCE = 1e-9;

export const COST_RULES = [
  ["gamma_maximin", "Γ-maximin", "the action whose worst case is best"],
  ["gamma_maximax", "Γ-maximax", "the action whose best case is best"],
  ["hurwicz", "Hurwicz", "the action with the best mean of worst and best case"],
  ["minimax_regret", "Minimax regret", "the action that can turn out least inferior to another"],
  ["maximality", "Maximality", "keeps actions that no other beats under every plausible distribution"],
  ["interval_dominance", "Interval dominance", "keeps actions whose best case reaches every other’s worst case"],
  ["e_admissible", "E-admissibility", "keeps actions that are best under some plausible distribution"],
];
export const SET_COST_RULES = ["maximality", "interval_dominance", "e_admissible"];

/** Rows: naming each class, then abstaining; the utility of each if the class is k. */
export function utilityOf(K, cost, matrix) {
  const named = matrix ?? Array.from({ length: K }, (_, a) => Array.from({ length: K }, (__, k) => Number(a === k)));
  return [...named, Array(K).fill(1 - cost)];
}

/** Bounds that some distribution reaches: those stored are rounded to 32 bits. */
export function tightened(lower, upper) {
  let [low, high] = [0, 0];
  for (let k = 0; k < lower.length; k++) {
    low += lower[k];
    high += upper[k];
  }
  const [up, down] = [1 - low, high - 1];
  const most = Array.from(upper, (x, k) => Math.min(x, lower[k] + up));
  return [Array.from(lower, (x, k) => Math.min(Math.max(x, upper[k] - down), most[k])), most];
}

/** Least and greatest expectation of values over a box: a fractional knapsack, filled in the order of the values. */
export function expectation(lower, upper, values, order = orderOf(values)) {
  return [filled(lower, upper, values, order), filled(lower, upper, values, order.toReversed())];
}

export function orderOf(values) {
  return values.map((_, k) => k).sort((a, b) => values[a] - values[b] || a - b);
}

function filled(lower, upper, values, order) {
  let spare = 1;
  for (const x of lower) spare -= x;
  let [sum, used] = [0, 0];
  for (const k of order) {
    const taken = Math.min(used + upper[k] - lower[k], Math.max(spare, 0)) - used;
    used += taken;
    sum += (lower[k] + taken) * values[k];
  }
  return sum;
}

function firstLargest(scores) {
  return scores.reduce((best, score, a) => (score > scores[best] ? a : best), 0);
}

/**
 * What a rule makes of one box under a utility matrix.
 * @returns {{worst: number[], best: number[], kept: number[]}}  actions by number; the last abstains
 */
export function decide(lower, upper, rule, utility, plan = planOf(utility)) {
  const ranges = utility.map((values, a) => expectation(lower, upper, values, plan.orders[a]));
  const worst = ranges.map(([least]) => least);
  const best = ranges.map(([, greatest]) => greatest);
  const one = {
    gamma_maximin: () => firstLargest(worst),
    gamma_maximax: () => firstLargest(best),
    hurwicz: () => firstLargest(worst.map((w, a) => 0.5 * best[a] + 0.5 * w)),
    minimax_regret: () => leastRegret(lower, upper, utility, plan, worst, best),
  }[rule];
  return { worst, best, kept: one ? [one()] : keptBy(lower, upper, rule, utility, plan, worst, best) };
}

/** What can be prepared once for all boxes: orders of the values, and of the differences of two actions. */
export function planOf(utility) {
  const flat = utility.flat();
  const unit = Math.max(...flat.map(Math.abs)) || 1;
  const differences = new Map();
  const difference = (b, a) => {
    const key = b * utility.length + a;
    if (!differences.has(key)) {
      const values = utility[b].map((u, k) => u - utility[a][k]);
      differences.set(key, [values, orderOf(values)]);
    }
    return differences.get(key);
  };
  return { unit, orders: utility.map(orderOf), difference };
}

function undominated(worst, best, unit) {
  const floor = Math.max(...worst) - TIE_TOLERANCE * unit;
  return best.map((x, a) => (x >= floor ? a : -1)).filter((a) => a >= 0);
}

function leastRegret(lower, upper, utility, plan, worst, best) {
  const kept = undominated(worst, best, plan.unit);
  const regret = (a) => Math.max(0, ...kept.filter((b) => b !== a).map((b) => expectation(lower, upper, ...plan.difference(b, a))[1]));
  return kept[firstLargest(kept.map((a) => -regret(a)))];
}

function keptBy(lower, upper, rule, utility, plan, worst, best) {
  const candidates = undominated(worst, best, plan.unit);
  if (rule === "interval_dominance") return candidates;
  const beaten = (a, b) => expectation(lower, upper, ...plan.difference(b, a))[0] > TIE_TOLERANCE * plan.unit;
  const maximal = candidates.filter((a) => !candidates.some((b) => b !== a && beaten(a, b)));
  if (rule === "maximality" || maximal.length < 2) return maximal;
  return maximal.filter((a) => isAdmissible(lower, upper, a, maximal, utility, plan));
}

/** Whether an action is best under some distribution of the box: a small linear program. */
function isAdmissible(lower, upper, a, rivals, utility, plan) {
  // p = lower + x; maximise v with v <= E(U_a - U_b) for every rival b, so that all are at least v.
  const scale = 2 * plan.unit;
  const rows = rivals.filter((b) => b !== a).map((b) => utility[a].map((u, k) => (u - utility[b][k]) / scale));
  return bestWorst(lower, upper, rows) > -ADMISSIBLE_TOLERANCE;
}

/** max over p in the box of the least of several expectations. @param {number[][]} rows  values in [-1, 1] */
export function bestWorst(lower, upper, rows) {
  const K = lower.length;
  const spare = Math.max(1 - lower.reduce((sum, x) => sum + x, 0), 0);
  const base = rows.map((row) => row.reduce((sum, value, k) => sum + value * lower[k], 0));
  // Variables x_k in [0, width_k] with sum spare, and w = v + 2 >= 0:  w - row·x <= base + 2, x_k <= width_k.
  const constraints = rows.map((row, r) => [[...row.map((value) => -value), 1], base[r] + 2]);
  for (let k = 0; k < K; k++) constraints.push([[...Array.from({ length: K }, (_, j) => Number(j === k)), 0], Math.max(upper[k] - lower[k], 0)]);
  const all = [...Array(K).fill(1), 0];
  constraints.push([all, spare], [all.map((x) => -x), -spare]);
  return simplex([...Array(K).fill(0), 1], constraints) - 2;
}

/** The greatest value of objective·x over x >= 0 with a·x <= b: a dense simplex in two phases, with Bland's rule. */
export function simplex(objective, constraints) {
  const [n, m] = [objective.length, constraints.length];
  const EPS = 1e-12;
  // Dictionary: columns are the nonbasic variables, an auxiliary one (to start with) and the constant.
  const table = constraints.map(([a, b]) => [...a, -1, b]);
  const goal = [...objective.map((c) => -c), 0, 0];
  const start = [...Array(n).fill(0), 1, 0];
  const columns = Array.from({ length: n + 1 }, (_, j) => (j < n ? j : -1));
  const basis = Array.from({ length: m }, (_, r) => n + r);
  const pivot = (r, c) => {
    const row = table[r];
    const by = 1 / row[c];
    for (const other of [...table, goal, start]) {
      if (other === row) continue;
      const factor = other[c] * by;
      if (factor === 0) continue;
      for (let j = 0; j < row.length; j++) other[j] -= factor * row[j];
      other[c] = -factor;
    }
    for (let j = 0; j < row.length; j++) row[j] *= by;
    row[c] = by;
    [basis[r], columns[c]] = [columns[c], basis[r]];
  };
  const climb = (line, allowed) => {
    for (let step = 0; step < 2000; step++) {
      let c = -1;
      for (let j = 0; j <= n; j++)
        if (allowed(columns[j]) && line[j] < -EPS && (c < 0 || columns[j] < columns[c])) c = j;
      if (c < 0) return;
      let r = -1;
      for (let i = 0; i < m; i++) {
        if (table[i][c] <= EPS) continue;
        const ratio = (row) => row[n + 1] / row[c];
        const gain = r < 0 ? -1 : ratio(table[i]) - ratio(table[r]);
        if (gain < 0 || (gain === 0 && basis[i] < basis[r])) r = i;
      }
      if (r < 0) return;
      pivot(r, c);
    }
  };
  const worst = table.reduce((least, row, r) => (row[n + 1] < table[least][n + 1] ? r : least), 0);
  if (table[worst][n + 1] < 0) {
    pivot(worst, n);
    climb(start, () => true);
    const left = basis.indexOf(-1);
    if (left >= 0) {
      const c = table[left].findIndex((x, j) => j <= n && Math.abs(x) > EPS);
      if (c >= 0) pivot(left, c);
    }
  }
  climb(goal, (variable) => variable !== -1);
  return goal[n + 1];
}

/** The same under 0/1 loss with abstention, in closed form: nothing is filled, nothing is solved. */
export function decideAbstaining(lower, upper, rule, cost) {
  const K = lower.length;
  const sure = 1 - cost;
  const worst = [...lower, sure];
  const best = [...upper, sure];
  if (rule === "gamma_maximin") return { worst, best, kept: [firstLargest(worst)] };
  if (rule === "gamma_maximax") return { worst, best, kept: [firstLargest(best)] };
  if (rule === "hurwicz") return { worst, best, kept: [firstLargest(worst.map((w, a) => 0.5 * best[a] + 0.5 * w))] };
  if (rule === "minimax_regret") {
    const kept = undominated(worst, best, 1);
    const most = (a) => Math.max(0, ...kept.filter((b) => b !== a).map((b) => best[b] - worst[a]));
    return { worst, best, kept: [kept[firstLargest(kept.map((a) => -most(a)))]] };
  }
  // Two bounds of a box are reached together, so that no pair of actions is worth a comparison of its own.
  const kept = undominated(worst, best, 1);
  if (rule !== "e_admissible") return { worst, best, kept };
  const least = smallestMaximum(lower, upper);
  const admissible = (a) => (a === K ? least <= sure + ADMISSIBLE_TOLERANCE : upper[a] >= least - TIE_TOLERANCE);
  return { worst, best, kept: kept.filter((a) => admissible(a) && (a === K || upper[a] >= sure - ADMISSIBLE_TOLERANCE)) };
}

/** The least probability that the most probable class can have. */
function smallestMaximum(lower, upper) {
  const sorted = Float64Array.from(upper).sort();
  let [before, level] = [0, 0];
  for (let k = 0; k < sorted.length; k++) {
    level = Math.max(level, (1 - before) / (sorted.length - k));
    before += sorted[k];
  }
  return Math.max(level, ...lower);
}
