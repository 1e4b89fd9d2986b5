// The explorer: puts the parts together and keeps them in step.

import { h, mountPage, panel, setText, themeAround, watchSize } from "./dom.js";
import { decode } from "./payload.js";
import { firstState, fromHash, Store, toHash } from "./state.js";
import { createViewer } from "./view.js";
import { createFilters, createLevel, createRoutes, createShow } from "./controls.js";
import { createAnnouncer, createHeader } from "./header.js";
import { createList } from "./grid.js";
import { listedInWords } from "./table.js";
import { createDetail } from "./detail.js";
import { createReliability } from "./reliability.js";
import { createFrequencies } from "./frequencies.js";
import { createGroups } from "./groups.js";
import { createCosts } from "./costs.js";
import { asCsv, download } from "./export.js";

const ADDRESS_DELAY = 200; // ms; browsers refuse an address that changes too often
const NARROW = 1000; // px: narrower than this, the chosen input stands above the list, out of sight, as in style.css

/**
 * Build the explorer in an element.
 * @param {HTMLElement} element
 * @param {Uint8Array} bytes  the payload, not compressed
 * @param {{address: boolean}} options  address: keep the state in the page's address
 * @returns {{destroy: () => void}}
 */
export function mount(element, bytes, { address = false } = {}) {
  return mountPage(element, () => build(element, decode(bytes), address), address);
}

function build(root, payload, address) {
  const level = address ? 1 : 2; // of the headings: a page has its own title, a notebook has one already
  const start = address ? fromHash(location.hash, payload) : firstState(payload);
  const store = new Store(start, render);
  const compute = createViewer();
  let view = null;

  const header = createHeader(payload, store, level);
  const bar = createLevel(payload, store);
  const routes = createRoutes(payload, store);
  const filters = createFilters(payload, store);
  const show = createShow(payload, store);
  const inputs = createList(payload, store, { onOpen: () => bringIntoView() });
  const detail = createDetail(payload, store, level + 1, (by) => inputs.step(by));
  const below = [createFrequencies, createCosts, createGroups, createReliability].map((create) => create(payload, store, level + 1)).filter(Boolean);
  const parts = [header, bar, routes, filters, inputs, detail, ...below, createAnnouncer(payload)];
  const announcer = parts.at(-1);

  const barSize = watchSize(bar.element, () => root.style.setProperty("--bar", `${bar.element.offsetHeight}px`));
  const listed = h("span", { class: "listed", "data-testid": "listed" });
  const save = h("button", { type: "button", "data-testid": "export-csv", onclick: () => exportList() }, "Export list (CSV)");
  const routing = h("div", { class: "routing" }, routes.element, listed, save);
  const list = panel("list", "Inputs", level + 1, [show?.element, inputs.tools], routing, filters.element, inputs.element);
  const body = h("div", { class: "body" }, list, detail.element, h("div", { class: "below" }, below.map((part) => part.element)));
  root.replaceChildren(header.element, bar.element, body, announcer.element);

  function render(state, before, asked) {
    root.dataset.theme = state.theme === "auto" ? themeAround() : state.theme;
    view = compute(payload, state);
    for (const part of parts) part.update(state, view, before);
    show?.show(state.show);
    setText(listed, listedInWords(payload, view));
    if (address) remember();
    performance.measure("decal:update", { start: asked, end: performance.now() });
  }

  function bringIntoView() {
    const behavior = calm() ? "auto" : "smooth";
    if (root.clientWidth < NARROW) detail.element.scrollIntoView({ block: "start", behavior });
  }

  function exportList() {
    const { route, share } = store.state;
    const which = { one: "one-class-left", ask: "ask-a-person", hand: `hand-over-${100 * payload.shares[share]}` }[route];
    download(asCsv(payload, store.state, view), `${[fileName(payload.title), which].filter(Boolean).join("-")}.csv`);
  }

  let timer = 0;
  let written = location.hash;
  function remember() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      written = toHash(store.state, payload);
      try {
        history.replaceState(history.state, "", written);
      } catch {
        // Some places (sandboxed frames) have no address to write to.
      }
    }, ADDRESS_DELAY);
  }

  const life = new AbortController();
  const listen = (target, event, act) => target.addEventListener(event, act, { signal: life.signal });
  const follow = () => location.hash !== written && store.set(fromHash(location.hash, payload));
  if (address) listen(window, "hashchange", follow);
  listen(address ? document : root, "keydown", (event) => {
    const typing = event.target.closest?.("input:not([type=range]), select, textarea, [contenteditable]");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    filters.focus();
  });
  store.flush();

  return {
    destroy() {
      life.abort();
      clearTimeout(timer);
      for (const part of [store, barSize, ...parts]) part.stop?.();
      root.replaceChildren();
    },
  };
}

function calm() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

function fileName(title) {
  const words = title.normalize("NFKC").match(/[\p{L}\p{N}]+/gu) ?? ["decal"];
  return words.join("-").slice(0, 60).toLowerCase();
}
