// Sweeps: jobs that `crt job submit --sweep` made, known by the metadata it gives them; one sweep
// with its runs and their curves.
import {badge, confirmed, duration, element, time} from "./dom.js";
import {Table} from "./table.js";
import {get, post, remove} from "./server.js";
import {Curves, gauges, is_step, number, step_of, user_metrics} from "./curves.js";

const has_ended = (j) => ["SUCCEEDED", "FAILED", "STOPPED"].includes(j.status);
const took = (j) => j.start_time ? (j.end_time || Date.now()) - j.start_time : 0;
const run_of = (j) => Number(j.metadata.sweep_run);

// {sweep: its runs in order}. Attempts that were repeated are no runs.
function by_sweep(jobs) {
  const sweeps = new Map();
  for (const job of jobs)
    if (job.submission_id && job.metadata?.sweep
      && job.submission_id === `${job.metadata.sweep}-${job.metadata.sweep_run}`)
      sweeps.set(job.metadata.sweep, [...sweeps.get(job.metadata.sweep) || [], job]);
  for (const runs of sweeps.values())
    runs.sort((a, b) => run_of(a) - run_of(b));
  return sweeps;
}

function summary(id, runs) {
  const count = (...states) => runs.filter((run) => states.includes(run.status)).length;
  const begun = runs.map((run) => run.start_time).filter((ms) => ms);
  const end = runs.every(has_ended)
    ? Math.max(...runs.map((run) => run.end_time || 0)) : Date.now();
  return {id, runs: runs.length, waiting: count("PENDING"), running: count("RUNNING"),
    succeeded: count("SUCCEEDED"), failed: count("FAILED"),
    stopped: count("STOPPED"), start: begun.length ? Math.min(...begun) : 0,
    took: begun.length ? end - Math.min(...begun) : 0};
}

export class Sweeps {
  constructor() {
    const amount = (title, key) =>
      ({title, kind: "number", of: (s) => s[key], sort: (s) => s[key]});
    this.table = new Table({id: "sweeps", caption: "Sweeps", key: (s) => s.id, size: 25,
      empty: element("span", {}, "No sweeps. Start one with ",
        element("code", {}, "crt job submit --sweep lr=0.1,0.01 -- PROGRAM --lr {lr}")),
      columns: [
        {title: "Sweep", kind: "id", sort: (s) => s.id,
          of: (s) => ({text: s.id, href: `#/sweeps/${encodeURIComponent(s.id)}`})},
        amount("Runs", "runs"), amount("Waiting", "waiting"), amount("Running", "running"),
        amount("Succeeded", "succeeded"),
        amount("Failed", "failed"), amount("Stopped", "stopped"),
        {title: "Started", of: (s) => time(s.start), sort: (s) => s.start},
        {title: "Time", kind: "number", of: (s) => s.start ? duration(s.took) : "",
          sort: (s) => s.took}]});
    this.root = element("section", {class: "card"}, element("h2", {}, "Sweeps"), this.table.root);
  }

  load() {
    return get("api/jobs/");
  }

  update(_cluster, jobs) {
    this.table.update([...by_sweep(jobs)].map(([id, runs]) => summary(id, runs)));
  }
}

export class Sweep {
  constructor(id) {
    this.id = id;
    this.runs = [];
    this.last = new Map(); // what each run said last, by its name
    this.stop = this.#action("Stop", "Stop the runs that have not ended?",
      (run) => !has_ended(run), (path) => post(`${path}/stop`));
    this.remove = this.#action("Delete", "Delete the runs that have ended, with their logs?",
      has_ended, remove);
    this.state = element("p", {class: "soft", id: "sweep-state"});
    this.problem = element("p", {class: "problem", role: "alert", hidden: true});
    this.curves = new Curves("curves", "Curves");
    this.table = new Table({id: "runs", caption: "Runs", key: (run) => run.submission_id, size: 50,
      empty: "This sweep has no runs, or none any more.",
      columns: [
        {title: "Run", kind: "id", of: (run) => ({text: run.submission_id,
          href: `#/jobs/${encodeURIComponent(run.submission_id)}`}), sort: run_of},
        {title: "Values", kind: "long", of: (run) => run.metadata.sweep_values || "",
          sort: (run) => run.metadata.sweep_values || ""},
        {title: "State", of: (run) => ({state: run.status}), sort: (run) => run.status},
        {title: "Time", kind: "number", of: (run) => run.start_time ? duration(took(run)) : "",
          sort: took},
        {title: "Said last", kind: "long", of: (run) =>
          [...this.last.get(run.submission_id) || []]
            .map(([name, n]) => `${name} ${number(n)}`).join(", ")}]});
    this.root = element("div", {},
      element("section", {class: "card"}, element("div", {class: "row"},
        element("h2", {}, `Sweep ${id}`), this.stop, this.remove),
        this.problem, this.state, this.table.root),
      this.curves.root);
  }

  #action(word, question, wanted, change) {
    return element("button", {type: "button", class: "danger", hidden: true, onclick: async () => {
      const runs = this.runs.filter(wanted);
      if (!await confirmed(`${question} (${runs.length} of sweep ${this.id})`, word))
        return;
      const done = await Promise.allSettled(runs.map((run) =>
        change(`api/jobs/${encodeURIComponent(run.submission_id)}`)));
      const failed = done.filter((one) => one.status === "rejected");
      this.problem.hidden = failed.length === 0;
      this.problem.textContent = failed.length
        ? `${failed.length} of ${runs.length}: ${failed[0].reason.message}` : "";
      this.root.dispatchEvent(new CustomEvent("again", {bubbles: true}));
    }}, word);
  }

  async load() {
    const [jobs, rows] = await Promise.all([get("api/jobs/"), user_metrics()]);
    return {runs: by_sweep(jobs).get(this.id) || [], rows: gauges(rows)};
  }

  update(_cluster, {runs, rows}) {
    this.runs = runs;
    this.curves.update(runs.flatMap((run) =>
      this.#lines(run, rows.filter((row) => run.job_id && row.job_id === run.job_id))));
    this.table.update(runs);
    this.stop.hidden = runs.every(has_ended);
    this.remove.hidden = !runs.some(has_ended);
    const of = summary(this.id, runs);
    const states = ["succeeded", "failed", "stopped", "running", "waiting"];
    this.state.replaceChildren(...states.filter((key) => of[key])
      .flatMap((key) => [badge(`${of[key]} ${key}`), " "]));
  }

  // One line for each thing that a run says; of several workers that say the same, the first.
  #lines(run, rows) {
    const step = step_of(rows), newest = new Map(rows.map((row) => [row.name, row.value]));
    if (newest.size)
      this.last.set(run.submission_id, newest);
    return [...newest].filter(([name]) => !is_step({name}))
      .map(([chart, value]) => ({chart, value, step,
        name: `${run.metadata.sweep_run}: ${run.metadata.sweep_values || ""}`}));
  }
}
