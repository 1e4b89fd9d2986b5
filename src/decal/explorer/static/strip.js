// The strip: one example's ranges, a slider of caution, all inputs as dots, and what caution buys. All numbers are decal's (_strip.py).

import { h, setText, svg, watchSize } from "./dom.js";
import { count } from "./format.js";

const SWEEP = 800; // milliseconds

const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}\u00a0%`;
const range = (low, high) => {
  const [from, to] = [low, high].map((p) => (100 * p).toFixed(0));
  return from === to ? percent(low) : `${from}–${to}\u00a0%`;
};

/** "a, b or c" */
const either = (names) => [names.slice(0, -1).join(", "), ...names.slice(-1)].filter(Boolean).join(" or ");

/** What to do with an example at a level, and whether that is right. */
export function stripVerdict({ bars, others, true: truth }, level) {
  const left = bars.filter((bar) => bar.from <= level).sort((a, b) => a.from - b.from);
  const more = others.filter((from) => from <= level).length;
  const names = left.map(({ name }) => name).concat(more ? `${more}\u00a0${more > 1 ? "others" : "other"}` : []);
  const alone = names.length === 1;
  const what = alone ? `${names[0]}: filed alone` : `${either(names)}: ask a person`;
  if (!truth) return { what, truth: "", missed: false };
  const missed = left.every(({ name }) => name !== truth);
  if (missed) return { what, truth: `${alone ? "wrong" : "missed"}: it is ${truth}`, missed };
  return { what, truth: alone ? "right" : `it is ${truth}`, missed };
}

/** What a level buys: [what is filed, how much of it wrongly, how wrongly by the model's confidence]. */
export function stripSentence(data, level) {
  const filed = data.filed[level];
  if (!filed) return ["Nothing is filed alone.", "", ""];
  const share = `${percent(filed / data.count)} filed alone`;
  if (!data.wrong) return [`${share}.`, "", ""];
  const wrong = (errors) => percent(errors[level] / filed, 1);
  const tie = data.wrong[level] === data.confidence[level] ? ", as good" : ", too close to call";
  const how = { fewer: "", tie, more: ": decal loses here" }[data.compared[level]];
  const others = ` By confidence, as many: ${wrong(data.confidence)}${how}. By recalibrated confidence: ${wrong(data.recalibrated)}.`;
  return [`${share}, `, `${wrong(data.wrong)} wrong.`, others];
}

/** What holds at a level: the promise at the model's own, and what happened on these inputs. */
export function stripPromise({ own, promise, missed, count: n, noun }, level) {
  const where = level === own ? promise && `Promise: ${promise}.` : `${level < own ? "Less" : "More"} cautious than promised.`;
  return [where, missed && `Here ${percent(missed[level] / n, 1)} of ${count(n)} ${noun}s are missed.`].filter(Boolean).join(" ");
}

/** Draws the strip into an element. `onlevel` hears of the slider, `setLevel` moves it; `sweep` moves it at first, for those who like motion. */
export function mountStrip(root, data, { onlevel = () => {}, opens = Math.min(1, data.examples.length - 1), sweep = false } = {}) {
  const last = data.filed.length - 1;
  let [at, level] = [opens, data.own];

  const says = h("b");
  const place = h("span", { class: "strip-place" });
  const turn = (by) => {
    at = (at + by + data.examples.length) % data.examples.length;
    draw();
  };
  const button = (by, sign, label, testid) =>
    h("button", { type: "button", "aria-label": label, "data-testid": testid, onclick: () => turn(by) }, sign);
  const text = h("span", { class: "strip-text" });
  const meaning = h("span", { class: "strip-meaning" });
  const bars = h("tbody");
  const what = h("b");
  const truth = h("span");
  const slider = h("input", {
    type: "range", min: 0, max: last, value: level, "data-testid": "strip-caution", "aria-label": "Caution",
    oninput: () => move(Number(slider.value)),
  });
  const promise = h("p", { class: "strip-promise", "data-testid": "strip-promise" });
  const mark = h("span", { class: "strip-mark", "aria-hidden": "true" });
  mark.style.setProperty("--at", data.own / last);
  const [alone, person] = [h("span"), h("span")];
  const [filed, wrong, others] = [h("span"), h("span", { class: "strip-wrong" }), h("span")];
  const paths = ["person", "right", "wrong"].map((kind) => svg("path", { class: `strip-${kind}` }));
  const border = svg("path", { class: "strip-border" });
  const current = svg("circle", { class: "strip-current" });
  const picture = svg("svg", { role: "img", "data-testid": "strip-dots" }, paths, border, current);
  const dots = h("div", { class: "strip-dots" }, picture);

  root.classList.add("strip");
  root.replaceChildren(
    h("p", { class: "strip-ask" }, "Your classifier says ", says, ". How far can you trust that?"),
    h("div", { class: "strip-example" },
      h("div", { class: "strip-head" },
        h("p", { "data-testid": "strip-text" }, text, meaning),
        data.examples.length > 1 && h("div", { class: "strip-pager", role: "group", "aria-label": "Examples" },
          button(-1, "‹", "Previous example", "strip-previous"), place, button(1, "›", "Next example", "strip-next"))),
      h("table", { "data-testid": "strip-bars" },
        h("thead", null, h("tr", null,
          h("th", { scope: "col" }, h("span", { class: "strip-unseen" }, "Class")),
          h("th", { scope: "col" }, "model says"),
          h("th", { scope: "col" }, "the data allow ", h("span", { class: "strip-key", "aria-hidden": "true" }, h("s"), "model")))),
        bars),
      h("p", { class: "strip-verdict", "aria-live": "polite", "data-testid": "strip-verdict" }, "→ ", what, " ", truth)),
    h("div", { class: "strip-caution" }, h("span", { "aria-hidden": "true" }, "Caution"), h("div", null, slider, mark)),
    promise,
    h("div", { class: "strip-sides" }, alone, person),
    dots,
    h("p", { class: "strip-sentence", "data-testid": "strip-sentence" }, filed, wrong, others),
  );

  const size = watchSize(dots, drawDots);
  draw();
  if (sweep && !matchMedia("(prefers-reduced-motion: reduce)").matches) requestAnimationFrame(grow);
  return { setLevel, stop: size.stop };

  function setLevel(to) {
    level = Math.max(0, Math.min(last, to));
    draw();
  }

  /** From the least cautious level to the model's own, unless somebody moves. */
  function grow(start) {
    const begun = new AbortController();
    for (const kind of ["pointerdown", "keydown"]) root.addEventListener(kind, () => begun.abort(), { signal: begun.signal });
    const step = (now) => {
      if (begun.signal.aborted) return;
      const share = Math.min(1, Math.max(0, now - start) / SWEEP);
      setLevel(Math.round(data.own * share));
      if (share < 1) requestAnimationFrame(step);
      else begun.abort();
    };
    step(start);
  }

  function move(to) {
    level = to;
    draw();
    onlevel(level);
  }

  function draw() {
    const example = data.examples[at];
    setText(says, percent(Math.max(...example.bars.map((bar) => bar.says))));
    setText(place, `${at + 1} of ${data.examples.length}`);
    setText(text, `“${example.text}”`);
    setText(meaning, example.meaning ? ` ${example.meaning}` : "");
    drawBars(example);
    const verdict = stripVerdict(example, level);
    setText(what, verdict.what);
    setText(truth, verdict.truth && `(${verdict.truth})`);
    truth.className = verdict.missed ? "strip-wrong" : "strip-meaning";
    const sentence = stripSentence(data, level);
    [filed, wrong, others].forEach((part, i) => setText(part, sentence[i]));
    setText(promise, stripPromise(data, level));
    slider.value = level;
    slider.setAttribute("aria-valuetext", sentence[0] + sentence[1]);
    setText(alone, `${count(data.filed[level])} filed alone`);
    setText(person, `${count(data.count - data.filed[level])} ask a person`);
    drawDots();
  }

  function drawBars({ bars: shown, true: truth }) {
    if (bars.children.length !== shown.length) bars.replaceChildren(...shown.map(() => barRow()));
    shown.forEach((bar, i) => {
      const [name, model, allowed] = bars.children[i].children;
      const [low, high] = [bar.lower[level], bar.upper[level]];
      bars.children[i].classList.toggle("strip-out", bar.from > level);
      setText(name, bar.name === truth ? `${bar.name} ✓` : bar.name);
      name.title = bar.name === truth ? "The true class" : "";
      putBar(model, 0, bar.says, bar.says);
      setText(model.lastChild, percent(bar.says));
      putBar(allowed, low, high, bar.says);
      setText(allowed.lastChild, range(low, high));
    });
  }

  /** Dots in columns, in the order in which they stop being filed alone. */
  function drawDots() {
    const width = dots.clientWidth;
    if (!width) return;
    const n = data.dots.length;
    const high = Math.ceil(n / Math.floor(width / (width < 480 ? 4.4 : 5.4)));
    const cell = width / Math.ceil(n / high);
    const [x, y] = [(i) => (Math.floor(i / high) + 0.5) * cell, (i) => ((i % high) + 0.5) * cell];
    const left = Math.round((data.filed[level] / data.count) * n);
    const marks = ["", "", ""];
    for (let i = 0; i < n; i += 1) marks[i >= left ? 0 : 1 + Number(data.dots[i])] += `M${x(i).toFixed(1)} ${y(i).toFixed(1)}h0`;
    paths.forEach((path, kind) => path.setAttribute("d", marks[kind]));
    picture.setAttribute("viewBox", `0 0 ${width} ${high * cell}`);
    picture.setAttribute("height", high * cell);
    picture.setAttribute("aria-label", `${count(data.count)} dots. ${filed.textContent}${wrong.textContent}`);
    const [edge, step] = [x(left) - cell / 2, y(left) - cell / 2]; // where the next one stands
    border.setAttribute("d", `M${edge + cell} 0V${step}H${edge}V${high * cell}`);
    const dot = data.examples[at].dot;
    for (const [name, value] of [["cx", x(dot)], ["cy", y(dot)], ["r", cell * 0.9]]) current.setAttribute(name, value);
  }
}

function barRow() {
  const bar = () => h("td", null, h("span", { class: "strip-bar", "aria-hidden": "true" }, h("i"), h("s")), h("span"));
  return h("tr", null, h("th", { scope: "row" }), bar(), bar());
}

/** Through the style's own properties, which a content security policy allows. */
function putBar(cell, low, high, tick) {
  for (const [name, value] of [["--low", low], ["--high", high], ["--tick", tick]]) cell.firstChild.style.setProperty(name, value);
}
