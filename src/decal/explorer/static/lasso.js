// The lasso: draw around inputs in the cloud to list only those.

import { h, setText, svg } from "./dom.js";
import { alphaText, plural } from "./format.js";
import { clipped, isDrawnHere, simplified, writeRegion } from "./region.js";

const path = (points) => `M${points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L")}Z`;

/**
 * @param {HTMLElement} host  of the cloud
 * @param {SVGElement} over  what is drawn over it
 * @param {() => {box: object, dataAt: (x: number, y: number) => number[]}} sight  as the state has it
 */
export function createLasso(payload, store, host, over, sight) {
  const line = svg("path", { class: "lasso", "data-testid": "lasso-line" });
  over.prepend(line);
  let drawn = null; // the points of a line being drawn, in pixels
  let drew = false; // whether the last press drew

  const arm = (on) => {
    host.toggleAttribute("data-lasso", on);
    toggle.setAttribute("aria-pressed", String(on));
    drawn = null;
    store.refresh();
  };
  const toggle = h("button", { type: "button", "aria-pressed": "false", title: "Draw around inputs to list only those", "data-testid": "lasso" }, "Lasso");
  toggle.addEventListener("click", () => arm(!host.hasAttribute("data-lasso")));
  const keep = (corners) => store.set({ lasso: writeRegion(payload, store.state, corners.map((place) => sight().dataAt(...place))) });
  const keepView = () => {
    const { left, top, right, bottom } = sight().box;
    keep([[left, top], [right, top], [right, bottom], [left, bottom]]);
  };
  const viewed = h("button", { type: "button", title: "List only the inputs in view", "data-testid": "keep-view", onclick: keepView }, "In view");

  const words = h("span");
  const chip = h("button", { type: "button", class: "region", title: "Clear the region", "data-testid": "region" }, words, h("span", { "aria-hidden": "true" }, "✕"), h("span", { class: "unseen" }, "Clear"));
  const stays = h("span", { class: "stays" }, "The same inputs at every α.");
  const element = h("div", { class: "regions", hidden: true }, chip, payload.alphas.length > 1 && stays);
  const clear = () => {
    arm(false);
    store.set({ lasso: null });
    host.focus({ preventScroll: true });
  };
  chip.addEventListener("click", clear);
  const onEscape = ({ key }) => key === "Escape" && (store.state.lasso || host.hasAttribute("data-lasso")) && clear();
  for (const each of [host, chip, toggle]) each.addEventListener("keydown", onEscape);
  host.addEventListener("keydown", ({ key }) => key === "Enter" && store.state.zoom && keepView());

  const placeOf = ({ clientX, clientY }) => {
    const edge = host.getBoundingClientRect();
    const { left, top, right, bottom } = sight().box;
    return [Math.min(Math.max(clientX - edge.left, left), right), Math.min(Math.max(clientY - edge.top, top), bottom)];
  };
  host.addEventListener("pointerdown", (event) => {
    drew = host.hasAttribute("data-lasso");
    if (!drew || drawn || event.button !== 0) return;
    host.setPointerCapture(event.pointerId);
    drawn = Object.assign([placeOf(event)], { by: event.pointerId });
  });
  host.addEventListener("pointermove", (event) => {
    if (event.pointerId !== drawn?.by) return;
    const events = event.getCoalescedEvents();
    drawn.push(...(events.length ? events : [event]).map(placeOf));
    line.setAttribute("d", path(drawn));
  });
  host.addEventListener("pointerup", (event) => {
    if (event.pointerId !== drawn?.by) return;
    const corners = simplified(drawn);
    if (corners.length > 2) keep(corners);
    arm(false);
  });
  host.addEventListener("pointercancel", (event) => event.pointerId === drawn?.by && arm(true));

  function update(state, view) {
    viewed.hidden = state.zoom === null;
    element.hidden = !view.region;
    if (view.region) {
      const alpha = alphaText(payload.alphas[view.region.level]);
      setText(words, `${plural(view.region.count, "input")} in the region${alpha && ` drawn at α ${alpha}`} `);
    }
    const { box, pixelOf } = sight();
    const here = view.region && isDrawnHere(view.region, state);
    const corners = here ? clipped(view.region.corners.map((corner) => pixelOf(...corner)), box) : [];
    if (!drawn) line.setAttribute("d", corners.length ? path(corners) : "");
  }
  return { buttons: [toggle, viewed], element, update, wasDrawn: () => drew };
}
