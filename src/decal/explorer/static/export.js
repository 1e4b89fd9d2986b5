// The view as a picture, and the listed inputs as a table for other programs.

import { svg, textWidth } from "./dom.js";
import { diamond } from "./axes.js";
import { alphaText, className, count, decimal, inputName, slotName } from "./format.js";
import { actionName, canDecide, decider } from "./costs.js";
import { listedSlots } from "./intervals.js";
import { endsOf, ruleSays } from "./slots.js";
import { errorOf } from "./view.js";

const LINES = ["stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "stroke-opacity"];
const LETTERS = ["font-family", "font-size", "font-weight", "text-anchor", "paint-order"];
const INLINED = ["fill", "fill-opacity", "opacity", "visibility", ...LINES, ...LETTERS];
const MARGIN = 32;
const GAP_BETWEEN = 40;
const SHEET_WIDTH = 1400;

/** A copy of a chart that looks the same without the style sheet. */
function standalone(chart) {
  const copy = chart.cloneNode(true);
  const originals = [chart, ...chart.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, at) => {
    const style = getComputedStyle(originals[at]);
    for (const name of INLINED) element.setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "data-testid", "role", "aria-label"]) element.removeAttribute(name);
  });
  return copy;
}

/**
 * One sheet with a title and all charts, left to right and top to bottom.
 * @param {object} content  title, line and legend above; colours and font; and each chart with its title, its root,
 *   and for the cloud the canvas and the mark over it
 */
export function sheet({ title, line, legend, charts, ink, paper, font }) {
  const letters = { fill: ink, "font-family": font };
  const text = (words, x, y, size, weight) =>
    svg("text", { x, y, ...letters, "font-size": size, "font-weight": weight }, words);
  const root = svg("svg", { xmlns: "http://www.w3.org/2000/svg" });
  const background = svg("rect", { fill: paper });
  root.append(background, text(title, MARGIN, MARGIN + 16, 22, 600), text(line, MARGIN, MARGIN + 42, 13, 400));
  let x = MARGIN;
  for (const item of legend) {
    root.append(legendMark(item, x + 5, MARGIN + 62), text(item.words, x + 16, MARGIN + 66, 12.5, 400));
    x += 16 + textWidth(item.words, 12.5) + 24;
  }
  let [y, tallest, widest] = [MARGIN + 110, 0, Math.max(x, textWidth(title, 22, 600) + 2 * MARGIN)];
  x = MARGIN;
  for (const chart of charts) {
    const { width, height } = chart.root.viewBox.baseVal;
    if (x > MARGIN && x + width + MARGIN > SHEET_WIDTH) [x, y, tallest] = [MARGIN, y + tallest + GAP_BETWEEN, 0];
    const copy = standalone(chart.root);
    Object.entries({ x, y: y + 12, width, height }).forEach(([name, value]) => copy.setAttribute(name, value));
    if (chart.canvas) copy.append(svg("image", { href: chart.canvas.toDataURL("image/png"), width, height }));
    if (chart.over) copy.append(...standalone(chart.over).children);
    root.append(text(chart.title, x, y, 14, 600), copy);
    widest = Math.max(widest, x + width + MARGIN);
    [x, tallest] = [x + width + GAP_BETWEEN, Math.max(tallest, height + 24)];
  }
  const [width, height] = [Math.ceil(widest), Math.ceil(y + tallest + MARGIN)];
  for (const [name, value] of Object.entries({ width, height })) {
    root.setAttribute(name, value);
    background.setAttribute(name, value);
  }
  root.setAttribute("viewBox", `0 0 ${width} ${height}`);
  return root;
}

function legendMark({ colour, opacity = 1, open = false }, x, y) {
  if (!open) return svg("circle", { cx: x, cy: y, r: 5, fill: colour, "fill-opacity": opacity });
  const [, mark] = diamond(x, y);
  for (const [name, value] of Object.entries({ fill: "none", stroke: colour, "stroke-width": 1.8 }))
    mark.setAttribute(name, value);
  mark.removeAttribute("class");
  return mark;
}

/** @returns {Blob} */
export function asSvg(root) {
  return new Blob([new XMLSerializer().serializeToString(root)], { type: "image/svg+xml" });
}

/** @returns {Promise<Blob>} twice as fine as the screen's pixels */
export async function asPng(root) {
  const address = URL.createObjectURL(asSvg(root));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * image.width, 2 * image.height];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done) => canvas.toBlob(done, "image/png"));
  } finally {
    URL.revokeObjectURL(address);
  }
}

/** A cell of text: quoted, and never read as a formula by a spreadsheet. */
export function csvText(text) {
  const harmless = /^[\s]*[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return `"${harmless.replaceAll('"', '""')}"`;
}

function csvNumber(x) {
  return Number.isFinite(x) ? String(Number(x.toPrecision(7))) : "";
}

/** The listed inputs, in their order, with their numbers at the current level. @returns {Blob} */
export function asCsv(payload, state, view) {
  const own = ["row", payload.names && "name", payload.texts && "text", "alpha", payload.labels && "label"];
  const several = payload.models.length > 1;
  const columns = payload.models.flatMap((model) =>
    modelColumns(payload, model).map((name) => (several ? `${model.name}: ${name}` : name)),
  );
  const decideOf = canDecide(payload) ? decider(payload, payload.models[0], state) : null;
  const decided = decideOf ? ["decision with costs", "its worst case", "its best case"] : [];
  const header = [...own.filter(Boolean), ...columns, ...decided];
  const lines = [header.map(csvText).join(",")];
  for (const i of view.order) {
    const cells = [payload.rows[i]];
    if (payload.names) cells.push(csvText(inputName(payload, i)));
    if (payload.texts) cells.push(csvText(payload.texts[i]));
    cells.push(alphaText(payload.alphas[state.level]));
    if (payload.labels) cells.push(csvText(className(payload.models[0], payload.labels[i])));
    for (const model of payload.models) cells.push(...modelCells(payload, model, state, i));
    if (decideOf) cells.push(...decisionCells(payload.models[0], decideOf(i)));
    lines.push(cells.join(","));
  }
  return new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv;charset=utf-8" });
}

/** What is decided with costs, and the utilities of the first action kept. */
function decisionCells(model, found) {
  if (!found) return ["", "", ""];
  const { worst, best, kept } = found;
  return [csvText(kept.map((a) => actionName(model, a)).join("; ")), worst[kept[0]], best[kept[0]]].map(String);
}

function modelColumns(payload, model) {
  const numbers = ["epistemic", "aleatoric", "total"];
  const judged = [
    model.predicted && "prediction",
    model.predicted && payload.labels && "error",
    model.covered && "truth inside",
    model.hit && "label E-admissible",
  ];
  const sizes = payload.setRules.map((rule) => `${rule.title} size`);
  const bounds = payload.rest ? ["intervals"] : model.classes.flatMap((name) => [`lower ${name}`, `upper ${name}`]);
  return [...judged.filter(Boolean), ...numbers, ...sizes, ...payload.rules.map((rule) => rule.title), ...bounds];
}

function modelCells(payload, model, state, i) {
  const at = state.level * payload.count + i;
  const cells = [];
  if (model.predicted) cells.push(csvText(className(model, model.predicted[i])));
  if (model.predicted && payload.labels) cells.push(errorOf(payload, model, i));
  if (model.covered) cells.push(model.covered[at]);
  if (model.hit) cells.push(model.hit[at]);
  for (const key of ["epistemic", "aleatoric", "total"]) cells.push(csvNumber(model[key][at]));
  for (const rule of payload.setRules) cells.push(model.size[rule.key][at]);
  for (const rule of payload.rules) {
    const { classes, more } = ruleSays(payload, model, rule, state.level, i);
    const names = classes.map(({ name }) => name);
    if (more > 0) names.push(`+${count(more)} more`);
    cells.push(csvText(names.join("; ")));
  }
  return [...cells, ...boundCells(payload, model, state, i)];
}

/** Every class has its columns; where only some are stored, one cell says which and what. */
function boundCells(payload, model, state, i) {
  const slots = listedSlots(payload, i, true);
  if (payload.rest) return [csvText(slots.map((slot) => slotInWords(payload, model, state, i, slot)).join("; "))];
  slots.sort((a, b) => a - b);
  return slots.flatMap((slot) => endsOf(payload, model, state.level, i, slot).map(csvNumber));
}

function slotInWords(payload, model, state, i, slot) {
  const [low, high] = endsOf(payload, model, state.level, i, slot);
  return `${slotName(payload, model, i, slot)} ${decimal(low)} to ${decimal(high)}`;
}

/** Hand a file to the reader. */
export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
