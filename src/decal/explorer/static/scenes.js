// Images and sentences: maps of pixels, and tokens coloured by width. All numbers are decal's (_scenes.py).

import { choice, h, mountPage, panel, select, setText, themeAround } from "./dom.js";
import { alphaText, count, inPercent, plural, rangeText } from "./format.js";
import { arrayReader, need, readHeader } from "./payload.js";

const TITLES = { image: "Image", prediction: "Prediction", width: "Width", possible: "Possible classes", errors: "Errors" };
const OKABE = ["#0072b2, #56b4e9", "#e69f00, #e69f00", "#009e73, #009e73", "#cc79a7, #cc79a7", "#56b4e9, #a6d854", "#d55e00, #d55e00", "#000000, #ffffff", "#5e3c99, #8a63ff"];
const ROUNDS = ["", ", white 55%", ", black 40%"]; // more classes than colours: paler, then darker
const MANY = 4; // pixels with so many possible classes, or more, have one colour
const VERDICTS = ["right", "wrong, truth possible", "truth missed", "not labelled"];
const VERDICT_COLOURS = ["color-mix(in srgb, var(--ink) 8%, var(--paper))", "var(--caught)", "var(--alert)", "var(--paper)"];
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/** Build the page in an element. @param {Uint8Array} bytes  the payload, not compressed */
export function mount(element, bytes, { address = false } = {}) {
  return mountPage(element, () => build(element, decodeScenes(bytes), address ? 1 : 2), address);
}

/** Bytes -> what is drawn, checked. */
function decodeScenes(bytes) {
  const [header, base] = readHeader(bytes);
  const { kind, scenes, classes, slots } = header;
  need(["image", "sentence"].includes(kind), "The data hold neither images nor sentences.");
  need(Array.isArray(scenes) && scenes.length > 0 && Array.isArray(classes), "The data hold no image or sentence.");
  const n = scenes.reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0);
  const read = arrayReader(bytes, header.arrays ?? {}, base);
  const of = (names, shape, optional) => Object.fromEntries(names.map((name) => [name, read(name, shape, { optional })]));
  let start = 0;
  const placed = scenes.map((scene, at) => {
    const channels = header.channels[at];
    const picture = channels ? read(`picture/${at}`, [...scene.shape, channels]) : null;
    const here = { ...scene, start, picture, channels };
    start += scene.shape.reduce((a, b) => a * b, 1);
    return here;
  });
  const ranges = kind === "sentence" ? of(["slots", "lower", "upper", "point"], [n, slots]) : {};
  return { ...header, scenes: placed, ...of(["prediction", "sure", "width", "set"], [n]), ...of(["labels", "verdicts"], [n], true), ranges };
}

function build(root, data, level) {
  root.dataset.theme = themeAround();
  const images = data.kind === "image";
  const kinds = ["image", "prediction", "width", "possible", "errors"].filter((kind) => (kind !== "image" || data.channels.length) && (kind !== "errors" || data.verdicts));
  const state = { scene: data.orders[0][1][0], at: 0, kind: "possible", colours: null };
  const detail = images ? createImage(data, state, kinds, level + 1, draw) : createToken(data, state, level + 1);
  const create = images ? imageCard : sentenceCard;
  const cards = data.scenes.map((scene, at) => create(data, scene, at, kinds, (change) => choose({ scene: at, ...change })));
  const list = h("div", { class: `scenes ${data.kind}s`, "data-testid": "scenes" });
  const order = select("Order", data.orders.map(([title], at) => [String(at), title]), (at) => sort(Number(at)), "scene-order");
  const body = h("div", { class: "body" }, panel("list", images ? "Images" : "Sentences", level + 1, h("div", { class: "order" }, order.element), !images && widthLegend(data), list), detail.element);
  root.replaceChildren(createHead(data, level), body);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", recolour);
  sort(0);
  state.at = mostTelling(data, data.scenes[state.scene]);
  recolour();
  return {
    destroy() {
      dark.removeEventListener("change", recolour);
      root.replaceChildren();
    },
  };

  function sort(at) {
    list.replaceChildren(...data.orders[at][1].map((i) => cards[i].element));
  }

  function choose(change) {
    const other = change.scene !== state.scene;
    Object.assign(state, change);
    if (change.at === undefined && other) state.at = mostTelling(data, data.scenes[state.scene]);
    draw();
    const box = detail.element.getBoundingClientRect();
    if (other && (box.bottom < 0 || box.top > innerHeight)) detail.element.scrollIntoView({ block: "start" });
  }

  function recolour() {
    state.colours = images ? coloursOf(root, data) : null;
    cards.forEach((card) => card.draw?.(state.colours));
    draw();
  }

  function draw() {
    cards.forEach(({ element, choose: mark }, at) => {
      element.classList.toggle("chosen", at === state.scene);
      mark?.(at === state.scene ? state.at : -1);
    });
    detail.update();
  }
}

/** The pixel or token to open with: the first missed one, or the first of the widest that is wrong, or of all. */
function mostTelling({ verdicts, width }, { start, shape }) {
  const size = shape.reduce((a, b) => a * b, 1);
  const rank = (i) => ([0, 200, 100][verdicts?.[i]] ?? 0) + width[i];
  let best = start;
  for (let i = start; i < start + size; i += 1) if (rank(i) > rank(best)) best = i;
  return best - start;
}

function createHead(data, level) {
  const alpha = data.alpha === null ? "" : `, α = ${alphaText(data.alpha)}`;
  const still = `This page has one level of caution${alpha}: of ${data.kind}s, all levels would be too large.`;
  const why = data.promise ? ": the prediction alone keeps the promise. For wider ones, promise fewer misses" : "";
  const points = data.widest ? "" : ` Ranges are points${why}.`;
  const shares = Object.entries(data.shares).map(([name, share]) => h("div", null, h("dt", null, name === "width" ? "widest range" : name), h("dd", null, inPercent(share, 1))));
  const promise = data.promise && h("output", { "data-testid": "promise", title: data.promise.text }, data.promise.brief.replace(/^./, (letter) => letter.toUpperCase()));
  const about = h("div", { class: "panel level", "data-testid": "level" }, h("div", null, promise, h("p", { class: "settled", "data-testid": "still" }, still + points)), h("dl", { class: "facts", "data-testid": "shares" }, shares));
  const partly = h("p", { class: "partly", "data-testid": "partly" }, data.partly);
  return h("div", null, h("div", { class: "header" }, h("div", { class: "names" }, h(`h${level}`, null, data.title), partly)), about);
}

/** "12 % wrong, 3 % missed" */
function sharesInWords({ shares }) {
  const { wrong, missed } = shares;
  return wrong === undefined ? `${inPercent(shares["one class left"])} one class left` : `${inPercent(wrong, 1)} wrong, ${inPercent(missed, 1)} missed`;
}

function imageCard(data, scene, at, kinds, onchoose) {
  const canvases = kinds.map((kind) => h("canvas", { width: scene.shape[1], height: scene.shape[0] }));
  const buttons = kinds.map((kind, k) => h("button", { type: "button", "aria-label": `${scene.name}, ${TITLES[kind].toLowerCase()}`, "data-testid": `map-${at}-${kind}`, onclick: () => onchoose({ kind }) }, canvases[k], h("span", null, TITLES[kind])));
  const element = h("div", { class: "scene", "data-testid": `scene-${at}` }, h("p", null, h("b", null, scene.name), ` ${sharesInWords(scene)}`), h("div", { class: "maps" }, buttons));
  const draw = (colours) => kinds.forEach((kind, k) => paint(canvases[k], data, scene, kind, colours));
  return { element, draw };
}

/** One image, enlarged: a map, the pixel that is pointed at, and what is possible there. */
function createImage(data, state, kinds, level, draw) {
  const title = h("b", { "data-testid": "scene-title" });
  const canvas = h("canvas", { tabindex: 0, role: "img", "data-testid": "enlarged", class: "enlarged" });
  const cross = h("i", { class: "cross" });
  const stage = h("div", { class: "stage" }, canvas, cross);
  const which = choice("Map", kinds.map((kind) => [kind, TITLES[kind]]), (kind) => { state.kind = kind; draw(); }, "kind");
  const place = h("p", { class: "settled", "data-testid": "place" });
  const said = h("p", { class: "verdict", "aria-live": "polite", "data-testid": "pixel" });
  const legend = h("ul", { class: "legend", "data-testid": "map-legend" });
  const hint = h("p", { class: "settled" }, "Point at a pixel, or move with the arrow keys.");
  const element = panel("detail", "Enlarged", level, null, which.element, stage, legend, h("p", null, title, " "), place, said, hint);
  const move = (row, column) => {
    const [tall, wide] = data.scenes[state.scene].shape;
    const inside = (x, most) => Math.max(0, Math.min(most - 1, x));
    state.at = inside(row, tall) * wide + inside(column, wide);
    tell();
  };
  const point = (event) => {
    const [tall, wide] = data.scenes[state.scene].shape;
    const box = canvas.getBoundingClientRect();
    move(Math.floor(((event.clientY - box.top) / box.height) * tall), Math.floor(((event.clientX - box.left) / box.width) * wide));
  };
  for (const kind of ["pointermove", "pointerdown"]) canvas.addEventListener(kind, point);
  canvas.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    const wide = data.scenes[state.scene].shape[1];
    move(Math.floor(state.at / wide) + step[0], (state.at % wide) + step[1]);
    event.preventDefault();
  });

  function update() {
    const scene = data.scenes[state.scene];
    which.show(state.kind);
    setText(title, `${scene.name}: ${sharesInWords(scene)}`);
    canvas.setAttribute("aria-label", `${TITLES[state.kind]} of ${scene.name}`);
    [canvas.height, canvas.width] = scene.shape;
    stage.style.setProperty("--ratio", canvas.width / canvas.height);
    paint(canvas, data, scene, state.kind, state.colours);
    legend.replaceChildren(...legendOf(data, state));
    tell();
  }
  function tell() {
    const scene = data.scenes[state.scene];
    const [tall, wide] = scene.shape;
    const [row, column] = [Math.floor(state.at / wide), state.at % wide];
    for (const [name, share] of [["--x", (column + 0.5) / wide], ["--y", (row + 0.5) / tall]]) cross.style.setProperty(name, share);
    setText(place, `Row ${row}, column ${column}`);
    setText(said, inputInWords(data, scene.start + state.at));
  }
  return { element, update };
}

/** What is predicted of a pixel or token, what is possible, and what it is. */
function inputInWords({ classes, prediction, sure, set, sets, labels, verdicts }, i) {
  const first = `Prediction: ${classes[prediction[i]]}, ${sure[i]}\u00a0%. Possible: ${sets[set[i]][0]}.`;
  if (!labels || verdicts[i] === 3) return first;
  return `${first} It is ${classes[labels[i]]}${["", ": the prediction is wrong, and the right class is kept", ": a miss"][verdicts[i]]}.`;
}

function legendItem(words, property, value, kind = "") {
  const key = h("i", { class: `key swatch ${kind}` });
  key.style.setProperty(property, value);
  return h("li", null, key, h("bdi", null, words));
}

function legendOf(data, { kind, colours }) {
  const item = (rgb, words) => legendItem(words, "background", `rgb(${rgb.join(" ")})`);
  if (kind === "prediction") return data.legend.map((k) => item(colours.prediction[k], data.classes[k])).concat(data.classes.length > data.legend.length ? [h("li", null, "and others")] : []);
  if (kind === "width") return [0, 0.5, 1].map((share) => item(colours.width[Math.round(share * data.widest)], inPercent((share * data.widest) / 100)));
  if (kind === "possible") return colours.possible.map((rgb, at) => item(rgb, at + 1 < MANY ? plural(at + 1, "class") : `${MANY} or more`));
  return kind === "errors" ? colours.errors.map((rgb, at) => item(rgb, VERDICTS[at])) : [];
}

/** [red, green, blue] of everything that maps show, as the theme has it. */
function coloursOf(root, { classes, widest }) {
  const brush = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const probe = h("i", { hidden: true });
  root.append(probe);
  const rgb = (css) => {
    probe.style.color = css;
    brush.fillStyle = getComputedStyle(probe).color;
    brush.fillRect(0, 0, 1, 1);
    return [...brush.getImageData(0, 0, 1, 1).data.slice(0, 3)];
  };
  const ramp = (share) => rgb(`color-mix(in srgb, var(--model1) ${100 * (0.08 + 0.92 * share)}%, var(--paper))`);
  let used = 0;
  const prediction = classes.map((name) => {
    if (name.toLowerCase() === "background") return rgb("var(--rule)");
    const [round, at] = [Math.floor(used / OKABE.length) % ROUNDS.length, used++ % OKABE.length];
    return rgb(round ? `color-mix(in srgb, light-dark(${OKABE[at]})${ROUNDS[round]})` : `light-dark(${OKABE[at]})`);
  });
  const found = {
    prediction,
    width: Array.from({ length: widest + 1 }, (_, at) => ramp(at / Math.max(widest, 1))),
    possible: Array.from({ length: MANY }, (_, at) => ramp(at / (MANY - 1))),
    errors: VERDICT_COLOURS.map(rgb),
  };
  probe.remove();
  return found;
}

/** One map of an image, a pixel of the canvas for each. */
function paint(canvas, data, { start, shape: [tall, wide], picture, channels }, kind, colours) {
  const brush = canvas.getContext("2d");
  const made = brush.createImageData(wide, tall);
  const colourOf = {
    prediction: (i) => colours.prediction[data.prediction[i]],
    width: (i) => colours.width[data.width[i]],
    possible: (i) => colours.possible[Math.min(Math.max(data.sets[data.set[i]][1], 1), MANY) - 1],
    errors: (i) => colours.errors[data.verdicts[i]],
    image: (i) => {
      const at = (i - start) * channels;
      return channels === 1 ? [picture[at], picture[at], picture[at]] : picture.subarray(at, at + channels);
    },
  }[kind];
  for (let at = 0; at < tall * wide; at += 1) {
    made.data[4 * at + 3] = 255;
    made.data.set(colourOf(start + at), 4 * at);
  }
  brush.putImageData(made, 0, 0);
}

/** One sentence: its tokens on a ground as strong as their widest range, and what is possible of doubtful ones. */
function sentenceCard(data, scene, at, _, onchoose) {
  const words = scene.tokens.map((token, t) => {
    const i = scene.start + t;
    const [said, size] = data.sets[data.set[i]];
    const verdict = data.verdicts?.[i] ?? 0;
    const kind = ["", "caught", "missed", ""][verdict];
    const under = size > 1 || kind ? said : "";
    const truth = kind ? `is ${data.classes[data.labels[i]]}` : "";
    const about = { type: "button", class: `token ${kind}`, title: inputInWords(data, i), "data-testid": `token-${at}-${t}`, onclick: () => onchoose({ at: t }) };
    const element = h("button", about, h("bdi", null, token), under && h("small", null, under), truth && h("small", { class: "truth" }, truth));
    element.style.setProperty("--share", data.width[i] / Math.max(data.widest, 1));
    return element;
  });
  const element = h("div", { class: "scene", "data-testid": `scene-${at}` }, h("p", null, h("b", null, scene.name), ` ${sharesInWords(scene)}`), h("div", { class: "tokens", dir: "auto" }, words));
  return { element, choose: (t) => words.forEach((word, k) => word.setAttribute("aria-pressed", String(k === t))) };
}

/** The colours of tokens. */
function widthLegend(data) {
  const item = (share, words) => legendItem(words, "--share", share, "shade");
  const items = [item(0, "certain"), item(1, `widest range ${data.widest}\u00a0%`)];
  if (data.verdicts) items.push(h("li", null, h("i", { class: "key line caught" }), VERDICTS[1]), h("li", null, h("i", { class: "key line missed" }), VERDICTS[2]));
  return h("ul", { class: "legend" }, items);
}

/** One token: its most plausible classes and their ranges. */
function createToken(data, state, level) {
  const word = h("p", { class: "text", "data-testid": "token", dir: "auto" });
  const said = h("p", { class: "verdict", "aria-live": "polite", "data-testid": "pixel" });
  const rows = h("tbody");
  const head = ["Class", "The data allow", h("span", { class: "unseen" }, "in percent")].map((name) => h("th", { scope: "col" }, name));
  const table = h("table", { class: "plain ranges", "data-testid": "ranges" }, h("thead", null, h("tr", null, head)), rows);
  const others = h("p", { class: "settled" });
  const element = panel("detail", "One token", level, null, word, said, table, others);
  function update() {
    const scene = data.scenes[state.scene];
    const i = scene.start + state.at;
    setText(word, scene.tokens[state.at]);
    setText(said, inputInWords(data, i));
    const { slots, lower, upper, point } = data.ranges;
    const line = (s) => {
      const bar = h("span", { class: "range-bar", "aria-hidden": "true" }, h("i"), h("s"));
      for (const [name, value] of [["--low", lower[s]], ["--high", upper[s]], ["--tick", point[s]]]) bar.style.setProperty(name, value);
      const name = data.classes[slots[s]] + (data.labels && data.verdicts[i] !== 3 && data.labels[i] === slots[s] ? " ✓" : "");
      return h("tr", null, h("th", { scope: "row" }, name), h("td", null, bar), h("td", { class: "numeric" }, rangeText(lower[s], upper[s])));
    };
    rows.replaceChildren(...Array.from({ length: data.slots }, (_, s) => line(i * data.slots + s)));
    const left = data.classes.length - data.slots;
    setText(others, left > 0 ? `${count(left)} other classes are less plausible.` : "");
  }
  return { element, update };
}
