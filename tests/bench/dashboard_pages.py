#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How long the pages of the dashboard take, from the click to the rows on the screen, in a cluster
with many actors and ended tasks.

The cluster is that of state_api.py. A browser without a screen clicks on the pages in turns; what
is printed is the median, and the slowest, of the time from a click until the page has its rows (or
says that there are none) and was drawn, as the browser's own clock has it. Exit status 77 where no
browser, or no way to drive it, is installed (setup.sh --with-browser)."""
import json
import shutil
import statistics
import sys
import tempfile

sys.dont_write_bytecode = True
from state_api import Asker, Cluster, read_arguments  # noqa: E402

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
except ImportError:
    print("selenium is not installed; setup.sh --with-browser installs it")
    sys.exit(77)

BROWSER = next((path for path in map(shutil.which, ("chromium", "google-chrome-stable")) if path),
               None)
DRIVER = shutil.which("chromedriver")
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
           "--disable-background-networking", "--disable-component-update",
           "--window-size=1200,1000")
PATIENCE_S = 60

# What is clicked on, after which page, and what is shown then: a table with rows or the words that
# it is empty, or an element with something in it.
TABLE = "const body = document.querySelector('#%s'), none = document.querySelector('#%s-empty');" \
        "return body && (body.rows.length > 0 || none && !none.hidden)"
FILLED = "const at = document.querySelector('%s'); return at && at.childElementCount > 0"
PAGES = [("overview", "nodes", FILLED % "#resources")] + [
    (name, "overview", TABLE % (name, name))
    for name in ("nodes", "jobs", "sweeps", "actors", "tasks", "objects", "placement-groups",
                 "workers")
] + [("metrics", "overview", FILLED % "#metrics")]

# Both are called in the page: the click, and then each frame until it is shown and one more, which
# has drawn it.
MEASURE = """
const [click, shown, done] = arguments;
const began = performance.now(), is_shown = new Function(shown);
const drawn = () => setTimeout(() => done(performance.now() - began));
const look = () => requestAnimationFrame(is_shown() ? drawn : look);
new Function(click)();
requestAnimationFrame(look);
"""


class Browser:
    def __init__(self, cluster):
        self.profile = tempfile.TemporaryDirectory(prefix="crt-pages-")
        options = webdriver.ChromeOptions()
        options.binary_location = BROWSER
        for option in (*OPTIONS, f"--user-data-dir={self.profile.name}/profile"):
            options.add_argument(option)
        self.page = webdriver.Chrome(options=options, service=Service(DRIVER))
        self.page.set_script_timeout(PATIENCE_S)
        self.page.get(f"http://{cluster.place}/#code={cluster.sign_in_code()}")
        self.measure("", "return document.querySelector('#live').textContent === 'live'")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.page.quit()
        self.profile.cleanup()

    def measure(self, click, shown):
        return self.page.execute_async_script(MEASURE, click, shown)

    def turn_to(self, name, shown):
        return self.measure(f"document.querySelector('nav a[href=\"#/{name}\"]').click()", shown)


def measure_all(browser, rounds):
    shown = {name: condition for name, _, condition in PAGES}
    took = {name: [] for name in shown}
    took.update({"tasks, timeline": [], "actors, filtered": [], "actors, next page": []})
    for _ in range(rounds):
        for name, before, condition in PAGES:
            browser.turn_to(before, shown[before])
            took[name].append(browser.turn_to(name, condition))
        browser.turn_to("tasks", shown["tasks"])
        took["tasks, timeline"].append(
            browser.measure("document.querySelector('#timeline summary').click()",
                            "return document.querySelector('#timeline svg rect')"))
        browser.turn_to("actors", shown["actors"])
        took["actors, next page"].append(
            browser.measure(
                "[...document.querySelectorAll('.pager button')].find((b) => b.textContent === "
                "'Next').click()",
                "return document.querySelector('.pager').textContent.includes('page 2 ')"))
        took["actors, filtered"].append(browser.measure(
            "document.querySelector('#filter-actors').value = 'state=ALIVE';"
            "document.querySelector('#filter-actors').form.requestSubmit()",
            "return !document.querySelector('#actors-empty').hidden"))
    return took


def main():
    given = read_arguments("dashboard_pages", __doc__, 10)
    if not BROWSER or not DRIVER:
        print("no browser is installed; setup.sh --with-browser installs one")
        sys.exit(77)
    with Cluster(given) as cluster:
        Asker(cluster).wait_for_actors(given.actors)
        with Browser(cluster) as browser:
            took = measure_all(browser, given.rounds)
    rows = [{
        "page": page, "median_ms": round(statistics.median(times), 1),
        "slowest_ms": round(max(times), 1)
    } for page, times in took.items()]
    if given.json:
        print(json.dumps({"actors": given.actors, "tasks": given.tasks, "rows": rows}, indent=2))
    else:
        print(
            f"{given.actors} actors, {given.tasks} ended tasks, {given.objects} objects, "
            f"{given.rounds} rounds"
        )
        for row in rows:
            print(f"{row['median_ms']:8.1f} ms, at most {row['slowest_ms']:7.1f} ms  {row['page']}")
    slow = [row["page"] for row in rows if given.limit_ms and row["median_ms"] > given.limit_ms]
    if slow:
        sys.exit(f"slower than {given.limit_ms} ms: {', '.join(slow)}")


main()
