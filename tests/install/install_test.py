"""Installs the build into a fresh prefix, starts every installed program, and builds projects of their own
against the installed library: README's, one that trains without the optional parts, and examples/consumer."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ['HARMONICS_SOURCE_DIR'])
BINARY = Path(os.environ['HARMONICS_BINARY_DIR'])
TIMEOUT_S = 300
# What a machine that only trains on its CPU need not have.
# (Protobuf is not ours to leave out: the libtorch of Debian asks for it.)
UNNEEDED = 'MPI PostgreSQL SQLite3 OpenCL CLBlast gRPC HarmonicsFlight'.split()
UNNEEDED_LIBRARIES = 'libpq libsqlite3 libOpenCL libclblast libgrpc++ libarrow'.split()


def cmake_block():
    """The CMakeLists.txt that README shows."""
    return re.search(r'^```cmake\n(.*?)^```', (SOURCE / 'README.md').read_text(), re.M | re.S).group(1)


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.root = Path(cls.folder.name)
        cls.prefix = cls.root / 'prefix'
        done = subprocess.run(['cmake', '--install', BINARY, '--prefix', cls.prefix], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert done.returncode == 0, done.stdout[-2000:]

    def run_program(self, *command, folder=None, code=0, **variables):
        # Nothing of the build may help: an empty environment but for what any program has.
        environment = {'PATH': f'{self.prefix}/bin:/usr/bin:/bin', 'HOME': str(self.root), **variables}
        done = subprocess.run([str(part) for part in command], cwd=folder or self.root, text=True,
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def build(self, name, listing, *settings):
        """A program of its own from examples/consumer's source; where it lies."""
        project = self.root / name
        project.mkdir()
        (project / 'CMakeLists.txt').write_text(listing)
        shutil.copy(SOURCE / 'examples/consumer/consumer.cc', project / 'your_program.cc')
        self.run_program('cmake', '-S', project, '-B', project / 'build', '-DCMAKE_BUILD_TYPE=Debug',
                         f'-DCMAKE_PREFIX_PATH={self.prefix}', *settings)
        self.run_program('cmake', '--build', project / 'build')
        return project / 'build/your_program'

    def readme_program(self):
        built = self.root / 'readme/build/your_program'
        return built if built.exists() else self.build('readme', cmake_block())

    def expect_learning(self, program, **variables):
        output = self.run_program(program, **variables)
        before, after = (float(loss) for loss in re.findall(r'loss \w+: +([\d.]+)', output))
        self.assertLess(after, before / 100, output)

    def test_every_program_starts(self):
        programs = sorted(path.name for path in (self.prefix / 'bin').iterdir())
        for name in ('harmonics', 'harmonics-cluster', 'harmonics-supervisor', 'harmonics-text', 'harmonics-text-torch',
                     'harmonics-torch', 'sched-pipeline'):
            self.assertIn(name, programs)
        for path in [*(self.prefix / 'bin').iterdir(), *(self.prefix / 'lib').glob('*.so')]:
            if 'not a dynamic' not in (needed := self.run_ldd(path)):
                self.assertNotIn('not found', needed, path.name)
                self.assertNotIn(str(SOURCE), needed, path.name)
        for name in ('harmonics', 'harmonics-cluster', 'harmonics-text', 'harmonics-text-torch', 'harmonics-torch', 'sched-pipeline'):
            self.assertIn('usage', self.run_program(name, '--help').lower(), name)

    def run_ldd(self, path):
        return subprocess.run(['ldd', path], capture_output=True, text=True, check=False).stdout

    def test_what_readme_and_the_guides_link_to_is_there(self):
        pages = self.prefix / 'share/doc/harmonics'
        found = [pages / 'README.md', *(pages / 'docs/guides').glob('*.md'), *(pages / 'docs/formats').glob('*.md')]
        self.assertGreater(len(found), 20)
        for page in found:
            text = re.sub(r'^```.*?^```', '', page.read_text(), flags=re.M | re.S)
            for target in re.findall(r'\]\(([^)#:]+)(?:#[^)]*)?\)', text):
                self.assertTrue((page.parent / target).exists(), f'{page.relative_to(pages)}: {target}')

    def test_it_trains_and_plans_and_serves(self):
        examples = self.prefix / 'share/harmonics/examples'
        said = self.run_program('harmonics', 'train', examples / 'digits.harp', '--epochs', 1,
                                '--parts', 2, '--processes', '--transport', 'tcp')
        self.assertRegex(said, r'weights +sha256 [0-9a-f]{64}')
        said = self.run_program('sched-pipeline', '-D', 'three_machines.yml', '--report', 'text',
                                folder=examples / 'plan')
        self.assertIn('proven optimal', said)
        self.assertRegex(self.run_program('harmonics', 'doctor'), r'(?m)^torch +yes')
        server = subprocess.Popen([self.prefix / 'bin/harmonics', 'server', '--port', '0', '--state-dir',
                                   self.root / 'state'], stdout=subprocess.PIPE, text=True,
                                  env={'PATH': '/usr/bin:/bin', 'HOME': str(self.root)})
        try:
            self.assertIn('listening on', server.stdout.readline())
        finally:
            server.terminate()
            server.communicate(timeout=30)

    def test_the_two_lines_of_the_readme_are_enough(self):
        self.expect_learning(self.readme_program())

    def test_the_example_is_a_project_of_its_own(self):
        shutil.copytree(SOURCE / 'examples/consumer', self.root / 'consumer')
        self.run_program('cmake', '-S', 'consumer', '-B', 'consumer/build', f'-DCMAKE_PREFIX_PATH={self.prefix}')
        targets = '\n'.join(path.read_text() for path in self.prefix.rglob('harmonics-*.cmake'))
        for folder in (SOURCE, BINARY):
            self.assertNotIn(str(folder), targets, 'the package points back into the source tree')

    def test_a_program_that_trains_needs_no_optional_part(self):
        listing = cmake_block().replace('harmonics REQUIRED', 'harmonics REQUIRED COMPONENTS schedule')
        program = self.build('parts', listing,
                             *(f'-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON' for name in UNNEEDED))
        self.expect_learning(program)
        # What libtorch itself brings along is not ours to leave out.
        needed = subprocess.run(['readelf', '-d', program], capture_output=True, text=True, check=True).stdout
        for library in UNNEEDED_LIBRARIES:
            self.assertNotIn(library, needed)

    def poisoned_torch(self):
        """A folder with a libtorch.so that does all that the real one does and also shows, as PyTorch's wheels do,
        functions of the C++ library: here all of its std::filesystem, and each ends the process."""
        folder = self.root / 'poison'
        folder.mkdir()
        library = subprocess.run(['g++', '-print-file-name=libstdc++.so.6'], capture_output=True, text=True,
                                 check=True).stdout.strip()
        shown = subprocess.run(['nm', '-D', '--defined-only', library], capture_output=True, text=True, check=True)
        names = {line.split()[2].split('@')[0] for line in shown.stdout.splitlines()
                 if line.split()[1] in 'TW' and '_ZNSt10filesystem' in line}
        self.assertIn('_ZNSt10filesystem10remove_allERKNS_7__cxx114pathERSt10error_code', names)
        (folder / 'poison.s').write_text(
            ''.join(f'.globl {name}\n.type {name}, @function\n{name}:\n' for name in sorted(names)) + '  ud2\n'
            '.section .note.GNU-stack,"",@progbits\n')
        real = re.search(r'(libtorch\.so\S*) => (\S+)', self.run_ldd(self.prefix / 'bin/harmonics-torch'))
        needed = subprocess.run(['readelf', '-d', real[2]], capture_output=True, text=True, check=True).stdout
        behind = [f'-l:{name}' for name in re.findall(r'\[(libtorch_\S+|libc10\S+)\]', needed)]
        self.run_program('g++', '-shared', '-nostdlib', f'-Wl,-soname,{real[1]}', '-Wl,--no-as-needed', '-o',
                         folder / real[1], folder / 'poison.s', f'-L{Path(real[2]).parent}', *behind)
        return folder, real

    def test_what_libtorch_shows_of_the_c_library_is_not_used(self):
        folder, real = self.poisoned_torch()
        poison = {'LD_LIBRARY_PATH': str(folder)}
        # The poison kills: a program that looks at libtorch first dies of it.
        (self.root / 'victim.cc').write_text('#include <filesystem>\nint main() { std::error_code failed;\n'
                                             '  std::filesystem::remove_all("nothing-here", failed); }\n')
        self.run_program('g++', '-std=c++20', 'victim.cc', '-o', 'victim', '-Wl,--no-as-needed', real[2])
        self.run_program('./victim')
        self.run_program('./victim', code=-signal.SIGILL, **poison)
        examples = self.prefix / 'share/harmonics/examples'
        self.run_program('harmonics', 'train', examples / 'digits.harp', '--epochs', 1, '--checkpoint', 'kept',
                         **poison)
        self.expect_learning(self.readme_program(), **poison)
        for path in [*self.prefix.glob('bin/*'), *self.prefix.glob('lib/*.so'), *BINARY.glob('tests/*_test')]:
            needed = re.findall(r'NEEDED.*\[(lib(?:torch|c10|stdc)\S*)\]', subprocess.run(
                ['readelf', '-d', path], capture_output=True, text=True, check=False).stdout)
            if any('torch' in name for name in needed):
                self.assertIn('libstdc++', needed[0], f'{path.name} looks for the C++ library in libtorch')

    def test_an_unknown_component_is_named(self):
        project = self.root / 'unknown'
        project.mkdir()
        (project / 'CMakeLists.txt').write_text(
            cmake_block().replace('harmonics REQUIRED', 'harmonics REQUIRED COMPONENTS trian'))
        said = self.run_program('cmake', '-S', project, '-B', project / 'build',
                                f'-DCMAKE_PREFIX_PATH={self.prefix}', code=1)
        self.assertRegex(re.sub(r'\s+', ' ', said), "no component 'trian'; it has base, tensor")


class Built(unittest.TestCase):
    """What make's targets build, asked of the build files: the tests themselves run after everything was built."""

    def commands(self, *targets):
        return subprocess.run(['ninja', '-C', BINARY, '-t', 'commands', *targets], capture_output=True,
                              text=True, check=True).stdout

    def test_the_demo_builds_what_readme_runs(self):
        shown = subprocess.run([SOURCE / 'scripts/demo.sh', '--targets'], capture_output=True, text=True, check=True)
        self.assertEqual({'harmonics', 'harmonics-torch', 'harmonics-cluster', 'sched-pipeline'},
                         set(shown.stdout.split()))
        self.assertIn('scripts/build.sh release "${targets[@]}"\n', (SOURCE / 'scripts/demo.sh').read_text())

    def test_make_install_builds_all_that_it_installs(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(['cmake', '--install', BINARY, '--prefix', folder], check=True,
                           capture_output=True)
            built = {path.name for path in Path(folder).rglob('*')
                     if path.suffix in ('.a', '.so') or path.parent.name == 'bin'}
        self.assertIn('libharmonics_base.a', built)
        self.assertNotIn('libharmonics_sim.a', built)
        commands = self.commands('installed')
        self.assertEqual([name for name in built if not re.search(rf'[ /]{re.escape(name)}(?=\s)', commands)], [])


if __name__ == '__main__':
    unittest.main()
