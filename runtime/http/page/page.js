// The dashboard: which view is shown, by the part of the address behind #, and the polls that keep
// it fresh.
//
//     /api/cluster_status, every second -> the head of the page, history
//         -> view.update(cluster, what view.load() got)
//
// A view is {root, load(): what it asks for itself, update(cluster, loaded), close(), period_ms},
// all but root and update optional.
import {$, element} from "./dom.js";
import {get, sign_in, sign_in_by_link, NotSignedIn, NotThere} from "./server.js";
import {History} from "./chart.js";
import {Overview} from "./overview.js";
import {Nodes, FIGURES} from "./nodes.js";
import {Jobs, Job} from "./jobs.js";
import {Sweeps, Sweep} from "./sweeps.js";
import {List} from "./lists.js";
import {Metrics} from "./metrics.js";

const PERIOD_MS = 1000;

const PAGES = [
  ["overview", "Overview", () => new Overview()],
  ["nodes", "Nodes", () => new Nodes()],
  ["jobs", "Jobs", (id) => id ? new Job(id) : new Jobs()],
  ["sweeps", "Sweeps", (id) => id ? new Sweep(id) : new Sweeps()],
  ["actors", "Actors", () => new List("actors")],
  ["tasks", "Tasks", () => new List("tasks")],
  ["objects", "Objects", () => new List("objects")],
  ["placement-groups", "Placement groups", () => new List("placement_groups")],
  ["workers", "Workers", () => new List("workers")],
  ["metrics", "Metrics", () => new Metrics()],
];

const cluster = {status: null, history: new History()};
let view = null, timer = null, round = 0;

function show_state(kind, text) {
  $("live").className = `badge ${kind}`;
  if ($("live").textContent !== text)
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
  document.querySelector("nav").hidden = true;
  if ($("login").hidden) {
    $("login").hidden = false;
    $("token").focus();
  }
}

function keep_history(own) {
  for (const n of own.nodes || [])
    if (n.state === "ALIVE")
      for (const [, key, of] of FIGURES)
        if (of(n) !== undefined)
          cluster.history.add(`${n.node_id} ${key}`, own.time || Date.now(), of(n));
}

function show(status, loaded) {
  cluster.status = status.data.clusterStatus;
  const address = cluster.status.crt.address || "";
  $("address").textContent = address;
  document.title = address ? `crt ${address}` : "crt";
  keep_history(cluster.status.crt);
  view.update(cluster, loaded);
  $("login").hidden = true;
  $("cluster").hidden = false;
  show_links();
  show_problem("");
  show_state("good", "live");
}

// On a phone they are wider than the window: the one of this page is in sight.
function show_links() {
  const links = document.querySelector("nav");
  if (!links.hidden)
    return;
  links.hidden = false;
  reveal_link();
}

function reveal_link() {
  $("pages").querySelector("a[aria-current]")?.scrollIntoView({block: "nearest", inline: "center"});
}

function say_why(error) {
  if (error instanceof NotThere) {
    show_problem(error.message);
    show_state("wait", "not found");
    return;
  }
  const why = error instanceof TypeError || error.name === "TimeoutError"
    ? "no answer from crt-http" : error.message;
  show_state("bad", "not connected");
  show_problem(`The cluster can't be asked: ${why}. What is shown is old; trying again.`);
}

// Asks, shows, and asks again; a newer poll takes the place of this one.
async function poll() {
  const mine = ++round, asker = view;
  clearTimeout(timer);
  try {
    const [status, loaded] = await Promise.all([get("api/cluster_status"), asker.load?.()]);
    if (mine !== round)
      return;
    show(status, loaded);
  } catch (error) {
    if (mine !== round)
      return;
    if (error instanceof NotSignedIn) {
      show_login();
      return; // signing in starts the polls again
    }
    say_why(error);
  }
  if (!document.hidden)
    timer = setTimeout(poll, view.period_ms || PERIOD_MS);
}

function go() {
  const [name, id] = location.hash.replace(/^#\//, "").split("/").map(decodeURIComponent);
  const [chosen, , make] = PAGES.find(([page]) => page === name) || PAGES[0];
  view?.close?.();
  view = make(id);
  for (const link of $("pages").querySelectorAll("a"))
    if (link.hash === `#/${chosen}`)
      link.setAttribute("aria-current", "page");
    else
      link.removeAttribute("aria-current");
  reveal_link();
  $("cluster").replaceChildren(view.root);
  window.scrollTo(0, 0);
  poll();
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
    $("token").select();
  }
});

async function start() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) {
    history.replaceState(null, "", location.pathname);
    try {
      await sign_in_by_link(code);
    } catch (error) {
      $("login-problem").textContent = error.message;
      $("login-problem").hidden = false;
    }
  }
  $("pages").append(...PAGES.map(([name, title]) =>
    element("li", {}, element("a", {href: `#/${name}`}, title))));
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    $("view").focus();
  });
  window.addEventListener("hashchange", go);
  document.addEventListener("again", poll);
  document.addEventListener("visibilitychange", () => document.hidden || poll());
  go();
}

start();
