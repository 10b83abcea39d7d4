#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The dashboard of a real cluster in a real browser, headless, as a user clicks through it.
Usage: test_dashboard.py CRT DASHBOARD_PROGRAM SWEEP_PROGRAM [SCREENSHOT_FOLDER]
Where axe-core is (the Python packages axe-playwright-python and axe-selenium-python have it), each
page is checked with it, light and dark. Exit status 77 where no browser, or no way to drive it, is
installed (setup.sh --with-browser)."""
import glob
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.chrome.service import Service
except ImportError:
    print('selenium is not installed; setup.sh --with-browser installs it')
    sys.exit(77)

CRT, PROGRAM, SWEEP_PROGRAM = map(os.path.abspath, sys.argv[1:4])
SHOTS = sys.argv[4] if len(sys.argv) > 4 else None
SOON = 30
BROWSER = next((path for path in map(shutil.which, ('chromium', 'google-chrome-stable')) if path),
               None)
DRIVER = shutil.which('chromedriver')
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VIEWS = ('overview', 'nodes', 'jobs', 'sweeps', 'actors', 'tasks', 'objects', 'placement-groups',
         'workers', 'metrics')


def find_axe():
    """axe.min.js of a package that is installed for Python, or as setup.sh does it; None: there is
    none."""
    for folder in [*sys.path, os.path.join(ROOT, 'build-browser')]:
        for path in glob.glob(os.path.join(folder, 'axe_*', '**', 'axe.min.js'), recursive=True):
            return path
    return None


def crt(*words):
    return subprocess.run([CRT, *map(str, words)], stdout=subprocess.PIPE, text=True, check=True,
                          timeout=100).stdout


class Dashboard(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix='crt-browser-')
        said = crt('start', '--head', '--port', 0, '--dashboard-port', 0, '--num-cpus', 2,
                   '--object-store-memory', '50M')
        cls.address = re.search(r'--address (\S+)', said).group(1)
        cls.addClassCleanup(crt, 'stop', '--address', cls.address, '--force')
        cls.token = crt('token', '--address', cls.address).strip()
        cls.url = re.search(r'http://[\d.]+:\d+', said).group(0) + '/'
        options = webdriver.ChromeOptions()
        options.binary_location = BROWSER
        for option in ('--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
                       '--disable-background-networking', '--disable-component-update',
                       '--window-size=1200,1000', f'--user-data-dir={cls.folder.name}/profile'):
            options.add_argument(option)
        options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
        cls.page = webdriver.Chrome(options=options, service=Service(DRIVER))
        cls.addClassCleanup(cls.folder.cleanup)
        cls.addClassCleanup(cls.page.quit)

    def setUp(self):
        self.sign_out()
        self.page.get('about:blank')
        self.page.get(self.link())
        self.until(lambda: self.text('#live') == 'live')

    def ask(self, path, **headers):
        """Status and body of a request that is not the browser's."""
        request = urllib.request.Request(
            self.url + path,
            headers={name.replace('_', '-'): text
                     for name, text in headers.items()},
            method='POST' if path.startswith('api/authenticate') else 'GET')
        try:
            with urllib.request.urlopen(request, timeout=SOON) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def link(self):
        """As crt dashboard prints it on a terminal."""
        status, body = self.ask('api/authenticate/code', Authorization=f'Bearer {self.token}')
        self.assertEqual(status, 200, body)
        return f'{self.url}#code={json.loads(body)["code"]}'

    def sign_out(self):
        self.page.get(self.url)
        self.page.execute_script('localStorage.clear()')

    def tearDown(self):
        self.shoot(self._testMethodName)

    def shoot(self, name):
        if SHOTS:
            self.page.save_screenshot(os.path.join(SHOTS, f'{name}.png'))

    def until(self, condition):
        deadline = time.monotonic() + SOON
        while not condition():
            self.assertLess(time.monotonic(), deadline,
                            self.page.find_element(By.TAG_NAME, 'body').text)
            time.sleep(0.05)

    def all(self, selector):
        return self.page.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.page.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return self.page.execute_script(
            'const e = document.querySelector(arguments[0]); '
            'return e && e.checkVisibility() ? e.innerText : ""', selector)

    def view(self, name):
        self.one(f'nav a[href="#/{name}"]').click()
        self.until(
            lambda: self.one('nav a[aria-current]').get_attribute('href').endswith('#/' + name))

    def submit(self, command):
        """By the form; the page of the job is shown then."""
        self.view('jobs')
        self.one('details summary').click()
        self.one('#entrypoint').send_keys(command)
        self.one('#metadata').send_keys('owner=me')
        self.one('#submit-form button').click()
        self.until(lambda: self.text('#job'))

    def test_a_job_is_submitted_followed_stopped_and_deleted(self):
        self.submit(PROGRAM)
        self.until(lambda: 'RUNNING' in self.text('#job'))
        self.assertIn('owner=me', self.text('#job'))
        self.until(lambda: 'everything <i>stands</i>' in self.text('#log'))  # users' markup is text
        self.view('overview')
        self.until(lambda: 'needs 64 CPU, the cluster has 2' in self.text('#demand'))
        self.assertEqual(self.text('#count-nodes'), '1')
        self.until(lambda: self.text('#count-actors') == '1')
        self.view('nodes')
        self.until(lambda: 'ALIVE' in self.text('#nodes'))
        self.view('actors')
        self.until(lambda: '<b>Tally</b>' in self.text('#actors'))
        self.check_filters()
        self.view('jobs')
        self.until(lambda: self.all('#jobs a'))
        self.all('#jobs a')[0].click()
        self.until(lambda: 'Stop' in self.text('main'))
        self.end('Stop')
        self.until(lambda: 'STOPPED' in self.text('#job'))
        self.end('Delete')
        self.until(lambda: self.all('#search-jobs') and PROGRAM not in self.text('main'))
        self.one('#search-jobs').send_keys('no such job')
        self.until(lambda: 'crt job submit' in self.text('#jobs-empty'))

    def test_a_sweep_is_seen_by_its_curves_stopped_and_deleted(self):
        words = ('job', 'submit', '--address', self.address, '--sweep', 'lr=0.5,0.25,8',
                 '--sweep-name', 'look', '--out', f'{self.folder.name}/results', '--',
                 SWEEP_PROGRAM, '--lr', '{lr}', '--steps', '3000', '--ms', '100')
        sweep = subprocess.Popen([CRT, *words], stdout=subprocess.DEVNULL)
        self.addCleanup(sweep.wait)
        self.addCleanup(sweep.terminate)
        self.view('sweeps')
        self.until(lambda: self.text('#sweeps tr').startswith('look\t3\t'))
        self.one('#sweeps a').click()
        self.until(
            lambda: self.text('#sweep-state') == '2 running 1 waiting')  # each holds one CPU of two
        self.until(lambda: '0: lr=0.5: ' in self.text('#curves') and '1: lr=0.25: ' in self.text(
            '#curves'))
        self.assertIn('loss', self.text('#runs'))
        # In one step: the curves are drawn anew every second.
        self.until(lambda: self.page.execute_script(
            "const line = document.querySelector('#curves polyline'); "
            "return line ? line.points.numberOfItems : 0") > 2)
        self.shoot('sweep')
        self.all('#runs a')[0].click()
        self.until(lambda: self.text('#curves h3') == 'loss')
        self.until(lambda: re.search(r'step [0-9]+$',
                                     self.one('#curves svg').get_property('textContent')))
        self.one('#job a').click()  # back to the sweep
        self.until(lambda: self.text('#sweep-state'))
        self.end('Stop')
        self.until(lambda: self.text('#sweep-state') == '3 stopped')
        sweep.wait(SOON)
        self.end('Delete')
        self.until(lambda: self.text('#runs-empty'))
        self.view('sweeps')
        self.until(lambda: '--sweep' in self.text('#sweeps-empty'))

    def end(self, action):
        """Asked first: the one who says no has changed nothing."""
        def press():
            next(b for b in self.all('main button.danger')
                 if b.is_displayed() and b.text == action).click()
        press()
        self.one('dialog button[value=no]').click()
        self.until(lambda: not self.all('dialog'))
        press()
        self.one('dialog button[value=yes]').click()

    def check_filters(self):
        field = self.one('#filter-actors')
        for words, shown in (('class_name=Other', '#actors-empty'), ('name=tally state!=DEAD',
                                                                     '#actors')):
            field.clear()
            field.send_keys(words + Keys.ENTER)
            self.until(lambda: self.text(shown))
        for words, problem in (('tally', 'is no filter'), ('colour=red', 'colour')):
            field.clear()
            field.send_keys(words + Keys.ENTER)
            self.until(lambda: problem in self.text('main .problem:not([hidden])'))

    def test_a_command_that_fails_says_why(self):
        self.submit('echo last words; exit 3')
        self.until(lambda: 'FAILED' in self.text('#job'))
        self.assertIn('exit code 3', self.text('#job'))
        self.until(lambda: 'last words' in self.text('#log'))
        self.view('jobs')
        self.one('details summary').click()
        self.one('#entrypoint').send_keys('true')
        self.one('#environment').send_keys('nonsense')
        self.one('#submit-form button').click()
        self.until(lambda: 'is not NAME=VALUE' in self.text('#submit-form'))

    def test_only_who_has_the_token_sees_anything(self):
        self.sign_out()
        self.page.get('about:blank')
        self.page.get(self.url)
        self.until(lambda: self.text('#login'))
        self.assertFalse(self.one('#cluster').is_displayed())
        self.one('#token').send_keys('0' * 64 + Keys.ENTER)
        self.until(lambda: "not the cluster's token" in self.text('#login-problem'))
        self.one('#token').send_keys(self.token + Keys.ENTER)
        self.until(lambda: self.text('#live') == 'live')
        self.assertNotIn(self.token, self.page.page_source)

    def test_a_link_signs_in_once_and_the_page_stays_so(self):
        link = self.link()
        self.sign_out()
        self.page.get('about:blank')
        self.page.get(link)
        self.until(lambda: self.text('#live') == 'live')
        self.assertNotIn('code', self.page.current_url)
        self.page.refresh()
        self.until(lambda: self.text('#live') == 'live')
        self.sign_out()
        self.page.get('about:blank')
        self.page.get(link)
        self.until(lambda: 'crt dashboard' in self.text('#login-problem'))
        self.page.get_log('browser')  # the browser's own words about that

    def test_what_a_browser_sends_to_other_ports_opens_nothing(self):
        got = []

        class Other(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                got.append(dict(self.headers))
                self.send_response(200)
                self.send_header('Content-Type', 'text/html')
                self.end_headers()
                self.wfile.write(b'<p id="other">of somebody else</p>')

            def log_message(self, *_):
                pass
        with http.server.HTTPServer(('127.0.0.1', 0), Other) as other:
            threading.Thread(target=other.serve_forever, daemon=True).start()
            self.page.get(f'http://127.0.0.1:{other.server_port}/')
            self.until(lambda: self.text('#other'))
            other.shutdown()
        self.assertTrue(got)
        for headers in got:
            self.assertNotIn('Cookie', headers)
            self.assertEqual(self.ask('api/version', **headers)[0], 401)
        self.page.get(self.url)
        self.until(lambda: self.text('#live') == 'live')

    def test_it_works_below_a_path_of_a_proxy(self):
        upstream = self.url.split('//')[1].rstrip('/')
        outside = []

        class Proxy(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def pass_on(self):
                if not self.path.startswith('/ray/'):
                    outside.append(self.path)
                    return self.send_error(404)
                body = self.rfile.read(int(self.headers.get('Content-Length') or 0)) or None
                headers = {
                    name: text
                    for name, text in self.headers.items()
                    if name.lower() not in ('connection', 'host')
                }
                connection = http.client.HTTPConnection(upstream, timeout=SOON)
                connection.request(self.command, self.path[len('/ray'):], body, headers)
                answer = connection.getresponse()
                data = answer.read()
                connection.close()
                self.send_response(answer.status)
                for name, text in answer.getheaders():
                    if name.lower() not in ('transfer-encoding', 'connection', 'content-length'):
                        self.send_header(name, text)
                self.send_header('Content-Length', str(len(data)))
                self.end_headers()
                return self.wfile.write(data)
            do_GET = do_POST = do_DELETE = pass_on

            def log_message(self, *_):
                pass
        with http.server.ThreadingHTTPServer(('127.0.0.1', 0), Proxy) as proxy:
            proxy.daemon_threads = True
            threading.Thread(target=proxy.serve_forever, daemon=True).start()
            self.page.get(f'http://127.0.0.1:{proxy.server_port}/ray/')
            self.until(lambda: self.text('#login'))
            self.one('#token').send_keys(self.token + Keys.ENTER)
            self.until(lambda: self.text('#live') == 'live')
            self.submit('echo by way of a proxy')
            self.until(lambda: 'SUCCEEDED' in self.text('#job'))
            self.until(lambda: 'by way of a proxy' in self.text('#log'))
            for name in VIEWS:
                self.view(name)
            self.page.get('about:blank')
            proxy.shutdown()
        self.assertEqual(outside, [])

    def test_it_says_when_the_connection_is_lost_and_takes_it_up_again(self):
        server = self.http_process()
        os.kill(server, signal.SIGSTOP)  # it answers nobody
        try:
            self.until(lambda: self.text('#live') == 'not connected')
            self.assertIn('What is shown is old', self.text('#problem'))
        finally:
            os.kill(server, signal.SIGCONT)
        self.until(lambda: self.text('#live') == 'live')
        self.assertEqual(self.text('#problem'), '')
        self.page.get_log('browser')  # the browser's own words about that

    def http_process(self):
        listing = subprocess.run(['pgrep', '-x', 'crt-http'], stdout=subprocess.PIPE, text=True,
                                 check=True).stdout
        for pid in map(int, listing.split()):
            with open(f'/proc/{pid}/environ', 'rb') as environ:
                if b'CRT_RUN_DIR=' + os.environb[b'CRT_RUN_DIR'] in environ.read().split(b'\0'):
                    return pid
        return self.fail('there is no crt-http')

    def test_every_page_works_by_keyboard_without_an_error_or_an_outside_request(self):
        self.page.get_log('browser')
        self.one('body').send_keys(Keys.TAB)
        self.assertEqual(self.page.switch_to.active_element.text, 'Skip to content')
        for name in VIEWS:
            self.one(f'nav a[href="#/{name}"]').send_keys(Keys.ENTER)
            self.until(lambda: self.text('#cluster table:not([hidden])') or self.text(
                '#cluster .empty:not([hidden])'))
        names = self.page.execute_script(
            'return performance.getEntriesByType("resource").map((entry) => entry.name)')
        self.assertEqual([name for name in names if not name.startswith(self.url)], [])
        self.assertEqual(
            [line['message'] for line in self.page.get_log('browser') if line['level'] == 'SEVERE'],
            [])

    @unittest.skipUnless(find_axe(), 'axe-core is not installed')
    def test_a_checker_of_accessibility_finds_nothing(self):
        with open(find_axe(), encoding='utf-8') as file:
            axe = file.read()
        found = []
        for scheme in ('light', 'dark'):
            self.page.execute_cdp_cmd(
                'Emulation.setEmulatedMedia',
                {'features': [{'name': 'prefers-color-scheme', 'value': scheme}]})
            for name in VIEWS:
                self.view(name)
                self.until(lambda: any(shown.is_displayed()
                                       for shown in self.all('#cluster table, #cluster .empty')))
                self.shoot(f'{name}-{scheme}')
                self.page.execute_script(axe)
                said = self.page.execute_async_script(
                    'const done = arguments[0]; '
                    'axe.run().then(done, (e) => done({error: String(e)}))')
                self.assertNotIn('error', said)
                found += [(scheme, name, rule['id'], node['html'], node['failureSummary'])
                          for rule in said['violations'] for node in rule['nodes']]
        self.page.execute_cdp_cmd('Emulation.setEmulatedMedia', {'features': []})
        self.assertEqual(found, [])

    def test_nothing_is_wider_than_a_phone(self):
        self.page.execute_cdp_cmd(
            'Emulation.setDeviceMetricsOverride',
            {'width': 390, 'height': 844, 'deviceScaleFactor': 1, 'mobile': True})
        try:
            for name in VIEWS:
                self.page.get(f'{self.url}#/{name}')
                self.until(lambda: self.text('#cluster h2'))
                self.shoot(f'{name}-phone')
                self.assertLessEqual(
                    self.page.execute_script('return document.documentElement.scrollWidth'), 390,
                    name)
                self.assertTrue(
                    self.page.execute_script(
                        'const link = '
                        'document.querySelector("#pages a[aria-current]").getBoundingClientRect();'
                        'return link.left >= 0 && link.right <= 390 && link.width > 0;'),
                    f'the link of {name} is out of sight')
        finally:
            self.page.execute_cdp_cmd('Emulation.clearDeviceMetricsOverride', {})


if __name__ == '__main__':
    if not BROWSER or not DRIVER:
        print('no browser is installed; setup.sh --with-browser installs one')
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
