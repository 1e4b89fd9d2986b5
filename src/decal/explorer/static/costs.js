// Whether it pays to ask a person: what an input costs by these sets, by confidence, and if nobody is asked.

import { chartRoot, h, panel, setText, svg, uniqueId, watchSize } from "./dom.js";
import { frame, linear, linePath, ticksTo } from "./axes.js";
import { decimal, inPercent, sentence } from "./format.js";
import { shownModel } from "./view.js";

const COSTS_TALL = 210;
const EVEN = 0.005; // costs that differ by less of themselves are about the same
const POLICIES = { alone: "by the model’s confidence", recalibrated: "by recalibrated confidence", nobody: "nobody is asked" };
const RIVALS = { alone: "asking where the model is unsure", recalibrated: "asking where recalibrated confidence is low", nobody: "asking nobody" };

/** The panel; null without labels. */
export function createCosts(payload, store, level) {
  if (!payload.models.every((model) => model.costs)) return null;
  const { prices } = payload.models[0].costs;
  const id = uniqueId();
  const slider = h("input", { id, type: "range", min: 0, max: prices.length - 1, step: 1, "data-testid": "price" });
  slider.addEventListener("input", () => store.set({ price: Number(slider.value) }));
  const output = h("output", { for: id, "data-testid": "price-value" });
  const field = h("div", { class: "field price" }, h("label", { for: id }, "An error costs 1. Asking a person costs ", output), slider);
  const verdict = h("p", { class: "verdict", "data-testid": "verdict" });
  const host = h("div", { class: "plot" });
  const size = watchSize(host, () => store.refresh());
  const item = ([mark, words]) => h("li", null, h("i", { class: `key line ${mark}` }), words);
  const shown = payload.models.flatMap(({ costs }) => Object.keys(costs.others));
  const legend = h("ul", { class: "legend" }, [["model1", "by these sets"], ...Object.entries(POLICIES).filter(([name]) => shown.includes(name))].map(item));
  const element = panel("costs", "Does asking a person pay?", level, null, h("div", { class: "duo" }, h("div", null, field, verdict), h("div", null, host, legend)));
  function update(state) {
    const { costs, curve } = shownModel(payload, state);
    slider.value = state.price;
    slider.style.setProperty("--share", String(state.price / (prices.length - 1)));
    slider.setAttribute("aria-valuetext", decimal(prices[state.price], 2));
    setText(output, decimal(prices[state.price], 2));
    setText(verdict, verdictOn(costs, 1 - curve.single[state.level], state));
    if (size.width) host.replaceChildren(drawCosts(costs, state, size.width));
  }
  return { element, update, stop: size.stop };
}

function verdictOn({ prices, sets, others }, asked, { level, price }) {
  const mine = sets[level][price];
  const rivals = Object.entries(others).map(([name, costs]) => [name, costs[price]]).sort((a, b) => a[1] - b[1]);
  const [[name, least]] = rivals;
  const asks = `Ask about the ${inPercent(asked)} with several classes left, and an input costs ${decimal(mine)}.`;
  const saved = (least - mine) / (least || 1);
  const rival = `${RIVALS[name]} (${decimal(least)})`;
  const said = Math.abs(saved) < EVEN ? `About as much as ${rival}.` : saved > 0 ? `That is ${inPercent(saved)} less than the next best, ${rival}.` : `${sentence(rival)} is cheaper.`;
  const cheapest = (at) => Math.min(...Object.values(others).map((costs) => costs[at]));
  const pays = prices.filter((_, at) => sets[level][at] < (1 - EVEN) * cheapest(at));
  const when = pays.length ? `These sets are cheapest at prices from ${decimal(pays[0], 2)} to ${decimal(pays.at(-1), 2)}.` : "With this caution these sets are cheapest at no price.";
  return `${asks} ${said} ${when}`;
}

function drawCosts({ prices, sets, others }, { level, price }, width) {
  const box = { left: 42, top: 26, right: width - 10, bottom: COSTS_TALL - 40 };
  const lines = [...Object.entries(others), ["model1", sets[level]]];
  const top = Math.max(...lines.flatMap(([, values]) => values));
  const x = linear([0, 1], [box.left, box.right]);
  const y = linear([0, top], [box.bottom, box.top]);
  const said = lines.map(([name, values]) => `${decimal(values[price])} ${POLICIES[name] ?? "by these sets"}`).join(", ");
  const root = chartRoot(width, COSTS_TALL, `What an input costs, by the price of asking. At ${decimal(prices[price], 2)}: ${said}.`, "costs-chart");
  root.append(frame(box, { x, y, xTicks: [0, 0.25, 0.5, 0.75, 1], yTicks: ticksTo(top, 4), xTitle: "Price of asking →", yTitle: "Cost of an input" }));
  for (const [name, values] of lines) {
    root.append(svg("path", { class: `line ${name}`, d: linePath(values.map((cost, at) => [x(prices[at]), y(cost)])) }));
    root.append(svg("circle", { class: `now ${name}`, cx: x(prices[price]), cy: y(values[price]), r: 5, "data-testid": `cost-${name}` }));
  }
  return root;
}
