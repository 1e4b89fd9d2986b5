// Whether it pays to ask a person: what an input costs by these sets, by the model's confidence, and if nobody is asked.

import { chartRoot, h, panel, setText, svg, uniqueId, watchSize } from "./dom.js";
import { frame, linear, linePath, ticksTo } from "./axes.js";
import { decimal, inPercent } from "./format.js";
import { shownModel } from "./view.js";

const COSTS_TALL = 210;

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
  const item = (mark, words) => h("li", null, h("i", { class: `key line ${mark}` }), words);
  const legend = h("ul", { class: "legend" }, item("model1", "by these sets"), item("alone", "by the model’s confidence"), item("nobody", "nobody is asked"));
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

function verdictOn({ prices, sets, alone, nobody }, asked, { level, price }) {
  const [mine, theirs] = [sets[level][price], alone[price]];
  const asks = `Ask about the ${inPercent(asked)} with several classes left, and an input costs ${decimal(mine)}.`;
  const least = Math.min(mine, theirs, nobody);
  const less = (other) => inPercent((other - mine) / other);
  const said =
    least === mine
      ? `That is ${less(theirs)} less than asking where the model is unsure, and ${less(nobody)} less than asking nobody.`
      : least === nobody
        ? `Asking nobody is cheaper: ${decimal(nobody)}.`
        : `Asking where the model is unsure is cheaper: ${decimal(theirs)}.`;
  const pays = prices.filter((_, at) => sets[level][at] < Math.min(alone[at], nobody));
  const when = pays.length ? `These sets are cheapest where asking costs ${decimal(pays[0], 2)} to ${decimal(pays.at(-1), 2)}.` : "With this caution these sets are cheapest at no price.";
  return `${asks} ${said} ${when}`;
}

function drawCosts({ prices, sets, alone, nobody }, { level, price }, width) {
  const box = { left: 42, top: 26, right: width - 10, bottom: COSTS_TALL - 40 };
  const lines = [["nobody", prices.map(() => nobody)], ["alone", alone], ["model1", sets[level]]];
  const top = Math.max(...lines.flatMap(([, values]) => values));
  const x = linear([0, 1], [box.left, box.right]);
  const y = linear([0, top], [box.bottom, box.top]);
  const said = `At ${decimal(prices[price], 2)}: ${decimal(sets[level][price])} by these sets, ${decimal(alone[price])} by the model’s confidence, ${decimal(nobody)} if nobody is asked`;
  const root = chartRoot(width, COSTS_TALL, `What an input costs, by the price of asking. ${said}.`, "costs-chart");
  root.append(frame(box, { x, y, xTicks: [0, 0.25, 0.5, 0.75, 1], yTicks: ticksTo(top, 4), xTitle: "Price of asking →", yTitle: "Cost of an input" }));
  for (const [name, values] of lines) {
    root.append(svg("path", { class: `line ${name}`, d: linePath(values.map((cost, at) => [x(prices[at]), y(cost)])) }));
    root.append(svg("circle", { class: `now ${name}`, cx: x(prices[price]), cy: y(values[price]), r: 5, "data-testid": `cost-${name}` }));
  }
  return root;
}
