// Node cases of the onnx package, imported and run: onnx_cases PAGE FOLDER.
//
// PAGE is docs/formats/onnx.md. Its table of operators says which cases are run: those of every
// operator in it. Its table of node cases says which of them are refused, and why. A case that
// differs, one that is refused without being in the table, and one that is in the table and passes
// make it exit with 1. Prints a line per operator.
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/runtime/stage.h>

#include "onnx_cases_testing.h"

namespace harmonics {
namespace {

namespace fs = std::filesystem;

/// What the page promises.
struct Page {
  std::set<std::string, std::less<>> operators;
  /// Patterns of names of cases that are refused.
  std::vector<std::string> refused;
};

std::vector<std::string> words_in(const std::string& text, const std::string& letters) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = text.find_first_of(letters, at);
    if (begin == std::string::npos) break;
    at = std::min(text.find_first_not_of(letters, begin), text.size());
    words.push_back(text.substr(begin, at - begin));
  }
  return words;
}

// Cells of a row "| a | b |".
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  for (std::size_t at = 1; at < line.size();) {
    const std::size_t end = std::min(line.find('|', at), line.size());
    cells.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return cells;
}

Page read_page(const fs::path& path) {
  static const std::string kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_*";
  Page page;
  std::ifstream file(path);
  std::string line, section;
  while (std::getline(file, line)) {
    if (line.starts_with("## ")) section = line.substr(3);
    if (!line.starts_with("| ") || line.starts_with("| kind") || line.starts_with("| case"))
      continue;
    const std::vector<std::string> cells = cells_of(line);
    if (section == "Operators" && cells.size() > 1) {
      for (const std::string& word : words_in(cells[1], kLetters)) {
        if (std::isupper(static_cast<unsigned char>(word[0])) != 0) page.operators.insert(word);
      }
    }
    if (section == "Node cases" && !cells.empty()) {
      for (const std::string& word : words_in(cells[0], kLetters)) page.refused.push_back(word);
    }
  }
  return page;
}

Constant constant_of(const OnnxTensor& tensor) {
  return tensor.integers.empty()
             ? Constant(Constant(tensor.spec, tensor.raw).tensor())
             : Constant::of_integers(tensor.spec.shape, tensor.integers, tensor.spec.dtype);
}

// Numbers of bfloat16 are called uint16 there.
std::vector<Constant> tensors_of(const fs::path& folder, const std::string& kind,
                                 const std::vector<OnnxValueInfo>& declared) {
  std::vector<Constant> all;
  for (std::size_t i = 0;; ++i) {
    const fs::path path = folder / format("{}_{}.pb", kind, i);
    if (!fs::exists(path)) return all;
    std::string text = read_text_file(path, std::size_t{1} << 28);
    const std::size_t type = text.find("\x10\x04");
    if (i < declared.size() && declared[i].dtype == DType::kBFloat16 && type != std::string::npos)
      text[type + 1] = 16;
    all.push_back(constant_of(read_onnx_tensor(bytes_of(text), path.string())));
  }
}

// `value` with axis `from` at place `to`.
Tensor moved_axis(const Constant& value, std::size_t from, std::size_t to) {
  std::vector<std::int64_t> order(value.shape().size());
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + static_cast<std::ptrdiff_t>(from));
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), static_cast<std::int64_t>(from));
  OnnxNode node;
  node.op = "Transpose";
  node.attributes["perm"].integers = order;
  const Constant* const inputs[] = {&value};
  return fold(node, inputs)->at(0).tensor();
}

/// A case that runs: the model, what goes in and what is to come out.
struct Case {
  std::string name;
  OnnxModel model;
  std::vector<Constant> inputs, expected;

  [[nodiscard]] std::string op() const {
    return model.graph.nodes.size() == 1 ? model.graph.nodes[0].op : "several";
  }
};

// Which axis is the batch: images come batch first, sequences second, the rest has none.
std::int64_t batch_of(const Case& one) {
  static const std::set<std::string, std::less<>> kImages = {"Conv",
                                                             "ConvTranspose",
                                                             "MaxPool",
                                                             "AveragePool",
                                                             "GlobalAveragePool",
                                                             "GlobalMaxPool",
                                                             "BatchNormalization",
                                                             "GroupNormalization",
                                                             "InstanceNormalization",
                                                             "LRN",
                                                             "Resize"};
  if (kImages.contains(one.op())) return 0;
  if (one.op() == "LSTM" || one.op() == "GRU")
    return one.model.graph.nodes[0].integer("layout", 0) != 0 ? 0 : 1;
  return -1;
}

// An operator that only constants pass is asked for its constants.
std::vector<Constant> folded(const Case& one) {
  std::vector<const Constant*> inputs;
  for (const Constant& value : one.inputs) inputs.push_back(&value);
  return fold(one.model.graph.nodes[0], inputs).value();
}

// The input that a message asks for with "--value NAME=…", or "".
std::string asked_for(const std::string& message) {
  const std::size_t flag = message.find("--value ");
  if (flag == std::string::npos) return "";
  return message.substr(flag + 8, message.find('=', flag) - flag - 8);
}

// Imports; an input that has to be known is given as a value, as the message asks. Where it asks
// for what the file computes of its inputs, those of whole numbers are given.
OnnxImport imported(const Case& one, OnnxChoices& choices) {
  const auto& inputs = one.model.graph.inputs;
  const auto give = [&](std::size_t i) {
    return choices.values.emplace(inputs[i].name, one.inputs.at(i).reals()).second;
  };
  for (;;) {
    try {
      return OnnxImporter(one.model, one.name, choices).run();
    } catch (const Error& error) {
      const std::string name = asked_for(error.what());
      bool changed = false, found = false;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].name != name) continue;
        found = true;
        changed = give(i);
      }
      for (std::size_t i = 0; i < inputs.size() && !name.empty() && !found; ++i)
        if (!is_floating(inputs[i].dtype)) changed = give(i) || changed;
      if (!changed) throw;
    }
  }
}

std::vector<Constant> computed(const Case& one) {
  if (one.op() != "several" && find_onnx_handler(one.op()) == nullptr && is_folded(one.op()))
    return folded(one);
  OnnxChoices choices;
  choices.batch = batch_of(one);
  const OnnxImport made = imported(one, choices);
  NamedTensors inputs, weights;
  for (std::size_t i = 0; i < one.inputs.size(); ++i) {
    const std::string& name = one.model.graph.inputs.at(i).name;
    if (choices.values.contains(name)) continue;
    const Constant& value = one.inputs[i];
    if (value.size() == 0) continue;
    Shape whole = value.shape();
    whole.insert(whole.begin(), 1);
    inputs[onnx_user_name(name)] =
        *choices.batch < 0 ? value.reshaped(whole).tensor()
                           : moved_axis(value, static_cast<std::size_t>(*choices.batch), 0);
  }
  for (const auto& [name, value] : made.weights) weights[name] = value.tensor();
  Stage stage(made.graph, {});
  stage->set_parameters(weights);
  const NamedTensors outputs = stage->infer(inputs);
  std::vector<Constant> all;
  for (const OnnxValueInfo& output : one.model.graph.outputs) {
    const std::string name = onnx_user_name(output.name);
    const Constant value(outputs.at(name));
    const std::size_t batch = made.batch_axes.at(name);
    const Shape rest(value.shape().begin() + 1, value.shape().end());
    all.push_back(batch == kNoBatch ? value.reshaped(rest) : Constant(moved_axis(value, 0, batch)));
  }
  return all;
}

// "" or what is wrong. The tolerance is that of onnx.backend.test; numbers of bfloat16 may differ
// in the last of their eight bits, since the package cuts what its specification rounds.
std::string difference(const Constant& got, const Constant& expected) {
  if (got.spec() != expected.spec())
    return format("{} came, {} is expected", spec_text(got.spec()), spec_text(expected.spec()));
  const std::vector<double> a = got.reals(), b = expected.reals();
  const double part = got.dtype() == DType::kBFloat16 ? 1.0 / 128 : 1e-3;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const bool close =
        is_floating(got.dtype()) && std::abs(a[i] - b[i]) <= 1e-7 + part * std::abs(b[i]);
    if (!close) return format("number {} is {}, {} is expected", i, a[i], b[i]);
  }
  return "";
}

/// What became of the cases of one operator.
struct Tally {
  int passed = 0, refused = 0;
};

class Cases {
 public:
  explicit Cases(Page page) : page_(std::move(page)) {}

  void run(const fs::path& folder) {
    std::string text = read_text_file(folder / "model.onnx", std::size_t{1} << 28);
    const std::string name = folder.filename().string().substr(5);
    const std::string listed = listed_as(name);
    Case one;
    one.name = name;
    try {
      one = read(name, text, folder);
    } catch (const Error& error) {
      const std::vector<std::string> ops = onnx_ops_of(text);
      if (is_claimed(ops)) note(ops[0], listed, name, error.what());
      return;
    }
    if (!is_claimed(onnx_ops_of(text))) return;
    std::string problem;
    try {
      const std::vector<Constant> got = computed(one);
      for (std::size_t i = 0; i < one.expected.size() && problem.empty(); ++i)
        problem = difference(got.at(i), one.expected[i]);
    } catch (const Error& error) {
      return note(one.op(), listed, name, error.what());
    }
    if (!problem.empty() || !listed.empty()) {
      wrong_.push_back(format(
          "{}: {}", name, problem.empty() ? "passes, but the page lists it as refused" : problem));
      return;
    }
    ++tallies_[one.op()].passed;
  }

  int report() {
    for (const std::string& pattern : page_.refused)
      if (!used_.contains(pattern))
        wrong_.push_back(format("'{}' of the page is no case that is refused", pattern));
    Tally all;
    for (const auto& [op, tally] : tallies_) {
      std::printf("%s: %d pass, %d refused\n", op.c_str(), tally.passed, tally.refused);
      all.passed += tally.passed;
      all.refused += tally.refused;
    }
    check_operators();
    std::printf("all: %d pass, %d refused, %zu wrong\n", all.passed, all.refused, wrong_.size());
    for (const std::string& one : wrong_) std::fprintf(stderr, "%s\n", one.c_str());
    return wrong_.empty() ? 0 : 1;
  }

 private:
  // The page and the importer have the same operators, and each has a case.
  void check_operators() {
    for (const std::string& op : page_.operators) {
      if (find_onnx_handler(op) == nullptr && !is_folded(op))
        wrong_.push_back(format("the page claims {}, which is not imported", op));
      if (!tallies_.contains(op)) wrong_.push_back(format("{} has no case", op));
    }
    for (const std::string& op : onnx_operator_names())
      if (!page_.operators.contains(op))
        wrong_.push_back(format("{} is imported, but the page does not claim it", op));
  }

  // The model with its tensors. Cases for opsets below 7 are of operators that are in 7 what they
  // were: the last opset that a file names counts.
  static Case read(const std::string& name, std::string& text, const fs::path& folder) {
    Case one;
    one.name = name;
    try {
      one.model = read_onnx(bytes_of(text), name);
    } catch (const Error& error) {
      if (std::string(error.what()).find("written for opset") == std::string::npos) throw;
      text += std::string("\x42\x02\x10\x07", 4);
      one.model = read_onnx(bytes_of(text), name);
    }
    one.inputs = tensors_of(folder / "test_data_set_0", "input", one.model.graph.inputs);
    one.expected = tensors_of(folder / "test_data_set_0", "output", one.model.graph.outputs);
    return one;
  }

  bool is_claimed(const std::vector<std::string>& ops) const {
    return !ops.empty() && std::ranges::all_of(ops, [&](const std::string& op) {
      return page_.operators.contains(op);
    });
  }

  std::string listed_as(const std::string& name) {
    for (const std::string& pattern : page_.refused)
      if (fnmatch(pattern.c_str(), name.c_str(), 0) == 0) return pattern;
    return "";
  }

  void note(const std::string& op, const std::string& listed, const std::string& name,
            const std::string& message) {
    if (listed.empty()) {
      wrong_.push_back(format("{}: {}", name, message));
      return;
    }
    used_.insert(listed);
    ++tallies_[op].refused;
  }

  Page page_;
  std::set<std::string, std::less<>> used_;
  std::map<std::string, Tally> tallies_;
  std::vector<std::string> wrong_;
};

}  // namespace
}  // namespace harmonics

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: onnx_cases PAGE FOLDER\n");
    return 2;
  }
  harmonics::Cases cases(harmonics::read_page(argv[1]));
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(argv[2])) folders.push_back(entry);
  std::ranges::sort(folders);
  for (const auto& folder : folders) cases.run(folder);
  return cases.report();
}
