// The explorer: puts the parts together and keeps them in step.

import { choice, colourOf, h, panel, setText, watchSize } from "./dom.js";
import { alphaText, inputName } from "./format.js";
import { decode } from "./payload.js";
import { choicesOf, firstState, fromHash, Store, toHash } from "./state.js";
import { createViewer } from "./view.js";
import { createFilters, createLevel, createShow } from "./controls.js";
import { createAnnouncer, createHeader } from "./header.js";
import { createTradeoff, CURVES } from "./tradeoff.js";
import { createScatter } from "./scatter.js";
import { createList } from "./grid.js";
import { listedInWords } from "./table.js";
import { createDetail } from "./detail.js";
import { createReliability } from "./reliability.js";
import { createFrequencies } from "./frequencies.js";
import { createGroups } from "./groups.js";
import { createCosts } from "./costs.js";
import { asCsv, asPng, asSvg, download, sheet } from "./export.js";

const ADDRESS_DELAY = 200; // ms; browsers refuse an address that changes too often
const NARROW = 700; // px: narrower than this, the chosen input is out of sight below the table, as in style.css

/**
 * Build the explorer in an element.
 * @param {HTMLElement} element
 * @param {Uint8Array} bytes  the payload, not compressed
 * @param {{address: boolean}} options  address: keep the state in the page's address
 * @returns {{destroy: () => void}}
 */
export function mount(element, bytes, { address = false } = {}) {
  element.classList.add("decal");
  try {
    return build(element, decode(bytes), address);
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

function build(root, payload, address) {
  const level = address ? 1 : 2; // of the headings: a page has its own title, a notebook has one already
  const start = address ? fromHash(location.hash, payload) : firstState(payload);
  const store = new Store(start, render);
  const compute = createViewer();
  let view = null;

  const actions = { PNG: () => save("png"), SVG: () => save("svg"), CSV: () => save("csv") };
  const header = createHeader(payload, store, level, actions);
  const bar = createLevel(payload, store);
  const tradeoff = createTradeoff(payload, store);
  const scatter = createScatter(payload, store);
  const filters = createFilters(payload, store);
  const show = createShow(payload, store);
  const inputs = createList(payload, store, { onOpen: () => bringIntoView() });
  const detail = createDetail(payload, store, level + 1, (by) => inputs.step(by));
  const announcer = createAnnouncer(payload);
  const costs = createCosts(payload, store, level + 1);
  const frequencies = createFrequencies(payload, store, level + 1);
  const groups = createGroups(payload, store, level + 1);
  const reliability = createReliability(payload, store, level + 1);
  const parts = [header, bar, tradeoff, scatter, filters, inputs, detail, frequencies, costs, groups, reliability, announcer].filter(Boolean);

  const optional = (label, pairs, name, also = {}) =>
    pairs.length > 1 ? choice(label, pairs, (value) => store.set({ [name]: value, ...also }), name) : null;
  const options = choicesOf(payload);
  const names = options.curve.map((key) => [key, CURVES[key][0]]);
  const curve = optional("Against efficiency", names, "curve");
  const axes = { split: "Aleatoric, epistemic", models: "Model, model" };
  const cloud = optional("Axes", options.cloud.map((key) => [key, axes[key]]), "cloud", { zoom: null });
  const barSize = watchSize(bar.element, () => root.style.setProperty("--bar", `${bar.element.offsetHeight}px`));
  const listed = h("span", { class: "listed", "data-testid": "listed" });

  filters.element.append(scatter.region);
  const charts = h("div", { class: "charts" },
    panel("tradeoff", "Trade-off", level + 1, curve?.element, tradeoff.element, key(payload)),
    panel("scatter-panel", "Uncertainty", level + 1, [cloud?.element, scatter.tools], scatter.element, scatter.legend));
  const list = panel("list", "Inputs", level + 1, [listed, show?.element, inputs.tools], filters.element, inputs.element);
  const body = h("div", { class: "body" }, charts, list, detail.element, h("div", { class: "below" }, frequencies?.element, costs?.element, groups?.element, reliability?.element));
  root.replaceChildren(header.element, bar.element, body, announcer.element);

  function render(state, before, asked, anew) {
    root.dataset.theme = state.theme === "auto" ? themeAround() : state.theme;
    if (state.theme !== before.theme) scatter.forget();
    // Zooming draws the cloud alone, so that it follows the wheel.
    const changed = Object.keys(state).filter((key) => state[key] !== before[key]);
    const drawn = String(changed) === "zoom" && !anew ? [scatter] : parts;
    if (drawn === parts) view = compute(payload, state);
    for (const part of drawn) part.update(state, view, before);
    show?.show(state.show);
    curve?.show(state.curve);
    cloud?.show(state.cloud);
    setText(listed, listedInWords(payload, view));
    if (address) remember();
    performance.measure("decal:update", { start: asked, end: performance.now() });
  }

  function bringIntoView() {
    const behavior = calm() ? "auto" : "smooth";
    if (root.clientWidth < NARROW) detail.element.scrollIntoView({ block: "start", behavior });
  }

  async function save(kind) {
    const { state } = store;
    const alpha = alphaText(payload.alphas[state.level]);
    const name = [fileName(payload.title), alpha && `alpha-${alpha}`].filter(Boolean).join("-");
    if (kind === "csv") return download(asCsv(payload, state, view), `${name}.csv`);
    const picture = sheet(viewContent());
    return download(kind === "svg" ? asSvg(picture) : await asPng(picture), `${name}.${kind}`);
  }

  function viewContent() {
    const { state } = store;
    const alpha = alphaText(payload.alphas[state.level]);
    const models = payload.models.map((model) => model.name).join(" and ");
    const of = inputName(payload, state.input).slice(0, 60);
    const titles = { spider: of, intervals: "Intervals", paths: "Growth as α falls", why: "Why the interval stops there", triangle: "Triangle" };
    return {
      title: payload.title,
      line: [models, alpha && `α ${alpha}`, listedInWords(payload, view)].filter(Boolean).join(" · "),
      legend: sheetLegend(payload).map((item) => ({ ...item, colour: colourOf(root, item.colour) })),
      ink: colourOf(root, "--ink"),
      paper: colourOf(root, "--paper"),
      font: getComputedStyle(root).fontFamily,
      charts: [
        { title: "Trade-off", root: tradeoff.chart() },
        { title: "Uncertainty", root: scatter.chart(), canvas: scatter.canvas, over: scatter.over },
        ...detail.drawings().map(({ name, root: chart }) => ({ title: titles[name], root: chart })),
      ],
    };
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
  listen(matchMedia("(prefers-color-scheme: dark)"), "change", () => {
    scatter.forget();
    store.refresh();
  });
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

/** The models' colours, where there are two. */
function key(payload) {
  if (payload.models.length < 2) return null;
  const item = (model, at) => h("li", null, h("i", { class: `key line model${at + 1}` }), h("bdi", null, model.name));
  return h("ul", { class: "legend" }, payload.models.map(item));
}

/** What colours and marks mean, on a picture of its own. */
function sheetLegend(payload) {
  const [one, two] = payload.models;
  const some = (kind) => payload.models.some((model) => model[kind]);
  return [
    { colour: "--model1", words: two ? one.name : "in the decision set" },
    two && { colour: "--model2", words: two.name },
    { colour: "--model1", words: two ? "pale: not in the decision set" : "not in it", opacity: 0.4 },
    payload.labels && some("predicted") && { colour: "--alert", words: "wrong" },
    some("point") && { colour: "--ink", words: "model’s prediction" },
    payload.truth && { colour: "--truth", words: "truth", open: true },
  ].filter(Boolean);
}

/** A notebook's own theme, which need not be the system's. */
function themeAround() {
  const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
  if (jpThemeLight) return jpThemeLight === "true" ? "light" : "dark";
  if (vscodeThemeKind) return /dark/.test(vscodeThemeKind) ? "dark" : "light";
  return "auto";
}

function calm() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

function fileName(title) {
  const words = title.normalize("NFKC").match(/[\p{L}\p{N}]+/gu) ?? ["decal"];
  return words.join("-").slice(0, 60).toLowerCase();
}
