// A decision with costs: a rule, the cost of abstaining, a utility matrix; what they decide, and whether it pays.

import { chartRoot, h, select, setText, svg, uniqueId, watchSize } from "./dom.js";
import { frame, linear, linePath, ticksTo } from "./axes.js";
import { className, count, decimal, inputName } from "./format.js";
import { term } from "./terms.js";
import { COST_RULES, decide, decideAbstaining, planOf, SET_COST_RULES, tightened, utilityOf } from "./decide.js";

const MOST_JUDGED = 5_000; // inputs over which shares are taken
const MOST_SOLVED = 1_000; // the same where each input needs linear programs
const MOST_EDITED = 12; // classes whose matrix is shown
const LISTED_ACTIONS = 6;
const STEPS = 200; // points of a curve

/** Whether decisions can be computed here: boxes whose every class is stored. */
export function canDecide(payload) {
  return !payload.rest && payload.models[0].kind === "box";
}

/** A function i -> decision under the state's rule and costs, at its level. */
export function decider(payload, model, { level, cost, costRule, matrix }) {
  const { width: K, count: n } = payload;
  const utility = utilityOf(K, cost, matrix);
  const plan = matrix && planOf(utility);
  return (i) => {
    const at = (level * n + i) * K;
    if (Number.isNaN(model.lower[at])) return null;
    const [lower, upper] = tightened(model.lower.subarray(at, at + K), model.upper.subarray(at, at + K));
    return matrix ? decide(lower, upper, costRule, utility, plan) : decideAbstaining(lower, upper, costRule, cost);
  };
}

export function actionName(model, action) {
  return action === model.classes.length ? "abstain" : className(model, action);
}

/** What the model alone would do: the action of greatest expected utility, and the best class with its utility. */
function modelAlone(payload, model, utility, i) {
  const K = payload.width;
  const earns = utility.map((values) => values.reduce((sum, u, k) => sum + u * model.point[i * K + k], 0));
  const best = earns.reduce((found, u, a) => (u > earns[found] ? a : found), 0);
  const named = earns.slice(0, K).reduce((found, u, a) => (u > earns[found] ? a : found), 0);
  return { action: best, named, score: earns[named] };
}

/** Shares and curves over the inputs, of the credal sets and of the model alone. */
export function judge(payload, model, state) {
  const K = payload.width;
  const heavy = state.matrix && state.costRule === "e_admissible";
  const step = Math.max(1, Math.ceil(payload.count / (heavy ? MOST_SOLVED : MOST_JUDGED)));
  const decideOf = decider(payload, model, state);
  const utility = utilityOf(K, state.cost, state.matrix);
  const sides = { credal: tally(), model: model.point ? tally() : null };
  for (let i = 0; i < payload.count; i += step) {
    const label = payload.labels ? payload.labels[i] : -1;
    const found = decideOf(i);
    if (!found) continue;
    const action = found.kept.length === 1 ? found.kept[0] : K; // several are left to someone else
    let named = 0;
    for (let a = 1; a < K; a++) if (found.worst[a] > found.worst[named]) named = a;
    sides.credal.add(action, K, label, utility, named, found.worst[named]);
    if (!sides.model) continue;
    const alone = modelAlone(payload, model, utility, i);
    sides.model.add(alone.action, K, label, utility, alone.named, alone.score);
  }
  return { credal: sides.credal.sums(), model: sides.model?.sums() ?? null, judged: Math.ceil(payload.count / step) };
}

function tally() {
  let [seen, decided, wrong, earned] = [0, 0, 0, 0];
  const ranked = [];
  return {
    add(action, K, label, utility, named, score) {
      seen += 1;
      if (action < K) {
        decided += 1;
        if (action !== label) wrong += 1;
      }
      if (label >= 0) earned += utility[action][label];
      ranked.push([score, named !== label ? 1 : 0]);
    },
    sums: () => ({
      abstained: 1 - decided / seen,
      errors: decided ? wrong / decided : NaN,
      utility: earned / seen,
      point: [decided / seen, decided ? wrong / decided : NaN],
      curve: riskCurve(ranked),
    }),
  };
}

/** Share decided -> errors among them, the surest first. */
function riskCurve(ranked) {
  ranked.sort((a, b) => b[0] - a[0]);
  const curve = [];
  let [wrong, next] = [0, 1];
  ranked.forEach(([, error], at) => {
    wrong += error;
    if (at + 1 < Math.ceil((next * ranked.length) / STEPS) && at + 1 < ranked.length) return;
    curve.push([(at + 1) / ranked.length, wrong / (at + 1)]);
    next += 1;
  });
  return curve;
}

/** The panel; null where it cannot decide. */
export function createCosts(payload, store, level) {
  if (!canDecide(payload)) return null;
  const [model] = payload.models;
  const K = model.classes.length;
  const rule = select("Rule", COST_RULES, (costRule) => store.set({ costRule }), "cost-rule");
  const id = uniqueId();
  const slider = h("input", { id, type: "range", min: 0, max: 1, step: 0.01, "data-testid": "cost" });
  slider.addEventListener("input", () => store.set({ cost: Number(slider.value) }));
  const output = h("output", { for: id, "data-testid": "cost-value" });
  const costField = h("div", { class: "field cost" }, h("label", { for: id }, "Cost of abstaining, where an error costs 1 ", output), slider);
  const matrix = K <= MOST_EDITED ? createMatrix(model, store) : null;
  const meaning = h("p", { class: "sentence" });
  const shares = h("div", { "data-testid": "shares" });
  const host = h("div", { class: "plot risk" });
  const size = watchSize(host, () => store.refresh());
  const verdict = h("div", { class: "verdict", "data-testid": "verdict" });
  const heading = uniqueId();
  const names = { class: "panel costs", "aria-labelledby": heading, "data-testid": "costs" };
  const controls = h("div", { class: "filters" }, rule.element, costField);
  const about = payload.labels && h("p", { class: "sentence" }, "Orange: by these sets, the surest first. Grey: by the model’s own confidence.");
  const element = h(
    "section",
    names,
    h("div", { class: "head" }, h(`h${level}`, { id: heading }, "A decision with costs")),
    controls,
    meaning,
    h("div", { class: "trio" }, verdict, h("div", null, shares, matrix?.element), payload.labels && h("div", null, host, about)),
  );
  let key = "";
  let seen = false;
  let last = null;
  const watcher = new IntersectionObserver((entries) => {
    seen = entries.some((entry) => entry.isIntersecting);
    if (seen && last) update(last);
  });
  watcher.observe(element);

  function update(state) {
    last = state;
    rule.list.value = state.costRule;
    slider.value = state.cost;
    slider.style.setProperty("--share", String(state.cost));
    setText(output, decimal(state.cost, 2));
    setText(meaning, `${COST_RULES.find(([name]) => name === state.costRule)[2]}.`.replace(/^./, (a) => a.toUpperCase()));
    matrix?.update(state);
    if (!seen) return; // nothing is decided that nobody sees
    verdict.replaceChildren(...verdictOn(payload, model, state));
    const now = [state.level, state.cost, state.costRule, state.matrix, size.width].join(" ");
    if (now === key) return;
    key = now;
    const found = judge(payload, model, state);
    shares.replaceChildren(sharesTable(payload, found));
    if (payload.labels && size.width) host.replaceChildren(drawRisk(found, size.width));
  }
  const stop = () => {
    size.stop();
    watcher.disconnect();
  };
  return { element, update, stop };
}

/** What is decided for the chosen input, and the numbers that decided. */
function verdictOn(payload, model, state) {
  const found = decider(payload, model, state)(state.input);
  const name = inputName(payload, state.input);
  if (!found) return [h("p", null, `${name}: no distribution is plausible, so nothing is decided.`)];
  const { worst, best, kept } = found;
  const several = SET_COST_RULES.includes(state.costRule) && kept.length > 1;
  const names = kept.map((a) => actionName(model, a));
  const said = several ? `leaves open: ${names.join(", ")}` : kept[0] === model.classes.length ? "abstain" : `name “${names[0]}”`;
  const actions = worst.map((_, a) => a).sort((a, b) => kept.includes(b) - kept.includes(a) || best[b] - best[a] || a - b);
  const abstain = model.classes.length;
  const listed = actions.filter((a, at) => at < LISTED_ACTIONS - 1 || a === abstain).slice(0, LISTED_ACTIONS);
  const row = (a) =>
    h("tr", { class: kept.includes(a) ? "kept" : null, "data-action": a },
      h("th", { scope: "row" }, actionName(model, a)),
      h("td", { class: "numeric" }, decimal(worst[a])),
      h("td", { class: "numeric" }, decimal(best[a])),
      h("td", null, kept.includes(a) ? "✓" : ""));
  const heads = ["Action", "Worst case", "Best case", ""].map((word) => h("th", { scope: "col" }, word || h("span", { class: "unseen" }, "Kept")));
  const table = h("table", { class: "plain actions" }, h("thead", null, h("tr", null, heads)), h("tbody", null, listed.map(row)));
  return [h("p", { class: "said", "data-testid": "said" }, h("b", null, name), `: ${said}`), table];
}

function sharesTable(payload, { credal, model, judged }) {
  const percent = (x) => (Number.isFinite(x) ? `${decimal(100 * x, 1)} %` : "–");
  const row = (name, key, write, testid) =>
    h("tr", null, h("th", { scope: "row" }, name), [credal, model].filter(Boolean).map((side, at) =>
      h("td", { class: "numeric", "data-testid": `${testid}-${at}` }, write(side[key]))));
  const heads = h("tr", null, [h("th", { scope: "col" }, h("span", { class: "unseen" }, "Share")), h("th", { scope: "col" }, "These sets"), model && h("th", { scope: "col" }, "Model alone")].filter(Boolean));
  const labelled = payload.labels
    ? [row(term("Errors among the rest", "risk"), "errors", percent, "errors"), row("Mean utility", "utility", (x) => decimal(x), "utility")]
    : [];
  const note = judged < payload.total && h("caption", null, `of ${count(judged)} inputs`);
  return h("table", { class: "plain shares" }, note, h("thead", null, heads), h("tbody", null, row("Abstained", "abstained", percent, "abstained"), labelled));
}

function drawRisk({ credal, model }, width) {
  const height = 190;
  const box = { left: 42, top: 24, right: width - 8, bottom: height - 40 };
  const curves = [model && ["alone", model], ["credal", credal]].filter(Boolean);
  const top = Math.max(0.02, ...curves.flatMap(([, { curve }]) => curve.filter(([x]) => x > 0.05).map(([, y]) => y)));
  const x = linear([0, 1], [box.left, box.right]);
  const y = linear([0, top], [box.bottom, box.top]);
  const said = curves.map(([name, { point }]) => `${name === "credal" ? "These sets" : "The model alone"}: ${decimal(100 * point[0], 1)} % decided, ${decimal(100 * point[1], 1)} % of them wrong`);
  const root = chartRoot(width, height, `Errors among the decided against the share decided. ${said.join(". ")}.`, "risk");
  root.append(frame(box, { x, y, xTicks: [0, 0.25, 0.5, 0.75, 1], yTicks: ticksTo(top, 4), xTitle: "Share decided →", yTitle: "Errors among them" }));
  const within = ([a, b]) => [x(a), y(Math.min(b, top))];
  for (const [name, { curve, point }] of curves) {
    root.append(svg("path", { class: `line risk-${name}`, d: linePath(curve.map(within)) }));
    if (!Number.isFinite(point[1])) continue;
    const [cx, cy] = within(point);
    root.append(svg("circle", { class: `now risk-${name}`, cx, cy, r: 6, "data-testid": `risk-${name}` }));
  }
  return root;
}

/** The utilities of naming a class, to edit; opened on demand. */
function createMatrix(model, store) {
  const K = model.classes.length;
  const identity = (a, k) => Number(a === k);
  const change = (a, k, value) => {
    const old = store.state.matrix ?? Array.from({ length: K }, (_, r) => Array.from({ length: K }, (__, c) => identity(r, c)));
    if (!Number.isFinite(value)) return;
    const matrix = old.map((row, r) => row.map((u, c) => (r === a && c === k ? value : u)));
    store.set({ matrix: matrix.flat().every((u, at) => u === identity(Math.floor(at / K), at % K)) ? null : matrix });
  };
  const cell = (a, k) => {
    const about = { type: "number", step: 0.1, "aria-label": `Utility of naming ${className(model, a)} if it is ${className(model, k)}` };
    const input = h("input", { ...about, "data-testid": `utility-${a}-${k}` });
    input.addEventListener("change", () => change(a, k, input.valueAsNumber));
    return input;
  };
  const inputs = model.classes.map((_, a) => model.classes.map((__, k) => cell(a, k)));
  const head = h("tr", null, h("th", { scope: "col" }, "named \\ is"), model.classes.map((name) => h("th", { scope: "col", title: name }, name)));
  const rows = inputs.map((row, a) => h("tr", null, h("th", { scope: "row", title: model.classes[a] }, className(model, a)), row.map((input) => h("td", null, input))));
  const reset = h("button", { type: "button", class: "link", "data-testid": "utility-reset", onclick: () => store.set({ matrix: null }) }, "Right 1, wrong 0");
  const table = h("table", { class: "matrix" }, h("thead", null, head), h("tbody", null, rows));
  const scroll = h("div", { class: "matrix-scroll", role: "group", "aria-label": "Utility matrix", tabindex: "0" }, table);
  const element = h("details", { class: "utilities", "data-testid": "utilities" }, h("summary", null, "Edit the utilities"), scroll, reset);
  const update = ({ matrix }) => {
    inputs.forEach((row, a) => row.forEach((input, k) => {
      const value = matrix ? matrix[a][k] : identity(a, k);
      if (input.valueAsNumber !== value && input !== document.activeElement) input.value = value;
    }));
  };
  return { element, update };
}
