// How good the sets are in each group: a table with a row for every group.

import { h, panel, select } from "./dom.js";
import { count, decimal, inPercent } from "./format.js";
import { term } from "./terms.js";
import { shownModel } from "./view.js";

const MEANS = [
  ["accuracy", "Model right", (x) => inPercent(x, 1)],
  ["missed", "True class missed", (x) => inPercent(x, 1)],
  ["single", "One class left", (x) => inPercent(x, 1)],
  ["coverage", "Truth inside", (x) => inPercent(x, 1)],
  ["size", "Classes left", (x) => decimal(x, 2)],
  ["efficiency", "Average range", (x) => inPercent(1 - x, 1)],
];

/** The panel; null where there are no groups. */
export function createGroups(payload, store, level) {
  if (!payload.grouped.length) return null;
  const titles = payload.grouped.map(({ name }, at) => [String(at), at < payload.groups.length ? name : "true class"]);
  const by = select("Group by", titles, (value) => store.set({ groupBy: Number(value) }), "group-by");
  const host = h("div", { class: "group-table", role: "group", "aria-label": "Groups", tabindex: "0", "data-testid": "group-table" });
  const element = panel("groups", "Is it as good in every group?", level, titles.length > 1 && by.element, host);
  let key = "";
  function update(state) {
    by.list.value = String(state.groupBy);
    const now = [state.level, state.groupBy, state.show, state.group].join(" ");
    if (now === key) return;
    key = now;
    host.replaceChildren(groupTable(payload, state, store));
  }
  return { element, update };
}

function groupTable(payload, state, store) {
  const { values } = payload.grouped[state.groupBy];
  const rows = shownModel(payload, state).groups[state.groupBy];
  const kinds = MEANS.filter(([kind]) => rows.some((row) => row[kind]));
  const heads = ["Group", "Inputs", ...kinds.map(([kind, title]) => (kind === "accuracy" ? title : term(title, kind, `group-${kind}`)))];
  const given = state.groupBy < payload.groups.length;
  const line = (value, at) => {
    const name = `${state.groupBy}:${at}`;
    const keep = () => store.set({ group: state.group === name ? null : name });
    const label = given ? h("button", { type: "button", class: "link", "aria-pressed": String(state.group === name), onclick: keep }, value) : value;
    const means = kinds.map(([kind, , write]) => h("td", { class: "numeric", "data-kind": kind }, rows[at].inputs ? write(rows[at][kind][state.level]) : "–"));
    return h("tr", { "data-group": at }, h("th", { scope: "row" }, h("bdi", null, label)), h("td", { class: "numeric" }, count(rows[at].inputs)), means);
  };
  return h("table", { class: "plain" }, h("thead", null, h("tr", null, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", null, values.map(line)));
}
