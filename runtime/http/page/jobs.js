// Jobs: the list, a form to submit one, and one job with its log, that can be stopped and deleted.
import {element, badge, confirmed, duration, time} from "./dom.js";
import {Table} from "./table.js";
import {get, post, remove} from "./server.js";
import {Curves, user_metrics} from "./curves.js";

const LOG_LINES = 5000; // kept on the page
const FOLLOW_MS = 10000;

const name_of = (j) => j.submission_id || j.job_id || "";
const has_ended = (j) => ["SUCCEEDED", "FAILED", "STOPPED"].includes(j.status);
const took = (j) => j.start_time ? (j.end_time || Date.now()) - j.start_time : 0;

// "K=V" lines.
function pairs(text) {
  const table = {};
  for (const line of text.split("\n").filter((line) => line.trim())) {
    const at = line.indexOf("=");
    if (at < 1)
      throw new Error(`"${line}" is not NAME=VALUE`);
    table[line.slice(0, at).trim()] = line.slice(at + 1);
  }
  return table;
}

function field(id, label, attributes = {}, tag = "input") {
  return [element("label", {for: id}, label),
    element(tag, {id, spellcheck: "false", ...attributes})];
}

function submit_form() {
  const problem = element("p", {class: "problem", role: "alert", hidden: true});
  const form = element("form", {id: "submit-form"},
    ...field("entrypoint", "Command, run by a shell on the head's node: /path/of/train --epochs 3",
      {required: true}),
    ...field("environment", "Environment variables, NAME=VALUE in each line", {rows: 2},
      "textarea"),
    ...field("metadata", "Metadata, NAME=VALUE in each line", {rows: 2}, "textarea"),
    element("button", {type: "submit"}, "Submit"), problem);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    problem.hidden = true;
    try {
      const value = (id) => form.querySelector(`#${id}`).value;
      const answer = await post("api/jobs/", {entrypoint: value("entrypoint"),
        runtime_env: {env_vars: pairs(value("environment"))}, metadata: pairs(value("metadata"))});
      location.hash = `#/jobs/${encodeURIComponent(answer.submission_id)}`;
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    }
  });
  return element("details", {class: "card"}, element("summary", {}, "Submit a job"), form);
}

export class Jobs {
  constructor() {
    this.drivers = element("input", {type: "checkbox", id: "with-drivers",
      onchange: () => this.#show()});
    this.search = element("input", {type: "search", id: "search-jobs",
      oninput: () => this.#show()});
    this.jobs = [];
    this.table = new Table({id: "jobs", caption: "Jobs", key: (j) => `${j.type} ${name_of(j)}`,
      size: 25,
      empty: element("span", {}, "No jobs. Submit one with ",
        element("code", {}, "crt job submit -- PROGRAM"), " or above."),
      columns: [
        {title: "Job", kind: "id", sort: name_of, of: (j) => ({
          text: j.submission_id || (j.job_id || "").slice(0, 12), title: j.job_id || "",
          href: j.submission_id ? `#/jobs/${encodeURIComponent(j.submission_id)}` : ""})},
        {title: "State", of: (j) => ({state: j.status}), sort: (j) => j.status},
        {title: "Entrypoint", kind: "long id", of: (j) => j.entrypoint, sort: (j) => j.entrypoint},
        {title: "Started", of: (j) => time(j.start_time), sort: (j) => j.start_time || 0},
        {title: "Time", kind: "number", of: (j) => j.start_time ? duration(took(j)) : "",
          sort: took},
        {title: "Message", kind: "long", of: (j) => (j.message || "").slice(0, 500)}]});
    this.root = element("div", {}, submit_form(),
      element("section", {class: "card"},
        element("div", {class: "row"}, element("h2", {}, "Jobs"),
          element("label", {for: "search-jobs"}, "Search"), this.search,
          element("label", {for: "with-drivers", class: "row"}, this.drivers,
            "also programs that were run, not submitted")),
        this.table.root));
  }

  load() {
    return get("api/jobs/");
  }

  update(_cluster, jobs) {
    this.jobs = jobs;
    this.#show();
  }

  #show() {
    const words = this.search.value.toLowerCase();
    this.table.update(this.jobs.filter((j) =>
      (this.drivers.checked || j.submission_id || j.status === "RUNNING")
      && (!words || [name_of(j), j.status, j.entrypoint, j.message,
        ...Object.entries(j.metadata || {}).flat()]
        .some((text) => String(text ?? "").toLowerCase().includes(words)))));
  }
}

// What a job prints, followed as it comes.
class Log {
  constructor(path) {
    this.path = path;
    this.offset = 0;
    this.is_open = true;
    this.lines = [""];
    this.text = element("pre", {id: "log", class: "log", tabindex: "0", "aria-label": "Log"});
    this.note = element("p", {class: "empty", id: "log-empty"}, "Nothing has been printed yet.");
    this.root = element("section", {class: "card"}, element("h2", {}, "Log"), this.note, this.text);
    this.#follow();
  }

  async #follow() {
    while (this.is_open)
      try {
        const part = await get(`${this.path}?offset=${this.offset}&wait_ms=${FOLLOW_MS}`,
          {patience: 2 * FOLLOW_MS});
        this.#add(part.logs);
        this.offset = part.next;
        if (part.ended && !part.logs)
          return;
      } catch {
        await new Promise((next) => setTimeout(next, 1000)); // the page says what is wrong
      }
  }

  #add(text) {
    if (!text)
      return;
    const at_end = this.text.scrollTop + this.text.clientHeight >= this.text.scrollHeight - 4;
    const fresh = text.split("\n");
    this.lines[this.lines.length - 1] += fresh[0];
    this.lines.push(...fresh.slice(1));
    const hidden = Math.max(0, this.lines.length - LOG_LINES);
    this.lines.splice(0, hidden);
    this.hidden = (this.hidden || 0) + hidden;
    this.text.textContent = this.lines.join("\n");
    this.note.textContent = this.hidden ? `${this.hidden} earlier lines are not shown.` : "";
    if (at_end)
      this.text.scrollTop = this.text.scrollHeight;
  }

  close() {
    this.is_open = false;
  }
}

function facts(table) {
  return Object.entries(table)
    .filter(([, value]) => value !== "" && value !== null && value !== undefined)
    .flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
}

export class Job {
  constructor(id) {
    this.path = `api/jobs/${encodeURIComponent(id)}`;
    this.facts = element("dl", {class: "facts", id: "job"});
    this.stop = element("button", {type: "button", class: "danger", onclick: () =>
      this.#change(`Stop job ${id}?`, "Stop", () => post(`${this.path}/stop`))}, "Stop");
    this.remove = element("button", {type: "button", class: "danger", onclick: () =>
      this.#change(`Delete job ${id} and its log?`, "Delete", async () => {
        await remove(this.path);
        location.hash = "#/jobs";
      })}, "Delete");
    this.problem = element("p", {class: "problem", role: "alert", hidden: true});
    this.curves = new Curves("curves", "Curves");
    this.log = new Log(`${this.path}/logs`);
    this.root = element("div", {},
      element("section", {class: "card"},
        element("div", {class: "row"}, element("h2", {}, `Job ${id}`), this.stop, this.remove),
        this.problem, this.facts),
      this.curves.root, this.log.root);
  }

  async #change(question, action, change) {
    if (!await confirmed(question, action))
      return;
    this.problem.hidden = true;
    try {
      await change();
    } catch (error) {
      this.problem.textContent = error.message;
      this.problem.hidden = false;
    }
  }

  async load() {
    const job = await get(this.path);
    return [job, job.job_id ? await user_metrics(job.job_id) : []];
  }

  update(_cluster, [job, metrics]) {
    this.curves.show_job(metrics);
    const sign = JSON.stringify([job, Math.round(took(job) / 1000)]);
    if (sign === this.shown)
      return;
    this.shown = sign;
    this.stop.hidden = has_ended(job);
    this.remove.hidden = !has_ended(job);
    const environment = Object.keys((job.runtime_env || {})).length
      ? JSON.stringify(job.runtime_env) : "";
    const metadata = Object.entries(job.metadata || {})
      .map(([name, value]) => `${name}=${value}`).join(", ");
    this.facts.replaceChildren(...facts({State: badge(job.status), Command: job.entrypoint,
      Message: job.message, Started: time(job.start_time), Ended: time(job.end_time),
      Time: job.start_time ? duration(took(job)) : "",
      "Job id": job.job_id, Node: job.driver_info?.node_ip_address, Process: job.driver_info?.pid,
      "Exit code": job.driver_exit_code ?? "",
      Metadata: metadata,
      Sweep: job.metadata?.sweep && element(
        "a", {href: `#/sweeps/${encodeURIComponent(job.metadata.sweep)}`}, job.metadata.sweep),
      "Runtime environment": environment}));
  }

  close() {
    this.log.close();
  }
}
