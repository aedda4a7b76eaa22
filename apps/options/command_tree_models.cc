// harmonics import and harmonics export.
#include <algorithm>

#include <harmonics/base/number_text.h>

#include "command_tree.h"
#include "shared_options.h"

namespace harmonics::inline in_options {
namespace {

constexpr std::int64_t kMaxImportLength = std::int64_t{1} << 30;
constexpr std::int64_t kMaxBatchAxis = 15;

// "NAME=" and what follows; without it a mistake of usage.
std::pair<std::string, std::string> named(const std::string& word, const char* form) {
  const std::size_t equals = word.find('=');
  if (equals == 0 || equals == std::string::npos)
    throw CLI::ValidationError(format("'{}' is not of the form {}", word, form));
  return {word.substr(0, equals), word.substr(equals + 1)};
}

// "NAME=3,224,224": a name and numbers behind it.
template <typename Number>
std::pair<const std::string, std::vector<Number>> numbers_of(const std::string& word,
                                                             const char* form) {
  const auto [name, text] = named(word, form);
  std::vector<Number> numbers;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const auto number = number_from<Number>(text.substr(at, end - at));
    if (!number) throw CLI::ValidationError(format("'{}' is not of the form {}", word, form));
    numbers.push_back(*number);
    at = end + 1;
  }
  return {name, std::move(numbers)};
}

std::pair<const std::string, Shape> shape_of(const std::string& word) {
  auto shape = numbers_of<std::int64_t>(word, "NAME=3,224,224");
  for (const std::int64_t extent : shape.second) {
    if (extent < 1 || extent > kMaxImportLength)
      throw CLI::ValidationError(format("'{}' is not of the form NAME=3,224,224", word));
  }
  return shape;
}

// "none" or the number of an axis.
std::int64_t batch_of(const std::string& word) {
  if (word == "none") return -1;
  const auto axis = number_from<std::int64_t>(word);
  if (!axis || *axis < 0 || *axis > kMaxBatchAxis)
    throw CLI::ValidationError(format("'{}' is neither none nor the number of an axis", word));
  return *axis;
}

}  // namespace

void CommandTree::add_import() {
  CLI::App& in =
      *root_.add_subcommand("import", "turns a model of others into a .harp file with weights");
  add_path(in, "SOURCE", import_.source,
           "a Hugging Face folder (config.json, safetensors), a GGUF file or an ONNX file")
      ->required()
      ->option_text("(required)");
  add_path(in, "-o,--out", import_.out, "the .harp file to write")
      ->required()
      ->option_text("NAME.harp (required)");
  in.add_option_function<std::string>(
        "--weights", [this](const std::string& mode) { import_.links = mode == "link"; },
        "copy them beside the file, or link to where they are (copy)")
      ->type_name("copy|link")
      ->check([](const std::string& mode) {
        return mode == "copy" || mode == "link" ? std::string()
                                                : format("'{}' is neither copy nor link", mode);
      });
  add_whole(in, "--length", import_.length, {1, kMaxImportLength},
            "ceiling of the axis of tokens (what the model was made for)");
  add_whole(in, "--classes", import_.classes, {1, kMaxImportLength},
            "adds a head for so many classes, to be trained, to a model without one");
  in.add_option_function<std::vector<std::string>>(
        "--shape",
        [this](const std::vector<std::string>& words) {
          for (const std::string& word : words) import_.shapes.insert(shape_of(word));
        },
        "ONNX: the shape of a sample of an input, without the batch (repeatable)")
      ->type_name("NAME=N,N,...")
      ->allow_extra_args(false);
  in.add_option_function<std::vector<std::string>>(
        "--value",
        [this](const std::vector<std::string>& words) {
          for (const std::string& word : words)
            import_.values.insert(numbers_of<double>(word, "NAME=16000"));
        },
        "ONNX: numbers for an input that is no batch (repeatable)")
      ->type_name("NAME=N,N,...")
      ->allow_extra_args(false);
  in.add_option_function<std::string>(
        "--batch", [this](const std::string& word) { import_.batch = batch_of(word); },
        "ONNX: which axis of the inputs is the batch, or that a whole tensor is one sample "
        "(the first that can be)")
      ->type_name("AXIS|none");
  add_output(in, import_.output);
  in.footer(example(
      "  harmonics import all-MiniLM-L6-v2 -o minilm.harp\n"
      "  harmonics import SmolLM2-135M-Instruct.Q4_1.gguf -o smollm.harp --weights link\n"
      "  harmonics import detector.onnx -o detector.harp --shape images=3,320,320\n"
      "  harmonics graph show minilm.harp\n\n"
      "The file says where its weights lie: train, run and stage take them without a flag."));
  in.callback([this] { command_ = import_; });
}

void CommandTree::add_export() {
  CLI::App& out = *root_.add_subcommand(
      "export", "writes a model as others have it: a Hugging Face folder or an ONNX file");
  add_model_file(out, export_.file);
  add_path(out, "TARGET", export_.target,
           "hf: the folder for config.json and model.safetensors; onnx: the file")
      ->required()
      ->option_text("(required)");
  add_path(out, "--weights", export_.weights,
           "a checkpoint or safetensors file (the weights that FILE names)");
  out.add_option_function<std::string>(
         "--format",
         [this](const std::string& name) {
           export_.format = name == "onnx" ? ExportFormat::kOnnx : ExportFormat::kHf;
         },
         "hf: an imported model back as the folder that it was; onnx: any graph whose layers ONNX "
         "has (hf)")
      ->type_name("hf|onnx")
      ->check([](const std::string& name) {
        return name == "hf" || name == "onnx"
                   ? std::string()
                   : format("'{}' is not known: there are hf and onnx", name);
      });
  add_output(out, export_.output);
  out.footer(example(
      "  harmonics export minilm.harp --weights tuned.safetensors --format hf minilm-tuned\n"
      "  harmonics export digits.harp --weights digits.ckpt --format onnx digits.onnx\n\n"
      "hf: the names and the configuration are those of the model that was imported.\n"
      "onnx: opset 17, the batch and named axes open, names as in FILE."));
  out.callback([this] { command_ = export_; });
}

}  // namespace harmonics::inline in_options
