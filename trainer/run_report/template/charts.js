// Line charts, stacked areas and bars. All follow the width of the page.

const kMargin = { left: 58, right: 14, top: 26, bottom: 36 };

// After the frame in which the size changed: a drawing changes sizes itself.
function onResize(of, act) {
  new ResizeObserver(() => requestAnimationFrame(act)).observe(of);
}

// Calls draw(width) now and whenever the width changes.
function responsive(draw) {
  const box = element("div", { class: "chart" });
  let width = 0;
  const redraw = () => {
    const now = Math.floor(box.clientWidth);
    if (now <= 0 || now === width) return;
    width = now;
    box.replaceChildren(draw(width));
  };
  onResize(box, redraw);
  return box;
}

// Frame, axes and what is common to charts over steps. `y`: {low, high, kind, name}.
function stepFrame(width, height, steps, y, title) {
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": title });
  const right = width - kMargin.right;
  const bottom = height - kMargin.bottom;
  const scaleX = (step) => kMargin.left + ((step - steps.low) / Math.max(1, steps.high - steps.low)) * (right - kMargin.left);
  const scaleY = (value) => bottom - ((value - y.low) / (y.high - y.low || 1)) * (bottom - kMargin.top);
  for (const at of ticks(y.low, y.high, height / 45)) {
    svg.append(shape("line", { class: "grid", x1: kMargin.left, x2: right, y1: scaleY(at), y2: scaleY(at) }),
      shape("text", { x: kMargin.left - 7, y: scaleY(at) + 4, "text-anchor": "end" }, y.tick(at)));
  }
  const places = ticks(steps.low, steps.high, width / 90).filter((at) => Number.isInteger(at));
  for (const at of places) {
    svg.append(shape("line", { class: "axis", x1: scaleX(at), x2: scaleX(at), y1: bottom, y2: bottom + 4 }),
      shape("text", { x: scaleX(at), y: bottom + 16, "text-anchor": "middle" }, at.toLocaleString("en-US")));
  }
  svg.append(shape("line", { class: "axis", x1: kMargin.left, x2: right, y1: bottom, y2: bottom }),
    shape("text", { x: right, y: bottom + 30, "text-anchor": "end" }, "step"),
    shape("text", { class: "label", x: 0, y: 11 }, y.name));
  return { svg, scaleX, scaleY, right, bottom };
}

const kEventMarks = {
  budget_alarm: ["▲", "var(--alarm)"], nonfinite: ["▲", "var(--alarm)"], save_failed: ["▲", "var(--alarm)"],
  budget_failed: ["▲", "var(--alarm)"], spike: ["▲", "var(--run-1)"], budget_alarm_over: ["△", "var(--good)"],
  budget_decision: ["◇", "var(--soft)"], budget_kept: ["◆", "var(--good)"], rearranged: ["◆", "var(--run-0)"],
  budget_rolled_back: ["◆", "var(--run-1)"], budget_by_hand: ["◇", "var(--run-0)"], start: ["│", "var(--soft)"],
};

// Alarms, decisions and restarts on the axis.
function addEvents(frame, runs, indices) {
  for (const index of indices) {
    for (const event of runs[index].events) {
      const mark = kEventMarks[event.event];
      if (!mark || (event.event === "start" && event.step === 0)) continue;
      const x = frame.scaleX(event.step);
      if (!(x >= kMargin.left && x <= frame.right)) continue;
      const sign = shape("text", { class: "event", x, y: frame.bottom + 1, "text-anchor": "middle", style: "fill:" + mark[1] }, mark[0]);
      sign.addEventListener("pointermove", (pointer) => {
        pointer.stopPropagation();
        tip.show(pointer, element("b", {}, `step ${event.step}: ${event.event}`), element("div", {}, event.text));
      });
      sign.addEventListener("pointerleave", tip.hide);
      frame.svg.append(sign);
    }
  }
}

// The bucket whose steps are nearest.
function nearest(steps, step) {
  let low = 0;
  let high = steps.last.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps.last[middle] < step) low = middle + 1; else high = middle;
  }
  return low;
}

const stepsText = (steps, at) =>
  steps.first[at] === steps.last[at] ? `step ${steps.first[at]}` : `steps ${steps.first[at]} to ${steps.last[at]}`;
const middleOf = (steps, at) => (steps.first[at] + steps.last[at]) / 2;

function stepRange(runs) {
  const all = runs.filter((run) => run.steps.first.length > 0);
  return {
    low: Math.min(...all.map((run) => run.steps.first[0])),
    high: Math.max(...all.map((run) => run.steps.last[run.steps.last.length - 1])),
  };
}

// Values that make nothing but one peak unreadable are cut: the top is the 99th percentile's, or the largest of few.
function range(values, fromZero) {
  const sorted = values.filter((value) => Number.isFinite(value)).sort((a, b) => a - b);
  if (sorted.length === 0) return { low: 0, high: 1 };
  const top = sorted[sorted.length - 1];
  const usual = sorted[Math.floor((sorted.length - 1) * 0.99)];
  const high = sorted.length > 50 && top > 1.5 * usual ? 1.25 * usual : top;
  const low = fromZero ? 0 : sorted[0];
  const room = (high - low || Math.abs(high) || 1) * 0.05;
  return { low: fromZero ? 0 : low - room, high: high + room };
}

// `series`: [{run, name, values, colour, dashed, kind}], over the buckets of its run; `points`: [{run, list, colour}].
function lineChart(runs, options) {
  const height = options.height || 240;
  return responsive((width) => {
    const { low, high } = range(options.series.flatMap((each) => each.values).concat((options.points || []).flatMap((each) => each.list.map((at) => at[1]))), options.fromZero);
    const kind = options.series[0].kind;
    const frame = stepFrame(width, height, stepRange(runs), { low, high, tick: options.tick || format[kind], name: options.title }, options.title);
    const clip = "clip" + String(Math.random()).slice(2);
    frame.svg.append(shape("clipPath", { id: clip }, shape("rect", { x: kMargin.left, y: kMargin.top - 6, width: Math.max(0, frame.right - kMargin.left), height: frame.bottom - kMargin.top + 8 })));
    for (const each of options.series) {
      const steps = runs[each.run].steps;
      let path = "";
      let open = false;
      each.values.forEach((value, at) => {
        if (!Number.isFinite(value)) { open = false; return; }
        path += `${open ? "L" : "M"}${frame.scaleX(middleOf(steps, at)).toFixed(1)} ${frame.scaleY(value).toFixed(1)}`;
        open = true;
      });
      frame.svg.append(shape("path", { class: "line" + (each.dashed ? " dashed" : ""), d: path, style: "stroke:" + each.colour, "clip-path": `url(#${clip})` }));
    }
    for (const each of options.points || []) {
      for (const [step, value] of each.list) {
        frame.svg.append(shape("circle", { cx: frame.scaleX(step), cy: frame.scaleY(value), r: 2.7, style: `fill:var(--paper);stroke:${each.colour};stroke-width:1.4` }));
      }
    }
    addEvents(frame, runs, runs.keys());
    addCursor(frame, runs, width, (step) => options.series.map((each) => {
      const steps = runs[each.run].steps;
      const at = nearest(steps, step);
      return [tip.row(each.name, format[each.kind](each.values[at]), each.colour), stepsText(steps, at)];
    }));
    return frame.svg;
  });
}

// A line under the pointer and what is there. `at(step)`: [[row, place], …].
function addCursor(frame, runs, width, at) {
  const steps = stepRange(runs);
  const cursor = shape("line", { class: "cursor", y1: kMargin.top, y2: frame.bottom, visibility: "hidden" });
  frame.svg.append(cursor);
  frame.svg.addEventListener("pointermove", (event) => {
    const box = frame.svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * width;
    if (x < kMargin.left - 4 || x > frame.right + 4) { tip.hide(); cursor.setAttribute("visibility", "hidden"); return; }
    const step = Math.round(steps.low + ((x - kMargin.left) / Math.max(1, frame.right - kMargin.left)) * (steps.high - steps.low));
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.setAttribute("visibility", "visible");
    const rows = at(step);
    tip.show(event, element("b", {}, rows.length > 0 ? rows[0][1] : `step ${step}`), rows.map((row) => row[0]));
  });
  frame.svg.addEventListener("pointerleave", () => { tip.hide(); cursor.setAttribute("visibility", "hidden"); });
}

// Shares of a step by cause, one upon the other, of one run. `chosen`: indices of causes.
function stackedChart(data, runs, index, chosen, top) {
  return responsive((width) => {
    const run = runs[index];
    const steps = run.steps;
    const frame = stepFrame(width, 260, stepRange(runs), { low: 0, high: top, tick: (value) => Math.round(100 * value) + " %", name: "share of the time" }, "time by cause over the steps");
    const shares = steps.causes_ms.map((causes) => {
      const all = causes.reduce((sum, each) => sum + each, 0) || 1;
      return causes.map((each) => each / all);
    });
    let below = shares.map(() => 0);
    for (const cause of chosen) {
      const above = shares.map((each, at) => Math.min(top, below[at] + each[cause]));
      if (above.some((value, at) => value > below[at])) {
        const forth = above.map((value, at) => `${frame.scaleX(edge(steps, at)).toFixed(1)} ${frame.scaleY(value).toFixed(1)}`);
        const back = below.map((value, at) => `${frame.scaleX(edge(steps, at)).toFixed(1)} ${frame.scaleY(value).toFixed(1)}`).reverse();
        frame.svg.append(shape("path", { d: "M" + forth.concat(back).join("L") + "Z", style: `fill:var(--cause-${cause})` }));
      }
      below = above;
    }
    addEvents(frame, runs, [index]);
    addCursor(frame, runs, width, (step) => {
      const at = nearest(steps, step);
      const place = stepsText(steps, at);
      return chosen.filter((cause) => shares[at][cause] >= 5e-4).reverse()
        .map((cause) => [tip.row(data.causes[cause].name, format.percent(shares[at][cause]), `var(--cause-${cause})`), place]);
    });
    return frame.svg;
  });
}
const edge = (steps, at) => (at === 0 ? steps.first[0] : at === steps.last.length - 1 ? steps.last[at] : middleOf(steps, at));

// Bars from left to right. `rows`: [{label, parts: [{name, value, colour, darkText, tip}]}]; `unit`: name of a format.
function bars(rows, unit, options = {}) {
  const high = 26;
  const gap = 7;
  const left = options.left ?? 66;
  return responsive((width) => {
    const most = options.most || Math.max(...rows.map((row) => row.parts.reduce((sum, part) => sum + part.value, 0)), 1e-12);
    const right = options.right ?? 84;
    const height = rows.length * (high + gap) + 4;
    const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": options.title || "bars" });
    const scale = (value) => (value / most) * (width - left - right);
    rows.forEach((row, number) => {
      const y = number * (high + gap);
      svg.append(shape("text", { class: "label", x: 0, y: y + high / 2 + 4 }, row.label));
      let x = left;
      for (const part of row.parts) {
        const wide = scale(part.value);
        if (!(wide > 0)) continue;
        const rect = shape("rect", { x, y, width: wide, height: high, style: "fill:" + part.colour });
        rect.addEventListener("pointermove", (event) => tip.show(event, element("b", {}, row.label), tip.row(part.name, part.text || format[unit](part.value), part.colour), part.tip ? element("div", {}, part.tip) : []));
        rect.addEventListener("pointerleave", tip.hide);
        svg.append(rect);
        if (wide > 8 * String(part.name).length + 8) {
          svg.append(shape("text", { x: x + wide / 2, y: y + high / 2 + 4, "text-anchor": "middle", "pointer-events": "none", class: part.darkText ? "on-light" : "on-dark" }, part.name));
        }
        x += wide;
      }
      if (row.end) svg.append(shape("text", { class: "label", x: x + 7, y: y + high / 2 + 4 }, row.end));
    });
    return svg;
  });
}
