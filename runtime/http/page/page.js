// The dashboard: asks /api/cluster_status, /api/jobs/ and /api/v0/actors every second and shows them.
// Everything shown is set as text, never as HTML: names and messages come from users' programs.
"use strict";

const PERIOD_MS = 1000;
const ACTORS_SHOWN = 200;
const $ = (id) => document.getElementById(id);

class NotSignedIn extends Error {}

async function get(path) {
  const answer = await fetch(path, {credentials: "same-origin", signal: AbortSignal.timeout(8000)});
  if (answer.status === 401 || answer.status === 403)
    throw new NotSignedIn();
  if (!answer.ok)
    throw new Error((await answer.text()).slice(0, 300) || `${path}: status ${answer.status}`);
  return answer.json();
}

function cell(row, text, kind) {
  const td = row.insertCell();
  td.textContent = text;
  if (kind)
    td.className = kind;
  return td;
}

const KINDS = {
  ALIVE: "good", RUNNING: "good", SUCCEEDED: "good",
  DEAD: "bad", FAILED: "bad",
  AWAY: "wait", PENDING: "wait", PENDING_CREATION: "wait", RESTARTING: "wait",
};

function badge(row, state) {
  const span = document.createElement("span");
  span.className = "badge " + (KINDS[state] || "");
  span.textContent = state;
  row.insertCell().append(span);
}

function id_cell(row, id) {
  cell(row, (id || "").slice(0, 12), "id").title = id || "";
}

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return `${unit && n < 100 ? n.toFixed(1) : Math.round(n)} ${units[unit]}`;
}

const amount = (name, n) => name === "memory" || name.endsWith("_memory") ? bytes(n) : String(Math.round(n * 10000) / 10000);

function duration(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60)
    return `${s} s`;
  if (s < 3600)
    return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
}

// Fills the body of a table; the sentence for "none" is shown or hidden with it.
function fill(id, rows, add) {
  const body = document.createDocumentFragment();
  for (const entry of rows) {
    const row = document.createElement("tr");
    add(row, entry);
    body.append(row);
  }
  $(id).replaceChildren(body);
  $(id).closest("table").hidden = rows.length === 0;
  const empty = $(id + "-empty");
  if (empty)
    empty.hidden = rows.length !== 0;
}

function meter(name, used, total) {
  const box = document.createElement("div");
  const label = document.createElement("div");
  const left = document.createElement("span");
  const right = document.createElement("span");
  const bar = document.createElement("meter");
  label.className = "meter-label";
  left.textContent = name.replaceAll("_", " ");
  right.textContent = `${amount(name, used)} of ${amount(name, total)}`;
  bar.max = total || 1;
  bar.value = used;
  bar.title = right.textContent;
  label.append(left, right);
  box.append(label, bar);
  return box;
}

/* More than two heartbeats late. */
function silence(node, now) {
  const seconds = node.heard_time ? (now - node.heard_time) / 1000 : 0;
  return seconds > 2 ? `, nothing heard for ${seconds.toFixed(0)} s` : "";
}

function show_nodes(nodes, now) {
  fill("nodes", nodes, (row, n) => {
    const total = n.resources_total || {};
    const available = n.resources_available || {};
    id_cell(row, n.node_id);
    badge(row, n.state);
    cell(row, `${n.ip || ""}${n.hostname ? ` (${n.hostname})` : ""}${n.is_head_node ? ", head" : ""}`
      + (n.state === "ALIVE" ? silence(n, now) : ""));
    if (n.state === "ALIVE") {
      cell(row, `${amount("CPU", (total.CPU || 0) - (available.CPU || 0))} of ${amount("CPU", total.CPU || 0)}`);
      cell(row, `${bytes(n.store_used || 0)} of ${bytes(n.store_bytes || 0)}`);
      cell(row, n.workers ?? 0, "number");
    } else {
      cell(row, n.state_message || "", "long").colSpan = 3;
    }
  });
}

function show_cluster(status) {
  const usage = status.loadMetricsReport.usage;
  const own = status.crt;
  const nodes = own.nodes || [];
  const living = nodes.filter((n) => n.state === "ALIVE");
  const store = (key) => living.reduce((sum, n) => sum + (n[key] || 0), 0);
  const meters = Object.keys(usage).sort().map((name) => meter(name, usage[name][0], usage[name][1]));
  if (store("store_bytes"))
    meters.push(meter("object_store_memory", store("store_used"), store("store_bytes")));
  $("address").textContent = own.address || "";
  document.title = own.address ? `crt ${own.address}` : "crt";
  $("resources").replaceChildren(...meters);
  $("resources-empty").hidden = meters.length !== 0;
  $("count-nodes").textContent = living.length;
  $("count-actors").textContent = (own.actors || {}).ALIVE || 0;
  $("count-demand").textContent = (own.demand || []).reduce((sum, d) => sum + (d.count || 0), 0);
  show_nodes(nodes, own.time || 0);
  $("demand-card").hidden = !(own.demand || []).length;
  fill("demand", own.demand || [], (row, d) => {
    cell(row, `${d.kind || ""} ${d.name || ""}`);
    cell(row, Object.entries(d.resources || {}).map(([k, v]) => `${amount(k, v)} ${k}`).join(", ") || "nothing");
    cell(row, d.count ?? "", "number");
    cell(row, d.reason || "", "long");
  });
}

function show_jobs(jobs) {
  $("count-running").textContent = jobs.filter((j) => j.status === "RUNNING").length;
  fill("jobs", jobs.slice(0, 100), (row, j) => {
    cell(row, j.submission_id || (j.job_id || "").slice(0, 12), "id").title = j.job_id || "";
    badge(row, j.status);
    cell(row, j.entrypoint, "long id");
    cell(row, j.start_time ? new Date(j.start_time).toLocaleTimeString() : "");
    cell(row, j.start_time ? duration((j.end_time || Date.now()) - j.start_time) : "", "number");
    cell(row, j.message || "", "long");
  });
}

function show_actors(data) {
  const rows = data.data.result.result;
  const hidden = data.data.result.total - rows.length;
  fill("actors", rows, (row, a) => {
    id_cell(row, a.actor_id);
    cell(row, a.class_name);
    cell(row, a.name || "");
    badge(row, a.state === "DEAD" && !a.has_failed ? "ENDED" : a.state);
    id_cell(row, a.node_id);
    cell(row, a.pid ?? "", "number");
    cell(row, a.num_restarts ?? 0, "number");
    cell(row, [a.is_fenced ? "fenced" : "", a.message || ""].filter((t) => t).join("; "), "long");
  });
  $("actors-more").hidden = hidden <= 0;
  $("actors-more").textContent = `and ${hidden} more`;
}

function show_state(kind, text) {
  $("live").className = "badge " + kind;
  $("live").textContent = text;
}

function show_problem(text) {
  $("problem").hidden = !text;
  $("problem").textContent = text;
}

function show_login() {
  show_problem("");
  show_state("", "signed out");
  $("cluster").hidden = true;
  if ($("login").hidden) {
    $("login").hidden = false;
    $("token").focus();
  }
}

async function refresh() {
  const [status, jobs, actors] = await Promise.all(
    [get("/api/cluster_status"), get("/api/jobs/"), get(`/api/v0/actors?detail=crt&limit=${ACTORS_SHOWN}`)]);
  show_cluster(status.data.clusterStatus);
  show_jobs(jobs);
  show_actors(actors);
  $("login").hidden = true;
  $("cluster").hidden = false;
  show_problem("");
  show_state("good", "live");
}

async function poll() {
  try {
    await refresh();
  } catch (error) {
    if (error instanceof NotSignedIn) {
      show_login();
      return; // signing in starts the polls again
    }
    const why = error instanceof TypeError || error.name === "TimeoutError" ? "no answer from crt-http" : error.message;
    show_state("bad", "not connected");
    show_problem(`The cluster can't be asked: ${why}. What is shown is old; trying again.`);
  }
  setTimeout(poll, PERIOD_MS);
}

// The token becomes a cookie that no script can read.
async function sign_in(token) {
  const answer = await fetch("/api/authenticate",
    {method: "POST", credentials: "same-origin", headers: {Authorization: `Bearer ${token}`}});
  if (!answer.ok)
    throw new Error(answer.status === 403 || answer.status === 401 ? "This is not the cluster's token." : await answer.text());
}

$("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await sign_in($("token").value.trim());
    $("token").value = "";
    $("login-problem").hidden = true;
    poll();
  } catch (error) {
    $("login-problem").textContent = error.message;
    $("login-problem").hidden = false;
  }
});

async function start() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    history.replaceState(null, "", location.pathname);
    try {
      await sign_in(token);
    } catch (error) {
      $("login-problem").textContent = error.message;
      $("login-problem").hidden = false;
    }
  }
  poll();
}

start();
