// Coverage (or what else the data allow) against efficiency, over all levels; a click sets the level.

import { chartRoot, h, svg, watchSize } from "./dom.js";
import { frame, largestOf, linear, linePath, ticksTo } from "./axes.js";
import { alphaText, decimal } from "./format.js";

export const CURVES = {
  coverage: ["Coverage", "share of inputs whose true distribution lies inside"],
  missed: ["Labels missed", "share of labels outside the decision set"],
  size: ["Set size", "mean number of classes in the decision set"],
};

const CURVE_REACH = 40; // pixels within which the pointer finds a point

/** @returns {{element: HTMLElement, update: Function, stop: Function}} */
export function createTradeoff(payload, store) {
  const host = h("div", { class: "plot" });
  const tip = h("div", { class: "tip", "aria-hidden": "true", hidden: true });
  host.append(tip);
  const size = watchSize(host, () => store.refresh());
  let drawn = { key: "", marks: [], points: [], root: null };

  function draw(state) {
    const [title] = CURVES[state.curve];
    const height = size.height;
    const box = { left: 46, top: 28, right: size.width - 14, bottom: height - 44 };
    const lines = payload.models.filter((model) => model.curve[state.curve]);
    const least = state.curve === "size" ? 1 : 0.05;
    const top = state.curve === "coverage" ? 1 : largestOf(lines.map((model) => model.curve[state.curve]), least);
    const x = linear([0, 1], [box.left, box.right]);
    const y = linear([0, top], [box.bottom, box.top]);
    const root = chartRoot(size.width, height, "", "tradeoff-chart");
    const ticks = { xTicks: [0, 0.25, 0.5, 0.75, 1], yTicks: ticksTo(top, 4) };
    root.append(frame(box, { x, y, ...ticks, xTitle: "Efficiency →", yTitle: title }));
    const points = [];
    const marks = lines.map((model) => {
      const which = payload.models.indexOf(model) + 1;
      const { efficiency, [state.curve]: values } = model.curve;
      const at = payload.alphas.map((_, level) => [x(efficiency[level]), y(values[level])]);
      at.forEach(([px, py], level) => points.push({ px, py, level, model }));
      root.append(svg("path", { class: `line model${which}`, d: linePath(at) }));
      root.append(...at.map(([cx, cy]) => svg("circle", { class: `dot model${which}`, cx, cy, r: 3 })));
      return { at, mark: svg("circle", { class: `now model${which}`, r: 7, "data-testid": "tradeoff-point" }) };
    });
    root.append(...marks.map(({ mark }) => mark));
    drawn.root?.remove();
    host.prepend(root);
    drawn = { key: `${state.curve} ${size.width} ${size.height}`, marks, points, root };
  }

  function nearest(event) {
    const { left, top } = host.getBoundingClientRect();
    const [px, py] = [event.clientX - left, event.clientY - top];
    const distance = (point) => Math.hypot(point.px - px, point.py - py);
    const best = drawn.points.reduce((a, b) => (a && distance(a) <= distance(b) ? a : b), null);
    return best && distance(best) <= CURVE_REACH ? best : null;
  }

  host.addEventListener("pointermove", (event) => {
    const point = nearest(event);
    tip.hidden = !point;
    host.classList.toggle("pointing", Boolean(point) && payload.alphas.length > 1);
    if (!point) return;
    const { model, level } = point;
    const alpha = alphaText(payload.alphas[level]);
    const kind = store.state.curve;
    tip.textContent = [
      payload.models.length > 1 && model.name,
      alpha && `α ${alpha}`,
      `efficiency ${decimal(model.curve.efficiency[level])}`,
      `${CURVES[kind][0].toLowerCase()} ${decimal(model.curve[kind][level])}`,
    ]
      .filter(Boolean)
      .join(" · ");
    placeTip(tip, point.px, point.py, size.width);
  });
  host.addEventListener("pointerleave", () => (tip.hidden = true));
  host.addEventListener("click", (event) => {
    const point = nearest(event);
    if (point) store.set({ level: point.level });
  });

  function update(state) {
    if (!size.width) return;
    if (drawn.key !== `${state.curve} ${size.width} ${size.height}`) draw(state);
    for (const { at, mark } of drawn.marks) {
      const [cx, cy] = at[state.level];
      mark.setAttribute("cx", cx);
      mark.setAttribute("cy", cy);
    }
    drawn.root.setAttribute("aria-label", tradeoffSummary(payload, state));
  }

  return { element: host, update, stop: size.stop, chart: () => drawn.root };
}

function tradeoffSummary(payload, { curve, level }) {
  const [title, meaning] = CURVES[curve];
  const points = payload.models
    .filter((model) => model.curve[curve])
    .map((model) => {
      const { efficiency, [curve]: values } = model.curve;
      const here = `efficiency ${decimal(efficiency[level])}, ${title.toLowerCase()} ${decimal(values[level])}`;
      return `${model.name}: ${here}`;
    });
  const alpha = alphaText(payload.alphas[level]);
  return `${title} (${meaning}) against efficiency${alpha && `, at alpha ${alpha}`}. ${points.join(". ")}.`;
}

/** Put a tip above a point, within its host; below what is `tall` pixels high if there is no room above. */
export function placeTip(tip, x, y, width, tall = 0) {
  const half = Math.min(tip.offsetWidth / 2, width / 2);
  tip.style.left = `${Math.min(Math.max(x, half), width - half)}px`;
  const below = y < tip.offsetHeight + 14;
  tip.style.top = `${below ? y + tall : y}px`;
  tip.classList.toggle("below", below);
}
