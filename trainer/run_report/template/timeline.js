// Time lines of traced steps: who did what when, and which message made whom wait.

const kLane = { compute: 24, send: 7, receive: 7, reduction: 7 };

// What an instruction's name begins with says its cause's colour: "F 3 of stage 2".
function kindOf(name) {
  const first = name.split(" ")[0];
  return { F: "F", I: "I", B: "I", W: "W", R: "R", optimizer: "optimizer", send: "transfer", receive: "transfer" }[first] || "reduction";
}

function timeline(data, run) {
  let trace = run.traces[0];
  let from = 0;
  let to = 1;
  let end = 1;
  let lanes = [];
  let height = 100;
  let hovered = -1;
  const colours = Object.fromEntries(data.causes.map((cause, at) => [cause.name, at]));
  const canvas = element("canvas", { tabindex: 0, role: "img", "aria-label": "time line of a step" });
  const left = 64;

  function place() {
    end = Math.max(1, ...trace.slices.map((slice) => slice[1] + slice[2]));
    from = 0;
    to = end;
    lanes = [];
    let y = 8;
    let rank = -1;
    trace.tracks.forEach(([of, stream], track) => {
      if (!trace.slices.some((slice) => slice[0] === track)) { lanes[track] = null; return; }
      if (of !== rank) { y += rank >= 0 ? 10 : 0; rank = of; }
      const tall = kLane[stream] || 7;
      lanes[track] = { y, tall, rank: of, stream };
      y += tall + 2;
    });
    height = y + 30;
  }

  const width = () => canvas.clientWidth;
  const scale = (time) => left + ((time - from) / (to - from)) * (width() - left - 6);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function draw() {
    if (width() <= 0) return;
    const ratio = devicePixelRatio || 1;
    canvas.style.height = height + "px";
    canvas.width = Math.round(width() * ratio);
    canvas.height = Math.round(height * ratio);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.clearRect(0, 0, width(), height);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const fills = data.causes.map((cause, at) => colour(`--cause-${at}`));
    const soft = colour("--soft");
    const faint = colour("--faint");
    for (const at of ticks(from, to, width() / 100)) {
      pen.fillStyle = faint;
      pen.fillRect(scale(at), 4, 1, height - 24);
      pen.fillStyle = soft;
      pen.textAlign = "center";
      pen.fillText(format.microseconds(at), scale(at), height - 10);
    }
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, width() - left, height);
    pen.clip();
    trace.slices.forEach((slice, number) => {
      const lane = lanes[slice[0]];
      const x = scale(slice[1]);
      const wide = Math.max(0.7, scale(slice[1] + slice[2]) - x);
      if (x > width() || x + wide < left) return;
      const name = trace.names[slice[3]];
      const cause = colours[kindOf(name)];
      pen.globalAlpha = lane.stream === "receive" ? 0.45 : 1;
      pen.fillStyle = fills[cause];
      pen.fillRect(x, lane.y, Math.max(0.5, wide - (wide > 3 ? 0.8 : 0)), lane.tall);
      pen.globalAlpha = 1;
      if (number === hovered) {
        pen.strokeStyle = colour("--ink");
        pen.lineWidth = 1.5;
        pen.strokeRect(x, lane.y, wide, lane.tall);
      }
      const label = name.split(" of ")[0];
      if (lane.tall > 12 && wide > 8 + 6.2 * label.length) {
        pen.fillStyle = data.causes[cause].dark_text ? "#14171a" : "#ffffff";
        pen.textAlign = "center";
        pen.fillText(label, (Math.max(x, left) + Math.min(x + wide, width())) / 2, lane.y + lane.tall / 2);
      }
    });
    drawArrows(pen);
    pen.restore();
    trace.tracks.forEach(([rank], track) => {
      const lane = lanes[track];
      if (!lane || lane.stream !== "compute") return;
      pen.fillStyle = colour("--ink");
      pen.textAlign = "left";
      pen.fillText("rank " + rank, 8, lane.y + lane.tall / 2);
    });
  }

  // All where they can be told apart, else those of what the pointer is on.
  function drawArrows(pen) {
    const visible = trace.arrows.filter((arrow) => arrow[3] >= from && arrow[1] <= to);
    const slice = hovered >= 0 ? trace.slices[hovered] : null;
    const chosen = slice ? visible.filter((arrow) => trace.names[slice[3]].endsWith(trace.names[arrow[4]]) || trace.names[arrow[4]] === trace.names[slice[3]]) : [];
    pen.lineWidth = 1;
    const few = visible.length <= width() / 12;
    for (const arrow of few ? visible : chosen) {
      const start = lanes[arrow[0]];
      const goal = lanes[arrow[2]];
      if (!start || !goal) continue;
      pen.strokeStyle = chosen.includes(arrow) ? colour("--ink") : colour("--soft");
      pen.globalAlpha = chosen.includes(arrow) ? 1 : 0.45;
      const [x1, y1, x2, y2] = [scale(arrow[1]), start.y + start.tall / 2, scale(arrow[3]), goal.y + goal.tall / 2];
      pen.beginPath();
      pen.moveTo(x1, y1);
      pen.bezierCurveTo(x1 + 12, y1, x2 - 12, y2, x2, y2);
      pen.stroke();
      pen.beginPath();
      pen.moveTo(x2, y2);
      pen.lineTo(x2 - 5, y2 - 2.5);
      pen.lineTo(x2 - 5, y2 + 2.5);
      pen.fillStyle = pen.strokeStyle;
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  function zoom(factor, centre) {
    const least = Math.min(end, 2);
    const now = Math.min(end, Math.max(least, (to - from) * factor));
    const share = (centre - from) / (to - from);
    from = Math.max(0, Math.min(end - now, centre - share * now));
    to = from + now;
    draw();
  }
  function move(by) {
    const now = to - from;
    from = Math.max(0, Math.min(end - now, from + by));
    to = from + now;
    draw();
  }
  const timeAt = (x) => from + ((x - left) / Math.max(1, width() - left - 6)) * (to - from);

  function sliceAt(x, y) {
    const time = timeAt(x);
    for (let number = trace.slices.length - 1; number >= 0; --number) {
      const slice = trace.slices[number];
      const lane = lanes[slice[0]];
      const slack = ((to - from) / width()) * 2;
      if (y >= lane.y - 1 && y <= lane.y + lane.tall + 1 && time >= slice[1] - slack && time <= slice[1] + slice[2] + slack) return number;
    }
    return -1;
  }

  let dragged = null;
  canvas.addEventListener("pointerdown", (event) => { dragged = event.clientX; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointerup", () => { dragged = null; });
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    if (dragged !== null && event.buttons) {
      move(((dragged - event.clientX) / Math.max(1, width() - left)) * (to - from));
      dragged = event.clientX;
      return;
    }
    const found = sliceAt(event.clientX - box.left, event.clientY - box.top);
    if (found !== hovered) { hovered = found; draw(); }
    if (found < 0) { tip.hide(); return; }
    const slice = trace.slices[found];
    const lane = lanes[slice[0]];
    const rows = [tip.row("from", format.microseconds(slice[1])), tip.row("takes", format.microseconds(slice[2]))];
    if (slice.length > 4) rows.push(tip.row(lane.stream === "send" ? "to rank" : "from rank", String(slice[5])), tip.row("bytes", format.bytes(slice[4])));
    tip.show(event, element("b", {}, `${trace.names[slice[3]]}, rank ${lane.rank}`), rows);
  });
  canvas.addEventListener("pointerleave", () => { tip.hide(); if (hovered >= 0) { hovered = -1; draw(); } });
  // A page scrolls by the wheel; only with a key, or once the time line was chosen, it zooms.
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    zoom(event.deltaY < 0 ? 0.8 : 1.25, timeAt(event.clientX - box.left));
  }, { passive: false });
  canvas.addEventListener("dblclick", () => zoom(1e9, 0));
  canvas.addEventListener("keydown", (event) => {
    const steps = { "+": () => zoom(0.7, (from + to) / 2), "=": () => zoom(0.7, (from + to) / 2), "-": () => zoom(1.4, (from + to) / 2),
      ArrowLeft: () => move((from - to) / 8), ArrowRight: () => move((to - from) / 8), 0: () => zoom(1e9, 0) };
    if (!steps[event.key]) return;
    event.preventDefault();
    steps[event.key]();
  });

  const button = (text, title, act) => {
    const made = element("button", { type: "button", title }, text);
    made.addEventListener("click", act);
    return made;
  };
  const choice = element("select", { "aria-label": "traced step" }, run.traces.map((each, at) => element("option", { value: at }, "step " + each.step)));
  choice.addEventListener("change", () => { trace = run.traces[Number(choice.value)]; hovered = -1; place(); draw(); });
  place();
  onResize(canvas, draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return element("div", {},
    element("div", { class: "tools" }, choice,
      button("+", "closer", () => zoom(0.6, (from + to) / 2)), button("−", "farther", () => zoom(1.6, (from + to) / 2)),
      button("‹", "earlier", () => move((from - to) / 4)), button("›", "later", () => move((to - from) / 4)),
      button("whole step", "all of it", () => zoom(1e9, 0))),
    canvas);
}
