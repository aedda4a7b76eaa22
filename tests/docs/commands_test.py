"""Every command that README and the guides show is run here as it stands, page by page, from top to bottom.

A page's commands run in one folder that holds the examples, in name spaces of their own: `gpu-box` and its
like are this machine, ports are free, and nothing outlives the page. What a page shows as output must come
in that order; numbers, digests and spaces may differ, and a line `…` stands for any number of lines.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import packages  # noqa: E402

BINARY_DIR = Path(os.environ['HARMONICS_BINARY_DIR'])
SOURCE_DIR = Path(os.environ['HARMONICS_SOURCE_DIR'])
TIMEOUT_S = 300
HOSTS = 'localhost laptop board there gpu-box head.example gpu-1.example'
BLOCK = re.compile(r'^```(\w*)\n(.*?)^```', re.MULTILINE | re.DOTALL)
PROMPT = re.compile(r'^\w*\$ +')
NUMBER = re.compile(r'\b[0-9a-f]{64}\b|[-+]?\d[\d.,]*(e[-+]?\d+)?( [kMGT]\b)?')
# behind: starts what goes on until it is stopped, and waits until it says something.
PRELUDE = '''
mount --bind hosts /etc/hosts && mount -t proc proc /proc && ip link set lo up || exit 1
behind() {
  eval "exec $2" >"$out.$1" 2>&1 &
  for _ in $(seq 600); do [ -s "$out.$1" ] && break; sleep 0.05; done
  echo 0 >"$code.$1"
}
stop_all() { kill $(jobs -p); wait; }
out=$PWD/out code=$PWD/code
'''


@dataclass
class Page:
    before: str = ''  # what the page takes for granted
    instead: dict = field(default_factory=dict)  # what runs for a command that does not end, or takes long
    elsewhere: dict = field(default_factory=dict)  # how commands begin that other tests run, and which
    measured: tuple = ()  # commands that print what this machine is or measured: only their end is checked
    of_model: tuple = ()  # how commands begin that need the weights of MiniLM, where the package index gives them


CERTIFIED = 'harmonics server --host 0.0.0.0 --tls certificates'
STAGE = ('harmonics stage digits.harp --parts 2 --part 1 --micro-batches 4 --meet tcp://gpu-box:9000 --run '
         'tuesday --token-file secret --checkpoint runs/digits --checkpoint-every 100')
QUICK_LAPTOP = 'harmonics profile vit-base --batch-size 8 --type laptop --mem-mb 8192 --bw-mbps 1000'
QUICK_BOARD = 'harmonics profile vit-base --batch-size 8 --type board --peer laptop:9100'
QUICK_MINILM = 'harmonics profile minilm.harp --batch-size 8 --axis T=64 --type laptop --bw-mbps 1000'
TUNED = 'harmonics export minilm.harp --weights tuned.safetensors --format hf minilm-tuned'
PIPELINE = 'harmonics submit --pipeline examples/digits.harp --stages 3 --epochs 30 --micro-batches 4'
SERVED = 'harmonics run examples/digits.harp --weights digits.safetensors --listen localhost:8000'
SERVED_PARTS = ('harmonics run examples/digits.harp --weights digits.safetensors --parts 2 --processes '
                '--listen localhost:8002')
SERVED_TEXT = 'harmonics serve smollm2 --listen 127.0.0.1:8000'
TEXT_STAGE = 'harmonics stage smollm2 --generate --plan plan.yml --hosts hosts.yml --part 0 --token-file secret'
SERVED_PLAN = ('harmonics serve smollm2 --plan plan.yml --hosts hosts.yml --stage-token-file secret --listen '
               '127.0.0.1:8001')
TEXT_HOSTS = 'desk-pc: [desk]\\nold-laptop: [shelf, cellar]\\n'
TEXT_LINKS = 'links:\\n- {between: [desk, shelf], bw_Mbps: 1000}\\n'
TEXT_PLAN = 'harmonics plan smollm2 --goal tokens --context 512 --sequences 8 --links-file links.yml --explain'
SERVED_VECTORS = 'harmonics serve all-MiniLM-L6-v2 --listen 127.0.0.1:8002'
PAGES = {
    'README.md': Page(instead={
        'harmonics monitor': 'timeout --signal=INT 5 harmonics monitor; stop_all'}, elsewhere={
        'make demo': 'the demo', 'make test': 'this', 'make install': 'install.install_test',
        'cmake -S examples/consumer': 'install.install_test', 'cmake --build build-consumer': 'install.install_test'}),
    'README_Profiler.md': Page(
        before='printf "here:\\n- desk\\n- shelf\\n" > devices.yml',
        instead={'harmonics profile --serve 9100': 'harmonics profile --serve 9100 &',
                 'harmonics profile vit-base --batch-size 8 --bw-mbps 1000':
                 'harmonics profile vit-base --batch-size 8 --bw-mbps 1000 --type here --mem-mb 4096 '
                 '--repeats 1 --warmup 0',
                 'harmonics profile vit-base --peer there:9100':
                 'harmonics profile vit-base --peer there:9100 --repeats 1 --warmup 0'}),
    'CONTRIBUTING.md': Page(elsewhere={
        'make all': 'make test', 'make test': 'this', 'cmake --preset debug': 'the build itself',
        'ctest --preset debug': 'the build itself', 'build-Debug/tests': 'the build itself'}),
    'docs/guides/accelerators.md': Page(instead={
        'harmonics train examples/digits.harp --deploy gpu,fpga,cpu':
        'harmonics train examples/digits.harp --deploy gpu,fpga,cpu --epochs 1'}),
    'docs/guides/cluster.md': Page(instead={
        'harmonics monitor --scheduler localhost:50051 --refresh 1':
        'timeout --signal=INT 3 harmonics monitor --scheduler localhost:50051 --refresh 1; stop_all',
        CERTIFIED: CERTIFIED + ' &',
        'harmonics worker --scheduler head.example:50051 --tls certificates --addr gpu-1.example:0':
        'harmonics worker --scheduler head.example:50051 --tls certificates --addr gpu-1.example:0 &'},
        elsewhere={'c++ -std=c++20': 'cluster.policy_library_test'}),
    'docs/guides/command-line.md': Page(
        before='echo \'{"review": "I liked it."}\' > reviews.jsonl',
        measured=('harmonics devices', 'harmonics doctor'), of_model=('harmonics tokens',)),
    'docs/guides/custody.md': Page(
        before='harmonics train examples/digits.harp --epochs 2 --checkpoint digits.safetensors --output quiet; '
               'mkdir kept model && cp digits.safetensors model',
        instead={'harmonics keys show': 'harmonics keys show; mkdir -p trusted && cp config/harmonics/keys/*.pub trusted'}),
    'docs/guides/data-parallel.md': Page(),
    'docs/guides/dispatch.md': Page(),
    'docs/guides/engines.md': Page(elsewhere={
        'harmonics alloc': 'cluster.alloc_test', 'harmonics up': 'cluster.up_test'}),
    'docs/guides/models.md': Page(
        before='printf "I liked it.\\nToo long, and then it ended.\\n" > reviews.txt; '
               'printf \'{"text": "You have won."}\\n{"text": "See you at ten."}\\n\' > mails.jsonl; '
               'printf "1\\n0\\n" > sorts.csv',
        elsewhere={'harmonics import vit-base': 'import.families', 'harmonics run vit.harp': 'interop.images',
                   'harmonics train vit.harp': 'import.training', 'harmonics import gpt2': 'import.families',
                   'harmonics train gpt2.harp': 'import.training'},
        instead={QUICK_MINILM: QUICK_MINILM + ' --repeats 1 --warmup 0 --mem-mb 4096',
                 TUNED: 'cp minilm.safetensors tuned.safetensors && ' + TUNED}, of_model=('harmonics ',)),
    'docs/guides/page.md': Page(instead={
        'harmonics server --http 9090': 'harmonics server --http 9090 &',
        'harmonics report 17 -o training.html':
        'id=$(harmonics submit --gpus 0 --output quiet -- true) && harmonics report $id -o training.html && '
        'test -s training.html; stop_all'}),
    'docs/guides/pipelines.md': Page(instead={PIPELINE: PIPELINE + ' --wait'}),
    'docs/guides/planning.md': Page(
        before='printf "laptop:\\n- desk\\nboard:\\n- shelf\\n- cellar\\n" > examples/plan/devices.yml; '
               'harmonics profile --serve 9100 &',
        instead={QUICK_LAPTOP: QUICK_LAPTOP + ' --repeats 1 --warmup 0',
                 QUICK_BOARD: QUICK_BOARD + ' --repeats 1 --warmup 0'},
        elsewhere={'harmonics run vit.harp': 'cli.plan_check_test', 'harmonics plan --check': 'cli.plan_check_test',
                   'harmonics profile --from-run': 'cli.plan_check_test', 'harmonics plan inception.harp --dag': 'cli.plan_test',
                   'sched-pipeline --dag inception.json': 'plan.operator_graphs_test',
                   'harmonics plan net.harp --model-name net-training': 'cli.plan_test',
                   'harmonics plan vit-base --links-file': 'cli.plan_check_test'},
        measured=('harmonics plan vit-base --out-dir parts',)),
    'docs/guides/serving.md': Page(
        instead={SERVED: SERVED + ' &', SERVED_PARTS: SERVED_PARTS + ' &'}, elsewhere={'curl ': 'cli.serve_test'}),
    'docs/guides/python.md': Page(elsewhere={'scripts/setup.sh': 'the build itself', 'pip install': 'plan.pip_install_test',
                                             'python3 -m venv': 'plan.pip_install_test'}),
    'docs/guides/spark.md': Page(elsewhere={
        'make spark-demo': 'make test-spark', 'pip install': 'make test-spark'}),
    'docs/guides/streams.md': Page(
        before=r"printf -- '- desk: [1, 2, 2]\n- shelf: [1, 2, 1]\n- cellar: [3, 4]\n' > plan.yml",
        elsewhere={'harmonics stage vit.harp': 'cli.stream_test'}),
    'docs/guides/text.md': Page(
        before=f'PYTHONPATH={SOURCE_DIR}/tests/text python3 -c "import pathlib, small_llama; '
               'small_llama.write_small_llama(pathlib.Path(\'smollm2\'))"; '
               'openssl rand -hex 16 > secret; chmod 600 secret; '
               'printf -- "- desk: [1, 2]\\n- shelf: [3, 4]\\n- cellar: [5, 6]\\n" > plan.yml; '
               f'printf {shlex.quote(TEXT_HOSTS)} > devices.yml; printf {shlex.quote(TEXT_LINKS)} > links.yml; '
               'printf "desk: localhost:9000\\nshelf: localhost:9001\\ncellar: localhost:9002\\n" > hosts.yml',
        instead={SERVED_TEXT: SERVED_TEXT + ' &', SERVED_PLAN: SERVED_PLAN + ' &', SERVED_VECTORS: SERVED_VECTORS + ' &',
                 TEXT_STAGE: ' & '.join(TEXT_STAGE.replace('--part 0', f'--part {part}') for part in (1, 2, 0)) + ' &'},
        elsewhere={'curl ': 'text.serve_test', 'harmonics submit --serve': 'cluster.serve_task_test'},
        measured=(TEXT_PLAN,), of_model=('harmonics serve all-MiniLM',)),
    'docs/guides/transports.md': Page(),
    'docs/guides/two-machines.md': Page(
        before='cp examples/digits.harp . && cp -r examples/data . && mkdir runs && echo hush > secret',
        instead={STAGE: f'{STAGE.replace("--part 1", "--part 0")} >first & {STAGE}'},
        elsewhere={'harmonics stage digits.harp --plan': 'cli.copies_train_test'}),
}


def commands(text):
    """(command, the lines that it is shown to print) of a page."""
    for kind, body in BLOCK.findall(text):
        shown = None
        for line in re.sub(r'\s*\\\n\s*', ' ', body).splitlines():
            if kind == 'sh':
                typed = re.sub(r'\s+#.*$', '', PROMPT.sub('', line)).strip()
                if typed and not typed.startswith('#'):
                    yield typed, []
            elif kind == '' and PROMPT.match(line):
                if shown is not None:
                    yield shown
                shown = (PROMPT.sub('', line), [])
            elif shown is not None:
                shown[1].append(line)
        if shown is not None:
            yield shown


def pattern(line):
    """What a printed line must look like: any number is as good as another."""
    parts = re.split(r'…', line)
    plain = [r'\s*'.join(re.escape(re.sub(r'\s+', '', word)) for word in NUMBER.sub('0', part).split())
             for part in parts]
    return re.compile(r'\s*' + '.*'.join(plain) + r'\s*$')


def may_unshare():
    done = subprocess.run(['unshare', '--net', '--mount', '--pid', '--fork', 'true'], capture_output=True,
                          check=False, timeout=20) if shutil.which('unshare') else None
    return done is not None and done.returncode == 0


@unittest.skipUnless(may_unshare(), 'name spaces are not permitted here')
class CommandsTest(unittest.TestCase):
    def run_page(self, name):
        page = PAGES[name]
        folder = Path(tempfile.mkdtemp(prefix='harmonics-page-'))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        shutil.copytree(SOURCE_DIR / 'examples', folder / 'examples')
        (folder / 'build-Release').symlink_to(BINARY_DIR)
        (folder / 'hosts').write_text(f'127.0.0.1 {HOSTS}\n')
        left_out = tuple(page.elsewhere)
        if page.of_model:
            model = packages.minilm()
            if model:
                (folder / 'all-MiniLM-L6-v2').symlink_to(model)
            else:
                left_out += page.of_model
        typed = [(line, shown) for line, shown in commands((SOURCE_DIR / name).read_text())
                 if not line.startswith(left_out)]
        script = [PRELUDE, page.before]
        for number, (line, _) in enumerate(typed):
            what = page.instead.get(line, line)
            if what.endswith('&'):
                script.append(f'behind {number} {shlex.quote(what[:-1].strip())}')
            else:
                script.append(f'{{ {what}; }} >"$out.{number}" 2>&1; echo $? >"$code.{number}"')
        script.append('stop_all 2>/dev/null; true')
        done = subprocess.run(
            ['unshare', '--net', '--mount', '--pid', '--fork', '--kill-child', 'bash', '-c',
             '\n'.join(script)], cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S,
            env=dict(os.environ, PATH=f'{BINARY_DIR}:{os.environ["PATH"]}', XDG_STATE_HOME=str(folder / 'state'),
                     XDG_CONFIG_HOME=str(folder / 'config'), HOME=str(folder), OMP_NUM_THREADS='1'))
        self.assertEqual(done.returncode, 0, done.stderr)
        for number, (line, shown) in enumerate(typed):
            with self.subTest(page=name, command=line):
                self.check(folder, number, line, [] if line in page.measured else shown)

    def check(self, folder, number, line, shown):
        printed = (folder / f'out.{number}').read_text()
        fails = any(text.startswith('harmonics: ') for text in shown)
        failed = ((folder / f'code.{number}').read_text() != '0\n' or
                  re.search('^harmonics: ', printed, re.MULTILINE) is not None)
        self.assertEqual(failed, fails, printed)
        lines = iter([NUMBER.sub('0', re.sub(r'\s+', ' ', text)) for text in printed.splitlines()])
        for text in shown:
            if text.strip() in ('', '…'):
                continue
            wanted = pattern(text)
            self.assertTrue(any(wanted.match(found) for found in lines),
                            f'{line}\nnever printed, or not in this order: {text}\n\n{printed}')


def add_page(name):
    def test(self):
        self.run_page(name)
    label = re.sub(r'\W+', '_', name.removesuffix('.md').split('/')[-1]).lower()
    setattr(CommandsTest, f'test_{label}', test)


for each in PAGES:
    add_page(each)


class PagesTest(unittest.TestCase):
    def test_every_page_with_commands_is_run(self):
        for path in [*SOURCE_DIR.glob('*.md'), *SOURCE_DIR.glob('docs/guides/*.md')]:
            name = str(path.relative_to(SOURCE_DIR))
            if any(commands(path.read_text())):
                self.assertIn(name, PAGES, 'this page shows commands that no test runs')

    def test_no_command_hides_in_a_block_that_is_not_run(self):
        typed = re.compile(r'(harmonics|sched-pipeline) (?!\d)')
        for name in PAGES:
            for kind, body in BLOCK.findall((SOURCE_DIR / name).read_text()):
                for line in body.splitlines() if kind == '' else ():
                    # The line for fish; bash, which runs the others, has another.
                    if 'completion fish' not in line:
                        self.assertFalse(typed.match(line), f'{name}: begin the block with ```sh, or the line with "$ "')

    def test_every_command_is_in_the_table(self):
        table = (SOURCE_DIR / 'docs/guides/command-line.md').read_text().split('\n\n')[2]
        help_text = subprocess.run([BINARY_DIR / 'harmonics', '--help'], capture_output=True, text=True, check=True,
                                   timeout=TIMEOUT_S).stdout
        names = re.findall(r'^  (\S+) {2,}', help_text.partition('Subcommands:')[2].partition('Example:')[0], re.MULTILINE)
        self.assertGreater(len(names), 25)
        listed = re.findall(r'[\w-]+', ' '.join(re.findall(r'\[`harmonics ([^]]*)`\]', table)).replace('`', ''))
        self.assertEqual(sorted(set(names) - set(listed)), [])

    def test_boundaries_that_are_named_are_those_of_the_example(self):
        def said(*words):
            return subprocess.run([BINARY_DIR / 'harmonics', *words], capture_output=True, text=True, check=True,
                                  timeout=TIMEOUT_S).stdout
        real = said('graph', 'parts', SOURCE_DIR / 'examples/digits.harp', '--parts', '2', '--output', 'quiet').split()
        for text in ((SOURCE_DIR / 'docs/guides/two-machines.md').read_text(), said('stage', '--help')):
            named = re.findall(r'--boundary \w+://[^/\s]+/([\w.]+@\d+)', text)
            self.assertTrue(named)
            self.assertLessEqual(set(named), set(real))


if __name__ == '__main__':
    unittest.main()
