"""The page in a browser: named facts of a running cluster, actions by role, live updates, a server that restarts, hostile
text, pictures at three widths and an audit of its accessibility.

Needs Debian's chromium (scripts/setup.sh --dev) and the package index, for playwright and axe-core; where one is missing the
test says so in a line and is skipped. The pictures lie in the build folder, page-pictures/.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import packages  # noqa: E402
from cluster import BINARY_DIR, HARMONICS, SOURCE_DIR, TIMEOUT_S, environment  # noqa: E402
from page_test import PageTest, token_of  # noqa: E402

CHROMIUM = shutil.which('chromium')
FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync']
PICTURES = BINARY_DIR / 'page-pictures'
WIDTHS = {'phone': 390, 'tablet': 820, 'wide': 1440}
WAIT_MS = 60_000
HOSTILE = '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>\u202e'
PROGRESS = '''import json, os, sys
fd = int(os.environ["HARMONICS_PROGRESS_FD"])
for step in range(1, 41):
    line = {"progress": step / 50, "step": step, "loss": 2 / step, "accuracy": 0.5 + step / 100, "samples_per_second": 120.5}
    os.write(fd, (json.dumps(line) + "\\n").encode())
print("learned a lot")
print("could not find a needle", file=sys.stderr)
'''


class PageBrowserTest(PageTest):
    """Facts of PageTest's cluster, as a browser shows them."""

    @classmethod
    def setUpClass(cls):
        from playwright.sync_api import sync_playwright
        cls.axe = (packages.wheel('axe-playwright-python==0.1.8', 'axe.min.js') / 'axe_playwright_python' / 'axe.min.js').read_text()
        cls.playwright = sync_playwright().start()
        cls.addClassCleanup(cls.playwright.stop)
        cls.chromium = cls.playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        cls.addClassCleanup(cls.chromium.close)
        PICTURES.mkdir(exist_ok=True)

    @property
    def url(self):
        return f'http://127.0.0.1:{self.page_port}/'

    def open(self, user, width=1440, scheme='light'):
        context = self.chromium.new_context(viewport={'width': width, 'height': 900}, color_scheme=scheme)
        self.addCleanup(context.close)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        self.troubles = []
        page.on('pageerror', lambda error: self.troubles.append(str(error)))
        page.on('dialog', lambda dialog: self.troubles.append('a dialog'))
        page.goto(self.url)
        page.fill('input[name=token]', token_of(user))
        page.click('button[type=submit]')
        page.wait_for_selector('nav')
        self.assertNotIn(token_of(user), page.url)
        return page

    def see(self, page, text, within='main'):
        """A fact: this text is shown."""
        page.wait_for_function('([place, text]) => [...document.querySelectorAll(place)].some((one) => one.innerText.includes(text))',
                               arg=[within, text])

    def audit(self, page, name):
        page.evaluate(self.axe)
        found = page.evaluate('() => axe.run(document, {resultTypes: ["violations"]})')
        serious = [(one['id'], one['nodes'][0]['html'][:200], one['nodes'][0].get('failureSummary', '')[:200])
                   for one in found['violations'] if one['impact'] in ('serious', 'critical')]
        self.assertEqual(serious, [], name)

    def fill_cluster(self):
        self.start_with_page()
        self.start_worker('--id', 'gpu-1')
        self.start_worker('--id', 'cpu-2', gpus=0)
        (self.folder / 'learn.py').write_text(PROGRESS)
        learn = int(self.done('submit', '--name', 'learner', '--gpus', 1, '--param', 'learning_rate=0.25', '--artifact', 'kept.txt',
                              '--output', 'quiet', '--', 'sh', '-c', f'python3 {self.folder}/learn.py; echo x > kept.txt; {self.held()}'))
        self.until(lambda: (self.task(learn)['progress'] or {}).get('step') == 40, 'its progress')
        failed = self.script('echo the reason >&2; exit 7', name='failing')
        self.wait(failed)
        waits = self.script('true', gpus=64, name='too-large', flags=['--wait-for-machines'])
        ended = self.script('echo plain', name='plain')
        self.wait(ended)
        return {'learner': learn, 'failing': failed, 'too-large': waits, 'plain': ended}

    # Thirty facts.

    def test_facts_of_a_running_cluster(self):
        tasks = self.fill_cluster()
        page = self.open('root0')
        status = self.json('monitor')
        for fact in (f'Harmonics {status["version"]}, policy balanced', '2 of 2', '1 of 2', 'gpu-1', 'cpu-2', 'ready', 'learner',
                     'too-large', 'pending', '120.5 samples/s', 'failed', 'submitted', 'connected', 'step 40'):
            self.see(page, fact)
        page.click('nav >> text=Machines')
        for fact in ('2 machines', 'gpu-1', 'cpu-2', str(self.json('workers')[0]['memory_mb'])):
            self.see(page, fact)
        page.click('main >> text=gpu-1')
        for fact in ('T4', '16384', 'leased', 'free', 'learner', self.json('workers')[1]['address']):
            self.see(page, fact)
        page.goto(self.url + f'#/task/{tasks["learner"]}')
        for fact in ('active', 'learning_rate=0.25', '1 (0 failed, 0 lost, 0 preempted)', 'Running since', '1 device', 'learned a lot',
                     'accuracy 0.9', 'gpu-1'):
            self.see(page, fact)
        page.wait_for_selector('svg[aria-label^="Loss by step: loss 0.05"]')
        page.wait_for_selector('svg[aria-label^="Throughput by step: samples_per_second 120.5"]')
        page.goto(self.url + f'#/task/{tasks["too-large"]}')
        self.see(page, self.json('why', tasks['too-large'])['text'])
        page.goto(self.url + f'#/task/{tasks["failing"]}')
        for fact in ('exit code 7', 'failed'):
            self.see(page, fact)
        page.select_option('text=Stream >> select', 'err')
        self.see(page, 'the reason')
        page.goto(self.url + '#/people')
        self.see(page, 'weight')
        self.release()
        self.wait(tasks['learner'])
        page.goto(self.url + f'#/task/{tasks["learner"]}')
        self.see(page, 'kept.txt')
        self.assertEqual(self.troubles, [])

    def test_search_and_streams_of_output(self):
        self.start_with_page()
        self.start_worker(gpus=0)
        task = self.script('for i in $(seq 300); do echo line $i; done; echo a needle; ' + self.held(then='echo and more'))
        page = self.open('root0')
        page.goto(self.url + f'#/task/{task}')
        self.see(page, 'a needle', '.log')
        page.fill('input[placeholder=text]', 'NEEDLE')
        self.see(page, '1 line', '.tools')
        page.check('text=matches only')
        self.assertEqual(page.locator('.log > div:visible').count(), 1)
        page.fill('input[placeholder=text]', '')
        self.release()
        self.see(page, 'and more', '.log')
        self.see(page, 'succeeded', 'h1')

    def test_tasks_compared(self):
        tasks = self.fill_cluster()
        page = self.open('ann')
        self.assertNotIn('learner', page.inner_text('main'))
        page = self.open('vic')
        page.click('nav >> text=Experiments')
        page.check(f'[aria-label="compare task {tasks["learner"]}"]')
        self.see(page, '0.25')
        page.wait_for_selector(f'svg[aria-label*="{tasks["learner"]} learner 0.05"]')
        self.see(page, 'last accuracy')

    @unittest.skipUnless((BINARY_DIR / 'harmonics-torch').exists(), 'needs libtorch')
    def test_boundaries_and_custody_of_a_pipeline(self):
        self.start_with_page()
        for name in ('left', 'right'):
            self.start_worker('--id', name, gpus=0)
        task = int(self.done('submit', '--pipeline', SOURCE_DIR / 'examples' / 'digits.harp', '--stages', 2, '--epochs', 2,
                             '--set', 'threads=1', '--secure', '--output', 'quiet'))
        self.assertEqual(self.wait(task)['succeeded'], 1, self.task(task))
        stages = self.task(task)['plan']['stages']
        crossing = stages[0]['send_bytes']
        self.assertGreater(crossing, 0)
        self.assertEqual(stages[1]['send_bytes'], 0)
        # What the page says to type, typed.
        folder = pathlib.Path(self.task(task)['plan']['checkpoint']).parent
        proof = subprocess.run([str(HARMONICS), 'verify', *map(str, folder.glob('*.chain'))], capture_output=True, text=True,
                               timeout=TIMEOUT_S, env=environment(self.folder))
        self.assertEqual(proof.returncode, 0, proof.stdout + proof.stderr)
        number = f'{crossing:.0f} B' if crossing < 1024 else f'{crossing / 1024:.{2 if crossing < 10240 else 1}f} KiB'
        for name, width in WIDTHS.items():
            page = self.open('root0', width)
            page.goto(self.url + f'#/task/{task}')
            for fact in ('Boundaries', number, 'Custody', f'stage 0 on {stages[0]["worker"]}',
                         f'by stage 1 on {stages[1]["worker"]}, each before its use', f'harmonics verify {folder}/*.chain'):
                self.see(page, fact)
            wide = page.evaluate('() => document.documentElement.scrollWidth - document.documentElement.clientWidth')
            self.assertLessEqual(wide, 0, name)
            page.screenshot(path=PICTURES / f'custody-{name}.png', full_page=True)
        self.audit(page, 'custody')
        self.assertEqual(self.troubles, [])

    # Actions.

    def test_actions_are_there_for_whom_they_are(self):
        self.start_with_page()
        self.start_worker('--id', 'gpu-1')
        hers = self.submitted_as('ann', self.held())
        self.until_launched(hers)
        page = self.open('vic')
        page.goto(self.url + f'#/task/{hers}')
        self.see(page, 'active', 'h1')
        self.assertEqual(page.locator('text=Cancel').count(), 0)
        page.goto(self.url + '#/machine/gpu-1')
        self.see(page, 'T4')
        self.assertEqual(page.locator('text=Drain').count(), 0)
        page.goto(self.url + '#/submit')
        self.see(page, "needs the role 'submit'")
        page = self.open('ann')
        page.goto(self.url + f'#/task/{hers}')
        page.click('text=Cancel')
        self.see(page, 'cancelled', 'h1')
        page.click('button >> text=Retry')
        page.wait_for_url(f'**#/task/{hers + 1}')
        self.see(page, f'Task {hers + 1}')
        page.goto(self.url + '#/submit')
        page.fill('input[name=name]', 'by-form')
        page.fill('textarea[name=command]', 'echo by form')
        page.click('form >> text=Submit')
        self.see(page, 'Submitted as task')
        page.click('.note a')
        self.see(page, 'by form', '.log')
        page.goto(self.url + '#/submit')
        page.click('summary')
        page.fill('textarea[name=json]', '{"name": "by-json", "required_gpus": 0, "command": ["true"], "priority": 9}')
        page.click('text=Submit the JSON')
        self.see(page, 'priority 9 is above 0')
        self.assertEqual(page.locator('text=Set the quota').is_visible(), False)
        page = self.open('root0')
        page.goto(self.url + '#/machine/gpu-1')
        page.click('text=Drain')
        self.see(page, 'draining')
        page.click('text=Give it tasks again')
        self.see(page, 'ready')
        page.goto(self.url + '#/people')
        page.fill('input[name=user]', 'bob')
        page.fill('input[name=max_gpus]', '3')
        page.click('text=Set the quota')
        self.see(page, '0 of 3')
        self.assertEqual(self.troubles, [])

    # Live.

    def test_live_and_after_a_restart_without_a_reload(self):
        self.start_with_page()
        self.start_worker('--id', 'gpu-1')
        page = self.open('root0')
        page.evaluate('() => { window.stays = true; }')
        task = self.script(self.held(), name='comes-up')
        self.until_launched(task)
        began = time.monotonic()
        self.see(page, 'comes-up')
        print(f'shown {time.monotonic() - began:.2f} s after it ran')
        self.kill(self.server)
        self.see(page, 'reconnecting', '.live')
        self.release()
        self.start_with_page()
        self.wait(task)
        later = self.script('true', name='after-the-restart')
        self.wait(later)
        self.see(page, 'after-the-restart')
        page.wait_for_selector('.live:not(.away)')
        self.assertTrue(page.evaluate('() => window.stays'), 'it was loaded anew')
        self.assertEqual(self.troubles, [])

    # Hostile text.

    def test_hostile_text_is_shown_as_text(self):
        self.start_with_page()
        self.start_worker(gpus=0)
        # The tail of its output is the last 1 MiB.
        task = self.script('head -c 1000000 /dev/zero | tr "\\0" y; echo; printf "<u>under</u> \\033[31mred \\342\\200\\256turned\\n"; '
                           'echo "{\\"<i>key</i>\\": 1}" >&$HARMONICS_PROGRESS_FD; echo end', name=HOSTILE)
        self.wait(task)
        page = self.open('root0')
        self.see(page, '<img src=x onerror')
        page.goto(self.url + f'#/task/{task}')
        self.see(page, '<script>document.title', 'h1')
        self.see(page, '\\u202e', 'h1')
        self.see(page, '<u>under</u> \\x1b[31mred \\u202eturned', '.log')
        self.see(page, 'all 1000000 characters', '.log')
        self.see(page, '<i>key</i> 1')
        self.assertEqual(page.evaluate('() => document.querySelectorAll("main b > b, main u, main i > i, img, main script").length'), 0)
        self.assertIn('Harmonics', page.title())
        report = self.folder / 'report.html'
        self.done('report', task, '-o', report)
        page = self.chromium.new_page()
        self.addCleanup(page.close)
        page.goto(f'file://{report}')
        self.see(page, '<script>document.title', 'h1')
        self.see(page, 'end', '.log')
        self.assertIn('Harmonics', page.title())
        self.assertEqual(self.troubles, [])

    # How it looks and reads.

    def test_pictures_and_audit(self):
        tasks = self.fill_cluster()
        stranger = self.chromium.new_page()
        self.addCleanup(stranger.close)
        stranger.goto(self.url)
        stranger.wait_for_selector('input[name=token]')
        self.audit(stranger, 'login')
        for width, pixels in WIDTHS.items():
            for scheme in ('light', 'dark') if width == 'wide' else ('light',):
                page = self.open('root0', pixels, scheme)
                for view in ('', 'machines', 'machine/gpu-1', 'tasks', f'task/{tasks["learner"]}', 'experiments', 'people', 'submit'):
                    page.goto(self.url + '#/' + view)
                    page.wait_for_selector('main h1')
                    self.see(page, {'': 'learner', 'experiments': 'learner', 'people': 'weight'}.get(view, ''))
                    name = f'{(view or "overview").split("/")[0]}-{width}-{scheme}'
                    page.screenshot(path=PICTURES / f'{name}.png', full_page=True)
                    self.assertLessEqual(page.evaluate('() => document.documentElement.scrollWidth'), pixels, f'{name} is too wide')
                    if width != 'tablet':
                        self.audit(page, name)
                page.context.close()

    def test_keyboard_alone(self):
        self.start_with_page()
        self.start_worker('--id', 'gpu-1')
        page = self.chromium.new_page()
        self.addCleanup(page.close)
        page.goto(self.url)
        page.wait_for_selector('input[name=token]')
        page.keyboard.type(token_of('root0'))
        page.keyboard.press('Enter')
        page.wait_for_selector('nav')
        for _ in range(30):
            page.keyboard.press('Tab')
            if page.evaluate('() => document.activeElement.textContent') == 'Machines':
                break
        page.keyboard.press('Enter')
        self.see(page, '1 machine')


def tests_of_the_browser(loader, _tests, _pattern):
    """Those of PageTest have a program of their own."""
    names = [name for name in loader.getTestCaseNames(PageBrowserTest) if not hasattr(PageTest, name)]
    return unittest.TestSuite(map(PageBrowserTest, names))


load_tests = tests_of_the_browser


def main():
    if CHROMIUM is None:
        print('skipped: chromium is not installed (scripts/setup.sh --dev installs it)')
        return
    python = packages.interpreter('browser', ['playwright==1.65.2'], 'playwright.sync_api')
    if python is None or packages.wheel('axe-playwright-python==0.1.8', 'axe.min.js') is None:
        print('skipped: playwright and axe-core could not be installed here')
        return
    if pathlib.Path(sys.prefix) != python.parent.parent:
        os.execv(python, [str(python), __file__, *sys.argv[1:]])
    unittest.main()


if __name__ == '__main__':
    main()
