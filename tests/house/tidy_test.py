"""Plants one fault at a time in a small tree and expects tools/tidy.py to find exactly that one."""

import os
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(os.environ.get('HARMONICS_SOURCE_DIR', Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(ROOT / 'tools'))
import cpp_scan  # noqa: E402
import tidy  # noqa: E402

GOOD = {
    'src/CMakeLists.txt': 'set(HARMONICS_MODULES base tensor tensor_torch graph runtime)\n',
    'src/base/CMakeLists.txt': 'harmonics_module(base HEADERS a.h SOURCES a.cc TESTS a_test.cc)\n',
    'src/base/include/harmonics/base/a.h':
        '#pragma once\n#include <string>\n#include <fmt/core.h>\nnamespace harmonics::inline in_base { int a(); }\n',
    'src/base/a.cc': '#include <harmonics/base/a.h>\n#include <fcntl.h>\n#include "a.h"\n',
    'src/base/a.h': '#pragma once\n',
    'src/base/a_test.cc': '#include <gtest/gtest.h>\nTEST(A, B) { int x = 1; (void)x; }\n',
    'src/graph/CMakeLists.txt': 'harmonics_module(graph HEADERS g.h SOURCES g.cc)\n',
    'src/graph/include/harmonics/graph/g.h': '#pragma once\n#include <harmonics/base/a.h>\n',
    'src/graph/g.cc': '#include <harmonics/graph/g.h>\n// using namespace std; "in words only"\n',
    'src/runtime/CMakeLists.txt': 'harmonics_module(runtime SOURCES r.cc)\n',
    'src/runtime/r.cc': '#include <torch/torch.h>\n',
    'README.md': '[the source](src/base/a.cc#L1) and [a page](https://example.org/x)\n'
                 '```\n[no](link)\n```\n',
    'tools/x.py': 'def f(a, b):\n    return a + b\n',
}


def lines(count, line='int x;\n'):
    return line * count


class Tidy(unittest.TestCase):
    def findings(self, changes):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**GOOD, **changes}.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return tidy.check(folder)

    def expect(self, rule, changes, line=None):
        found = self.findings(changes)
        self.assertEqual([finding[2] for finding in found], [rule], found)
        self.assertIn(found[0][0], changes)
        if line is not None:
            self.assertEqual(found[0][1], line)

    def test_a_good_tree_is_clean(self):
        self.assertEqual(self.findings({}), [])

    def test_one_name(self):
        header = '#pragma once\nnamespace harmonics::inline in_%s {\nstruct Report { int x; };\n}\n'
        twice = {'src/base/a.h': header % 'base', 'src/graph/b.h': header % 'graph'}
        self.expect('one-name', twice, line=3)
        nameless = 'namespace harmonics::inline in_graph {\nnamespace {\nstruct Report { int x; };\n}\n}\n'
        inside = '#pragma once\nnamespace harmonics::inline in_graph {\nclass G {\n  struct Report {};\n};\n}\n'
        other = '#pragma once\nnamespace harmonics::zk {\nstruct Report {};\n}\n'
        only_said = '#pragma once\nnamespace harmonics::inline in_graph {\nstruct Report;\n}\n'
        for harmless in (inside, other, only_said):
            self.assertEqual(self.findings({**twice, 'src/graph/b.h': harmless}), [])
        self.assertEqual(self.findings({'src/base/a.h': header % 'base', 'src/graph/g.cc': nameless}), [])

    def test_folder(self):
        files = {f'src/graph/part_{number}.h': '#pragma once\n' for number in range(tidy.FOLDER_FILES - 1)}
        self.expect('folder', files)  # beside CMakeLists.txt and g.cc
        del files['src/graph/part_0.h']
        self.assertEqual(self.findings(files), [])

    def test_namespace(self):
        self.expect('namespace', {'src/graph/g.cc': 'int x;\nnamespace harmonics {\nint y;\n}\n'}, line=2)
        self.expect('namespace', {'src/graph/g.cc': 'namespace harmonics::inline in_base {\nint y;\n}\n'})

    def test_environment(self):
        self.expect('environment', {'src/graph/g.cc': 'int x;\nconst char* y = std::getenv("HOME");\n'}, line=2)
        home = 'const char* y = std::getenv("HOME");\n'
        self.assertEqual([found[2] for found in self.findings({'src/base/environment.cc': home})], ['listed'])

    def test_hidden_constant(self):
        source = 'namespace harmonics::inline in_graph {\nnamespace {\nconstexpr int kMost = 3;\n}\n}\n'
        header = '#pragma once\nnamespace harmonics::inline in_base {\ninline constexpr int kMost = 4;\nint a();\n}\n'
        changes = {'src/graph/g.cc': source, 'src/base/include/harmonics/base/a.h': header}
        self.assertIn(('src/graph/g.cc', 3, 'hidden-constant'), [found[:3] for found in self.findings(changes)])

    def test_file_size(self):
        self.assertEqual(self.findings({'src/base/a.cc': lines(600)}), [])
        self.expect('file-size', {'src/base/a.cc': lines(601)})
        self.assertEqual(self.findings({'src/base/a_test.cc': lines(900)}), [])
        self.expect('file-size', {'src/base/a_test.cc': lines(901)})
        self.expect('file-size', {'tools/x.py': lines(601, 'x = 1\n')})

    def test_function_size(self):
        body = lambda count: 'int f() {\n' + lines(count - 2) + '}\n'
        self.assertEqual(self.findings({'src/base/a.cc': body(60)}), [])
        self.expect('function-size', {'src/base/a.cc': '\n' + body(61)}, line=2)
        self.expect('function-size', {'tools/x.py': 'def f():\n' + lines(60, '    x = 1\n')})

    def test_parameters(self):
        self.assertEqual(self.findings({'src/base/a.cc': 'int f(int a, int b, int c, int d, int e) {}'}), [])
        self.expect('parameters', {
            'src/base/a.cc': 'int f(int a, int b, int c, int d, int e,\n  int g) {}'}, line=1)
        self.expect('parameters', {'tools/x.py': 'def f(a, b, c, d, e, *, g):\n    pass\n'})

    def test_nesting(self):
        deep = 'void f() {\n  for (;;) {\n    if (x) {\n      try {\n%s      } catch (...) {\n      }\n    }\n  }\n}\n'
        self.assertEqual(self.findings({'src/base/a.cc': deep % '        g({1, {2}});\n'}), [])
        for inner in ('while (y) { g(); }', 'g([&] { h(); });', 'g([](int z) -> int { return z; });', '{ h(); }',
                      'switch (y) { default: break; }', 'if (y) {} else { h(); }', 'do { h(); } while (y);'):
            self.expect('nesting', {'src/base/a.cc': '\n' + deep % inner}, line=2)
            self.assertEqual(self.findings({'src/base/a_test.cc': deep % inner}), [])

    def test_names(self):
        self.expect('name', {'src/base/string_util.h': '#pragma once\n'})
        self.expect('name', {'docs/misc.md': 'text\n'})
        self.expect('name', {'src/base/a.cc': '\nclass BufferManager {};\n'}, line=2)
        self.expect('name', {'src/base/a.cc': 'namespace helpers {}\n'})
        self.expect('name', {'src/base/a.cc': 'struct Channel::Impl { int x; };\n'})
        self.assertEqual(self.findings({'src/base/a.cc': '// class Manager\nclass Implied {};\n'}), [])

    def test_words(self):
        spaced = 'namespace harmonics::inline in_%s {\nstruct %s { int x; };\n}\n'
        self.expect('word', {'src/graph/g.cc': spaced % ('graph', 'WorkerPlan')}, line=2)
        self.expect('word', {'src/graph/g.cc': spaced % ('graph', 'Replicas')}, line=2)
        self.expect('word', {'src/graph/g.cc': spaced % ('graph', 'LayerLink')}, line=2)
        self.expect('word', {'src/graph/g.cc': spaced % ('graph', 'LayerChain')}, line=2)
        self.expect('word', {'src/graph/log_rules.h': '#pragma once\n'}, line=1)
        self.assertEqual(self.findings({'src/graph/g.cc': spaced % ('graph', 'Catalog')}), [])
        self.assertEqual(self.findings({'src/base/a.cc': spaced % ('base', 'LogLine')}), [])
        self.assertEqual(self.findings({'src/base/a_test.cc': spaced % ('base', 'WorkerTest')}), [])

    def test_header_names(self):
        second = {'src/graph/CMakeLists.txt': 'harmonics_module(graph HEADERS g.h a.h SOURCES g.cc)\n',
                  'src/graph/include/harmonics/graph/a.h': '#pragma once\n'}
        self.expect('header-name', second, line=1)
        self.assertEqual(self.findings({'src/graph/a.h': '#pragma once\n'}), [])
        known = sorted(tidy.SHARED_HEADER_NAMES)[0]
        lonely = {'src/graph/CMakeLists.txt': f'harmonics_module(graph HEADERS g.h {known} SOURCES g.cc)\n',
                  f'src/graph/include/harmonics/graph/{known}': '#pragma once\n'}
        self.expect('header-name', lonely)

    def test_test_headers(self):
        test = '#include <gtest/gtest.h>\n#include "cases.h"\n'
        self.expect('test-header', {'src/base/a_test.cc': test, 'src/base/cases.h': '#pragma once\n'})
        self.assertEqual(self.findings({'src/base/a_test.cc': test, 'src/base/cases.h': '#pragma once\n',
                                        'src/base/a.cc': '#include "cases.h"\n'}), [])
        renamed = test.replace('cases', 'cases_testing')
        self.assertEqual(self.findings({'src/base/a_test.cc': renamed, 'src/base/cases_testing.h': '#pragma once\n'}), [])

    def test_libraries(self):
        self.expect('library', {'src/graph/g.cc': '#include <fmt/core.h>\n'}, line=1)
        self.expect('library', {'src/graph/g.cc': '\n#include <ATen/ATen.h>\n'}, line=2)
        self.expect('library', {'src/base/a.cc': '#include <gtest/gtest.h>\n'})
        self.expect('library', {'src/base/a.cc': '#include <CLI/CLI.hpp>\n'})
        self.expect('library', {'src/base/a.cc': '#include <boost/asio.hpp>\n'})
        self.expect('library', {'src/base/a.cc': '#include <gsl.h>\n'})
        self.assertEqual(self.findings({'src/base/a.cc': '// #include <gsl.h>\n'}), [])

    def test_torch_stays_out_of_public_headers(self):
        self.expect('library', {
            'src/runtime/CMakeLists.txt': 'harmonics_module(runtime HEADERS r.h SOURCES r.cc)\n',
            'src/runtime/include/harmonics/runtime/r.h': '#pragma once\n#include <c10/core/Device.h>\n'})

    def test_torch_is_allowed_in_one_file_of_tensor(self):
        cmake = {'src/tensor/CMakeLists.txt': 'harmonics_module(tensor SOURCES torch.cc tensor.cc)\n'}
        self.assertEqual(self.findings({**cmake, 'src/tensor/torch.cc': '#include <torch/torch.h>\n'}), [])
        self.expect('library', {**cmake, 'src/tensor/tensor.cc': '#include <torch/torch.h>\n'})

    def test_layering(self):
        self.expect('layering', {'src/base/a.cc': '#include <harmonics/graph/g.h>\n'}, line=1)
        self.expect('layering', {'src/base/a.cc': '#include <harmonics/nowhere/g.h>\n'})

    def test_includes(self):
        self.expect('include', {'src/base/a.cc': '#include "harmonics/base/a.h"\n'})
        self.expect('include', {'src/base/a.cc': '#include "../graph/g.cc"\n'})

    def test_rooms(self):
        room = {'src/graph/CMakeLists.txt': 'harmonics_module(graph ROOMS HEADERS g.h SOURCES g.cc in/h.cc)\n',
                'src/graph/own.h': '#pragma once\n', 'src/graph/in/h.h': '#pragma once\n',
                'src/graph/g.cc': '#include "in/h.h"\n', 'src/graph/in/h.cc': '#include "h.h"\n#include "own.h"\n'}
        self.assertEqual(self.findings(room), [])
        self.expect('include', {**room, 'src/graph/in/h.cc': '#include "../own.h"\n'})
        self.expect('include', {**room, 'src/graph/g.cc': '#include "h.h"\n'})
        self.expect('include', {**room, 'src/graph/include/harmonics/graph/g.h': '#pragma once\n#include "own.h"\n'})

    def test_a_library_of_one_room(self):
        cmake = {'src/CMakeLists.txt': 'set(HARMONICS_MODULES base tensor tensor_torch graph transport runtime)\n',
                 'src/transport/CMakeLists.txt': 'harmonics_module(transport SOURCES t.cc grpc/g.cc)\n'}
        self.assertEqual(self.findings({**cmake, 'src/transport/grpc/g.cc': '#include <grpcpp/grpcpp.h>\n'}), [])
        self.expect('library', {**cmake, 'src/transport/t.cc': '#include <grpcpp/grpcpp.h>\n'})

    def test_machine_paths(self):
        for path in ('/ho' 'me/ann/x', '/ro' 'ot/x', '/wo' 'rk', '/usr/lo' 'cal/lib'):
            self.expect('machine-path', {'README.md': f'look in {path}\n'}, line=1)
            self.expect('machine-path', {'src/base/a.cc': f'auto p = "{path}";\n'})
        self.assertEqual(self.findings({'README.md': 'read https://example.org/ho' 'me/x\n'}), [])

    def test_unfinished(self):
        for word in ('TO' 'DO', 'FIX' 'ME', 'XX' 'X', 'HA' 'CK'):
            self.expect('unfinished', {'src/base/a.cc': f'// {word}: later\n'})
        self.assertEqual(self.findings({'src/base/a.cc': '// mkdtemp takes XXXXXX\n'}), [])

    def test_sleep(self):
        self.expect('sleep', {'src/base/a_test.cc': 'void f() { std::this_thread::sleep_' 'for(x); }\n'})
        self.assertEqual(self.findings({'src/base/a.cc': 'void f() { sleep_' 'for(x); }\n'}), [])

    def test_voice(self):
        self.assertEqual(self.findings({'src/base/a.cc':
                                        'void f() { log_info("base", "x"); fail(ErrorCode::kX, "no {}", 1); }\n'}), [])
        self.expect('log-name', {'src/base/a.cc': 'void f() {\n  log_warn(\n      "graph", "x");\n}\n'}, 2)
        self.expect('message', {'src/base/a.cc': 'void f() { fail(ErrorCode::kX, "it "\n "broke."); }\n'}, 1)
        self.expect('message', {'src/base/a.cc': 'void f() { fail(code, "can\'t"); }\n'})

    def test_headers(self):
        self.expect('pragma-once', {'src/base/a.h': '// #pragma once\n'})
        self.expect('using-namespace', {'src/base/a.h': '#pragma once\nusing namespace std;\n'}, line=2)

    def test_listed(self):
        self.expect('listed', {'src/base/include/harmonics/base/b.h': '#pragma once\n'})
        self.expect('listed', {'src/base/b_test.cc': 'int x;\n'})

    def test_umbrella(self):
        umbrella = '#pragma once\n#include <harmonics/base/a.h>\n'
        whole = {'include/harmonics/harmonics.h': umbrella + '#include <harmonics/graph/g.h>\n'}
        self.assertEqual(self.findings(whole), [])
        found = self.findings({'include/harmonics/harmonics.h': umbrella})
        self.assertEqual([(finding[0], finding[2]) for finding in found],
                         [('src/graph/include/harmonics/graph/g.h', 'umbrella')])
        self.assertEqual(self.findings({'src/base/b_fuzz.cc': 'int x;\n'}), [])

    def test_links(self):
        self.expect('link', {'README.md': 'text\n[gone](docs/gone.md)\n'}, line=2)
        self.assertEqual(self.findings({'README.md': '`[gone](docs/gone.md)` [top](#top)\n'}), [])


class CppScan(unittest.TestCase):
    def shapes(self, text):
        return [(f.name, f.first_line, f.lines, f.parameters)
                for f in cpp_scan.functions(cpp_scan.bare(text))]

    def test_finds_functions_and_nothing_else(self):
        text = '''\
#define F(x) { x }
namespace a { // not here() {
constexpr int kList[] = {1, 2};
const auto kLambda = [](int a, int b, int c, int d, int e, int f) { return a; };
std::function<void(int, int)> member{};
enum class E { kA, kB };
struct S : Base<int, 3> {
  S(int a, std::map<int, std::string> b = {})
      : a_(a), b_{b}, c_{1} {
    if (a) { call([&](int x) { return "}" + '{'; }); }
  }
 public:
  bool operator()(int a) const noexcept { return a < 1; }
  bool operator<(const S& o) const { return true; }
  auto name() const -> std::string { return R"x(} ")x"; }
};
template <typename T>
  requires Number<T>
T twice(T x) try { return x; } catch (...) { throw; }
}
extern "C" int entry(const char* a, unsigned long n) { return 0; }
TEST_F(Suite, Case) {
}
INSTANTIATE(A, Values(1), [](const auto& i) { return i.name; });
'''
        self.assertEqual(self.shapes(text), [
            ('S', 8, 4, 2), ('operator_', 13, 1, 1), ('operator_', 14, 1, 1), ('name', 15, 1, 0),
            ('twice', 17, 3, 1), ('entry', 21, 1, 2), ('TEST_F', 22, 2, 2)])

    def test_counts_parameters_and_not_commas(self):
        text = 'void f(std::map<int, std::pair<int, int>> a, void (*g)(int, int), int c[] = {1, 2}) {}'
        self.assertEqual(self.shapes(text), [('f', 1, 1, 3)])
        self.assertEqual(self.shapes('int f(void) { return 1; }'), [('f', 1, 1, 0)])


if __name__ == '__main__':
    unittest.main()
