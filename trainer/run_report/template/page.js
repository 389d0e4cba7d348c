// Puts the page together.

(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const names = data.runs.map((run) => run.name);
  data.runs.forEach((run, index) => {
    run.title = names.indexOf(run.name) !== names.lastIndexOf(run.name) ? run.summary.run : run.name;
    if (data.runs.length > 1 && run.title === (data.runs[1 - index] || {}).title) run.title += index === 0 ? " (first)" : " (second)";
  });
  document.title = data.runs.map((run) => run.title).join(" and ") + " · Penstock";
  const colours = (shade) => data.causes.map((cause, at) => `--cause-${at}:${cause[shade]};`).join("");
  document.head.append(element("style", {}, `:root{${colours("light")}}@media (prefers-color-scheme: dark){:root{${colours("dark")}}}`));
  const notes = data.runs.flatMap((run) => run.notes);
  document.getElementById("page").replaceChildren(...[
    headerOf(data), tiles(data), adviceOf(data), progressOf(data), causesOf(data), ranksOf(data), timelinesOf(data), plansOf(data),
    goodputOf(data), eventsOf(data),
    element("footer", {}, notes.map((note) => element("p", {}, note)), element("p", {}, `Made by ${data.program} at ${data.time}. This page loads nothing; its data is in it as JSON.`)),
  ].flat(Infinity).filter((each) => each !== null && each !== undefined));
})();
