// What one input comes to: a plain sentence; and, folded away, what each rule decides and its uncertainties.

import { h } from "./dom.js";
import { className, decimal, inPercent, rangeText } from "./format.js";
import { endsOf, possibleInWords, ruleSays } from "./slots.js";
import { TERMS } from "./terms.js";

const MOST_NAMES = 8; // classes of a decision that are named

/** Why an input is settled or not, in plain words. */
export function sentenceOf(payload, model, { level, input: i }) {
  const size = model.size.possible[level * payload.count + i];
  if (!size) return "";
  const who = payload.alphas[0] === null ? "The set allows" : "Models that fit the labelled data well say";
  const k = model.said?.[i];
  const slot = payload.slotClass.subarray(i * payload.slots, (i + 1) * payload.slots).indexOf(k);
  const says = k === undefined ? "" : `The model says ${className(model, k)}, ${inPercent(model.sure[i])}. `;
  const allowed = slot < 0 ? "" : `${who} ${rangeText(...endsOf(payload, model, level, i, slot)).replace("–", "\u2060–\u2060")}. `;
  const left = `${possibleInWords(payload, model, level, i, "and")} ${size > 1 ? "are" : "is"} possible`;
  const what = size > 1 ? `${left}: ask a person. ` : `Only ${left}: one class is left. `;
  return says + allowed + what + truthOf(payload, model, level, i);
}

/** What it really is, and who knew. */
function truthOf(payload, model, level, i) {
  if (!payload.labels) return "";
  const label = payload.labels[i];
  const name = className(payload.models[0], label);
  const wrong = model.said && model.said[i] !== label;
  if (!model.hit[level * payload.count + i]) return `It is ${name}: a miss.`;
  return `It is ${name}${wrong ? ": the model is wrong, and the right class is kept" : ""}.`;
}

/** A table with a column per model; its head is not seen where there is one model only. */
function modelTable(payload, title, rows) {
  const several = payload.models.length > 1;
  const name = (model, at) =>
    h("th", { scope: "col" }, h("i", { class: `key bar model${at + 1}` }), h("bdi", null, model.name));
  const heads = h("tr", null, h("th", { scope: "col" }, title), payload.models.map(name));
  const head = h("thead", { class: several ? null : "unseen" }, heads);
  return h("table", { class: several ? "plain several" : "plain" }, head, h("tbody", null, rows));
}

export function numbersTable(payload, state) {
  const at = state.level * payload.count + state.input;
  const row = (name, unit, value) => {
    const head = h("th", { scope: "row", title: TERMS[name.toLowerCase()]?.join(" ") }, name, unit && h("small", null, ` ${unit}`));
    return h("tr", null, head, payload.models.map((model) => h("td", { class: "numeric" }, value(model))));
  };
  const some = (key) => payload.models.some((model) => model[key]);
  const rows = ["Epistemic", "Aleatoric", "Total"].map((name) => row(name, "nats", (model) => decimal(model[name.toLowerCase()][at])));
  if (some("covered")) rows.push(row("Truth inside the ranges", "", ({ covered }) => (covered ? (covered[at] ? "yes" : "no") : "–")));
  return modelTable(payload, "Number", rows);
}

export function rulesTable(payload, state) {
  const rows = payload.rules.map((rule) => {
    const head = h("th", { scope: "row", title: rule.meaning }, rule.title);
    const cells = payload.models.map((model) => ruleCell(payload, state, model, rule));
    return h("tr", { "data-testid": `rule-${rule.key}` }, head, cells);
  });
  return modelTable(payload, "Rule", rows);
}

/** The classes that a rule says; the label stands out. */
function ruleCell(payload, state, model, rule) {
  const label = payload.labels?.[state.input];
  const { classes, more } = ruleSays(payload, model, rule, state.level, state.input);
  const hidden = Math.max(0, classes.length - MOST_NAMES) + more;
  const chips = classes
    .slice(0, MOST_NAMES)
    .map(({ k, name }) => h("span", { class: k === label ? "chip label" : "chip", title: name }, name));
  if (hidden > 0) chips.push(h("span", { class: "chip more" }, `+ ${hidden} more`));
  return h("td", null, chips.length ? chips : "–");
}
