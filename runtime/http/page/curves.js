// Training curves: what jobs say by their gauges, over the steps that they say, else over time. A
// page has what came since it was opened; crt-http keeps the newest value of each only, of programs
// that have ended for 10 minutes.
import {element} from "./dom.js";
import {Chart, History} from "./chart.js";
import {get, NotThere} from "./server.js";

const STEP = /(^|_)(step|epoch)$/;

// [{job_id, actor_id, name, value, ...}] of one job, or of all.
export async function user_metrics(job_id) {
  try {
    return await get(`api/user_metrics${job_id ? `?job_id=${encodeURIComponent(job_id)}` : ""}`);
  } catch (error) {
    if (error instanceof NotThere)
      return []; // an older server
    throw error;
  }
}

export const gauges = (rows) =>
  rows.filter((row) => row.kind === "gauge" && typeof row.value === "number");
export const is_step = (row) => STEP.test(row.name);

// How far a job is: the largest of its steps; null: it does not say.
export const step_of = (rows) => rows.some(is_step)
  ? Math.max(...rows.filter(is_step).map((row) => row.value)) : null;

export const number = (n) => Math.abs(n) >= 1e6 || (n && Math.abs(n) < 1e-3)
  ? n.toExponential(2) : String(Math.round(n * 1e4) / 1e4);

const labels_of = (row) => [row.class_name, (row.actor_id || "").slice(0, 8),
  (row.labels || "").replaceAll('"', "")]
  .filter((word) => word).join(" ");

// Charts of named lines that grow by their newest points.
export class Curves {
  constructor(id, title) {
    this.charts = new Map();
    this.histories = {step: new History(5000), time: new History(5000)};
    this.box = element("div", {class: "charts", id});
    this.root = element("section", {class: "card", hidden: true},
      element("h2", {}, title), this.box);
  }

  // `lines`: [{chart, name, value, step or null}].
  update(lines) {
    const of_chart = new Map();
    for (const {chart, name, value, step} of lines) {
      const axis = step === null ? "time" : "step", key = `${chart} ${name}`;
      this.histories[axis].add(key, step ?? Date.now(), value);
      if (!of_chart.has(chart))
        of_chart.set(chart, {axis, series: []});
      of_chart.get(chart).series.push({name, points: this.histories[axis].points(key)});
    }
    for (const [title, {axis, series}] of of_chart)
      this.#chart(title, axis).update(series);
    for (const [title, chart] of this.charts)
      chart.root.hidden = !of_chart.has(title);
    this.root.hidden = of_chart.size === 0;
  }

  #chart(title, axis) {
    if (!this.charts.has(title)) {
      const chart = new Chart(title, {y_text: number,
        x_text: axis === "step"
          ? (x) => `step ${number(x)}` : (x) => new Date(x).toLocaleTimeString()});
      this.charts.set(title, chart);
      this.box.append(chart.root);
    }
    return this.charts.get(title);
  }

  // All gauges of one job.
  show_job(rows) {
    const step = step_of(gauges(rows));
    this.update(gauges(rows).filter((row) => !is_step(row))
      .map((row) => ({chart: row.name, name: labels_of(row), value: row.value, step})));
  }
}
