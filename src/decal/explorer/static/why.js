// Why an interval stops where it does: the likelihood curve, the cut at alpha, and what the shifts it allows do.

import { chartRoot, h, select, setText, svg, watchSize } from "./dom.js";
import { linear, linePath } from "./axes.js";
import { alphaText, className, decimal, signed } from "./format.js";
import { boxAt, divergence, endsAt, isLive, localQuestion, pointOf, scaled, shifted } from "./evidence.js";
import { endsOf, rankedSlots } from "./slots.js";

const EDGE = 44;
const MARGIN_RIGHT = 14;
const ABOVE = 22;
const CURVE_TALL = 128; // pixels: height of the likelihood's plot
const GAP_WHY = 42;
const EFFECT_TALL = 104; // height of the plot of this input's probability
const DEEPER = 1.9; // the curve is drawn down to so many times the budget
const LEAST_VIEW = 0.004; // nats
const FAR_SHIFT = 14; // nats: infinite ends are drawn here
const FAR_SCALE = 12; // so are scales beyond this
const SAMPLES = 120;
const ALPHA_TICKS = [1, 0.999, 0.998, 0.995, 0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01];

/** The part of the detail that explains an interval; null where the model's curves are not known. */
export function createWhy(payload, store) {
  if (!payload.models[0].evidence || payload.alphas.length < 2) return null;
  const model = payload.models[0];
  const { evidence } = model;
  const options = optionsOf(payload, model);
  const list = select("What moves", options, (why) => store.set({ why }), "why-what");
  const words = h("p", { class: "sentence", "data-testid": "why-words" });
  const about = { class: "plot why", role: "slider", tabindex: "0", "aria-label": "Cut of the likelihood at alpha" };
  const host = h("div", { ...about, "aria-orientation": "vertical", "data-testid": "why-cut" });
  const size = watchSize(host, () => store.refresh());
  const element = h("div", null, list.element, host, words);
  let view = null; // what is drawn: scales and the largest budget in view
  let drawn = null;

  const budgetOf = (state) => state.live?.budget ?? -Math.log(payload.alphas[state.level]);
  const nearestLevel = (budget) => {
    const distance = (alpha) => Math.abs(Math.sqrt(-Math.log(alpha)) - Math.sqrt(budget));
    const finite = payload.alphas.map((alpha, level) => [distance(alpha), level]).filter(([d]) => Number.isFinite(d));
    return finite.reduce((best, each) => (each[0] < best[0] ? each : best))[1];
  };

  /** Cut at a budget that need not be a level's: this input's bars follow at once. */
  function cutAt(budget) {
    const { input } = store.state;
    const box = isLive(payload, model) ? boxAt(payload, model, input, budget) : null;
    store.set({ live: { budget, box, input } });
  }
  const letGo = () => {
    const { live } = store.state;
    if (live) store.set({ live: null, level: nearestLevel(live.budget) });
  };
  const budgetAt = (event) => {
    const y = event.clientY - host.getBoundingClientRect().top;
    const within = Math.min(Math.max(y, view.y(0)), view.y(-view.deepest));
    return Math.min((view.y(0) - within) / (view.y(0) - view.y(-1)), evidence.budgets.at(-1));
  };
  host.addEventListener("pointerdown", (event) => {
    if (!view || event.button !== 0) return;
    host.setPointerCapture(event.pointerId);
    cutAt(budgetAt(event));
    event.preventDefault();
    host.focus({ preventScroll: true });
  });
  host.addEventListener("pointermove", (event) => host.hasPointerCapture(event.pointerId) && cutAt(budgetAt(event)));
  for (const event of ["pointerup", "pointercancel"]) host.addEventListener(event, letGo);
  host.addEventListener("keydown", (event) => {
    const { key } = event;
    const steps = { ArrowUp: -1, ArrowRight: -1, ArrowDown: 1, ArrowLeft: 1, Home: -Infinity, End: Infinity };
    if (!(key in steps)) return;
    const last = payload.alphas.length - 1;
    store.set({ level: Math.min(Math.max(store.state.level + steps[key], 0), last) });
    event.preventDefault();
  });

  function update(state) {
    if (!size.width) return;
    const what = whatOf(payload, model, state);
    list.list.value = what.value;
    const budget = budgetOf(state);
    if (!state.live || !view) {
      const finite = Number.isFinite(budget) ? budget : evidence.budgets.at(-1);
      view = { deepest: Math.min(Math.max(DEEPER * finite, LEAST_VIEW), evidence.budgets.at(-1)) };
    }
    const shown = describe(payload, model, state, what, budget);
    drawn = drawWhy(payload, model, state, what, shown, view, size.width);
    host.replaceChildren(drawn);
    setText(words, shown.words);
    const cut = Math.exp(-budget);
    const about = { valuemin: 0, valuemax: 1, valuenow: cut, valuetext: `alpha ${alphaText(cut)}. ${shown.words}` };
    for (const [name, value] of Object.entries(about)) host.setAttribute(`aria-${name}`, value);
  }
  return { element, update, stop: size.stop, drawn: () => drawn };
}

function optionsOf({ rest }, model) {
  const { directions } = model.evidence;
  const classes = directions.some((name) => name !== "temperature")
    ? model.classes.map((_, k) => [String(k), className(model, k)])
    : [];
  return directions.includes("temperature") && !rest ? [...classes, ["scale", "all logits: the scale"]] : classes;
}

/** Which class's shift, or the scale, is explained: the chosen one, else the class that tops the intervals. */
function whatOf(payload, model, { why, input }) {
  const { directions } = model.evidence;
  const onlyScale = directions.length === 1 && directions[0] === "temperature";
  const first = payload.slotClass[input * payload.slots + rankedSlots(payload, input)[0]];
  const value = onlyScale ? "scale" : (why ?? String(first));
  const scale = value === "scale";
  const k = scale ? (model.predicted?.[input] ?? first) : Number(value);
  const slot = payload.slotClass.subarray(input * payload.slots, (input + 1) * payload.slots).indexOf(k);
  const local = !scale && directions.includes("local") && !directions.includes("class");
  return { value, k, slot, kind: scale ? "temperature" : local ? "local" : "class" };
}

/** The numbers of the picture: the ends allowed, the probabilities they lead to, the whole interval. */
function describe(payload, model, state, { k, slot, kind }, budget) {
  const { evidence } = model;
  const i = state.input;
  const name = className(model, k);
  const p = pointOf(payload, model, i);
  const alpha = alphaText(Number(Math.exp(-budget).toPrecision(5)));
  const per = evidence.likelihood === "mean" ? " per example" : " of all data";
  const interval = state.live?.box ? state.live.box[slot] : slot < 0 ? null : endsOf(payload, model, state.level, i, slot);
  const between = (ends) => `${decimal(ends[0])} to ${decimal(ends[1])}`;
  const whole = interval ? ` Its interval is ${between(interval)}.` : "";
  if (kind === "local") {
    const words = `Distributions at this input may diverge by ${decimal(budget, 4)} nats from the prediction, whatever the data say.`;
    return { ends: interval, words: words + whole, interval, p };
  }
  const finite = Number.isFinite(budget);
  const ends = finite ? endsAt(evidence, kind, kind === "class" ? k : 0, budget) : kind === "class" ? [-Infinity, Infinity] : [0, Infinity];
  if (kind === "temperature") {
    const last = Number.isFinite(ends[1]) ? decimal(ends[1], 2) : "infinity";
    const words = `Scales of all logits from ${decimal(ends[0], 2)} to ${last} are plausible at α ${alpha}.`;
    const reach = p && ends.map((s) => scaled(p, s)[k]);
    const effect = reach ? ` They move “${name}” here from ${decimal(reach[0])} to ${decimal(reach[1])}.` : "";
    return { ends, reach, words: words + effect + whole, interval, p };
  }
  const own = slot >= 0 && model.point ? model.point[i * payload.width + slot] : null;
  const rest = p ? p.reduce((sum, q, j) => (j === k ? sum : sum + q), 0) : 1 - own;
  const reach = own === null ? null : ends.map((t) => shifted(own, rest, t));
  if (!finite) return { ends, reach, own, rest, words: `At α 0 every shift of “${name}” is plausible.`, interval, p };
  const words = `Shifting “${name}” by ${signed(ends[0], 2)} to ${signed(ends[1], 2)} keeps at least ${alpha} of the likelihood${per}.`;
  const effect = reach ? ` Here that moves its probability from ${between(reach)}.` : "";
  const wider = interval && reach && (interval[0] < reach[0] - 5e-4 || interval[1] > reach[1] + 5e-4);
  const others = wider ? ` With what else may move, its interval is ${between(interval)}.` : "";
  return { ends, reach, own, rest, words: words + effect + others, interval, p };
}

function drawWhy(payload, model, state, what, shown, view, width) {
  const effect = what.kind !== "local" && (shown.own ?? shown.p) !== null;
  const height = ABOVE + CURVE_TALL + GAP_WHY + (effect ? EFFECT_TALL + 12 : 0);
  const root = chartRoot(width, height, shown.words, "why");
  const points = curvePoints(model, shown, what, view.deepest);
  const xs = points.map(([x]) => x);
  const x = linear([Math.min(...xs), Math.max(...xs)], [EDGE + 4, width - MARGIN_RIGHT - 4]);
  const highest = Math.max(0.06 * view.deepest, 1.15 * Math.max(...points.map(([, y]) => y)));
  const y = linear([highest, -view.deepest], [ABOVE, ABOVE + CURVE_TALL]);
  Object.assign(view, { x, y });
  const budget = state.live?.budget ?? -Math.log(payload.alphas[state.level]);
  const cut = Math.min(budget, view.deepest);
  const range = [EDGE, width - MARGIN_RIGHT];
  root.append(svg("text", { class: "title", x: 0, y: 12 }, "Log-likelihood, as α"));
  let lowest = -Infinity;
  for (const alpha of ALPHA_TICKS) {
    const at = y(Math.log(alpha));
    if (-Math.log(alpha) > view.deepest || at - lowest < 17) continue;
    lowest = at;
    root.append(svg("line", { class: "grid", x1: EDGE, x2: range[1], y1: at, y2: at }));
    root.append(svg("text", { class: "tick end", x: EDGE - 8, y: at + 4 }, String(alpha)));
  }
  const clamp = (value) => Math.min(Math.max(value, Math.min(...xs)), Math.max(...xs));
  const place = what.kind === "temperature" ? (s) => x(clamp(Math.log(Math.max(s, 1e-6)))) : (t) => x(clamp(t));
  const inside = points.filter(([, g]) => g >= -cut);
  const [from, to] = shown.ends.map(place);
  const area = [[from, y(-cut)], ...inside.map(([a, g]) => [x(a), y(g)]), [to, y(-cut)]];
  root.append(svg("path", { class: "band model1", d: `${linePath(area)}Z` }));
  root.append(svg("path", { class: "line model1", d: linePath(points.map(([a, g]) => [x(a), y(g)])) }));
  root.append(svg("line", { class: "cut", x1: EDGE, x2: range[1], y1: y(-cut), y2: y(-cut), "data-testid": "why-line" }));
  root.append(svg("circle", { class: "grip", cx: range[1] - 4, cy: y(-cut), r: 6 }));
  const under = ABOVE + CURVE_TALL + 16;
  const written = what.kind === "class" ? (t) => signed(t, 2) : (s) => decimal(s, 2);
  [from, to].forEach((at, side) => {
    const end = shown.ends[side];
    const text = Number.isFinite(end) ? written(end) : side ? "∞" : "−∞";
    const edge = effect ? ABOVE + CURVE_TALL + GAP_WHY + EFFECT_TALL : ABOVE + CURVE_TALL;
    root.append(svg("line", { class: "drop", x1: at, x2: at, y1: y(-cut), y2: edge, "data-testid": "why-end" }));
    const left = side === 0 || at > range[1] - 40;
    root.append(svg("text", { class: `ringtext${left ? " end" : ""}`, x: at + (left ? -5 : 5), y: under }, text));
  });
  const axis = { class: "shift", temperature: "scale", local: "probability" }[what.kind];
  root.append(svg("text", { class: "title end", x: range[1], y: 12 }, `${axis} →`));
  if (effect) root.append(...drawEffect(model, what, shown, place, xs, x, width));
  return root;
}

/** The curve in view: (shift, log-likelihood), log scale for scales, probability for local sets. */
function curvePoints(model, { p }, { k, kind }, deepest) {
  const { evidence } = model;
  if (kind === "local") {
    const { center, budget: unit } = localQuestion(evidence.local, p, k, 1);
    const all = Array.from({ length: 2 * SAMPLES + 1 }, (_, at) => at / (2 * SAMPLES));
    const points = all.map((q) => [q, -divergence(q, center) / unit]);
    return [...points, [center, 0]].filter(([, g]) => g >= -deepest).sort((a, b) => a[0] - b[0]);
  }
  const budgets = Array.from({ length: SAMPLES }, (_, at) => deepest * (1 - at / SAMPLES) ** 2);
  const wide = kind === "class" ? k : 0;
  const at = (side, b) => {
    const value = endsAt(evidence, kind, wide, b)[side];
    if (kind === "temperature") return Math.log(Math.min(Math.max(value, 1 / FAR_SCALE), FAR_SCALE));
    return Math.min(Math.max(value, -FAR_SHIFT), FAR_SHIFT);
  };
  const rising = budgets.map((b) => [at(0, b), -b]);
  const falling = budgets.toReversed().map((b) => [at(1, b), -b]);
  const summit = kind === "class" ? topPoints(evidence, k) : [[0, 0]];
  return [...rising, ...summit, ...falling];
}

function topPoints({ curves, classes }, k) {
  const nodes = curves.top.length / (2 * classes);
  return Array.from({ length: nodes }, (_, node) => [0, 1].map((part) => curves.top[(part * nodes + node) * classes + k]));
}

/** What the shifts do to this input: its probability along the same axis, read off at the ends. */
function drawEffect(model, { k, kind }, shown, place, xs, x, width) {
  const top = ABOVE + CURVE_TALL + GAP_WHY;
  const y = linear([0, 1], [top + EFFECT_TALL, top]);
  const [least, most] = [Math.min(...xs), Math.max(...xs)];
  const along = Array.from({ length: SAMPLES + 1 }, (_, at) => least + ((most - least) * at) / SAMPLES);
  const probability =
    kind === "class" ? (t) => shifted(shown.own, shown.rest, t) : (logS) => scaled(shown.p, Math.exp(logS))[k];
  const marks = [0, 0.5, 1].flatMap((tick) => [
    svg("line", { class: "grid", x1: EDGE, x2: width - MARGIN_RIGHT, y1: y(tick), y2: y(tick) }),
    svg("text", { class: "tick end", x: EDGE - 14, y: y(tick) + 4 }, String(tick)),
  ]);
  marks.push(svg("path", { class: "line effect", d: linePath(along.map((a) => [x(a), y(probability(a))])) }));
  shown.ends.forEach((end, side) => {
    const at = y(shown.reach[side]);
    marks.push(svg("line", { class: "drop", x1: EDGE, x2: place(end), y1: at, y2: at }));
    marks.push(svg("circle", { class: "grip small", cx: place(end), cy: at, r: 3.5 }));
  });
  if (shown.interval)
    marks.push(svg("line", { class: "bar slim dropped model1", x1: EDGE - 5, x2: EDGE - 5, y1: y(shown.interval[0]), y2: y(shown.interval[1]) }));
  const [low, high] = shown.reach.map(y);
  marks.push(svg("line", { class: "bar slim model1", x1: EDGE - 5, x2: EDGE - 5, y1: low, y2: high, "data-testid": "why-bar" }));
  const zero = kind === "class" ? 0 : Math.log(1);
  marks.push(svg("circle", { class: "point model1", cx: x(Math.min(Math.max(zero, least), most)), cy: y(probability(zero)), r: 4 }));
  const name = `Probability of ${className(model, k)} here`;
  marks.push(svg("text", { class: "title", x: EDGE, y: top - 9 }, name.length > 42 ? "Its probability here" : name));
  return marks;
}
