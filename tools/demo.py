#!/usr/bin/env python3
"""A cluster on this machine trains a network in stages, loses a machine on the way, and ends as if nothing
had happened. `make demo` builds first; `tools/demo.py BUILD_FOLDER [OUT_FOLDER]` runs alone.

Every number that it prints or draws is read from what the run itself left behind, in OUT_FOLDER.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import demo_report
from attempt_mark import kill_marked

SOURCE = pathlib.Path(__file__).resolve().parent.parent
MODEL = SOURCE / 'examples' / 'lenet.harp'
# How many times as long each machine computes.
MACHINES = {'quick': 1, 'middling': 2, 'slow': 4}
VICTIM = 'middling'
KILL_AT = 0.35
EPOCHS = 12
STAGES = 3
LEASE_S = 6
LEAST_ACCURACY = 0.96
PATIENCE_S = int(os.environ.get('HARMONICS_DEMO_PATIENCE', '280'))


class Demo:
    def __init__(self, build, out):
        self.program = str(build / 'harmonics')
        self.out = out
        self.environment = dict(os.environ, XDG_STATE_HOME=str(out / 'state'),
                                XDG_CONFIG_HOME=str(out / 'config'), OMP_NUM_THREADS='1')
        for name in ('HARMONICS_TOKEN_FILE', 'HARMONICS_KEYS'):
            self.environment.pop(name, None)
        self.running = {}
        self.port = None
        self.shown = ''
        self.live = sys.stdout.isatty()

    # What it shows.

    def step(self, text):
        print(f'\n== {text}', flush=True)

    def say(self, text):
        print(text, flush=True)

    # What it runs.

    def start(self, name, *words, **variables):
        with open(self.out / f'{name}.log', 'w', encoding='utf-8') as log:
            self.running[name] = subprocess.Popen(
                [self.program, *map(str, words)], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env=dict(self.environment, **variables), cwd=self.out)

    def call(self, *words, shown=True):
        """Runs a command to its end; its standard output."""
        if shown:
            self.say('$ harmonics ' + ' '.join(map(str, words)))
        access = ['--scheduler', f'localhost:{self.port}'] if words[0] in (
            'submit', 'task', 'why', 'logs', 'wait', 'monitor', 'workers', 'report') else []
        result = subprocess.run([self.program, words[0], *access, *map(str, words[1:])],
                                capture_output=True, text=True, env=self.environment, cwd=self.out,
                                timeout=PATIENCE_S, check=False)
        if result.returncode != 0:
            raise SystemExit(f'demo: harmonics {words[0]} failed: {result.stderr.strip()}')
        return result.stdout

    def task(self):
        return json.loads(self.call('task', self.id, '--output', 'json', shown=False))

    def until(self, done, what):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            answer = done()
            if answer:
                return answer
            for name, process in self.running.items():
                if process.poll() is not None:
                    raise SystemExit(f'demo: {name} ended: {(self.out / f"{name}.log").read_text()}')
            time.sleep(0.2)
        raise SystemExit(f'demo: waited more than {PATIENCE_S} s for {what}')

    # The story.

    def start_cluster(self):
        self.start('server', 'server', '--port', 0, '--http', 0, '--lease', LEASE_S)
        line = self.until(lambda: re.search(r'listening on \S+?:(\d+),',
                                            (self.out / 'server.log').read_text()), 'the server')
        self.port = int(line.group(1))
        self.page = re.search(r'the page is on (\S+)', (self.out / 'server.log').read_text()).group(1)
        self.say(f'watch it in a browser: {self.page} (token: {self.out / "state" / "harmonics" / "token"})')
        self.make_keys()
        for name, slowdown in MACHINES.items():
            self.start(name, 'worker', '--scheduler', f'localhost:{self.port}', '--id', name,
                       '--slowdown', slowdown, '--state-dir', self.out / 'machines' / name,
                       '--token-file', self.out / 'state' / 'harmonics' / 'token',
                       HARMONICS_KEYS=str(self.keys_of(name)))
        self.until(lambda: len(json.loads(self.call('workers', '--output', 'json', shown=False))) ==
                   len(MACHINES), 'the workers')
        self.say(self.call('workers').rstrip())

    def keys_of(self, name):
        return self.out / 'machines' / f'{name}-keys'

    def make_keys(self):
        """Each machine signs with a key of its own and knows the public ones of all."""
        for name in MACHINES:
            self.call('keys', 'new', name, '--keys', self.keys_of(name), shown=False)
        roster = self.out / 'roster'
        roster.mkdir()
        for name in MACHINES:
            public = self.keys_of(name) / f'{name}.pub'
            for folder in (roster, *map(self.keys_of, set(MACHINES) - {name})):
                shutil.copy(public, folder)

    def submit(self):
        self.id = int(self.call(
            'submit', '--pipeline', MODEL, '--stages', STAGES, '--epochs', EPOCHS, '--micro-batches', 4,
            '--set', 'threads=1', '--profile', '--trace', '--checkpoint-every', 20,
            '--checkpoint-dir', self.out / 'shared', '--secure', '--output', 'quiet'))

    def look(self, view):
        """The live view: on a terminal the monitor's, elsewhere a line now and then."""
        progress = view['progress'] or {}
        share = progress.get('progress')
        if self.live:
            print('\x1b[H\x1b[2J' + self.call('monitor', shown=False), flush=True)
        elif share is not None:
            line = f'{int(share * 10) * 10:3d} %'
            if line != self.shown:
                loss = progress.get('loss', progress.get('train_loss'))
                self.say(f'{line}  epoch {progress.get("epoch")}'
                         + (f'  loss {loss:.4f}' if loss is not None else ''))
            self.shown = line

    def await_plan(self, attempt_after):
        """Waits for an attempt that trains; keeps its plan."""
        def planned():
            view = self.task()
            if view['state'] in ('succeeded', 'failed', 'cancelled'):
                raise SystemExit(f'demo: the task ended too soon: {view.get("end")}')
            plan = view.get('plan') or {}
            trains = view['attempts'] > attempt_after and 'stages' in plan
            return view if trains and all(m['launched'] for m in view['members']) else None
        view = self.until(planned, 'a plan')
        (self.out / f'plan-{view["attempts"]}.json').write_text(json.dumps(view['plan'], indent=1))
        self.say(self.call('why', self.id).rstrip())
        return view['attempts']

    def await_share(self, share):
        def reached():
            view = self.task()
            self.look(view)
            if view['state'] in ('failed', 'cancelled'):
                raise SystemExit(f'demo: the task ended: {view.get("end")}')
            done = (view['progress'] or {}).get('progress') or 0
            return view['state'] == 'succeeded' or (share < 1 and done >= share)
        self.until(reached, f'{share:.0%} of the training')

    def kill_machine(self, name):
        """kill -9 of a worker and all that it runs: what a power cut does."""
        worker = self.running.pop(name)
        identity = (self.out / 'machines' / name / 'workers' / f'id-{name}' / 'identity').read_text()
        worker.kill()
        worker.wait()
        kill_marked(identity)

    def keep_losses(self, attempt, rank):
        """The last stage knows the loss; all that it said is kept with its output."""
        lines = self.call('logs', self.id, '--attempt', attempt, '--rank', rank, '--stream', 'metrics')
        with open(self.out / 'loss.jsonl', 'a', encoding='utf-8') as file:
            for line in map(json.loads, lines.splitlines()):
                if 'loss' in line and 'step' in line:
                    file.write(json.dumps({'attempt': attempt, 'step': line['step'], 'loss': line['loss']})
                               + '\n')

    def results(self, attempt):
        stages = json.loads((self.out / f'plan-{attempt}.json').read_text())['stages']
        last = len(stages) - 1
        self.keep_losses(attempt, last)
        report = json.loads(self.call('logs', self.id, '--rank', last).splitlines()[-1])
        (self.out / 'report.json').write_text(json.dumps(report, indent=1))
        (self.out / 'task.json').write_text(json.dumps(self.task(), indent=1))
        return report

    def verify(self, attempt):
        """Checks the chains that the stages of the last plan signed; what that proves."""
        stages = json.loads((self.out / f'plan-{attempt}.json').read_text())['stages']
        chains = [json.loads(self.call('logs', self.id, '--rank', rank, shown=False).splitlines()[-1])['chain']
                  for rank in range(len(stages))]
        proof = self.call('verify', *(os.path.relpath(chain, self.out) for chain in chains), '--keys', 'roster')
        (self.out / 'proof.txt').write_text(proof)
        return proof.strip()

    def undisturbed(self):
        text = self.call('train', MODEL, '--epochs', EPOCHS, '--micro-batches', 4, '--threads', 1,
                         '--output', 'json')
        (self.out / 'undisturbed.json').write_text(text)
        return json.loads(text)

    def stop(self):
        for name in list(self.running):
            process = self.running.pop(name)
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def run(self):
        began = time.monotonic()
        self.step(f'A server and {len(MACHINES)} workers on this machine; they pose as unlike ones')
        self.start_cluster()
        self.step(f'A training in {STAGES} stages: measured on each worker first, then planned')
        self.submit()
        first = self.await_plan(0)
        self.step('It learns')
        self.await_share(KILL_AT)
        self.keep_losses(first, STAGES - 1)
        self.step(f'The machine "{VICTIM}" dies')
        self.kill_machine(VICTIM)
        self.say(f'killed the worker and its stage; the server will know in {LEASE_S} s or so')
        second = self.await_plan(first)
        self.step('It goes on from the last checkpoint with those that are left')
        self.await_share(1)
        report = self.results(second)
        self.step('What came of it')
        same = self.undisturbed()['weights_digest'] == report['weights_digest']
        self.say(f'it reads {demo_report.percent(report["test_accuracy"])} of the held-back digits right')
        self.say('the weights equal those of one undisturbed process: ' + ('yes' if same else 'NO'))
        self.say(self.verify(second))
        page = demo_report.write(self.out)
        self.call('report', self.id, '-o', self.out / 'task.html')
        self.say(f'{page} tells it with pictures, {self.out / "task.html"} shows the task as the page did; it took '
                 f'{time.monotonic() - began:.0f} s')
        self.say(f'the page was on {self.page} while it ran; a cluster of your own has one too: harmonics server --http 9090')
        if not same or report['test_accuracy'] < LEAST_ACCURACY:
            raise SystemExit('demo: that is not what was promised')


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    out = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else build / 'demo').resolve()
    if out.exists():
        subprocess.run(['rm', '-rf', str(out)], check=True)
    out.mkdir(parents=True)
    demo = Demo(build, out)
    try:
        demo.run()
    finally:
        demo.stop()


if __name__ == '__main__':
    main()
