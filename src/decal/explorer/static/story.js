// The story: one prediction in five steps, from a point to a decision. One picture that changes, and every step moves.

import { h, setText, uniqueId, watchSize } from "./dom.js";
import { alphaText, decimal, signed } from "./format.js";
import { decode } from "./payload.js";
import { pointOf } from "./evidence.js";
import { createPictures, pictureCanvas } from "./pictures.js";
import { around, budgetOf, movedBy, setOf, sweepOf } from "./story_numbers.js";
import { noteOf, sentenceOf } from "./story_words.js";
import { createBars, createChips, createRange, createVerdicts } from "./story_parts.js";
import { curveScales, drawCurve, drawGround, drawSimplex } from "./story_picture.js";

const NAMES = ["Point", "Likelihood", "Interval", "Set", "Decision"];
const FIRST_COST = 0.5; // of asking a person, where an error costs 1
const SWEEP = 2200; // ms that the shifts take to sweep an interval
const GROWTH = 900; // ms that a set takes to grow
const FADE = 300; // ms that a picture takes to appear
const SPEECH_DELAY = 500; // ms until a change is read aloud

/**
 * Build the story in an element.
 * @param {HTMLElement} element
 * @param {Uint8Array} bytes  the payload, not compressed
 */
export function mount(element, bytes) {
  element.classList.add("decal", "story");
  try {
    tell(element, decode(bytes));
  } catch (error) {
    console.warn("decal:", error);
    const about = { class: "panel broken", role: "alert", "data-testid": "broken" };
    const title = h("h1", { class: "title" }, "This story cannot be told.");
    element.replaceChildren(h("div", about, title, h("p", null, String(error.message ?? error))));
  }
}

function tell(root, payload) {
  const { story, models: [model] } = payload;
  const framed = window.parent !== window;
  const state = { step: 1, input: 0, k: 0, shift: 0, level: story.start, cost: FIRST_COST, theme: "auto" };
  let motion = null; // {start, lasts}: what moves without being asked for each step of it
  let speaking = 0;
  let ground = null;

  // Parts

  const tabs = NAMES.map((title, at) => {
    const about = { type: "button", role: "tab", id: uniqueId(), "data-testid": `step-${at + 1}`, onclick: () => go(at + 1) };
    return h("button", about, h("i", null, String(at + 1)), h("span", null, title));
  });
  const sentences = NAMES.map(() => h("p", { class: "says" }));
  const notes = NAMES.map((_, at) => h("p", { class: "note-of", "data-testid": `note-${at + 1}` }));
  const speech = h("div", { class: "unseen", role: "status", "data-testid": "speech" });

  const quote = h("span", { class: payload.texts ? "quote quoted" : "quote", dir: "auto" });
  const caption = payload.texts && payload.names && h("span", { class: "caption", dir: "auto" });
  const pictures = createPictures(payload);
  const picture = pictures && pictureCanvas(`The ${story.noun}`, "story-image");
  const turn = (by, sign, words, testid) => {
    const act = () => tellOf((state.input + by + payload.count) % payload.count);
    return h("button", { type: "button", class: "turn", "aria-label": words, title: words, "data-testid": testid, onclick: act }, sign);
  };
  const turns = [turn(-1, "‹", `Previous ${story.noun}`, "earlier"), turn(1, "›", `Next ${story.noun}`, "later")];
  const bars = createBars(model);
  const asked = h("div", { class: "asked" }, picture, h("p", null, quote, caption), h("div", { class: "turns" }, turns));
  const card = h("div", { class: "about-input" }, asked, bars.element);

  const drawing = h("div", null);
  const reach = h("div", { class: "reach" }); // a finger here drags the cut; elsewhere it scrolls the page
  const plot = h("div", { class: "picture-of", "data-testid": "plot" }, drawing, reach);
  const size = watchSize(plot, () => draw());

  const [from, to] = story.shifts;
  const last = story.alphas.length - 1;
  const ofShift = createRange("shift", "Shift of its logit", { min: from, max: to, step: 0.01 }, (shift) => set({ shift }));
  const ofAlpha = ["alpha", "alpha-of-set"].map((key) =>
    createRange(key, "Cut at α", { min: 0, max: last, step: 1 }, (level) => set({ level }), [story.alphas[0], story.alphas[last]].map(alphaText)),
  );
  const ofCost = createRange("cost", "Cost of asking a person, in errors", { min: 0, max: 1, step: 0.01 }, (cost) => set({ cost }));
  const chips = [0, 1].map(() => createChips(model, (k) => set({ k, shift: 0 })));
  const verdicts = createVerdicts(payload);
  const controls = [
    [],
    [chips[0].element, ofShift.element],
    [chips[1].element, ofAlpha[0].element],
    [ofAlpha[1].element],
    [ofCost.element, verdicts.element],
  ].map((parts, at) => h("div", { "data-testid": `moves-${at + 1}` }, parts, notes[at]));

  const back = h("button", { type: "button", class: "back", "data-testid": "back", onclick: () => go(state.step - 1) }, "Back");
  const next = h("button", { type: "button", class: "next", "data-testid": "next", onclick: () => go((state.step % 5) + 1) });
  const toward = { class: "next", target: framed ? "_top" : null, "data-testid": "explore" };
  const link = story.link && h("a", { ...toward, href: story.link[1] }, story.link[0]);
  const stage = h("div", { class: "stage", role: "tabpanel", "data-testid": "stage" },
    h("div", { class: "layers sayings" }, sentences), card, plot, h("div", { class: "layers controls" }, controls));
  root.classList.toggle("framed", framed);
  root.replaceChildren(
    h("h1", { class: framed ? "unseen" : "headline" }, payload.title),
    speech,
    h("div", { class: "sheet" },
      h("div", { class: "steps", role: "tablist", "aria-label": "Steps" }, tabs), stage, h("div", { class: "turning" }, back, next, link)));

  // What happens

  function set(change) {
    motion = null;
    Object.assign(state, change);
    draw();
    remember();
    clearTimeout(speaking);
    speaking = setTimeout(() => setText(speech, inWords()), SPEECH_DELAY);
  }
  const about = (input) => ({ input, k: model.predicted[input], shift: 0 });
  const tellOf = (input) => set(about(input));
  const inWords = () => `${sentenceOf(payload, state, state.step)} ${noteOf(payload, state, state.step)}`;

  function go(step) {
    if (step === state.step || !(step in { 1: 1, 2: 1, 3: 1, 4: 1, 5: 1 })) return;
    const pressed = [back, next].includes(document.activeElement);
    set({ step });
    if (pressed && (back.disabled || next.hidden)) (next.hidden ? link : next).focus(); // that button may be gone now
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    drawing.animate({ opacity: [0, 1] }, FADE);
    if (step !== 3 && step !== 4) return;
    motion = { start: performance.now(), lasts: step === 3 ? SWEEP : GROWTH };
    requestAnimationFrame(move);
  }
  function move(now) {
    if (!motion) return;
    if (now - motion.start >= motion.lasts) motion = null;
    draw();
    if (motion) requestAnimationFrame(move);
  }
  /** How far a motion is, from 0 to 1; 1 where nothing moves. */
  const progress = () => (motion ? Math.min(Math.max((performance.now() - motion.start) / motion.lasts, 0), 1) : 1);

  // What is shown

  function draw() {
    const { step, input } = state;
    root.dataset.step = step;
    root.classList.toggle("moving", Boolean(motion));
    tabs.forEach((tab, at) => {
      tab.setAttribute("aria-selected", String(at + 1 === step));
      tab.classList.toggle("done", at + 1 < step);
      tab.tabIndex = at + 1 === step ? 0 : -1;
    });
    stage.setAttribute("aria-labelledby", tabs[step - 1].id);
    NAMES.forEach((_, at) => {
      setText(sentences[at], sentenceOf(payload, state, at + 1));
      setText(notes[at], noteOf(payload, state, at + 1));
      for (const layer of [sentences[at], controls[at]]) layer.classList.toggle("current", at + 1 === step);
    });
    setText(quote, payload.texts?.[input] ?? payload.names?.[input] ?? (pictures ? "" : `Input ${payload.rows[input]}`));
    if (caption) setText(caption, payload.names[input]);
    if (picture && picture.dataset.input !== String(input)) pictures(picture, input);
    chips.forEach((each) => each.show(state.k));
    ofShift.show(state.shift, signed(state.shift, 2), noteOf(payload, state, 2));
    ofAlpha.forEach((each, at) => each.show(state.level, alphaText(story.alphas[state.level]), noteOf(payload, state, 3 + at)));
    ofCost.show(state.cost, decimal(state.cost, 2), sentenceOf(payload, state, 5));
    verdicts.update(state);
    back.disabled = step === 1;
    setText(next, step < 5 ? `Next: ${NAMES[step].toLowerCase()}` : "Start again");
    next.hidden = Boolean(link) && step === 5;
    if (link) link.hidden = step < 5;
    if (size.width) drawing.replaceChildren(drawPicture());
  }

  /** The bars and the picture: they show the same numbers. */
  function drawPicture() {
    const { step, input, k, shift } = state;
    const p = pointOf(payload, model, input);
    const budget = budgetOf(payload, state);
    const words = inWords();
    if (step === 2) {
      bars.show({ own: p, now: movedBy(p, k, shift) });
      return drawCurve(payload, size, { k, shift, words });
    }
    if (step === 3) {
      const { ends, box } = sweepOf(payload, input, k, budget);
      const at = sweptAt(progress(), ends);
      bars.show(motion ? { own: p, now: movedBy(p, k, at.shift), box: around(p, at.seen.map((t) => movedBy(p, k, t))) } : { own: p, box });
      reach.style.top = `${curveScales(payload, size).y(story.alphas[state.level])}px`;
      return drawCurve(payload, size, { k, shift: at.shift, alpha: story.alphas[state.level], ends, words });
    }
    const grown = budget * progress() ** 2;
    const box = step === 1 ? null : setOf(payload, input, grown);
    const paths = box ? [0, 1, 2].map((j) => sweepOf(payload, input, j, grown).moved) : [];
    bars.show(box ? { own: p, box } : { own: p, now: p });
    if (ground?.size !== `${size.width} ${size.height}`)
      ground = { size: `${size.width} ${size.height}`, drawn: drawGround(payload, size, tellOf) };
    return drawSimplex(size, ground.drawn, { p, paths, box, askBelow: step === 5 ? 1 - state.cost : null, words });
  }

  // Dragging in the picture

  const inPlot = (event) => {
    const { left, top } = plot.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  };
  function follow(event) {
    const scales = curveScales(payload, size);
    const [x, y] = inPlot(event);
    const far = story.alphas.map((alpha) => Math.abs(scales.y(alpha) - y));
    set(state.step === 2 ? { shift: Number(scales.shiftAt(x).toFixed(2)) } : { level: far.indexOf(Math.min(...far)) });
  }
  plot.addEventListener("pointerdown", (event) => {
    if (![2, 3].includes(state.step) || event.button !== 0) return;
    if (state.step === 3 && event.pointerType === "touch" && event.target !== reach) return;
    plot.setPointerCapture(event.pointerId);
    root.classList.add("dragging");
    follow(event);
    event.preventDefault();
  });
  plot.addEventListener("pointermove", (event) => plot.hasPointerCapture(event.pointerId) && follow(event));
  for (const event of ["pointerup", "pointercancel"]) plot.addEventListener(event, () => root.classList.remove("dragging"));

  // Keys, the address, and the page around

  document.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by || event.target.closest?.("input") || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const onTab = tabs.includes(document.activeElement);
    go(state.step + by);
    if (onTab) tabs[state.step - 1].focus();
    event.preventDefault();
  });
  function remember() {
    const parts = new URLSearchParams({ step: state.step });
    if (state.input !== story.input) parts.set("input", payload.rows[state.input]);
    if (state.theme !== "auto") parts.set("theme", state.theme);
    try {
      history.replaceState(history.state, "", `#${parts}`);
    } catch {
      // Some places (sandboxed frames) have no address to write to.
    }
  }
  function read() {
    const parts = new URLSearchParams(location.hash.slice(1));
    const step = Number(parts.get("step"));
    const input = payload.rows.indexOf(Number(parts.get("input") ?? NaN));
    Object.assign(state, about(input < 0 ? story.input : input), { step: [1, 2, 3, 4, 5].includes(step) ? step : 1 });
    wear(parts.get("theme"));
    draw();
  }
  function wear(theme) {
    if (["light", "dark", "auto"].includes(theme)) state.theme = theme;
    root.dataset.theme = state.theme;
  }
  window.addEventListener("hashchange", read);
  // The page around may say which theme it wears, and is told how high this one is.
  const tellHeight = () => window.parent.postMessage({ decalHeight: Math.ceil(root.getBoundingClientRect().height) }, "*");
  window.addEventListener("message", ({ source, data }) => {
    if (source !== window.parent) return;
    wear(data?.decalTheme);
    if (data?.askHeight) tellHeight();
  });
  if (framed) new ResizeObserver(tellHeight).observe(root);
  read();
}

/** Where a sweep is: down to the lower shift, up to the upper one, back to none; and what it has passed. */
function sweptAt(share, [low, high]) {
  const ease = (x) => (1 - Math.cos(Math.PI * x)) / 2;
  if (share >= 1) return { shift: 0, seen: [low, high] };
  if (share < 0.3) return { shift: low * ease(share / 0.3), seen: [low * ease(share / 0.3), 0] };
  const up = low + (high - low) * ease((share - 0.3) / 0.45);
  if (share < 0.75) return { shift: up, seen: [low, Math.max(up, 0)] };
  return { shift: high * (1 - ease((share - 0.75) / 0.25)), seen: [low, high] };
}
