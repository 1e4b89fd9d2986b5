// Elements from plain calls. Text only ever enters through text nodes, so nothing in the data can run.

const SVG_SPACE = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  const absent = [null, undefined, false, ""];
  element.append(...children.flat(Infinity).filter((child) => !absent.includes(child)));
  return element;
}

/** An HTML element: h("p", {class: "note", onclick: f}, "text", child). */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element, likewise. */
export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG_SPACE, tag), attributes, children);
}

/** The root of a chart: an image with a text summary for those who do not see it. */
export function chartRoot(width, height, summary, testid) {
  const box = { viewBox: `0 0 ${width} ${height}`, width, height };
  return svg("svg", { ...box, class: "chart", role: "img", "aria-label": summary, "data-testid": testid });
}

/** Build a page in an element, or say there why it cannot be shown. @returns {{destroy: () => void}} */
export function mountPage(element, build, address) {
  element.classList.add("decal");
  try {
    return build();
  } catch (error) {
    console.warn("decal:", error);
    const words = h("p", null, error instanceof Error ? error.message : String(error));
    const title = h(address ? "h1" : "h2", { class: "title" }, "These results cannot be shown.");
    const hint = h("p", null, "Check that the file is complete, or write it again with the same version of decal.");
    const about = { class: "panel broken", role: "alert", "data-testid": "broken" };
    element.replaceChildren(h("div", about, title, words, hint));
    return { destroy: () => element.replaceChildren() };
  }
}

/** A notebook's own theme, which need not be the system's. */
export function themeAround() {
  const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
  if (jpThemeLight) return jpThemeLight === "true" ? "light" : "dark";
  if (vscodeThemeKind) return /dark/.test(vscodeThemeKind) ? "dark" : "light";
  return "auto";
}

let lastId = 0;

/** An id that no other explorer on the page has. */
export function uniqueId() {
  lastId += 1;
  return `decal-${lastId}-${Math.random().toString(36).slice(2, 8)}`;
}

/** Set text only where it changed: touching the document is what costs. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A labelled choice: [value, title] pairs. */
export function select(label, options, onchange, testid) {
  const list = h("select", { "data-testid": testid, onchange: () => onchange(list.value) });
  list.append(...options.map(([value, title]) => h("option", { value }, title)));
  return { element: h("label", { class: "field" }, h("span", null, label), list), list };
}

/** Buttons of which one is pressed: [value, title] pairs. */
export function choice(label, options, onchange, testid) {
  const buttons = options.map(([value, title]) =>
    h("button", { type: "button", "data-testid": `${testid}-${value}`, onclick: () => onchange(value) }, title),
  );
  const element = h("div", { class: "choice", role: "group", "aria-label": label, "data-testid": testid }, buttons);
  const show = (current) =>
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(options[at][0] === current)));
  return { element, show };
}

/** A titled part of the page. `tools` stand at the right of the title. */
export function panel(name, title, level, tools, ...content) {
  const id = uniqueId();
  const heading = h(`h${level}`, { id }, title);
  const head = h("div", { class: "head" }, heading, tools && h("div", { class: "tools" }, tools));
  return h("section", { class: `panel ${name}`, "aria-labelledby": id, "data-testid": name }, head, ...content);
}

/** The size of an element, kept current. `onchange` is called when it changes. */
export function watchSize(element, onchange) {
  const size = { width: element.clientWidth, height: element.clientHeight, stop: null };
  const observer = new ResizeObserver(() => {
    const { clientWidth: width, clientHeight: height } = element;
    if (width === size.width && height === size.height) return;
    Object.assign(size, { width, height });
    onchange();
  });
  observer.observe(element);
  size.stop = () => observer.disconnect();
  return size;
}

const ruler = typeof document === "undefined" ? null : document.createElement("canvas").getContext("2d");
const FONT = "system-ui, sans-serif";

/** Width of a line of text in pixels. */
export function textWidth(text, pixels = 12, weight = 400) {
  ruler.font = `${weight} ${pixels}px ${FONT}`;
  return ruler.measureText(text).width;
}

/** The text, cut with an ellipsis so that it is at most `width` pixels wide. */
export function fitText(text, width, pixels = 12, weight = 400) {
  const line = text.replace(/\s+/g, " ");
  if (textWidth(line, pixels, weight) <= width) return line;
  const letters = Array.from(line.slice(0, 400));
  let [low, high] = [0, letters.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (textWidth(`${letters.slice(0, middle).join("")}…`, pixels, weight) <= width) low = middle;
    else high = middle - 1;
  }
  return `${letters.slice(0, low).join("").trimEnd()}…`;
}
