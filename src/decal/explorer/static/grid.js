// Many inputs at once: tiles with pictures or texts, of which only those in sight exist; or the table.

import { choice, h, select, setText, watchSize } from "./dom.js";
import { className, inputName } from "./format.js";
import { createItems } from "./listed.js";
import { createPictures, pictureCanvas } from "./pictures.js";
import { choicesOf } from "./state.js";
import { possibleInWords } from "./slots.js";
import { arrange, COLUMNS, createTable, isOtherList, noMatch, timesOf } from "./table.js";
import { isWrong } from "./view.js";

const TILE_GAP = 8; // pixels
const SPARE_LINES = 2; // lines of tiles drawn beyond the visible ones, either side
const TILE_LETTERS = 240; // of a text in a tile
const SHAPES = { picture: { least: 132, tall: 146 }, text: { least: 220, tall: 132 }, both: { least: 220, tall: 230 }, name: { least: 160, tall: 76 } };

/** The inputs as a table or as tiles, and the buttons that switch. */
export function createList(payload, store, { onOpen }) {
  const parts = { table: createTable(payload, store, { onOpen }), grid: createGrid(payload, store, { onOpen }) };
  const as = choice("Show the inputs as", [["table", "Table"], ["grid", "Grid"]], (list) => store.set({ list }), "as");
  const order = createOrder(payload, store);
  function update(state, view, before) {
    as.show(state.list);
    order.update(state);
    for (const [name, part] of Object.entries(parts)) part.element.hidden = name !== state.list;
    parts[state.list].update(state, view, before);
  }
  const element = h("div", { class: "lists" }, parts.table.element, parts.grid.element);
  const stop = () => Object.values(parts).forEach((part) => part.stop());
  return { element, tools: [order.element, as.element], update, stop, step: (by) => parts[store.state.list].step(by) };
}

/** What the inputs are ordered by: what is worth a look, or a column. */
function createOrder(payload, store) {
  const keys = choicesOf(payload).sort;
  const first = payload.labels ? "Sure errors first" : "Doubts first";
  const titles = keys.map((key) => [key, COLUMNS[key]?.title ?? first]);
  const by = select("Order", titles, (sort) => store.set({ sort, falling: Boolean(COLUMNS[sort]?.falling) }), "order");
  const turn = h("button", { type: "button", class: "icon", "data-testid": "order-turn", onclick: () => store.set({ falling: !store.state.falling }) });
  const element = h("div", { class: "order" }, by.element, turn);
  function update({ list, sort, falling }) {
    turn.hidden = list !== "grid";
    by.list.value = sort;
    setText(turn, falling ? "↓" : "↑");
    turn.setAttribute("aria-label", falling ? "Largest first" : "Smallest first");
    turn.title = turn.getAttribute("aria-label");
  }
  return { element, update };
}

function createGrid(payload, store, { onOpen }) {
  const kind = payload.pictures ? (payload.texts ? "both" : "picture") : payload.texts ? "text" : "name";
  const shape = SHAPES[kind];
  const board = h("div", { class: "board", role: "listbox", "aria-label": "Inputs", "data-testid": "grid" });
  const scroller = h("div", { class: "scroller", tabindex: "-1", "data-testid": "grid-scroller" }, board);
  const empty = noMatch("grid-empty");
  const element = h("div", { class: "listing", hidden: true }, scroller, empty);
  const size = watchSize(scroller, () => store.refresh());
  const drawPicture = createPictures(payload);
  const tiles = createItems(scroller, store, show, onOpen);
  let revealed = -1;
  let now = null; // {state, view, at}: what is drawn, and where the chosen input stands in it

  const columns = () => Math.max(1, Math.floor((size.width - TILE_GAP) / (shape.least + TILE_GAP)));
  const lineTall = shape.tall + TILE_GAP;

  function draw() {
    if (!now || !size.width) return;
    const [across, n] = [columns(), now.view.listed.length];
    const wide = (size.width - TILE_GAP) / across - TILE_GAP;
    const line = Math.floor(scroller.scrollTop / lineTall);
    const first = Math.max(0, line - SPARE_LINES) * across;
    const last = Math.min(n, (line + Math.ceil(size.height / lineTall) + SPARE_LINES + 1) * across);
    board.style.height = `${Math.ceil(n / across) * lineTall + TILE_GAP}px`;
    const free = tiles.release(first, last);
    const reachable = now.at >= first && now.at < last ? now.at : Math.min(line * across, n - 1);
    const wanted = [];
    for (let at = first; at < last; at++) {
      const tile = tiles.get(at) ?? free.pop() ?? newTile(payload);
      tiles.set(at, tile);
      tile.element.style.translate = `${TILE_GAP + (at % across) * (wide + TILE_GAP)}px ${TILE_GAP + Math.floor(at / across) * lineTall}px`;
      Object.assign(tile.element.style, { width: `${wide}px`, height: `${shape.tall}px` });
      if (tile.at !== at || tile.of !== now) fillTile(tile, payload, now, at, drawPicture);
      tile.element.tabIndex = at === reachable ? 0 : -1;
      wanted.push(tile.element);
    }
    arrange(board, wanted);
  }

  const tileOf = (target) => tiles.holding(target.closest?.(".tile"));

  const choose = (at, how) => tiles.choose(now.view.listed, at, how);

  function show(at) {
    reveal(at);
    now.at = at;
    draw();
  }

  function reveal(at) {
    const top = Math.floor(at / columns()) * lineTall;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top + lineTall + TILE_GAP > scroller.scrollTop + size.height) scroller.scrollTop = top + lineTall + TILE_GAP - size.height;
  }

  scroller.addEventListener("scroll", draw, { passive: true });
  board.addEventListener("click", (event) => {
    const tile = tileOf(event.target);
    if (tile) choose(tile.at, { open: true, focus: true });
  });
  scroller.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const across = columns();
    const page = Math.max(1, Math.floor(size.height / lineTall)) * across;
    const from = tileOf(event.target)?.at ?? now.at;
    const lines = { ArrowDown: across, ArrowUp: -across, PageDown: page, PageUp: -page };
    const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
    if (event.key in steps) choose(from + steps[event.key], { focus: true });
    else if (event.key in lines) choose(stepInColumn(from, lines[event.key], across, now.view.listed.length), { focus: true });
    else if (event.key === "Enter" || event.key === " ") choose(from, { open: true, focus: true });
    else return;
    event.preventDefault();
  });

  function update(state, view, earlier) {
    if (isOtherList(state, earlier)) scroller.scrollTop = 0;
    if (state.list !== earlier.list) revealed = -1;
    now = { state, view, at: view.listed.indexOf(state.input) };
    empty.hidden = view.listed.length > 0;
    draw();
    if (state.input === revealed || !size.height) return;
    revealed = state.input;
    if (now.at >= 0) reveal(now.at);
  }

  const step = (by) => choose(now.at < 0 ? 0 : now.at + by);
  return { element, update, step, stop: size.stop };
}

/** The place some whole lines away in the same column, as far as there are lines. */
function stepInColumn(from, by, across, n) {
  const to = from + by;
  if (to >= 0 && to < n) return to;
  const column = from % across;
  return by < 0 ? column : column + Math.floor((n - 1 - column) / across) * across;
}

function newTile(payload) {
  const picture = payload.pictures ? pictureCanvas() : null;
  const unseen = (words) => h("span", { class: "unseen" }, words);
  const name = unseen("");
  const text = h("div", { class: "excerpt" });
  const predicted = h("span", { class: "predicted" });
  const label = h("span", { class: "soft" });
  const [names, times] = [h("span", { class: "names" }), h("span", { class: "times" })];
  const guess = h("div", { class: "guess" }, unseen("Model says "), predicted, label);
  const set = h("div", { class: "set" }, unseen("Possible "), names, times);
  const element = h("div", { class: "tile", role: "option" }, name, picture, text, guess, set);
  return { element, name, picture, text, predicted, label, names, times, at: -1, input: -1, of: null };
}

function fillTile(tile, payload, now, at, drawPicture) {
  const { state, view } = now;
  const { model } = view;
  const i = view.listed[at];
  const wrong = isWrong(payload, model, i);
  if (tile.input !== i) {
    tile.element.dataset.row = payload.rows[i];
    if (tile.picture) drawPicture(tile.picture, i);
    const isNamed = payload.texts || tile.picture; // else its name is what there is to see
    setText(tile.name, isNamed ? `${inputName(payload, i)}. ` : "");
    setText(tile.text, isNamed ? (payload.texts?.[i].slice(0, TILE_LETTERS) ?? "") : inputName(payload, i));
  }
  Object.assign(tile, { at, of: now, input: i });
  setText(tile.predicted, model.said ? className(model, model.said[i]) : "");
  tile.predicted.classList.toggle("wrong", wrong);
  setText(tile.label, wrong ? `is ${className(payload.models[0], payload.labels[i])}` : "");
  setText(tile.names, possibleInWords(payload, model, state.level, i));
  setText(tile.times, timesOf(payload, state, view, i));
  const about = {
    "aria-selected": i === state.input,
    "aria-posinset": at + 1,
    "aria-setsize": view.listed.length,
  };
  for (const [name, value] of Object.entries(about)) if (tile.element.getAttribute(name) !== String(value)) tile.element.setAttribute(name, value);
}
