// Calibration: the model's confidence against its accuracy, what the sets keep, and which classes they confuse.

import { chartRoot, h, panel, svg, watchSize } from "./dom.js";
import { frame, linear, linePath } from "./axes.js";
import { className, count, inPercent } from "./format.js";
import { shownModel } from "./view.js";

const MOST_WRITTEN = 5; // classes whose shares are written out
const PLOT_TALL = 220;

/** The panel; null without labels. */
export function createReliability(payload, store, level) {
  if (!payload.models.some((model) => model.reliability)) return null;
  const host = h("div", { class: "plot" });
  const size = watchSize(host, () => store.refresh());
  const confusion = h("div", { class: "confusion", role: "group", "aria-label": "Confusions", tabindex: "0", "data-testid": "confusion" });
  const words = "Blue dots below the diagonal: the model is right less often than it says. Orange: how often the true class is possible. Grey: how many inputs there are.";
  const titles = ["How often it is right", "Which classes are possible (columns, in the same order) for each true class (rows)"];
  const [left, right] = titles.map((title) => h(`h${level + 1}`, null, title));
  const duo = h("div", { class: "duo" }, h("div", { class: "part" }, left, host, h("p", { class: "sentence" }, words)), h("div", { class: "part" }, right, confusion));
  const element = panel("reliability", "Is the model as right as it says?", level, null, duo);
  let key = "";
  function update(state) {
    const model = shownModel(payload, state);
    const now = [state.level, state.show, size.width].join(" ");
    if (!size.width || now === key || !model.reliability) return;
    key = now;
    host.replaceChildren(drawDiagram(model.reliability, state.level, size.width));
    confusion.replaceChildren(confusionTable(model, state.level));
  }
  return { element, update, stop: size.stop };
}

function drawDiagram({ inputs, confidence, accuracy, kept }, level, width) {
  const box = { left: 42, top: 26, right: width - 10, bottom: PLOT_TALL - 40 };
  const x = linear([0, 1], [box.left, box.right]);
  const y = linear([0, 1], [box.bottom, box.top]);
  const bins = inputs.map((n, at) => ({ n, at })).filter(({ n }) => n > 0);
  const most = Math.max(...inputs, 1);
  const inWords = ({ n, at }) => `${inPercent(confidence[at])} sure: ${inPercent(accuracy[at])} right, true class possible for ${inPercent(kept[level][at])}, ${count(n)} inputs`;
  const root = chartRoot(width, PLOT_TALL, `How often the model is right. ${bins.map(inWords).join("; ")}.`, "reliable");
  const ticks = [0, 0.25, 0.5, 0.75, 1];
  root.append(frame(box, { x, y, xTicks: ticks, yTicks: ticks, xTitle: "How sure the model is →", yTitle: "Share" }));
  root.append(svg("line", { class: "diagonal", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }));
  const wide = x(1 / inputs.length) - x(0);
  for (const { n, at } of bins) {
    const tall = (24 * n) / most;
    root.append(svg("rect", { class: "weight", x: x(at / inputs.length) + 1, width: wide - 2, y: box.bottom - tall, height: tall }));
  }
  root.append(svg("path", { class: "line sets", d: linePath(bins.map(({ at }) => [x(confidence[at]), y(kept[level][at])])) }));
  root.append(...bins.map(({ at }) => svg("circle", { class: "dot sets", cx: x(confidence[at]), cy: y(kept[level][at]), r: 3 })));
  root.append(...bins.map(({ at }) => svg("circle", { class: "dot model1 right", cx: x(confidence[at]), cy: y(accuracy[at]), r: 5 })));
  // Over all else, so that pointing anywhere above a bin tells its numbers.
  const strip = { class: "strip", width: wide, y: box.top, height: box.bottom - box.top };
  root.append(...bins.map((bin) => svg("rect", { ...strip, x: x(bin.at / inputs.length) }, svg("title", null, inWords(bin)))));
  return root;
}

function confusionTable(model, level) {
  const table = model.reliability.confusion?.[level];
  if (!table) return h("p", { class: "sentence" }, "There are too many classes for a table.");
  const written = table.length <= MOST_WRITTEN;
  const names = model.classes.map((_, k) => className(model, k));
  const cell = (share, j, k) => {
    const td = h("td", { class: j === k ? "numeric own" : "numeric", title: `${names[j]}: ${names[k]} possible for ${inPercent(share)}` });
    td.style.setProperty("--share", share);
    td.append(h("span", { class: written ? null : "unseen" }, inPercent(share)));
    return td;
  };
  const heads = names.map((name) => h("th", { scope: "col", title: name }, h("span", null, name)));
  const rows = table.map((shares, j) => h("tr", null, h("th", { scope: "row", title: names[j] }, names[j]), shares.map((share, k) => cell(share, j, k))));
  return h("table", { class: written ? "shares-of written" : "shares-of" }, h("thead", null, h("tr", null, h("th", { scope: "col" }, h("span", { class: "unseen" }, "True class")), heads)), h("tbody", null, rows));
}
