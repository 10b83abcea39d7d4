#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dashboard in a real browser, headless: browser.py CRT_COMMAND [SCREENSHOT_FOLDER].

Starts a cluster with the daemons that CRT_LIBEXEC names (fake ones in the test), opens the link that
`crt start` prints, and reads the page's DOM: signed in by the link, by the field, not at all, and while
the server is gone. Exit status 77 where no browser is installed.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

BROWSERS = ('chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome')
TIMEOUT = 90


def find_browser():
    for name in BROWSERS:
        path = shutil.which(name)
        if path:
            return path
    print('no browser is installed; setup.sh --with-browser installs one')
    sys.exit(77)


class Page:
    """Opens a link in a browser with a profile of its own."""

    def __init__(self, browser, folder):
        self.browser = browser
        self.folder = folder
        self.count = 0

    def run(self, url, *options):
        self.count += 1
        profile = os.path.join(self.folder, f'profile-{self.count}')
        command = [self.browser, '--headless', '--no-sandbox', '--disable-gpu', '--no-first-run',
                   '--disable-extensions', '--disable-background-networking', '--disable-dev-shm-usage',
                   f'--user-data-dir={profile}', '--window-size=1200,1400',
                   '--virtual-time-budget=5000', *options, url]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              timeout=TIMEOUT, check=False).stdout

    def dom(self, url):
        return self.run(url, '--dump-dom')

    def screenshot(self, url, path):
        self.run(url, f'--screenshot={path}')


def part(dom, element):
    """The text of the element with that id, tags removed."""
    found = re.search(rf'<(\w+)[^>]*id="{element}"[^>]*>(.*?)</\1>', dom, re.S)
    assert found, f'no element {element} in the page'
    return re.sub(r'<[^>]*>', ' ', found.group(2))


def is_hidden(dom, element):
    found = re.search(rf'<\w+[^>]*id="{element}"[^>]*>', dom)
    assert found, f'no element {element} in the page'
    return ' hidden' in found.group(0)


def expect(condition, what, dom):
    if not condition:
        print(dom)
        sys.exit(f'the page does not show {what}')


def check_signed_in(dom):
    expect(part(dom, 'live') == 'live', 'that it is live', dom)
    expect(is_hidden(dom, 'login') and not is_hidden(dom, 'cluster'), 'the cluster', dom)
    expect('ALIVE' in part(dom, 'nodes') and 'connection lost' in part(dom, 'nodes'), 'nodes', dom)
    expect('1.5 of 2' in dom and '4.0 GiB' in dom, 'resources', dom)
    expect('needs 3 CPU, the cluster has 2' in part(dom, 'demand'), 'what waits', dom)
    expect('SUCCEEDED' in part(dom, 'jobs') and 'RUNNING' in part(dom, 'jobs'), 'jobs', dom)
    expect("/bin/true 'a b'" in part(dom, 'jobs'), 'the entrypoint', dom)
    expect('Counter' in part(dom, 'actors') and 'tally' in part(dom, 'actors'), 'actors', dom)
    expect('&lt;b&gt;Bold&lt;/b&gt;' in dom, 'markup of users as text', dom)
    expect(part(dom, 'count-nodes').strip() == '1', 'the number of nodes', dom)


def run_checks(crt, page, shots):
    def command(*words):
        return subprocess.run([crt, *words], stdout=subprocess.PIPE, text=True, check=True).stdout

    started = command('start', '--head', '--port', '0', '--dashboard-port', '0')
    try:
        link = re.search(r'(http://\S+/)#token=(\w+)', started)
        url, token = link.group(1), link.group(2)
        empty = page.dom(link.group(0))
        expect(not is_hidden(empty, 'jobs-empty') and 'crt job submit' in empty, 'that there are no jobs',
               empty)
        command('job', 'submit', '--no-wait', '--', '/bin/true', 'a b')
        command('job', 'submit', '--no-wait', '--', '/bin/true', 'forever')
        dom = page.dom(link.group(0))
        check_signed_in(dom)
        expect(token not in dom, 'no token', '')
        signed_out = page.dom(url)
        expect(not is_hidden(signed_out, 'login') and is_hidden(signed_out, 'cluster'), 'the login field',
               signed_out)
        expect('Counter' not in signed_out, 'nothing without a token', signed_out)
        wrong = page.dom(url + '#token=' + '0' * 64)
        expect("not the cluster's token" in part(wrong, 'login-problem'), 'that the token is wrong', wrong)
        if shots:
            page.screenshot(link.group(0), os.path.join(shots, 'dashboard.png'))
            page.screenshot(url, os.path.join(shots, 'login.png'))
    finally:
        print(command('stop', '--force'), end='')


def main(crt, shots=None):
    browser = find_browser()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix='crt-browser-') as folder:
        os.environ['CRT_RUN_DIR'] = os.path.join(folder, 'r')
        os.environ['CRT_STATE_DIR'] = os.path.join(folder, 's')
        if 'CRT_TEST_FAKE_HEAD' in os.environ:
            os.mkdir(os.path.join(folder, 'lib'))
            for name, variable in (('crt-head', 'FAKE_HEAD'), ('crt-node', 'FAKE_NODE'), ('crt-http', 'HTTP')):
                os.symlink(os.environ['CRT_TEST_' + variable], os.path.join(folder, 'lib', name))
            os.environ['CRT_LIBEXEC'] = os.path.join(folder, 'lib')
        run_checks(crt, Page(browser, folder), shots)
    print('the dashboard shows what it should')


main(*sys.argv[1:])
