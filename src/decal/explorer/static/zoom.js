// The part of the cloud in sight, [left, right, low, high] in nats, and the wheel, fingers, buttons and keys that change it.

import { h } from "./dom.js";
import { placeText } from "./region.js";

const CLOSEST = 200; // times
const BY_BUTTON = 1.5;
const BY_KEY = 0.1; // share of the width or height that an arrow key moves by
const WHEEL = 0.002; // per pixel of a wheel, and of a pinch on a touchpad
const PINCH = 0.01;
const LINE_TALL = 16; // pixels of a wheel that counts lines
const A_CLICK = 4; // pixels that a press may move and still be a click

/** The extent that a text "left_right_low_high" says; null where it says none. */
export function readExtent(text) {
  const extent = (text ?? "").split("_").map((word) => (word ? Number(word) : NaN));
  const [left, right, low, high] = extent;
  return extent.length === 4 && extent.every(Number.isFinite) && left < right && low < high ? extent : null;
}

/** What the state holds of an extent: null where it is all there is. */
function writeExtent(extent, whole) {
  return placeText(extent) === placeText(whole) ? null : placeText(extent);
}

/** The nearest extent that is neither too close nor beyond the whole. */
export function within(extent, whole) {
  return [0, 2].flatMap((axis) => {
    const room = whole[axis + 1] - whole[axis];
    const size = Math.min(Math.max(extent[axis + 1] - extent[axis], room / CLOSEST), room);
    const middle = (extent[axis] + extent[axis + 1]) / 2;
    const from = Math.min(Math.max(middle - size / 2, whole[axis]), whole[axis + 1] - size);
    return [from, from + size];
  });
}

/** The extent nearer by a factor, with a point where it was. */
function nearer(extent, whole, factor, point) {
  const size = [0, 2].map((axis) => extent[axis + 1] - extent[axis]);
  const most = Math.min(...size.map((each, axis) => each / (whole[2 * axis + 1] - whole[2 * axis]))) * CLOSEST;
  const by = Math.min(factor, Math.max(most, 1)); // else a zoom beyond the closest would move the point
  const ends = extent.map((x, at) => point[at >> 1] + (x - point[at >> 1]) / by);
  return within(ends, whole);
}

/**
 * Zoom and move a chart.
 * @param {HTMLElement} host  takes the pointers and keys
 * @param {() => {box: object, extent: number[], whole: number[], dataAt: (x: number, y: number) => number[]}} sight  as the state has it
 */
export function createZoom(host, store, sight) {
  const set = (extent) => store.set({ zoom: writeExtent(extent, sight().whole) });
  const reset = () => store.set({ zoom: null });
  const zoomBy = (factor, point) => {
    const { extent, whole } = sight();
    set(nearer(extent, whole, factor, point ?? [(extent[0] + extent[1]) / 2, (extent[2] + extent[3]) / 2]));
  };
  /** Move so that what was at the first place, in pixels, is at the second. */
  const drag = (from, to) => {
    const { extent, whole, dataAt } = sight();
    const [a, b] = [dataAt(...from), dataAt(...to)];
    set(within(extent.map((x, at) => x + a[at >> 1] - b[at >> 1]), whole));
  };
  const placeOf = ({ clientX, clientY }) => {
    const { left, top } = host.getBoundingClientRect();
    return [clientX - left, clientY - top];
  };

  const fingers = new Map(); // where each that is down was, when the chart last moved
  let dragged = false;
  let pointedAt = NaN; // where the chart stood when the pointer last moved over it
  host.addEventListener("pointerdown", (event) => {
    if (!fingers.size) dragged = false;
    if (event.button === 0 && !host.hasAttribute("data-lasso")) fingers.set(event.pointerId, placeOf(event));
  });
  host.addEventListener("pointermove", (event) => {
    if (event.movementX || event.movementY) pointedAt = host.getBoundingClientRect().top;
    const [before, now] = [fingers.get(event.pointerId), placeOf(event)];
    if (!before || (!dragged && Math.hypot(now[0] - before[0], now[1] - before[1]) < A_CLICK)) return;
    if (!dragged) host.setPointerCapture(event.pointerId);
    dragged = true;
    const others = [...fingers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    fingers.set(event.pointerId, now);
    if (!others.length) return drag(before, now);
    const [other] = others;
    const middle = (place) => [0, 1].map((axis) => (place[axis] + other[axis]) / 2);
    const apart = (place) => Math.max(Math.hypot(place[0] - other[0], place[1] - other[1]), 1);
    drag(middle(before), middle(now));
    zoomBy(apart(now) / apart(before), sight().dataAt(...middle(now)));
  });
  for (const name of ["pointerup", "pointercancel"]) host.addEventListener(name, ({ pointerId }) => fingers.delete(pointerId));
  host.addEventListener("dblclick", reset);

  host.addEventListener(
    "wheel",
    (event) => {
      // A page that is being scrolled past the pointer scrolls on.
      const meant = event.ctrlKey || pointedAt === host.getBoundingClientRect().top;
      const pixels = event.deltaY * (event.deltaMode ? LINE_TALL : 1);
      if (!meant || (pixels > 0 && store.state.zoom === null)) return;
      event.preventDefault();
      zoomBy(Math.exp(-pixels * (event.ctrlKey ? PINCH : WHEEL)), sight().dataAt(...placeOf(event)));
    },
    { passive: false },
  );

  const arrows = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  host.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { right, left, bottom, top } = sight().box;
    const arrow = store.state.zoom && arrows[event.key];
    if (arrow) drag([0, 0], [arrow[0] * BY_KEY * (right - left), arrow[1] * BY_KEY * (bottom - top)]);
    else if (event.key === "+" || event.key === "=") zoomBy(BY_BUTTON);
    else if (event.key === "-") zoomBy(1 / BY_BUTTON);
    else if (event.key === "0") reset();
    else return;
    event.preventDefault();
  });

  const button = (name, sign, testid, onclick) => h("button", { type: "button", "aria-label": name, title: name, "data-testid": testid, onclick }, sign);
  const back = button("Show all", "All", "zoom-reset", () => {
    reset();
    host.focus({ preventScroll: true });
  });
  const buttons = [
    button("Zoom out", "−", "zoom-out", () => zoomBy(1 / BY_BUTTON)),
    button("Zoom in", "+", "zoom-in", () => zoomBy(BY_BUTTON)),
    back,
  ];
  const update = ({ zoom }) => {
    back.hidden = zoom === null;
    host.toggleAttribute("data-zoomed", zoom !== null);
  };
  return { buttons, update, wasDragged: () => dragged };
}
