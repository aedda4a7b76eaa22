// harmonics import and harmonics export.
#include "command_tree.h"
#include "shared_options.h"

namespace harmonics::inline in_options {
namespace {

constexpr std::int64_t kMaxImportLength = std::int64_t{1} << 30;

}  // namespace

void CommandTree::add_import() {
  CLI::App& import =
      *root_.add_subcommand("import", "turns a model of others into a .harp file with weights");
  add_path(import, "SOURCE", import_.source,
           "a Hugging Face folder (config.json, safetensors) or a GGUF file")
      ->required()
      ->option_text("(required)");
  add_path(import, "-o,--out", import_.out, "the .harp file to write")
      ->required()
      ->option_text("NAME.harp (required)");
  import
      .add_option_function<std::string>(
          "--weights", [this](const std::string& mode) { import_.links = mode == "link";
},
          "copy them beside the file, or link to where they are (copy)")
      ->type_name("copy|link")
      ->check([](const std::string& mode) {
  return mode == "copy" || mode == "link" ? std::string()
                                          : format("'{}' is neither copy nor link", mode);
      });
add_whole(import, "--length", import_.length, {1, kMaxImportLength},
          "ceiling of the axis of tokens (what the model was made for)");
add_output(import, import_.output);
import.footer(
    example("  harmonics import all-MiniLM-L6-v2 -o minilm.harp\n"
            "  harmonics import SmolLM2-135M-Instruct.Q4_1.gguf -o smollm.harp --weights link\n"
            "  harmonics graph show minilm.harp\n\n"
            "The file says where its weights lie: train, run and stage take them without a flag."));
  import.callback([this] { command_ = import_;
  }  // namespace harmonics::inline in_options
);
}

void CommandTree::add_export() {
  CLI::App& out = *root_.add_subcommand("export", "writes an imported model back as what it was");
  add_model_file(out, export_.file);
  add_folder(out, "FOLDER", export_.folder, "where config.json and model.safetensors go")
      ->required()
      ->option_text("(required)");
  add_path(out, "--weights", export_.weights,
           "a checkpoint or safetensors file (the weights that FILE names)");
  out.add_option_function<std::string>(
         "--format", [](const std::string&) {}, "what is written: a Hugging Face folder (hf)")
      ->type_name("hf")
      ->check([](const std::string& format_name) {
        return format_name == "hf" ? std::string()
                                   : format("'{}' is not known: there is hf", format_name);
      });
  add_output(out, export_.output);
  out.footer(example(
      "  harmonics export minilm.harp --weights tuned.safetensors --format hf minilm-tuned\n\n"
      "The names and the configuration are those of the model that was imported."));
  out.callback([this] { command_ = export_; });
}

}  // namespace harmonics::inline in_options
