// The parts of the page, from top to bottom. Each takes the data and gives elements.

const runColour = (index) => `var(--run-${index})`;
const causeColour = (at) => `var(--cause-${at})`;
const runTitle = (data, index) => (data.runs.length > 1 ? data.runs[index].title : "");
const shortened = (text, most) => (text.length > most ? "…" + text.slice(1 - most) : text);
const withSteps = (run) => run.steps.first.length > 0;
const section = (title, note, ...content) => [element("h2", {}, title), note ? element("p", { class: "note" }, note) : null, ...content];

// One element a run, beside each other, with the run's name where there are two.
function perRun(data, make) {
  return element("div", { class: "columns" }, data.runs.map((run, index) =>
    element("div", {}, data.runs.length > 1 ? element("h3", { class: "run-" + index }, run.title) : null, make(run, index))));
}

function headerOf(data) {
  const describe = (run) => {
    const job = run.job || {};
    const plan = run.plan || {};
    const parts = [];
    if (plan.parameters) parts.push(`${format.rate(plan.parameters)} parameters`);
    if (job.layers) parts.push(`${job.layers} layers of ${job.hidden_size}`);
    if (job.pipeline) parts.push(`${job.pipeline} pipeline rank${job.pipeline > 1 ? "s" : ""}${job.replicas > 1 ? " × " + job.replicas + " replicas" : ""}`);
    if (job.schedule) parts.push(job.schedule + (job.chunks > 1 ? ` with ${job.chunks} chunks` : ""));
    if (plan.micro_batches) parts.push(`${plan.micro_batches} micro-batches of ${job.micro_batch} × ${job.sequence_length} tokens`);
    const about = run.environment || {};
    if (about.host) parts.push(`on ${about.host}${about["processor/model"] ? " (" + about["processor/model"] + ")" : ""}`);
    return parts.join(" · ");
  };
  return element("header", {},
    element("h1", {}, data.runs.map((run) => run.title).join(" and ")),
    data.runs.map((run, index) => {
      const summary = run.summary;
      const state = summary.life === "killed" || summary.life === "silent" ? summary.life : summary.state;
      return element("p", {},
        data.runs.length > 1 ? element("span", { class: "swatch", style: "background:" + runColour(index) }) : null,
        data.runs.length > 1 ? run.title + ": " : "",
        `${state}, step ${digits(summary.step, 9)}${summary.steps ? " of " + digits(summary.steps, 9) : ""} · ${describe(run)}`);
    }));
}

function tiles(data) {
  const tile = (name, path, kind, title) => {
    const values = data.runs.map((run, index) => {
      const value = path.split(".").reduce((at, key) => (at === undefined || at === null ? undefined : at[key]), run);
      if (value === undefined || value === null) return null;
      return element("div", { class: "value" + (data.runs.length > 1 ? " run-" + index : "") }, figure(`runs.${index}.${path}`, value, kind));
    });
    if (values.every((value) => value === null)) return null;
    return element("div", { class: "tile", title }, element("div", { class: "name" }, name), values.map((value) => value || element("div", { class: "value" }, "–")));
  };
  return element("div", { class: "tiles" },
    tile("loss", "summary.loss", "loss", "of the last step"),
    tile("tokens a second", "summary.tokens_per_second", "rate", "over the last 20 steps, pauses included"),
    tile("step", "summary.step_ms", "ms", "mean of the last 20, pauses included"),
    tile("bubble", "summary.bubble_ratio", "percent", "fill, drain, waiting and transfer, as a share of the last 20 steps"),
    tile("idle", "summary.idle_ratio", "percent", "all that is not F, I, W, R or optimizer, of the last 20 steps"),
    tile("goodput", "goodput.goodput", "percent", "F, I, W and optimizer of steps that count, as a share of all the time since the start"),
    tile("wall clock", "goodput.wall_seconds", "seconds", "from the first start to the last sign of life"));
}

function adviceOf(data) {
  return section("What the figures mean", "By the last 256 steps at most, at the costs that they measured.", perRun(data, (run) => {
    const advice = run.advice;
    const [verdict, ...lines] = advice.text;
    const items = lines.map((line) => element("li", {}, line.replace(/^\d+\. /, "")));
    return element("div", { class: "advice " + advice.level }, element("p", {}, verdict), items.length > 0 ? element("ol", {}, items) : null);
  }));
}

function progressOf(data) {
  const runs = data.runs;
  if (!runs.some(withSteps)) return section("Loss and throughput", "No step was made yet.");
  const shown = [...runs.keys()].filter((index) => withSteps(runs[index]));
  const series = (column, kind, name) => shown.map((run) => ({
    run, name: runs.length > 1 ? runs[run].title : name, values: runs[run].steps[column], colour: runColour(run), kind }));
  const stepSeries = series("step_ms", "ms", "measured").concat(shown
    .filter((run) => runs[run].steps.predicted_step_ms.some((value) => value !== null))
    .map((run) => ({ run, name: runs.length > 1 ? runs[run].title + ", predicted" : "predicted", values: runs[run].steps.predicted_step_ms, colour: runColour(run), dashed: true, kind: "ms" })));
  return section("Loss and throughput",
    "Means of steps in a row where there are more than a chart has room for. Circles are evaluations, dashed lines predictions; marks on the axis are alarms (▲), decisions (◇ tried or weighed, ◆ carried out or ended) and restarts (│).",
    element("div", { class: "columns" },
      lineChart(runs, { title: "loss", series: series("loss", "loss", "loss"), tick: (value) => digits(value, 4), points: shown.map((run) => ({ run, list: runs[run].validation, colour: runColour(run) })) }),
      lineChart(runs, { title: "tokens a second", series: series("tokens_per_second", "rate", "tokens a second"), fromZero: true }),
      lineChart(runs, { title: "step, ms, without pauses", series: stepSeries, tick: (value) => digits(value, 4), fromZero: true }),
      lineChart(runs, { title: "bubble, share of the step", series: series("bubble_ratio", "percent", "bubble"), tick: (value) => Math.round(100 * value) + " %", fromZero: true })));
}

function causesOf(data) {
  if (!data.runs.some(withSteps)) return [];
  const occurring = data.causes.map((cause, at) => at).filter((at) => data.runs.some((run) =>
    run.steps.causes_ms.some((causes) => causes[at] > 1e-3 * causes.reduce((sum, each) => sum + each, 0))));
  const hidden = new Set();
  const box = element("div", {});
  const idleTop = () => {
    let most = 0.05;
    for (const run of data.runs) {
      for (const causes of run.steps.causes_ms) {
        const all = causes.reduce((sum, each) => sum + each, 0) || 1;
        most = Math.max(most, causes.reduce((sum, each, at) => sum + (data.causes[at].idle ? each : 0), 0) / all);
      }
    }
    return Math.min(1, Math.ceil(most * 20) / 20);
  };
  let work = false;
  const draw = () => {
    const chosen = occurring.filter((at) => !hidden.has(at) && (work || data.causes[at].idle));
    box.replaceChildren(perRun(data, (run, index) => (withSteps(run) ? stackedChart(data, data.runs, index, chosen, work ? 1 : idleTop()) : "no steps")));
  };
  const entries = element("div", { class: "legend" }, occurring.map((at) => {
    const cause = data.causes[at];
    const entry = element("button", { type: "button", "aria-pressed": "true", title: cause.meaning }, element("span", { class: "swatch", style: "background:" + causeColour(at) }), cause.name);
    entry.addEventListener("click", () => {
      if (hidden.has(at)) hidden.delete(at); else hidden.add(at);
      entry.setAttribute("aria-pressed", String(!hidden.has(at)));
      draw();
    });
    return entry;
  }));
  const toggle = element("button", { type: "button" }, "show work too");
  toggle.addEventListener("click", () => { work = !work; toggle.textContent = work ? "idle time only" : "show work too"; draw(); });
  draw();
  return section("Where the time goes", "Idle time by cause, mean over the ranks, pauses for evaluation and checkpoint included. A cause's name shows and hides it.",
    element("div", { class: "tools" }, toggle), entries, box);
}

function ranksOf(data) {
  if (!data.runs.some((run) => run.ranks.length > 0)) return [];
  const label = (run, rank) => (run.ranks.some((each) => each.replica > 0) ? `rank ${rank.replica}.${rank.rank}` : `rank ${rank.rank}`);
  const times = (run, index) => bars(run.ranks.map((rank, number) => {
    const all = rank.causes_ms.reduce((sum, each) => sum + each, 0);
    const idle = rank.causes_ms.reduce((sum, each, at) => sum + (data.causes[at].idle ? each : 0), 0);
    const culprit = [...rank.waited_for].sort((a, b) => b.ms - a.ms)[0];
    const behind = culprit ? `waits mostly for ${culprit.link_to >= 0 ? `the link ${culprit.rank} → ${culprit.link_to}` : `rank ${culprit.rank}`} (${format.ms(culprit.ms)} a step)` : null;
    return { label: label(run, rank), end: format.percent(idle / all) + " idle", parts: rank.causes_ms.map((value, at) => ({
      name: data.causes[at].name, value, colour: causeColour(at), darkText: data.causes[at].dark_text, tip: behind,
      text: `${format.ms(value)}, ${format.percent(value / all)}`, path: `runs.${index}.ranks.${number}` })) };
  }), "ms", { title: "time of the ranks by cause", right: 92 });
  const arenaNames = ["parameters", "gradients", "optimizer", "activations", "communication", "workspace"];
  const arenaColours = ["#1f5fa8", "#4a9fd0", "#7a6bb8", "#e8842c", "#c0392b", "#8f99a6"];
  const memory = (run) => {
    const ranks = run.ranks.filter((rank) => rank.replica === 0 && rank.arenas_bytes && Object.keys(rank.arenas_bytes).length > 0);
    if (ranks.length === 0) return "not planned";
    return bars(ranks.map((rank) => ({
      label: label(run, rank), end: format.bytes(Object.values(rank.arenas_bytes).reduce((sum, each) => sum + each, 0)),
      parts: arenaNames.filter((name) => rank.arenas_bytes[name]).map((name) => ({
        name, value: rank.arenas_bytes[name], colour: arenaColours[arenaNames.indexOf(name)], darkText: ["gradients", "activations", "workspace"].includes(name) })) })),
    "bytes", { title: "planned memory of the ranks", right: 92 });
  };
  const present = arenaNames.filter((name) => data.runs.some((run) => run.ranks.some((rank) => rank.arenas_bytes && rank.arenas_bytes[name])));
  return section("Ranks", "Mean of all steps that count. A rank's bar is its step from the end of the one before, work first.",
    perRun(data, (run, index) => times(run, index)),
    element("h3", {}, "What the stages hold and cost"),
    perRun(data, stageTable),
    element("h3", {}, "Planned memory of a rank's device"),
    legend(present.map((name) => [name, arenaColours[arenaNames.indexOf(name)]])),
    perRun(data, memory));
}

function stageTable(run, index) {
  const stages = run.plan.stages || [];
  const micro = run.plan.micro_batches || 1;
  const head = (text, number = true) => element("th", { class: number ? "number" : null }, text);
  const rows = run.ranks.filter((rank) => rank.replica === 0).map((rank) => {
    const own = stages.filter((stage) => stage.rank === rank.rank);
    const planned = (key) => (own.length > 0 ? own.reduce((sum, stage) => sum + stage[key], 0) : null);
    const cell = (key, part) => {
      const value = planned(key);
      const measured = (rank.parts_ms[part] || 0) / micro;
      return element("td", { class: "number", title: value === null ? "measured" : "measured, and planned in brackets" }, digits(measured, 3), value === null ? "" : ` (${digits(value, 3)})`);
    };
    return element("tr", {}, element("td", { class: "number" }, "rank " + rank.rank), element("td", {}, (rank.stages || []).join("; ")),
      cell("forward_ms", "forward"), cell("backward_input_ms", "backward_input"), cell("backward_weight_ms", "backward_weight"), cell("recompute_ms", "recompute"),
      element("td", { class: "number" }, figure(`runs.${index}.ranks.${run.ranks.indexOf(rank)}.busy_ms`, rank.busy_ms, "ms")));
  });
  return element("div", { class: "scroll" }, element("table", {},
    element("thead", {}, element("tr", {}, head("", false), head("units", false), head("F, ms"), head("I, ms"), head("W, ms"), head("R, ms"), head("busy a step"))),
    element("tbody", {}, rows)));
}

function timelinesOf(data) {
  const traced = data.runs.filter((run) => run.traces.length > 0);
  if (traced.length === 0) return [];
  return section("Time line", "Steps that were traced. Drag to move; + and −, or the wheel with Ctrl, to zoom; double-click for the whole step. Thick rows compute (B: a whole backward pass); below them sends, receives (pale: from when they were posted) and reductions. Arrows are messages: those of the instruction under the pointer, or all where there is room.",
    traced.map((run) => element("div", {}, data.runs.length > 1 ? element("h3", { class: "run-" + data.runs.indexOf(run) }, run.title) : null, timeline(data, run))));
}

function plansOf(data) {
  const of = data.runs.map((run, index) => [run, index]).filter(([run]) => run.prediction);
  if (of.length === 0) return [];
  return section("Plan and measurement", "Medians of the last steps of the run, beside what the simulator expects of the costs that the run measured, and what was planned before it where a profile was known.",
    element("div", { class: "columns" }, of.map(([run, index]) => {
      const all = run.prediction;
      const path = `runs.${index}.prediction.`;
      const cell = (key, kind) => element("td", { class: "number" }, all[key] === undefined ? "–" : figure(path + key, all[key], kind));
      const row = (name, key, planned, kind) => element("tr", {}, element("td", {}, name), cell(key, kind), cell("predicted_" + key, kind), cell(planned, kind));
      const causes = Object.entries(all.causes || {}).filter(([, each]) => Math.max(each.ms, each.predicted_ms) > 0.005 * all.step_ms)
        .sort((a, b) => b[1].ms - a[1].ms);
      const number = (text) => element("th", { class: "number" }, text);
      return element("div", { class: "scroll" }, data.runs.length > 1 ? element("h3", { class: "run-" + index }, run.title) : null,
        element("table", {},
          element("thead", {}, element("tr", {}, element("th", {}, ""), number("measured"), number("predicted"), number("planned"))),
          element("tbody", {}, row("step", "step_ms", "planned_step_ms", "ms"), row("bubble", "bubble_ratio", "planned_bubble_ratio", "percent"),
            row("stage imbalance", "stage_imbalance", "planned_stage_imbalance", "percent"),
            causes.map(([name, each]) => element("tr", {}, element("td", {}, name.replace("_", " ")),
              element("td", { class: "number" }, figure(`${path}causes.${name}.ms`, each.ms, "ms")),
              element("td", { class: "number" }, figure(`${path}causes.${name}.predicted_ms`, each.predicted_ms, "ms")), element("td", {}))))));
    })));
}

function goodputOf(data) {
  const runs = data.runs.filter((run) => run.goodput.parts.length > 0);
  if (runs.length === 0) return [];
  const other = { "redone steps": "#b3261e", "start and end": "#b9a6d3", "not running": "#444b54" };
  const colourOf = (name) => {
    const at = data.causes.findIndex((cause) => cause.name === name);
    return at >= 0 ? causeColour(at) : other[name];
  };
  const dark = (name) => (data.causes.find((cause) => cause.name === name) || { dark_text: name === "start and end" }).dark_text;
  const names = [...new Set(runs.flatMap((run) => run.goodput.parts.map((part) => part.name)))];
  return section("Goodput", "All of the wall-clock time since the first start, by what it was spent on: work of steps that count, and what was lost to waiting, pauses, steps that had to be done again, starting, and standing still between two starts.",
    bars(runs.map((run) => ({ label: data.runs.length > 1 ? shortened(run.title, 14) : "", end: "", parts: run.goodput.parts.map((part) => ({
      name: part.name, value: part.seconds / run.goodput.wall_seconds, colour: colourOf(part.name), darkText: dark(part.name), text: `${format.seconds(part.seconds)}, ${format.percent(part.seconds / run.goodput.wall_seconds)}` })) })),
    "percent", { left: data.runs.length > 1 ? 104 : 0, right: 0, most: 1, title: "wall-clock time by what it was spent on" }),
    legend(names.map((name) => [name, colourOf(name), (data.causes.find((cause) => cause.name === name) || {}).meaning])),
    perRun(data, (run, index) => element("div", { class: "scroll" }, element("table", {},
      element("tbody", {}, run.goodput.parts.map((part, number) => element("tr", {}, element("td", {}, part.name),
        element("td", { class: "number" }, figure(`runs.${index}.goodput.parts.${number}.seconds`, part.seconds, "seconds")),
        element("td", { class: "number" }, format.percent(part.seconds / run.goodput.wall_seconds))))))))); 
}

function eventsOf(data) {
  return section("What happened", null, perRun(data, (run) => {
    if (run.events.length === 0) return "nothing was noted";
    return element("div", { class: "events" }, element("table", {}, element("tbody", {}, [...run.events].reverse().map((event) =>
      element("tr", { class: ["budget_alarm", "nonfinite", "save_failed", "watchdog", "budget_failed"].includes(event.event) ? "alarm" : null },
        element("td", { class: "number" }, "step " + event.step), element("td", {}, event.time.slice(0, 19).replace("T", " ")), element("td", {}, event.text))))));
  }));
}
