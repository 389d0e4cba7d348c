// Opens pages of `penstock report` in headless Chromium and compares what they show with their data.
// Usage: node report_browser.mjs CHROMIUM PAGE.html…; screenshots go to the folder $SCREENSHOTS, if it is set.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [chromium, ...pages] = process.argv.slice(2);
const profile = mkdtempSync(join(tmpdir(), "penstock-browser-"));
const browser = spawn(chromium, ["--remote-debugging-pipe", "--no-sandbox", "--hide-scrollbars", `--user-data-dir=${profile}`, "about:blank"],
  { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
browser.on("error", (error) => { console.error(`${chromium} cannot be started: ${error.message}`); process.exit(2); });

// The DevTools protocol over two pipes: JSON texts that end with a zero byte.
let number = 0;
const waiting = new Map();
const listeners = [];
let rest = "";
browser.stdio[4].setEncoding("utf8").on("data", (text) => {
  const messages = (rest + text).split("\0");
  rest = messages.pop();
  for (const message of messages.map((each) => JSON.parse(each))) {
    if (message.id !== undefined) {
      const [done, failed] = waiting.get(message.id);
      waiting.delete(message.id);
      if (message.error) failed(new Error(message.error.message)); else done(message.result);
    } else {
      for (const listener of listeners) listener(message);
    }
  }
});
const send = (method, params = {}, sessionId = undefined) => new Promise((done, failed) => {
  waiting.set(++number, [done, failed]);
  browser.stdio[3].write(JSON.stringify({ id: number, method, params, sessionId }) + "\0");
});

const problems = [];
const complain = (text) => { problems.push(text); console.error("FAILED: " + text); };

// Runs in the page. Reads every marked figure as a person would, without the page's own functions.
function compareFigures() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const wrong = [];
  let compared = 0;
  const shownNumber = (text, kind) => {
    const plain = text.replace(/,/g, "").replace(/−/g, "-");
    if (kind === "seconds" && plain.includes(":")) return [plain.split(":").reduce((sum, each) => 60 * sum + Number(each), 0), 0.5];
    const match = plain.match(/^(< )?(-?[0-9.]+)(k|M)?( ms| s| %| MiB| GiB)?$/);
    if (!match) return [NaN, 0];
    const scale = { k: 1e3, M: 1e6 }[match[3]] || 1;
    const unit = { " %": 0.01, " MiB": 2 ** 20, " GiB": 2 ** 30, " s": kind === "ms" ? 1e3 : 1 }[match[4]] || 1;
    const decimals = (match[2].split(".")[1] || "").length;
    const value = Number(match[2]) * scale * unit;
    return match[1] ? [0, value] : [value, 0.5001 * 10 ** -decimals * scale * unit];
  };
  for (const each of document.querySelectorAll("[data-path]")) {
    const value = each.dataset.path.split(".").reduce((at, key) => at?.[key], data);
    const [shown, tolerance] = shownNumber(each.textContent, each.dataset.kind);
    ++compared;
    if (!(Math.abs(shown - value) <= Math.max(tolerance, 5e-4 * Math.abs(value)))) wrong.push(`${each.dataset.path}: shows "${each.textContent}", is ${value}`);
  }
  const all = (selector) => document.querySelectorAll(selector).length;
  const ranks = data.runs.reduce((sum, run) => sum + run.ranks.length, 0);
  const bars = [...document.querySelectorAll('svg[aria-label="time of the ranks by cause"] .label')].filter((each) => each.textContent.startsWith("rank")).length;
  if (bars !== ranks) wrong.push(`${bars} bars of ${ranks} ranks`);
  // Lengths of a rank's parts are as its milliseconds.
  const first = data.runs.find((run) => run.ranks.length > 0);
  const svg = document.querySelector('svg[aria-label="time of the ranks by cause"]');
  if (first && svg) {
    const parts = first.ranks[0].causes_ms.filter((ms) => ms > 0);
    const widths = [...svg.querySelectorAll("rect")].slice(0, parts.length).map((rect) => rect.width.baseVal.value);
    const perMs = widths.reduce((sum, each) => sum + each, 0) / parts.reduce((sum, each) => sum + each, 0);
    parts.forEach((ms, at) => { if (Math.abs(widths[at] - perMs * ms) > 0.05 + 1e-3 * widths[at]) wrong.push(`part ${at} of rank 0 is ${widths[at]} wide for ${ms} ms`); });
  }
  // A curve ends where its last value is, measured by the axis.
  const lines = all("svg path.line");
  const wanted = data.runs.filter((run) => run.steps.first.length > 0).length;
  if (wanted > 0 && lines < 4 * wanted) wrong.push(`${lines} curves of ${wanted} runs`);
  if (all("canvas") !== data.runs.filter((run) => run.traces.length > 0).length) wrong.push("a time line is missing");
  const canvases = [...document.querySelectorAll("canvas")].filter((canvas) => {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    return pixels.some((value) => value !== 0);
  });
  if (canvases.length !== all("canvas")) wrong.push("a time line is empty");
  const events = data.runs.reduce((sum, run) => sum + run.events.length, 0);
  if (all(".events tr") !== events) wrong.push(`${all(".events tr")} of ${events} events`);
  for (const run of data.runs) {
    for (const line of run.advice.text) {
      if (!document.body.innerText.includes(line.replace(/^\d+\. /, ""))) wrong.push("advice is missing: " + line);
    }
  }
  if (document.body.innerText.match(/undefined|NaN|\[object/)) wrong.push("the page says undefined, NaN or [object");
  const wide = document.documentElement.scrollWidth - window.innerWidth;
  if (wide > 0) wrong.push(`the page is ${wide} pixels wider than its window`);
  return { wrong, compared };
}

async function inspect(page, width, scheme) {
  const name = `${basename(page)} at ${width}, ${scheme}`;
  const { targetId } = await send("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
  const tell = (method, params) => send(method, params, sessionId);
  const address = pathToFileURL(resolve(page)).href;
  let loaded;
  const load = new Promise((done) => { loaded = done; });
  const listener = (message) => {
    if (message.sessionId !== sessionId) return;
    if (message.method === "Page.loadEventFired") loaded();
    if (message.method === "Runtime.consoleAPICalled") complain(`${name}: console: ${JSON.stringify(message.params.args.map((each) => each.value))}`);
    if (message.method === "Runtime.exceptionThrown") complain(`${name}: ${message.params.exceptionDetails.exception?.description || message.params.exceptionDetails.text}`);
    if (message.method === "Log.entryAdded") complain(`${name}: ${message.params.entry.text}`);
    if (message.method === "Network.requestWillBeSent" && message.params.request.url !== address) complain(`${name}: loads ${message.params.request.url}`);
  };
  listeners.push(listener);
  for (const domain of ["Page", "Runtime", "Log", "Network"]) await tell(domain + ".enable");
  await tell("Emulation.setDeviceMetricsOverride", { width, height: 1000, deviceScaleFactor: 1, mobile: width < 600 });
  await tell("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
  await tell("Page.navigate", { url: address });
  await load;
  const run = async (expression) => {
    const answer = await tell("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (answer.exceptionDetails) complain(`${name}: ${answer.exceptionDetails.exception?.description || answer.exceptionDetails.text}`);
    return answer.result.value;
  };
  const frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done))))";
  await run(frames);
  const found = await run(`(${compareFigures})()`);
  for (const each of found.wrong) complain(`${name}: ${each}`);
  // The pointer on a chart says what is there, and every button may be pressed.
  const place = await run(`(() => { const svg = document.querySelector(".columns svg"); if (!svg) return null;
    svg.scrollIntoView({ block: "center" }); const box = svg.getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]; })()`);
  if (place) {
    await tell("Input.dispatchMouseEvent", { type: "mouseMoved", x: place[0], y: place[1] });
    await run(frames);
    const text = await run(`document.getElementById("tip").hidden ? "" : document.getElementById("tip").textContent`);
    if (!/^steps? \d+/.test(text)) complain(`${name}: the pointer on a chart shows "${text}"`);
    await tell("Input.dispatchMouseEvent", { type: "mouseMoved", x: 1, y: 1 });
  }
  const before = await run(`document.querySelectorAll("svg path").length`);
  await run(`document.querySelectorAll("button").forEach((button) => { button.click(); }); document.querySelector("canvas")?.dispatchEvent(new KeyboardEvent("keydown", { key: "+" }))`);
  await run(frames);
  if (place && (await run(`document.querySelectorAll("svg path").length`)) === before) complain(`${name}: buttons change nothing`);
  await run(`document.querySelectorAll(".legend button").forEach((button) => { button.click(); })`);
  if (process.env.SCREENSHOTS) {
    await run(`document.querySelectorAll(".tools button").forEach((button) => { if (/idle|whole/.test(button.textContent)) button.click(); }); scrollTo(0, 0)`);
    await run(frames);
    const height = await run("document.documentElement.scrollHeight");
    const { data } = await tell("Page.captureScreenshot", { captureBeyondViewport: true, clip: { x: 0, y: 0, width, height, scale: 1 } });
    writeFileSync(join(process.env.SCREENSHOTS, `${basename(page, ".html")}-${width}-${scheme}.png`), Buffer.from(data, "base64"));
  }
  await send("Target.closeTarget", { targetId });
  listeners.splice(listeners.indexOf(listener), 1);
  return found.compared;
}

try {
  for (const page of pages) {
    for (const [width, scheme] of [[1600, "light"], [1600, "dark"], [420, "light"], [420, "dark"]]) {
      const compared = await inspect(page, width, scheme);
      if (!(compared > 0)) complain(`${page}: no figure was compared`);
      console.log(`${basename(page)} at ${width}, ${scheme}: ${compared} figures are those of the data`);
    }
  }
} finally {
  await Promise.race([send("Browser.close"), new Promise((done) => setTimeout(done, 2000))]);
  browser.kill();
  await new Promise((done) => setTimeout(done, 200));
  rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
}
process.exit(problems.length > 0 ? 1 : 0);
