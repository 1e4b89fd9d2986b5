// The listed inputs as a table for other programs: the columns, rows and classes of decal's report.

import { className, inputName } from "./format.js";
import { ruleSays } from "./slots.js";
import { isForPerson } from "./view.js";

/** A text that no spreadsheet takes for a formula. */
export function csvText(text) {
  const harmless = /^[\s]*[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return `"${harmless.replaceAll('"', '""')}"`;
}

function csvNumber(x) {
  return Number.isFinite(x) ? String(Number(x.toPrecision(7))) : "";
}

/** The listed inputs, in the order of their rows, at the current level. @returns {Blob} */
export function asCsv(payload, state, { order, model, first }) {
  const { names, texts, labels } = payload;
  const answers = model.predicted ? ["prediction", "possible", "lower", "upper"] : ["possible"];
  const heads = ["row", names && "name", texts && "text", labels && "label", ...answers, "check"].filter(Boolean);
  const line = (i) => {
    const own = [names && inputName(payload, i), texts?.[i], labels && className(payload.models[0], labels[i])];
    const { classes, more } = ruleSays(payload, model, payload.rules[0], state.level, i);
    const possible = [...classes.map(({ name }) => name), more > 0 && `${more} more`].filter(Boolean).join(" | ");
    return [
      payload.rows[i],
      ...own.filter((text) => text !== null && text !== undefined).map(csvText),
      ...(model.predicted ? [csvText(className(model, model.predicted[i]))] : []),
      csvText(possible),
      ...(model.predicted ? [csvNumber(model.least[first + i]), csvNumber(model.most[first + i])] : []),
      isForPerson(payload, model, state, i),
    ].join(",");
  };
  const rows = Array.from(order).sort((a, b) => a - b);
  return new Blob([`${[heads.join(","), ...rows.map(line)].join("\r\n")}\r\n`], { type: "text/csv;charset=utf-8" });
}

/** Hand a file to the reader. */
export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
