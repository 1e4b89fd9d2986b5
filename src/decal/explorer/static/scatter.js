// The cloud of all inputs: aleatoric against epistemic uncertainty, or one model against the other.

import { chartRoot, colourOf, fitText, h, svg, textWidth, watchSize } from "./dom.js";
import { frame, largestOf, linear, ticksBetween } from "./axes.js";
import { alphaText, decimal, inputName, plural } from "./format.js";
import { createLasso } from "./lasso.js";
import { cloudAxes } from "./region.js";
import { term } from "./terms.js";
import { createTip } from "./tip.js";
import { errorOf, isCapped } from "./view.js";
import { splat } from "./splat.js";
import { placeTip } from "./tradeoff.js";
import { createZoom, readExtent, within } from "./zoom.js";

const CLOUD_REACH = 16; // pixels within which the pointer finds a point
const DOT_RADIUS = 2.5;
const GROUP_COLOURS = [0, 1, 2, 3, 4, 5, 6, 7]; // as in style.css
const MOST_KEYS = 12;

export function createScatter(payload, store) {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const about = createTip(payload);
  const tip = about.element;
  const ring = svg("circle", { class: "ring", r: 7, "data-testid": "scatter-selected" });
  const over = svg("svg", { class: "chart over", "aria-hidden": "true" }, ring);
  const keys = { role: "group", tabindex: "0", "aria-label": "Cloud of inputs. Plus and minus zoom, arrow keys move, 0 shows all, Enter lists what is in view." };
  const host = h("div", { class: "plot cloud", "data-testid": "scatter", ...keys }, canvas, over, tip);
  const legend = h("ul", { class: "legend" });
  const size = watchSize(host, () => store.refresh());
  const top = {
    aleatoric: largestOf(payload.models.map((model) => model.aleatoric), 0.01),
    epistemic: largestOf(payload.models.map((model) => model.epistemic), 0.01),
  };
  const [px, py] = [new Float32Array(payload.count), new Float32Array(payload.count)];
  const errors = {};
  const spare = []; // arrays for the layers, kept, so that no step leaves megabytes of garbage
  let colours = {};
  let axes = { key: "", root: null };
  let current = null;

  function layout(state) {
    const height = size.height;
    const box = { left: 46, top: 28, right: size.width - 14, bottom: height - 44 };
    const both = state.cloud === "models";
    const topX = both ? top.epistemic : top.aleatoric;
    const whole = [0, topX, 0, top.epistemic];
    const extent = within(readExtent(state.zoom) ?? whole, whole);
    const sides = [[box.left + 4, box.right - 4], [box.bottom - 4, box.top + 4]];
    const [x, y] = sides.map((side, axis) => linear(extent.slice(2 * axis, 2 * axis + 2), side));
    const [toX, toY] = sides.map((side, axis) => linear(side, extent.slice(2 * axis, 2 * axis + 2)));
    const [dataAt, pixelOf] = [(a, b) => [toX(a), toY(b)], (a, b) => [x(a), y(b)]];
    return { box, x, y, extent, whole, both, height, dataAt, pixelOf };
  }
  const sight = () => layout(store.state);
  const zoom = createZoom(host, store, sight);
  const lasso = createLasso(payload, store, host, over, sight);
  const tools = h("div", { class: "choice zoom", role: "group", "aria-label": "Zoom and lasso" }, zoom.buttons, lasso.buttons);

  function drawAxes(state) {
    const { box, x, y, extent, both, height } = layout(state);
    const [left, right, low, high] = extent;
    const root = chartRoot(size.width, height, "", "scatter-chart");
    const names = payload.models.map((model) => model.name);
    const of = names.length > 1 ? `, ${names[Number(state.show) - 1] ?? names[0]}` : "";
    root.append(
      frame(box, {
        x,
        y,
        xTicks: ticksBetween(left, right, 5),
        yTicks: ticksBetween(low, high, 4),
        xTitle: fitText(both ? `Epistemic in nats, ${names[0]} →` : "Aleatoric, nats →", box.right - 12),
        yTitle: fitText(both ? `Epistemic in nats, ${names[1]}` : `Epistemic, nats${of}`, box.right - 12),
      }),
    );
    const [from, to] = [Math.max(left, low), Math.min(right, high)];
    if (!both) root.append(...capLine(payload.models[0].classes.length, x, y, extent, box));
    else if (from < to) root.append(svg("line", { class: "diagonal", x1: x(from), y1: y(from), x2: x(to), y2: y(to) }));
    axes.root?.remove();
    host.prepend(root);
    axes = { key: axesKey(state), root };
    for (const [name, value] of Object.entries({ width: size.width, height })) over.setAttribute(name, value);
    const scale = window.devicePixelRatio || 1;
    canvas.width = size.width * scale;
    canvas.height = height * scale;
    canvas.style.height = `${height}px`;
  }

  function place(state, view) {
    const { x, y } = layout(state);
    const [first, n] = [view.first, payload.count];
    const [across, upward] = cloudAxes(payload, state);
    for (let i = 0; i < n; i++) {
      px[i] = x(across[first + i]);
      py[i] = y(upward[first + i]);
    }
  }

  const axesKey = (state) => [state.cloud, state.show, state.zoom, size.width, size.height].join(" ");
  const isInSight = ({ left, top: above, right, bottom }, i) => px[i] >= left && px[i] <= right && py[i] >= above && py[i] <= bottom;
  const judged = (state, view) => (state.cloud === "models" ? payload.models : [view.shown[0]]);

  function paint(state, view) {
    const scale = canvas.width / size.width;
    const models = judged(state, view);
    const right = models[0] === payload.models[1] ? "--model2" : "--model1";
    const coloured = payload.groups[state.colour];
    const names = coloured ? ["--faint", ...GROUP_COLOURS.map((_, at) => `--group${at}`)] : ["--faint", right, "--alert"];
    const layers = names.map((name, at) => {
      const places = (spare[at] ??= { xs: new Float32Array(payload.count), ys: new Float32Array(payload.count) });
      return { ...places, colour: (colours[name] ??= colourOf(host, name)), count: 0 };
    });
    const wrong = errorsOf(models);
    const { box } = layout(state);
    for (let i = 0; i < payload.count; i++) {
      if (!isInSight(box, i)) continue;
      const own = coloured ? 1 + (coloured.codes[i] % GROUP_COLOURS.length) : wrong[i] ? 2 : 1;
      const layer = layers[view.matches[i] ? own : 0];
      layer.xs[layer.count] = px[i] * scale;
      layer.ys[layer.count++] = py[i] * scale;
    }
    splat(canvas.getContext("2d"), layers, DOT_RADIUS * scale);
  }

  /** Where any of the models is wrong: found once, for it does not depend on the level. */
  function errorsOf(models) {
    const key = models.map((model) => payload.models.indexOf(model)).join();
    errors[key] ??= Uint8Array.from({ length: payload.count }, (_, i) =>
      Number(models.some((model) => errorOf(payload, model, i) === 1)),
    );
    return errors[key];
  }

  function nearest(event) {
    if (!current) return -1;
    const { left, top: above } = host.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - above];
    const { box } = sight();
    let [best, least] = [-1, CLOUD_REACH * CLOUD_REACH];
    for (let i = 0; i < payload.count; i++) {
      const distance = (px[i] - x) ** 2 + (py[i] - y) ** 2 + (current.matches[i] ? 0 : 64);
      if (distance < least && isInSight(box, i)) [best, least] = [i, distance];
    }
    return best;
  }

  host.addEventListener("pointermove", (event) => {
    const i = event.buttons ? -1 : nearest(event); // a press moves the cloud or draws
    tip.hidden = i < 0;
    host.classList.toggle("pointing", i >= 0);
    if (i < 0) return;
    about.fill(store.state, current, i);
    placeTip(tip, px[i], py[i], size.width);
  });
  host.addEventListener("pointerleave", () => (tip.hidden = true));
  host.addEventListener("click", (event) => {
    if (zoom.wasDragged() || lasso.wasDrawn()) return;
    const i = nearest(event);
    if (i >= 0) store.set({ input: i });
  });

  function update(state, view) {
    if (!size.width) return;
    current = view;
    if (axes.key !== axesKey(state)) drawAxes(state);
    place(state, view);
    paint(state, view);
    const known = isInSight(layout(state).box, state.input);
    ring.setAttribute("visibility", known ? "visible" : "hidden");
    ring.setAttribute("cx", known ? px[state.input] : 0);
    ring.setAttribute("cy", known ? py[state.input] : 0);
    updateLegend(judged(state, view), view, payload.groups[state.colour]);
    axes.root.setAttribute("aria-label", cloudSummary(payload, state, view));
    zoom.update(state);
    lasso.update(state, view);
  }

  let legendKey = null;
  const cap = h("li", { class: "cap", "data-testid": "capped" }, term("at the cap", "cap"), h("span"));
  function updateLegend(judges, view, group) {
    const own = `${payload.models.indexOf(judges[0])} ${judges.length} ${group?.name}`;
    if (own !== legendKey) legend.replaceChildren(...(group ? groupLegend(group) : cloudLegend(payload, judges)), cap);
    legendKey = own;
    let capped = 0;
    for (const i of view.order) if (isCapped(payload, view.shown[0], view.first, i)) capped++;
    const share = view.order.length ? (100 * capped) / view.order.length : 0;
    cap.lastChild.textContent = `${share.toFixed(share < 10 ? 1 : 0)} %`;
  }

  const forget = () => (colours = {});
  return { element: host, tools, region: lasso.element, legend, over, update, forget, stop: size.stop, chart: () => axes.root, canvas };
}

/** Where aleatoric and epistemic uncertainty add up to ln K, the most there can be, as far as it is in sight. */
function capLine(classes, x, y, [left, right, low, high], box) {
  const cap = Math.log(classes);
  const [x1, x2] = [x(Math.max(left, cap - high)), x(Math.min(right, cap - low))];
  const [y1, y2] = [y(Math.min(high, cap - left)), y(Math.max(low, cap - right))];
  if (!(x2 > x1)) return [];
  const line = svg("line", { class: "diagonal cap", x1, y1, x2, y2, "data-testid": "cap-line" });
  // Above the line, where no input can be.
  const words = `cap: ln ${classes} = ${decimal(cap, 2)}`;
  const highest = y2 + ((y1 - y2) * Math.min(textWidth(words), x2 - x1)) / (x2 - x1);
  const label = svg("text", { class: "capname end", x: x2, y: Math.max(highest - 5, box.top + 10) }, words);
  return [line, label];
}

function groupLegend({ values }) {
  const item = (value, at) => h("li", null, h("i", { class: `key dot group${at % GROUP_COLOURS.length}` }), h("bdi", null, value));
  return values.slice(0, MOST_KEYS).map(item);
}

function cloudLegend(payload, judges) {
  const known = payload.labels && judges.some((model) => model.predicted);
  const own = judges[0] === payload.models[1] ? "model2" : "model1";
  const item = (mark, text) => h("li", null, h("i", { class: `key ${mark}` }), text);
  return [
    item(`dot ${own}`, known ? "right" : "input"),
    known ? item("dot alert", judges.length > 1 ? "either model wrong" : "wrong") : "",
    item("dot faint", "filtered out"),
    item("ringed", "chosen"),
  ];
}

function cloudSummary(payload, state, view) {
  const { aleatoric, epistemic } = view.shown[0];
  const at = view.first + state.input;
  const alpha = alphaText(payload.alphas[state.level]);
  const what =
    state.cloud === "models"
      ? `Epistemic uncertainty of ${payload.models[1].name} against ${payload.models[0].name}`
      : "Epistemic against aleatoric uncertainty";
  const capped = isCapped(payload, view.shown[0], view.first, state.input) ? ", at the cap" : "";
  const here = `aleatoric ${decimal(aleatoric[at])}, epistemic ${decimal(epistemic[at])} nats${capped}`;
  return [
    `${what} of ${plural(view.order.length, "matching input")}${alpha && ` at alpha ${alpha}`}.`,
    `${inputName(payload, state.input)}: ${here}.`,
    state.zoom && `Zoomed to ${state.zoom.split("_").map((x) => decimal(Number(x), 2)).join(", ")} (left, right, bottom, top).`,
    "The list has the same inputs.",
  ]
    .filter(Boolean)
    .join(" ");
}
