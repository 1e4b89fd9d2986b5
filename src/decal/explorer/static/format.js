// How numbers and names are written.

const whole = new Intl.NumberFormat("en");

/** 12,345 */
export function count(n) {
  return whole.format(n);
}

/** A number to three decimals; a dash where there is none. */
export function decimal(x, digits = 3) {
  return Number.isFinite(x) ? x.toFixed(digits).replace("-", "−") : "–";
}

/** "94 %" */
export function inPercent(share, digits = 0) {
  return Number.isFinite(share) ? `${(100 * share).toFixed(digits)}\u00a0%` : "–";
}

/** "35–99 %" */
export function rangeText(low, high) {
  if (Number.isNaN(low)) return "empty";
  const [from, to] = [low, high].map((p) => (100 * p).toFixed(0));
  return from === to ? inPercent(low) : `${from}–${to}\u00a0%`;
}

/** "a, b or c" */
export function series(names, word = "or") {
  return [names.slice(0, -1).join(", "), ...names.slice(-1)].filter(Boolean).join(` ${word} `);
}

/** Alpha in as few digits as it has; "" where the credal set has no level. */
export function alphaText(alpha) {
  if (alpha === null) return "";
  if (alpha <= 0.5) return String(Number(alpha.toPrecision(4)));
  const missing = Number((1 - alpha).toPrecision(4)); // of 0.99998 the digits after the nines are what matters
  return String(Number((1 - missing).toPrecision(12)));
}

/** "1 input", "2,000 inputs" */
export function plural(n, noun) {
  return `${count(n)} ${noun}${n === 1 ? "" : noun.endsWith("s") ? "es" : "s"}`;
}

/** What people call an input. */
export function inputName(payload, i) {
  return payload.names?.[i] || `Input ${payload.rows[i]}`;
}

/** The name of class k, or its number if it has none. */
export function className(model, k) {
  return model.classes[k] ?? `class ${k}`;
}

/** The name of a slot of an input: a class, or all the others. */
export function slotName(payload, model, i, slot) {
  if (slot < payload.slots) return className(model, payload.slotClass[i * payload.slots + slot]);
  return `${count(model.classes.length - payload.slots)} others`;
}

/** Words with a capital at their beginning. */
export function sentence(words) {
  return words.replace(/^./, (letter) => letter.toUpperCase());
}
