// The numbers of one input, and what each decision rule says of it, a column per model.

import { h } from "./dom.js";
import { decimal } from "./format.js";
import { ruleSays } from "./slots.js";
import { TERMS } from "./terms.js";
import { isCapped, valueOf } from "./view.js";

const MOST_NAMES = 8; // classes of a decision set that are named

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
  const first = state.level * payload.count;
  const at = first + state.input;
  const row = (name, unit, value) => {
    const key = name === "Decision set" ? "size" : name.toLowerCase();
    const head = h("th", { scope: "row", title: TERMS[key]?.join(" ") }, name, unit && h("small", null, ` ${unit}`));
    return h("tr", null, head, payload.models.map((model) => h("td", { class: "numeric" }, value(model))));
  };
  const value = (key) => (model) => decimal(valueOf(payload, model, state.rule, key, first, state.input));
  const yes = (key) => (model) => (model[key] ? (model[key][at] ? "yes" : "no") : "–");
  const rows = [
    row("Epistemic", "nats", value("epistemic")),
    row("Aleatoric", "nats", value("aleatoric")),
    row("Total", "nats", (model) => {
      const capped = isCapped(payload, model, first, state.input);
      return [value("total")(model), capped && h("small", { "data-testid": "at-cap" }, " at the cap")];
    }),
    row("Decision set", "classes", (model) => String(model.size[state.rule][at])),
  ];
  const some = (key) => payload.models.some((model) => model[key]);
  if (some("covered")) rows.push(row("Truth inside the intervals", "", yes("covered")));
  if (some("hit")) rows.push(row("Label E-admissible", "", yes("hit")));
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
