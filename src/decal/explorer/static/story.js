// The story: one prediction in five steps, from a point to a decision. One picture that changes, and every step moves.

import { h, setText, uniqueId, watchSize } from "./dom.js";
import { alphaText, className, decimal, signed } from "./format.js";
import { decode } from "./payload.js";
import { pointOf } from "./evidence.js";
import { createPictures, pictureCanvas } from "./pictures.js";
import { ASKING, gainAt, movedBy, plausible, setOf, STORY_RULES, sweepOf, tally, verdictBy } from "./story_numbers.js";
import { curveScales, drawCurve, drawGround, drawSimplex, pathsOf, percent } from "./story_picture.js";

const NAMES = ["Point", "Likelihood", "Interval", "Set", "Decision"];
const FIRST_SHIFT = 0;
const FIRST_ASKING = 0.5; // the cost of asking a person, where an error costs 1
const SWEEP = 2200; // ms that the shifts take to sweep an interval
const GROWTH = 900; // ms that a set takes to grow
const FADE = 300; // ms that a picture takes to appear
const SPEECH_DELAY = 500; // ms until a change is read aloud
const FOUND = 30; // pixels from the cut within which a finger takes it

/**
 * Build the story in an element.
 * @param {HTMLElement} element
 * @param {Uint8Array} bytes  the payload, not compressed
 * @returns {{destroy: () => void}}
 */
export function mount(element, bytes) {
  element.classList.add("decal", "story");
  try {
    return tell(element, decode(bytes));
  } catch (error) {
    console.warn("decal:", error);
    const about = { class: "panel broken", role: "alert", "data-testid": "broken" };
    element.replaceChildren(h("div", about, h("h1", { class: "title" }, "This story cannot be told."), h("p", null, String(error.message ?? error))));
    return { destroy: () => element.replaceChildren() };
  }
}

function tell(root, payload) {
  const { story } = payload;
  const [model] = payload.models;
  const framed = window.parent !== window;
  const name = (k) => className(model, k);
  const p = (state) => pointOf(payload, model, state.input);
  const favourite = (i) => model.predicted[i];
  const state = { step: 1, input: story.input, k: favourite(story.input), shift: FIRST_SHIFT, level: story.start, cost: FIRST_ASKING, theme: "auto" };
  let motion = null; // {start, lasts, from}: what is being shown without being asked for
  let spoken = 0;
  let ground = { key: "" };

  const budget = () => -Math.log(story.alphas[state.level]);
  const alpha = () => alphaText(story.alphas[state.level]);

  // What is said: one sentence a step.

  const or = (classes) => classes.map(name).join(" or ");
  const sentences = [
    () => `The model says ${name(favourite(state.input))}, ${percent(p(state)[favourite(state.input)])}. How sure may it be?`,
    () => `Shift ${name(state.k)}: the prediction moves, ${story.best ? `and the labelled ${story.noun}s become less likely` : `and so does the likelihood of the labelled ${story.noun}s`}.`,
    () => {
      const [low, high] = sweepOf(payload, state.input, state.k, budget()).box[state.k];
      return `Allow every shift that keeps ${percentOf(story.alphas[state.level])} of the likelihood: ${name(state.k)} is now ${percent(low)} to ${percent(high)}.`;
    },
    () => {
      const labels = plausible(setOf(payload, state.input, budget()));
      const all = "Do so for each class: the plausible predictions make a set";
      return labels.length > 1 ? `${all}, and it crosses a border.` : `${all}, and it stays on one side.`;
    },
    () => decisionInWords() + (payload.labels ? ` It is ${name(payload.labels[state.input])}.` : ""),
  ];
  function decisionInWords() {
    const box = setOf(payload, state.input, budget());
    const labels = plausible(box);
    const action = verdictBy(payload, state.input, "gamma_maximin", budget(), state.cost);
    if (action !== ASKING) return `${name(action)}: at worst ${percent(box[action][0])}, no need to ask.`;
    if (labels.length > 1) return `${or(labels)}: ask a person.`;
    return `${or(labels)}, but at worst ${percent(box[labels[0]][0])}: ask a person.`;
  }

  // Parts

  const tabs = NAMES.map((title, at) =>
    h("button", { type: "button", role: "tab", id: uniqueId(), "data-testid": `step-${at + 1}`, onclick: () => go(at + 1) }, h("i", null, String(at + 1)), h("span", null, title)),
  );
  const said = sentences.map(() => h("p", { class: "says" }));
  const speech = h("div", { class: "unseen", role: "status", "data-testid": "speech" });

  const quote = h("span", { class: payload.texts ? "quote quoted" : "quote", dir: "auto" });
  const caption = payload.texts && payload.names && h("span", { class: "caption", dir: "auto" });
  const pictures = createPictures(payload);
  const picture = pictures && pictureCanvas("", "story-image");
  const turn = (by, sign, words) =>
    h("button", { type: "button", class: "turn", "aria-label": words, title: words, "data-testid": by > 0 ? "later" : "earlier", onclick: () => set({ input: (state.input + by + payload.count) % payload.count }) }, sign);
  const bars = createBars(model);
  const chooser = h("div", { class: "turns" }, turn(-1, "‹", `Previous ${story.noun}`), turn(1, "›", `Next ${story.noun}`));
  const card = h("div", { class: "about-input" }, h("div", { class: "asked" }, picture, h("p", null, quote, caption), chooser), bars.element);

  const plot = h("div", { class: "picture-of", "data-testid": "plot" });
  const size = watchSize(plot, () => draw());

  const shiftRange = range("shift", "Shift of its logit", { min: story.shifts[0], max: story.shifts[1], step: 0.01 }, (value) => set({ shift: value }));
  const alphaRange = (key) => range(key, "Cut at α", { min: 0, max: story.alphas.length - 1, step: 1 }, (value) => set({ level: value }), [alphaText(1), alphaText(story.alphas.at(-1))]);
  const alphaRanges = [alphaRange("alpha"), alphaRange("alpha-of-set")];
  const costRange = range("cost", "Cost of asking a person, in errors", { min: 0, max: 1, step: 0.01 }, (value) => set({ cost: value }));
  const chips = [chipsOf(), chipsOf()];
  function chipsOf() {
    const buttons = [0, 1, 2].map((k) => h("button", { type: "button", class: `class${k}`, "data-testid": `class-${k}`, onclick: () => set({ k, shift: FIRST_SHIFT }) }, h("i", { class: "swatch" }), name(k)));
    return { buttons, element: h("div", { class: "chips", role: "group", "aria-label": "The class that is shifted" }, buttons) };
  }
  const notes = NAMES.map((_, at) => h("p", { class: "note-of", "data-testid": `note-${at + 1}` }));
  const rules = createRules();
  const controls = [
    [notes[0]],
    [chips[0].element, shiftRange.element, notes[1]],
    [chips[1].element, alphaRanges[0].element, notes[2]],
    [alphaRanges[1].element, notes[3]],
    [costRange.element, rules.element, notes[4]],
  ].map((parts, at) => h("div", { class: "moves", "data-testid": `moves-${at + 1}` }, parts));

  const back = h("button", { type: "button", class: "back", "data-testid": "back", onclick: () => go(state.step - 1) }, "Back");
  const next = h("button", { type: "button", class: "next", "data-testid": "next", onclick: () => go(state.step === 5 ? 1 : state.step + 1) });
  const link = story.link && h("a", { class: "next", href: story.link[1], target: framed ? "_top" : null, "data-testid": "explore" }, story.link[0]);
  const stage = h("div", { class: "stage", role: "tabpanel", tabindex: "-1", "data-testid": "stage" },
    h("div", { class: "layers sayings" }, said), card, plot, h("div", { class: "layers controls" }, controls));
  root.classList.toggle("framed", framed);
  root.replaceChildren(
    h("h1", { class: framed ? "unseen" : "headline" }, payload.title),
    speech,
    h("div", { class: "sheet" },
      h("div", { class: "steps", role: "tablist", "aria-label": "Steps" }, tabs),
      stage,
      h("div", { class: "turning" }, back, next, link)));

  // What is shown

  function set(change) {
    motion = null;
    Object.assign(state, change);
    if ("input" in change && !("k" in change)) Object.assign(state, { k: favourite(state.input), shift: FIRST_SHIFT });
    draw();
    remember();
    clearTimeout(spoken);
    spoken = setTimeout(() => setText(speech, inWords()), SPEECH_DELAY);
  }
  const inWords = () => `${sentences[state.step - 1]()} ${notesFor(state.step)}`;

  function go(step) {
    const to = Math.min(Math.max(step, 1), 5);
    if (to === state.step) return;
    const turned = [back, next].includes(document.activeElement);
    set({ step: to });
    // The button that was pressed may be gone now.
    if (turned && (back.disabled || next.hidden)) (next.hidden ? link : next).focus();
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    plot.animate({ opacity: [0, 1] }, FADE);
    const lasts = { 3: SWEEP, 4: GROWTH }[to];
    if (!lasts) return;
    motion = { start: performance.now(), lasts };
    requestAnimationFrame(moving);
  }
  function moving(now) {
    if (!motion) return;
    if (now - motion.start >= motion.lasts) motion = null;
    draw();
    if (motion) requestAnimationFrame(moving);
  }
  /** How far a motion is, from 0 to 1; 1 where nothing moves. */
  function progress() {
    return motion ? Math.min(Math.max((performance.now() - motion.start) / motion.lasts, 0), 1) : 1;
  }

  function draw() {
    const { step, input, k } = state;
    root.dataset.step = step;
    root.classList.toggle("moving", Boolean(motion));
    tabs.forEach((tab, at) => {
      tab.setAttribute("aria-selected", String(at + 1 === step));
      tab.classList.toggle("done", at + 1 < step);
      tab.tabIndex = at + 1 === step ? 0 : -1;
    });
    stage.setAttribute("aria-labelledby", tabs[step - 1].id);
    said.forEach((line, at) => {
      setText(line, sentences[at]());
      line.classList.toggle("current", at + 1 === step);
    });
    controls.forEach((part, at) => part.classList.toggle("current", at + 1 === step));
    setText(quote, payload.texts ? payload.texts[input] : payload.names?.[input] ?? (pictures ? "" : `Input ${payload.rows[input]}`));
    if (caption) setText(caption, payload.names[input]);
    if (picture && Number(picture.dataset.input ?? -1) !== input) pictures(picture, input);
    back.disabled = step === 1;
    setText(next, step < 5 ? `Next: ${NAMES[step].toLowerCase()}` : "Start again");
    next.hidden = Boolean(link) && step === 5;
    if (link) link.hidden = step < 5;
    chips.forEach(({ buttons }) => buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(at === k))));
    shiftRange.show(state.shift, signed(state.shift, 2), `shift ${signed(state.shift, 2)}. ${notesFor(2)}`);
    alphaRanges.forEach((each, at) => each.show(state.level, alpha(), `alpha ${alpha()}. ${notesFor(3 + at)}`));
    costRange.show(state.cost, decimal(state.cost, 2), `${decimal(state.cost, 2)}. ${sentences[4]()}`);
    notes.forEach((note, at) => setText(note, notesFor(at + 1)));
    rules.update(step === 5);
    if (size.width) drawPicture();
  }

  /** The bars and the picture: they show the same numbers. */
  function drawPicture() {
    const { step, input, k } = state;
    const own = p(state);
    const share = progress();
    const words = inWords();
    if (step === 2) {
      bars.show({ own, now: movedBy(own, k, state.shift), k });
      plot.replaceChildren(drawCurve(payload, size, { k, shift: state.shift, words }));
      return;
    }
    if (step === 3) {
      const sweep = sweepOf(payload, input, k, budget());
      const { shift, seen } = sweepAt(share, sweep.ends.map((t) => Math.min(Math.max(t, story.shifts[0]), story.shifts[1])));
      const reached = seen.map((t) => movedBy(own, k, t));
      const box = motion ? own.map((q, j) => [Math.min(q, reached[0][j], reached[1][j]), Math.max(q, reached[0][j], reached[1][j])]) : sweep.box;
      bars.show({ own, box, now: motion ? movedBy(own, k, shift) : null, k });
      plot.replaceChildren(drawCurve(payload, size, { k, shift, alpha: story.alphas[state.level], ends: sweep.ends, words }));
      return;
    }
    const grown = budget() * share ** 2;
    const box = step === 1 ? null : setOf(payload, input, grown);
    bars.show(box ? { own, box } : { own, now: own });
    const key = `${size.width} ${size.height}`;
    if (ground.key !== key) ground = { key, drawn: drawGround(payload, size, (chosen) => set({ input: chosen })) };
    const paths = box ? pathsOf(own, [0, 1, 2].map((j) => sweepOf(payload, input, j, grown))) : [];
    const askBelow = step === 5 ? 1 - state.cost : null;
    plot.replaceChildren(drawSimplex(size, ground.drawn, { p: own, paths, box, askBelow, words }));
  }

  function notesFor(step) {
    const { input, k } = state;
    const box = () => setOf(payload, input, budget());
    if (step === 1) {
      const fitted = story.best ? `, which is calibrated on ${story.examples} labelled ${story.noun}s` : "";
      return `Every dot is one of ${payload.count} ${story.noun}s: the nearer a corner, the surer the model${fitted}. Choose any.`;
    }
    if (step === 2) {
      if (state.shift === 0) return "Drag the point along the curve, or move the slider.";
      const kept = Math.exp(gainAt(story, k, state.shift));
      return `${name(k)} gets ${percent(movedBy(p(state), k, state.shift)[k])} here; each labelled ${story.noun} is ${decimal(kept)} times as likely, on average.`;
    }
    if (step === 3) {
      const { ends } = sweepOf(payload, input, k, budget());
      const written = (t) => (Number.isFinite(t) ? signed(t, 2) : t < 0 ? "−∞" : "∞");
      return `Shifts from ${written(ends[0])} to ${written(ends[1])} are plausible. Drag the cut.`;
    }
    if (step === 4) {
      const labels = plausible(box());
      const most = labels.length > 1 ? `${or(labels)} may be the most probable.` : `Only ${or(labels)} can be the most probable.`;
      return `Coloured: the shifts of each class. Outlined: all predictions within the intervals. ${most}`;
    }
    return `Over all ${payload.count} ${story.noun}s${payload.labels ? "; errs: of those not asked about" : ""}.`;
  }

  function createRules() {
    const cells = STORY_RULES.map(([key, title, meaning]) => {
      const row = { says: h("td", { "data-testid": `says-${key}` }), asks: h("td", { class: "numeric", "data-testid": `asks-${key}` }), errs: h("td", { class: "numeric", "data-testid": `errs-${key}` }) };
      return { key, ...row, row: h("tr", null, h("th", { scope: "row", title: meaning }, title), row.says, row.asks, payload.labels && row.errs) };
    });
    const head = ["Rule", `This ${story.noun}`, "asks", payload.labels && "errs"].filter(Boolean);
    const heads = head.map((words, at) => h("th", { scope: "col", class: at > 1 ? "numeric" : null }, words));
    const element = h("table", { class: "verdicts" }, h("thead", null, h("tr", null, heads)), h("tbody", null, cells.map(({ row }) => row)));
    let shown = "";
    const update = (seen) => {
      const key = [state.input, state.level, state.cost].join(" ");
      if (key === shown || (shown && !seen)) return;
      shown = key;
      for (const { key: rule, says, asks, errs } of cells) {
        const action = verdictBy(payload, state.input, rule, budget(), state.cost);
        setText(says, action === ASKING ? "ask" : name(action));
        const { asked, wrong } = tally(payload, rule, budget(), state.cost);
        setText(asks, percent(asked));
        setText(errs, Number.isNaN(wrong) ? "–" : percent(wrong));
      }
    };
    return { element, update };
  }

  // Dragging in the picture

  const inPlot = (event) => {
    const { left, top } = plot.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  };
  const nearestLevel = (y) => {
    const scales = curveScales(payload, size);
    const far = story.alphas.map((a) => Math.abs(scales.y(a) - y));
    return far.indexOf(Math.min(...far));
  };
  const follow = (event) => {
    const [x, y] = inPlot(event);
    if (state.step === 2) set({ shift: Number(curveScales(payload, size).shiftAt(x).toFixed(2)) });
    else set({ level: nearestLevel(y) });
  };
  plot.addEventListener("pointerdown", (event) => {
    if (![2, 3].includes(state.step) || event.button !== 0) return;
    const far = Math.abs(inPlot(event)[1] - curveScales(payload, size).y(story.alphas[state.level]));
    if (state.step === 3 && event.pointerType === "touch" && far > FOUND) return;
    plot.setPointerCapture(event.pointerId);
    root.classList.add("dragging");
    follow(event);
    event.preventDefault();
  });
  plot.addEventListener("pointermove", (event) => plot.hasPointerCapture(event.pointerId) && follow(event));
  for (const event of ["pointerup", "pointercancel"]) plot.addEventListener(event, () => root.classList.remove("dragging"));

  // Keys, the address, the page around

  const life = new AbortController();
  const listen = (target, event, act) => target.addEventListener(event, act, { signal: life.signal });
  listen(document, "keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const taken = event.target.closest?.("input, select, textarea, a");
    if (!by || taken || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
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
    if (step >= 1 && step <= 5) state.step = Math.floor(step);
    if (input >= 0) Object.assign(state, { input, k: favourite(input) });
    wear(parts.get("theme"));
  }
  function wear(theme) {
    if (["light", "dark", "auto"].includes(theme)) state.theme = theme;
    root.dataset.theme = state.theme;
  }
  listen(window, "hashchange", () => (read(), draw()));
  // The page around may say which theme it wears, and is told how high this one is.
  const tellHeight = () => window.parent.postMessage({ decalHeight: Math.ceil(root.getBoundingClientRect().height) }, "*");
  listen(window, "message", ({ source, data }) => {
    if (source !== window.parent) return;
    wear(data?.decalTheme);
    if (data?.askHeight) tellHeight();
  });
  const height = new ResizeObserver(() => framed && tellHeight());
  height.observe(root);
  read();
  draw();

  return {
    destroy() {
      life.abort();
      clearTimeout(spoken);
      size.stop();
      height.disconnect();
      root.replaceChildren();
    },
  };
}

/** Where a sweep is: down to the lower shift, up to the upper one, back to none; and what it has passed. */
function sweepAt(share, [low, high]) {
  const ease = (x) => (1 - Math.cos(Math.PI * x)) / 2;
  if (share >= 1) return { shift: 0, seen: [low, high] };
  if (share < 0.3) return { shift: low * ease(share / 0.3), seen: [low * ease(share / 0.3), 0] };
  const up = low + (high - low) * ease((share - 0.3) / 0.45);
  if (share < 0.75) return { shift: up, seen: [low, Math.max(up, 0)] };
  return { shift: high * (1 - ease((share - 0.75) / 0.25)), seen: [low, high] };
}

/** A bar per class: from 0 to a probability, or from the lower to the upper one. */
function createBars(model) {
  const rows = [0, 1, 2].map((k) => {
    const part = (kind) => h("i", { class: kind });
    const [band, own, tip] = [part("band"), part("own"), part("now")];
    const value = h("span", { class: "value" });
    const row = h("li", { class: `class${k}`, "data-testid": `bar-${k}` }, h("span", { class: "who" }, className(model, k)), h("span", { class: "rail", "aria-hidden": "true" }, band, own, tip), value);
    return { row, band, own, tip, value };
  });
  const place = (element, low, high) => {
    element.style.left = `${100 * low}%`;
    element.style.width = `${100 * (high - low)}%`;
  };
  function show({ own, now = null, box = null, k = null }) {
    rows.forEach(({ row, band, own: mark, tip, value }, j) => {
      const [low, high] = box ? box[j] : [0, now[j]];
      place(band, low, high);
      place(mark, own[j], own[j]);
      place(tip, now ? now[j] : 0, now ? now[j] : 0);
      tip.hidden = !(box && now);
      mark.hidden = !box && now[j] === own[j];
      row.classList.toggle("interval", Boolean(box));
      row.classList.toggle("shifted", j === k);
      Object.assign(row.dataset, { low, high });
      setText(value, box ? `${(100 * low).toFixed(1)}–${percent(high)}` : percent(now[j]));
    });
  }
  return { element: h("ul", { class: "probabilities" }, rows.map(({ row }) => row)), show };
}

/** A slider with its name and its value. */
function range(key, title, bounds, onmove, ends = null) {
  const input = h("input", { type: "range", id: uniqueId(), ...bounds, "data-testid": key, oninput: () => onmove(Number(input.value)) });
  const output = h("output", { for: input.id, "data-testid": `${key}-value` });
  const scale = ends && h("div", { class: "ends", "aria-hidden": "true" }, ends.map((text) => h("span", null, text)));
  const element = h("div", { class: "ranged" }, h("label", { for: input.id }, title, " ", output), input, scale);
  const share = (value) => (value - bounds.min) / (bounds.max - bounds.min);
  const show = (value, text, spokenText) => {
    if (Number(input.value) !== value) input.value = value;
    input.style.setProperty("--share", share(value));
    input.setAttribute("aria-valuetext", spokenText);
    setText(output, text);
  };
  return { element, show };
}

function percentOf(alpha) {
  return `${Number((100 * alpha).toFixed(2))}\u00a0%`;
}
