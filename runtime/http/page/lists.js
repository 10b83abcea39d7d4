// What the state API lists: actors, tasks, objects, placement groups, workers. Pages and filters
// are the server's, so that ten thousand entries cost no more than a page of them.
import {element, bytes, duration, resources, time} from "./dom.js";
import {Table, short_id} from "./table.js";
import {state, NotThere} from "./server.js";
import {Timeline} from "./timeline.js";

const PAGE = 50;
const TIMELINE_TASKS = 1000; // as many as are fetched and drawn while nobody waits

const started = (t) => time(t.start_time_ms ?? t.creation_time_ms);
const lasted = (t) => t.start_time_ms
  ? duration((t.end_time_ms || Date.now()) - t.start_time_ms) : "";
const title_of = (column) => column.replaceAll("_", " ")
  .replace(/^./, (letter) => letter.toUpperCase());

const COLUMNS = {
  actors: [
    {title: "Actor", kind: "id", of: (a) => short_id(a.actor_id)},
    {title: "Class", of: (a) => a.class_name},
    {title: "Name", of: (a) => a.name || ""},
    {title: "State", of: (a) =>
      ({state: a.state === "DEAD" && a.has_failed === false ? "ENDED" : a.state})},
    {title: "Node", kind: "id", of: (a) => short_id(a.node_id)},
    {title: "Process", kind: "number", of: (a) => a.pid ?? ""},
    {title: "Restarts", kind: "number", of: (a) => a.num_restarts ?? 0},
    {title: "Message", kind: "long", of: (a) =>
      [a.is_fenced ? "fenced" : "", a.message || ""].filter((t) => t).join("; ")}],
  tasks: [
    {title: "Task", kind: "id", of: (t) => short_id(t.task_id)},
    {title: "Name", of: (t) => t.name || t.func_or_class_name || ""},
    {title: "State", of: (t) => ({state: t.state})},
    {title: "Attempt", kind: "number", of: (t) => t.attempt_number ?? ""},
    {title: "Node", kind: "id", of: (t) => short_id(t.node_id)},
    {title: "Process", kind: "number", of: (t) => t.worker_pid ?? ""},
    {title: "Started", of: started},
    {title: "Time", kind: "number", of: lasted},
    {title: "Error", kind: "long", of: (t) => t.error_message || t.error_type || ""}],
  objects: [
    {title: "Object", kind: "id", of: (o) => short_id(o.object_id)},
    {title: "Size", kind: "number", of: (o) => o.object_size >= 0 ? bytes(o.object_size) : ""},
    {title: "State", of: (o) => o.task_status || o.state || ""},
    {title: "Kind of reference", of: (o) =>
      (o.reference_type || "").replaceAll("_", " ").toLowerCase()},
    {title: "Process", kind: "number", of: (o) => o.pid ?? ""},
    {title: "Host", of: (o) => o.ip || ""},
    {title: "Made at", kind: "long", of: (o) => o.call_site || ""}],
  placement_groups: [
    {title: "Placement group", kind: "id", of: (g) => short_id(g.placement_group_id)},
    {title: "Name", of: (g) => g.name || ""},
    {title: "State", of: (g) => ({state: g.state})},
    {title: "Bundles", kind: "long", of: (g) => (g.bundles || [])
      .map((b) => resources(b.unit_resources || b.resources)).join(" + ")},
    {title: "Nodes", kind: "long", of: (g) =>
      [...new Set((g.bundles || []).map((b) => (b.node_id || "").slice(0, 12)))].join(" ")},
    {title: "Job", kind: "id", of: (g) => short_id(g.creator_job_id)},
    {title: "Message", kind: "long", of: (g) => g.reason || g.message || ""}],
  workers: [
    {title: "Worker", kind: "id", of: (w) => short_id(w.worker_id)},
    {title: "Kind", of: (w) => (w.worker_type || "").toLowerCase()},
    {title: "Alive", of: (w) => w.is_alive ? "yes" : "no"},
    {title: "Process", kind: "number", of: (w) => w.pid ?? ""},
    {title: "Node", kind: "id", of: (w) => short_id(w.node_id)},
    {title: "Started", of: started},
    {title: "Ended because", kind: "long", of: (w) => w.exit_detail || ""}],
};

const KEYS = {actors: "actor_id", objects: "object_id", placement_groups: "placement_group_id",
  workers: "worker_id"};
// An attempt of a task is an entry of its own, and so is each process that holds an object.
const KEY = {tasks: (t) => `${t.task_id} ${t.attempt_number}`,
  objects: (o) => `${o.object_id} ${o.pid} ${o.reference_type}`};

// "state=ALIVE class_name!=Counter" as filters.
function filters_of(text) {
  return text.split(/\s+/).filter((word) => word).map((word) => {
    const parts = word.match(/^(\w+)(!?=)(.+)$/);
    if (!parts)
      throw new Error(`"${word}" is no filter: write column=value or column!=value`);
    return [parts[1], parts[2], parts[3]];
  });
}

export class List {
  constructor(what) {
    this.what = what;
    this.filters = [];
    this.page = 0;
    this.period_ms = 2000;
    this.table = new Table({id: what.replace("_", "-"), caption: title_of(what),
      columns: COLUMNS[what], size: PAGE,
      key: KEY[what] || ((row) => row[KEYS[what]]), empty: `No ${title_of(what).toLowerCase()}.`,
      on_page: (page) => this.#again({page})});
    this.filter = element("input", {type: "search", id: `filter-${what}`, spellcheck: "false",
      "aria-describedby": `help-${what}`});
    this.problem = element("p", {class: "problem", role: "alert", hidden: true});
    this.form = element("form", {class: "row", onsubmit: (event) => {
      event.preventDefault();
      this.#filter();
    }}, element("label", {for: `filter-${what}`}, "Filter"), this.filter,
      element("button", {type: "submit", class: "quiet"}, "Apply"),
    element("span", {class: "soft", id: `help-${what}`}, "state=ALIVE, or column!=value"));
    this.timeline = what === "tasks" ? new Timeline() : null;
    this.root = element("section", {class: "card"},
      element("div", {class: "row"}, element("h2", {}, title_of(what)), this.form), this.problem,
      ...this.timeline ? [this.timeline.root] : [], this.table.root);
  }

  #filter() {
    this.problem.hidden = true;
    try {
      this.#again({filters: filters_of(this.filter.value), page: 0});
    } catch (error) {
      this.#complain(error.message);
    }
  }

  #again(change) {
    Object.assign(this, change);
    this.table.page = this.page;
    this.root.dispatchEvent(new CustomEvent("again", {bubbles: true}));
  }

  #complain(text) {
    this.problem.hidden = !text;
    this.problem.textContent = text;
  }

  async load() {
    const wanted = Math.max((this.page + 1) * PAGE, this.timeline?.is_open ? TIMELINE_TASKS : 0);
    try {
      const detail = this.what === "actors" ? "crt" : "True";
      return await state(this.what, {limit: wanted, detail, filters: this.filters});
    } catch (error) {
      if (error instanceof NotThere) {
        this.load = () =>
          ({problem: `This server does not list ${title_of(this.what).toLowerCase()}.`});
        return this.load();
      }
      if (this.filters.length && !(error instanceof TypeError) && error.name !== "TimeoutError"
        && error.constructor === Error)
        return {problem: error.message};
      throw error;
    }
  }

  update(_cluster, {rows = [], total = 0, problem = ""}) {
    this.#complain(problem);
    if (problem)
      return;
    this.table.update(rows.slice(this.page * PAGE, (this.page + 1) * PAGE), total);
    this.timeline?.update(rows);
  }
}
