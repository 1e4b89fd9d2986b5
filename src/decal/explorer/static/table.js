// The list of inputs: sortable, and only the rows in sight exist, so ten thousand scroll smoothly.

import { h, setText, watchSize } from "./dom.js";
import { className, count, inputName, inPercent, plural } from "./format.js";
import { createItems } from "./listed.js";
import { possibleInWords } from "./slots.js";
import { choicesOf } from "./state.js";
import { createPictures, pictureCanvas } from "./pictures.js";
import { explain } from "./terms.js";
import { isWrong } from "./view.js";

export const COLUMNS = {
  input: { title: "Input" },
  says: { title: "Model says" },
  sure: { title: "How sure", falling: true, numeric: true },
  size: { title: "Possible", falling: true },
  label: { title: "True class" },
};
const LISTING = ["sort", "falling", "query", "only", "where", "cases", "route", "share", "group", "show"];
const ROW_HEIGHT = 36; // as in style.css
const SPARE = 10; // rows drawn beyond the visible ones, oneOf side

/** Whether a change of the state makes it another list, to be read from its top. */
export function isOtherList(state, earlier) {
  return LISTING.some((key) => state[key] !== earlier[key]);
}

/** What stands where no input is listed. */
export function noMatch(testid) {
  return h("p", { class: "empty", hidden: true, "data-testid": testid }, "No input matches. Clear a filter or the search.");
}

export function createTable(payload, store, { onOpen }) {
  const keys = choicesOf(payload).sort.filter((key) => COLUMNS[key]);
  const heads = Object.fromEntries(keys.map((key) => [key, headCell(key, store)]));
  const before = h("tr", { class: "spacer", "aria-hidden": "true" }, h("td"));
  const after = before.cloneNode(true);
  const body = h("tbody", null, before, after);
  const columns = h("colgroup", null, keys.map((key) => h("col", { class: `col-${key}` })));
  const head = h("thead", null, h("tr", { "aria-rowindex": 1 }, Object.values(heads)));
  const about = { class: "inputs", role: "grid", "aria-label": "Inputs", "data-testid": "table" };
  const table = h("table", about, columns, head, body);
  const scroller = h("div", { class: "scroller", "data-testid": "scroller", tabindex: "-1" }, table);
  const empty = noMatch("empty");
  const element = h("div", { class: "listing" }, scroller, empty);
  const size = watchSize(scroller, () => store.refresh());

  const drawPicture = createPictures(payload);
  const rows = createItems(scroller, store, show, onOpen);
  let revealed = -1;
  let now = null; // {state, view, at}: what is drawn, and where the chosen input stands in it

  function draw() {
    if (!now) return;
    const { listed: order } = now.view;
    const top = Math.floor(scroller.scrollTop / ROW_HEIGHT);
    const fits = Math.ceil((size.height || 400) / ROW_HEIGHT) + 2 * SPARE;
    const first = Math.max(0, Math.min(top - SPARE, order.length - fits));
    const last = Math.min(order.length, first + fits);
    const free = rows.release(first, last);
    before.firstChild.style.height = `${first * ROW_HEIGHT}px`;
    after.firstChild.style.height = `${(order.length - last) * ROW_HEIGHT}px`;
    const reachable = now.at >= first && now.at < last ? now.at : Math.min(top, order.length - 1);
    const wanted = [];
    for (let at = first; at < last; at++) {
      const row = rows.get(at) ?? free.pop() ?? newRow(keys, payload);
      rows.set(at, row);
      fillRow(row, keys, payload, now.state, now.view, at, drawPicture);
      row.element.tabIndex = at === reachable ? 0 : -1;
      wanted.push(row.element);
    }
    arrange(body, wanted, before);
  }

  const choose = (at, how) => rows.choose(now.view.listed, at, how);

  function show(at) {
    reveal(at);
    now.at = at;
    draw();
  }

  function reveal(at) {
    const [top, bottom] = [at * ROW_HEIGHT, (at + 1) * ROW_HEIGHT];
    const seen = scroller.clientHeight - head.offsetHeight;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (bottom > scroller.scrollTop + seen) scroller.scrollTop = bottom - seen;
  }

  scroller.addEventListener("scroll", draw, { passive: true });
  body.addEventListener("click", (event) => {
    const row = rows.holding(event.target.closest("tr"));
    if (row) choose(row.at, { open: true, focus: true });
  });
  scroller.addEventListener("keydown", (event) => {
    if (event.target.closest("thead") || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(scroller.clientHeight / ROW_HEIGHT) - 2);
    const focused = rows.holding(event.target);
    const from = focused ? focused.at : now.at;
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) choose(from + steps[event.key], { focus: true });
    else if (event.key === "Enter" || event.key === " ") choose(from, { open: true, focus: true });
    else return;
    event.preventDefault();
  });

  function update(state, view, earlier) {
    if (isOtherList(state, earlier)) scroller.scrollTop = 0;
    if (state.list !== earlier.list) revealed = -1;
    const at = view.listed.indexOf(state.input);
    now = { state, view, at };
    for (const key of keys) {
      const sort = state.sort === key ? (state.falling ? "descending" : "ascending") : "none";
      if (heads[key].getAttribute("aria-sort") !== sort) heads[key].setAttribute("aria-sort", sort);
    }
    table.setAttribute("aria-rowcount", view.listed.length + 1);
    empty.hidden = view.listed.length > 0;
    draw();
    if (state.input === revealed || !size.height) return;
    revealed = state.input;
    if (at >= 0) reveal(at);
  }

  const step = (by) => choose(now.at < 0 ? 0 : now.at + by);
  return { element, update, step, stop: size.stop };
}

function headCell(key, store) {
  const { title, falling = false, numeric } = COLUMNS[key];
  const sort = () => {
    const { state } = store;
    store.set({ sort: key, falling: state.sort === key ? !state.falling : falling });
  };
  const button = h("button", { type: "button", onclick: sort, "data-testid": `sort-${key}` }, title);
  if (key === "size") explain(button, key);
  return h("th", { scope: "col", class: numeric ? "numeric" : null, "aria-sort": "none" }, button);
}

function newRow(keys, payload) {
  const cells = {};
  const tr = h("tr", null);
  for (const key of keys) {
    cells[key] = h("td", { class: COLUMNS[key].numeric ? "numeric" : key });
    tr.append(cells[key]);
  }
  const name = h("span", { class: "name" });
  const times = h("span", { class: "times", title: "inputs with the same answer" });
  const image = payload.pictures ? pictureCanvas() : null;
  cells.input.append(h("div", { class: "called" }, image, name, times));
  return { element: tr, cells, name, times, image, at: -1, input: -1 };
}

/** Put elements in their order, after the first one given, without moving those that already stand right. */
export function arrange(parent, wanted, first = null) {
  const present = [...parent.children].filter((child) => !child.classList.contains("spacer"));
  if (wanted.length === present.length && wanted.every((each, at) => each === present[at])) return;
  const keep = new Set(wanted);
  for (const each of present) if (!keep.has(each)) each.remove();
  let place = first ? first.nextSibling : parent.firstChild;
  for (const each of wanted) {
    if (each === place) place = place.nextSibling;
    else parent.insertBefore(each, place);
  }
}

function fillRow(row, keys, payload, state, view, at, drawPicture) {
  const i = view.listed[at];
  row.at = at;
  row.element.setAttribute("aria-rowindex", at + 2);
  row.element.setAttribute("aria-selected", String(i === state.input));
  if (row.input !== i) {
    row.input = i;
    row.element.dataset.row = payload.rows[i];
    const name = inputName(payload, i);
    setText(row.name, payload.names ? name : (payload.texts?.[i].slice(0, 120) ?? name));
    row.name.title = `${name}, row ${payload.rows[i]}`;
    if (row.image) drawPicture(row.image, i);
  }
  setText(row.times, timesOf(payload, state, view, i));
  for (const key of keys) if (key !== "input") setText(row.cells[key], cellText(payload, state, view.model, key, i));
  for (const key of ["says", "size", "label"]) if (row.cells[key]) row.cells[key].title = row.cells[key].textContent;
  row.cells.says?.classList.toggle("wrong", isWrong(payload, view.model, i));
}

/** "× 14" where others have the same answer and are not listed one by one. */
export function timesOf({ alike }, { open }, view, i) {
  const many = view.alike.get(alike[i]);
  return many > 1 && (open === null || alike[open] !== alike[i]) ? `× ${many}` : "";
}

function cellText(payload, { level }, model, key, i) {
  if (key === "label") return className(payload.models[0], payload.labels[i]);
  if (key === "size") return possibleInWords(payload, model, level, i);
  if (!model.said) return "–";
  return key === "says" ? className(model, model.said[i]) : inPercent(model.sure[i]);
}

/** "1,234 of 10,000 inputs" */
export function listedInWords(payload, view) {
  const found = view.order.length;
  const all = plural(payload.count, "input");
  return found === payload.count ? all : `${count(found)} of ${all}`;
}
