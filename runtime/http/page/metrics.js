// The metrics of the cluster and of its programs, from /metrics, over the time since this view was
// opened. The curves of a program that trains are here: its gauges carry the job's name.
import {element, bytes} from "./dom.js";
import {Chart, History} from "./chart.js";
import {get_text, NotThere} from "./server.js";

const CHARTS = 24; // at a time

// The text form of Prometheus: {name: {type, help, samples: [{labels, value}]}}. A histogram's
// parts are of one family.
export function parse(text) {
  const families = new Map();
  const family = (name) => {
    if (!families.has(name))
      families.set(name, {type: "untyped", help: "", samples: []});
    return families.get(name);
  };
  for (const line of text.split("\n")) {
    const note = line.match(/^# (HELP|TYPE) (\S+) (.*)$/);
    if (note) {
      family(note[2])[note[1].toLowerCase()] = note[3];
      continue;
    }
    const sample = line.match(/^([A-Za-z_:][\w:]*)(\{.*\})? (\S+)/);
    if (!sample)
      continue;
    const base = sample[1].replace(/_(sum|count|bucket)$/, "");
    const name = families.get(base)?.type === "histogram" ? base : sample[1];
    family(name).samples.push({part: sample[1].slice(name.length),
      labels: (sample[2] || "").slice(1, -1), value: Number(sample[3])});
  }
  return families;
}

const number = (n) => Math.abs(n) >= 1e6 || (n && Math.abs(n) < 1e-3)
  ? n.toExponential(2) : String(Math.round(n * 1000) / 1000);
const writer = (name) => name.includes("_bytes") ? bytes : number;
const short = (labels) => labels.replaceAll(/"([0-9a-f]{32})"/g, (_, id) => id.slice(0, 8))
  .replaceAll('"', "").replaceAll(",", " ");

export class Metrics {
  constructor() {
    this.history = new History();
    this.charts = new Map();
    this.families = new Map();
    this.last = new Map();
    this.period_ms = 2000;
    this.search = element("input", {type: "search", id: "search-metrics",
      oninput: () => this.#show()});
    this.note = element("p", {class: "empty", id: "metrics-note"});
    this.box = element("div", {class: "charts", id: "metrics"});
    this.root = element("section", {class: "card"},
      element("div", {class: "row"}, element("h2", {}, "Metrics"),
      element("label", {for: "search-metrics"}, "Search"), this.search), this.note, this.box);
  }

  async load() {
    try {
      return parse(await get_text("metrics"));
    } catch (error) {
      if (!(error instanceof NotThere))
        throw error;
      this.load = () => null;
      return null;
    }
  }

  // Counters are shown as what they grow by in a second, histograms by the mean of what came since
  // the last look.
  #note_samples(name, family, now) {
    const of = (part, labels) =>
      family.samples.find((s) => s.part === part && s.labels === labels)?.value ?? 0;
    const grown = (key, value) => {
      const last = this.last.get(key);
      this.last.set(key, {value, now});
      return last && value >= last.value ? [value - last.value, (now - last.now) / 1000] : null;
    };
    for (const sample of family.samples) {
      const key = `${name} ${sample.labels}`;
      if (family.type === "histogram") {
        if (sample.part !== "_count")
          continue;
        const count = grown(`${key} count`, sample.value);
        const sum = grown(`${key} sum`, of("_sum", sample.labels));
        if (count && sum && count[0] > 0)
          this.history.add(key, now, sum[0] / count[0]);
      } else if (family.type === "counter") {
        const by = grown(key, sample.value);
        if (by && by[1] > 0)
          this.history.add(key, now, by[0] / by[1]);
      } else {
        this.history.add(key, now, sample.value);
      }
    }
  }

  update(_cluster, families) {
    const now = Date.now();
    if (!families) {
      this.note.textContent = "This server has no metrics.";
      return;
    }
    this.families = families;
    for (const [name, family] of families)
      this.#note_samples(name, family, now);
    this.#show();
  }

  #show() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter((word) => word);
    const found = [...this.families].filter(([name, family]) =>
      words.every((word) => name.includes(word) || family.help.toLowerCase().includes(word)));
    const own = ([name]) => name.startsWith("crt_") ? 1 : 0; // a program's own come first
    const shown = found.sort((a, b) => own(a) - own(b) || (a[0] < b[0] ? -1 : 1)).slice(0, CHARTS);
    const others = found.length > shown.length ? "; search for others" : "";
    this.note.textContent = `${shown.length} of ${found.length} metrics${others}`;
    const charts = shown.map(([name, family]) => this.#chart(name, family));
    if (charts.length !== this.box.children.length
      || charts.some((chart, i) => chart.root !== this.box.children[i]))
      this.box.replaceChildren(...charts.map((chart) => chart.root));
  }

  #chart(name, family) {
    if (!this.charts.has(name)) {
      const form = {counter: " per second", histogram: ", mean"}[family.type] || "";
      this.charts.set(name, new Chart(name + form,
        {y_text: writer(name), x_text: (x) => new Date(x).toLocaleTimeString()}));
      this.charts.get(name).heading.title = family.help;
    }
    const chart = this.charts.get(name);
    const shown = family.samples.filter((s) => family.type !== "histogram" || s.part === "_count");
    const labels = [...new Set(shown.map((s) => s.labels))];
    chart.update(labels.map((text) =>
      ({name: short(text), points: this.history.points(`${name} ${text}`)})));
    return chart;
  }
}
