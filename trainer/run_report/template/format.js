"use strict";
// Numbers and elements.

const kSvg = "http://www.w3.org/2000/svg";

// An element with attributes; children are elements or texts, never HTML.
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  return filled(made, attributes, children);
}

function shape(name, attributes, ...children) {
  const made = document.createElementNS(kSvg, name);
  return filled(made, attributes, children);
}

function filled(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined) made.append(child);
  }
  return made;
}

// Four digits, as people read them: 0.0123, 12.3, 1,234.
function digits(value, most = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 10 ** (most - 1)) return Math.round(value).toLocaleString("en-US");
  if (size !== 0 && size < 1e-3) return "< 0.001";
  return String(Number(value.toPrecision(most)));
}

const format = {
  plain: (value) => digits(value),
  loss: (value) => (Number.isFinite(value) ? value.toFixed(4) : "–"),
  percent: (value) => (Number.isFinite(value) ? (100 * value).toFixed(1) + " %" : "–"),
  ms: (value) => (value >= 1e4 ? digits(value / 1e3) + " s" : digits(value) + " ms"),
  rate: (value) => {
    if (!Number.isFinite(value)) return "–";
    if (value < 9999.5) return value.toFixed(0);
    return value < 999.95e3 ? (value / 1e3).toFixed(1) + "k" : (value / 1e6).toFixed(2) + "M";
  },
  bytes: (value) => {
    if (!Number.isFinite(value)) return "–";
    const mib = value / 2 ** 20;
    return mib < 1023.95 ? digits(mib, 4) + " MiB" : digits(mib / 1024, 4) + " GiB";
  },
  seconds: (value) => {
    if (!Number.isFinite(value)) return "–";
    if (value < 59.95) return digits(value, 3) + " s";
    const whole = Math.round(value);
    const two = (number) => String(number).padStart(2, "0");
    if (whole < 3600) return Math.floor(whole / 60) + ":" + two(whole % 60);
    return Math.floor(whole / 3600) + ":" + two(Math.floor(whole / 60) % 60) + ":" + two(whole % 60);
  },
  microseconds: (value) => (value < 1000 ? digits(value, 4) + " µs" : digits(value / 1e3, 4) + " ms"),
};

// A figure of the data, marked with its place there, so that what is shown can be compared with what is.
function figure(path, value, kind, tag = "span") {
  return element(tag, { "data-path": path, "data-kind": kind }, format[kind](value));
}

// Round places for ticks within [low, high].
function ticks(low, high, most) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, most);
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * unit).find((each) => each >= rough);
  const made = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high * (1 + 1e-12) + 1e-12 * step; ++at) made.push(at * step);
  return made;
}

const tip = {
  show(event, ...content) {
    const box = document.getElementById("tip");
    box.replaceChildren(...content.flat());
    box.hidden = false;
    const gap = 14;
    const left = event.clientX + gap + box.offsetWidth > innerWidth ? event.clientX - gap - box.offsetWidth : event.clientX + gap;
    const top = event.clientY + gap + box.offsetHeight > innerHeight ? event.clientY - gap - box.offsetHeight : event.clientY + gap;
    box.style.left = Math.max(4, left) + "px";
    box.style.top = Math.max(4, top) + "px";
  },
  hide() {
    document.getElementById("tip").hidden = true;
  },
  row: (name, value, colour) =>
    element("div", { class: "row" },
      element("span", {}, colour ? element("span", { class: "swatch", style: "background:" + colour }) : null, name),
      element("b", {}, value)),
};

function legend(entries) {
  return element("div", { class: "legend" },
    entries.map(([name, colour, meaning]) =>
      element("span", { title: meaning }, element("span", { class: "swatch", style: "background:" + colour }), name)));
}
