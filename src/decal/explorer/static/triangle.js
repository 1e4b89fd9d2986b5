// Three classes in a triangle: every distribution is a point, the plausible ones a polygon.

import { chartRoot, colourOf, fitText, h, select, setText, svg, watchSize } from "./dom.js";
import { diamond } from "./axes.js";
import { conditionalCorners } from "./corners.js";
import { className, decimal, inputName } from "./format.js";
import { endsNow, rankedSlots } from "./slots.js";
import { errorOf } from "./view.js";
import { splat } from "./splat.js";

const SIDE_MOST = 330; // pixels
const SIN60 = Math.sqrt(3) / 2;
const FOUND_WITHIN = 12; // pixels within which a click finds another input

/** Which three classes are shown: those chosen, else the first three, or the input's most plausible. */
export function threeOf(payload, { three, input }) {
  const K = payload.models[0].classes.length;
  if (three) return three.split(",").map(Number);
  if (K === 3) return [0, 1, 2];
  const ranked = rankedSlots(payload, input).slice(0, 3);
  return ranked.map((slot) => payload.slotClass[input * payload.slots + slot]).sort((a, b) => a - b);
}

/** The triangle of the chosen input; null unless all classes are stored, three at least. */
export function createTriangle(payload, store) {
  const [model] = payload.models;
  const K = model.classes.length;
  if (K < 3 || payload.rest) return null;
  const canvas = h("canvas", { "aria-hidden": "true" });
  const host = h("div", { class: "plot triangle", "data-testid": "triangle-host" }, canvas);
  const size = watchSize(host, () => store.refresh());
  const note = h("p", { class: "sentence", "data-testid": "triangle-words" });
  const classes = model.classes.map((_, k) => [String(k), className(model, k)]);
  const choose = (at) => (value) => {
    const three = threeOf(payload, store.state);
    const taken = three.indexOf(Number(value));
    if (taken >= 0) three[taken] = three[at]; // the two change places
    three[at] = Number(value);
    store.set({ three: three.join(",") });
  };
  const corners = ["Left", "Right", "Top"];
  const lists = K > 3 ? corners.map((name, at) => select(name, classes, choose(at), `corner-${at}`)) : [];
  const element = h("div", null, lists.length > 0 && h("div", { class: "corners" }, lists.map((list) => list.element)), host, note);
  let drawn = null;
  let painted = "";
  let colours = { theme: null };
  let places = { px: new Float32Array(payload.count), py: new Float32Array(payload.count) };

  function update(state, view) {
    if (!size.width) return;
    const three = threeOf(payload, state);
    lists.forEach(({ list }, at) => (list.value = String(three[at])));
    const side = Math.min(size.width - 70, SIDE_MOST);
    const left = (size.width - side) / 2;
    const bottom = 26 + side * SIN60;
    const at = ([a, b, c]) => [left + side * (b + c / 2) + 0 * a, bottom - side * SIN60 * c];
    const height = bottom + 26;
    const theme = host.closest(".decal")?.dataset.theme + matchMedia("(prefers-color-scheme: dark)").matches;
    if (colours.theme !== theme) colours = { theme, all: ["--faint", "--model1", "--alert"].map((name) => colourOf(host, name)) };
    // The points stay where they are while alpha moves, unless a filter depends on it.
    const filtered = view.order.length < payload.count ? JSON.stringify({ ...state, input: 0, live: 0 }) : "";
    const key = [three, size.width, theme, filtered].join(" ");
    if (key !== painted) {
      places = placesOf(payload, model, three, at, places);
      paint(canvas, payload, model, view, places, size.width, height, colours.all);
      painted = key;
    }
    const polygons = payload.models.map((each) => polygonOf(payload, each, state, three));
    const words = inWords(payload, model, state, three, polygons[0]);
    drawn = drawTriangle(payload, state, three, { at, left, side, bottom, height, width: size.width, polygons, words });
    host.querySelector("svg")?.remove();
    host.append(drawn);
    setText(note, words);
  }

  const nearest = (event) => {
    const { left, top } = host.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    let [best, least] = [-1, FOUND_WITHIN ** 2];
    for (let i = 0; i < payload.count; i++) {
      const distance = (places.px[i] - x) ** 2 + (places.py[i] - y) ** 2;
      if (distance < least) [best, least] = [i, distance];
    }
    return best;
  };
  host.addEventListener("pointermove", (event) => {
    const i = nearest(event);
    host.classList.toggle("pointing", i >= 0);
    host.title = i >= 0 ? inputName(payload, i) : "";
  });
  host.addEventListener("click", (event) => {
    const i = nearest(event);
    if (i >= 0) store.set({ input: i });
  });
  return { element, update, stop: size.stop, drawn: () => drawn };
}

/** The polygon of a model's plausible distributions of the three classes, conditional on them. */
export function polygonOf(payload, model, state, three) {
  const { input, live } = state;
  const slotOf = (k) => payload.slotClass.subarray(input * payload.slots, (input + 1) * payload.slots).indexOf(k);
  const ends = three.map((k) => endsNow(payload, model, { ...state, live }, slotOf(k)));
  if (ends.some(([low]) => Number.isNaN(low))) return [];
  const others = [0, 0];
  for (let slot = 0; slot < payload.slots; slot++) {
    if (three.includes(payload.slotClass[input * payload.slots + slot])) continue;
    const [low, high] = endsNow(payload, model, state, slot);
    others[0] += low;
    others[1] += high;
  }
  return conditionalCorners(ends, [others[0], Math.min(others[1], 1)]);
}

function placesOf(payload, model, three, at, { px, py }) {
  const { point } = model;
  for (let i = 0; i < payload.count; i++) {
    const row = i * payload.width;
    const [a, b, c] = point ? [point[row + three[0]], point[row + three[1]], point[row + three[2]]] : [NaN, NaN, NaN];
    const sum = a + b + c;
    [px[i], py[i]] = at([a / sum, b / sum, c / sum]);
  }
  return { px, py };
}

/** All other inputs, where the model puts them. */
function paint(canvas, payload, model, view, { px, py }, width, height, colours) {
  const scale = window.devicePixelRatio || 1;
  Object.assign(canvas, { width: width * scale, height: height * scale });
  canvas.style.height = `${height}px`;
  if (!model.point) return;
  const layers = colours.map((colour) => ({
    colour,
    xs: new Float32Array(payload.count),
    ys: new Float32Array(payload.count),
    count: 0,
  }));
  for (let i = 0; i < payload.count; i++) {
    const layer = layers[!view.matches[i] ? 0 : errorOf(payload, model, i) === 1 ? 2 : 1];
    layer.xs[layer.count] = px[i] * scale;
    layer.ys[layer.count++] = py[i] * scale;
  }
  splat(canvas.getContext("2d"), layers, 1.6 * scale);
}

function drawTriangle(payload, state, three, { at, left, side, bottom, height, width, polygons, words }) {
  const root = chartRoot(width, height, words, "triangle");
  const path = (points) => `M${points.map((p) => at(p).map((x) => x.toFixed(3)).join(",")).join("L")}Z`;
  const middle = [1 / 3, 1 / 3, 1 / 3];
  const vertex = (k) => [0, 1, 2].map((j) => Number(j === k));
  const halfway = (k) => [0, 1, 2].map((j) => (j === k ? 0 : 0.5));
  // Where each class is the most probable of the three: what 0/1 loss decides.
  [0, 1, 2].forEach((k) => {
    const region = [vertex(k), halfway((k + 2) % 3), middle, halfway((k + 1) % 3)];
    root.append(svg("path", { class: `region region${k}`, d: path(region) }));
  });
  root.append(svg("path", { class: "outline", d: path([0, 1, 2].map(vertex)) }));
  polygons.forEach((corners, which) => {
    if (!corners.length) return;
    root.append(svg("path", { class: `credal model${which + 1}`, d: path(corners), "data-testid": "polygon" }));
  });
  const conditional = (values) => {
    const p = three.map((k) => values[state.input * payload.width + k]);
    const sum = p[0] + p[1] + p[2];
    return sum > 0 ? at(p.map((x) => x / sum)) : null;
  };
  payload.models.forEach((model, which) => {
    const place = model.point && conditional(model.point);
    if (place) root.append(svg("circle", { class: `point model${which + 1}`, cx: place[0], cy: place[1], r: 5 }));
  });
  const truth = payload.truth && conditional(payload.truth);
  if (truth) root.append(...diamond(...truth, 6));
  const label = payload.labels?.[state.input];
  const name = (k, x, y, anchor, room) => {
    const full = className(payload.models[0], three[k]);
    const bold = three[k] === label;
    const text = { class: bold ? "spoke label" : "spoke", x, y, "text-anchor": anchor };
    return svg("text", text, fitText(full, room, 12, bold ? 600 : 400), svg("title", null, full));
  };
  const half = width / 2 - 8;
  root.append(name(0, Math.max(left - 30, 0), bottom + 18, "start", half));
  root.append(name(1, Math.min(left + side + 30, width), bottom + 18, "end", half));
  root.append(name(2, width / 2, 14, "middle", width - 8));
  return root;
}

function inWords(payload, model, state, three, corners) {
  const names = three.map((k) => className(model, k));
  const some = model.classes.length > 3 ? `, given that it is one of ${names.join(", ")}` : "";
  if (!corners.length) return `No distribution is plausible${some}.`;
  const range = (axis) => [Math.min, Math.max].map((of) => decimal(of(...corners.map((p) => p[axis])), 2)).join(" to ");
  return `Plausible${some}: ${names.map((name, axis) => `${name} ${range(axis)}`).join(", ")}.`;
}
