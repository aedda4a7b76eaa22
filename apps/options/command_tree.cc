#include "command_tree.h"

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/graph/zoo.h>

#include "option_kinds.h"

namespace harmonics {
namespace {

void add_model_file(CLI::App& app, std::filesystem::path& path) {
  add_path(app, "FILE", path, "a graph in .harp text")->required()->option_text("(required)");
}

Binding split_binding(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    fail(ErrorCode::kInvalidArgument, "'{}' is not of the form NAME=csv:PATH", text);
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace

void add_bindings(CLI::App& app, const std::string& flag, std::vector<Binding>& bindings,
                  const std::string& help) {
  app.add_option_function<std::vector<std::string>>(
         flag,
         [&bindings, flag](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             Binding binding = split_binding(text);
             for (const Binding& other : bindings) {
               if (other.name != binding.name) continue;
               throw CLI::ValidationError(flag, format("'{}' is given twice", binding.name));
             }
             bindings.push_back(std::move(binding));
           }
         },
         help)
      ->type_name("NAME=SPEC")
      ->allow_extra_args(false)
      ->check(check_by([](const std::string& text) { static_cast<void>(split_binding(text)); }));
}

namespace {

void add_setting(CLI::App& app, const TrainSettingRule& rule, std::vector<Setting>& settings) {
  const std::string flag = flag_of(rule);
  const auto remember = [&rule, &settings](const std::string& text) {
    settings.push_back({rule.key, text, 0});
  };
  if (rule.placeholder == "true|false") {
    CLI::Option* yes = app.add_flag_callback(
        flag, [remember] { remember("true"); }, rule.help);
    CLI::Option* no = app.add_flag_callback(
        "--no" + flag.substr(1), [remember] { remember("false"); }, "switches " + flag + " off");
    no->excludes(yes);
    for (CLI::Option* option : {yes, no}) option->option_text(" ");  // not "Excludes: …"
    return;
  }
  app.add_option_function<std::string>(flag, remember, rule.help)
      ->type_name(rule.placeholder)
      ->check(check_by([&rule](const std::string& text) {
        TrainSettings scratch;
        rule.apply(scratch, text);
      }));
}

}  // namespace

CommandTree::CommandTree() : root_("Plans, runs and watches neural-network work.", "harmonics") {
  root_.get_formatter()->column_width(36);
  root_.get_formatter()->label("REQUIRED", "(required)");
  root_.get_formatter()->label("SUBCOMMAND", "COMMAND");
  root_.get_formatter()->label("OPTIONS", "FLAGS");
  root_.set_version_flag("--version", "harmonics " HARMONICS_VERSION);
  root_.require_subcommand(1);
  root_.footer(
      example("  harmonics train examples/digits.harp --checkpoint digits.safetensors\n"
              "  harmonics run examples/digits.harp --weights digits.safetensors\n"
              "  harmonics graph svg examples/digits.harp --out digits.svg\n"
              "  harmonics submit --name hello --gpus 0 -- echo hello\n\n"
              "'harmonics COMMAND --help' explains a command. Exit codes: 0 done, 1 failed, "
              "2 wrong usage, 3 no feasible plan."));
  add_graph();
  add_train();
  add_run();
  add_profile();
  add_plan();
  add_quantize();
  add_keys();
  add_verify();
  add_cluster();
  add_doctor();
  add_completion();
}

void CommandTree::add_graph() {
  CLI::App& graph = *root_.add_subcommand("graph", "shows, checks and draws graphs");
  graph.require_subcommand(1);
  graph.footer(example("  harmonics graph show examples/digits.harp"));

  CLI::App& show = *graph.add_subcommand("show", "lists the layers of a graph");
  add_model_file(show, show_.file);
  add_output(show, show_.output);
  show.footer(example("  harmonics graph show examples/lenet.harp"));
  show.callback([this] { command_ = show_; });

  CLI::App& check = *graph.add_subcommand("check", "says whether a file is in order");
  add_model_file(check, check_.file);
  check.footer(example("  harmonics graph check examples/lenet.harp"));
  check.callback([this] { command_ = check_; });

  add_draw(graph, dot_, "dot");
  add_draw(graph, svg_, "svg");

  CLI::App& zoo = *graph.add_subcommand("zoo", "writes a well-known network as .harp text");
  std::string names;
  for (const std::string& name : zoo_names()) names += (names.empty() ? "" : "|") + name;
  zoo.add_option("NAME", zoo_.name, "the network; without it, lists what there is")
      ->type_name(names)
      ->check([](const std::string& name) {
        const std::vector<std::string> known = zoo_names();
        if (std::ranges::find(known, name) != known.end()) return std::string();
        return format("there is no '{}' in the zoo: 'harmonics graph zoo' lists what there is",
                      name);
      });
  add_path(zoo, "--out", zoo_.out, "write to a file instead of standard output");
  zoo.footer(example("  harmonics graph zoo resnet18 --out resnet18.harp"));
  zoo.callback([this] { command_ = zoo_; });
}

void CommandTree::add_draw(CLI::App& graph, GraphDrawCommand& draw, const std::string& name) {
  CLI::App& app = *graph.add_subcommand(
      name, name == "dot" ? "draws a graph as Graphviz text" : "draws a graph as an SVG picture");
  add_model_file(app, draw.file);
  add_path(app, "--out", draw.out, "write to a file instead of standard output");
  app.footer(
      example(format("  harmonics graph {} examples/lenet.harp --out lenet.{}", name, name)));
  app.callback([this, &draw] { command_ = draw; });
}

void CommandTree::add_train() {
  CLI::App& train = *root_.add_subcommand("train", "trains a graph on data");
  add_model_file(train, train_.file);
  add_bindings(train, "--bind", train_.bindings, "data of a producer (repeatable)");
  for (const TrainSettingRule& rule : train_setting_rules()) {
    add_setting(train, rule, train_.settings);
  }
  add_checkpoint_flags(train);
  add_path(train, "--metrics", train_.metrics, "append a JSON line per step and epoch to a file");
  add_path(train, "--weights", train_.weights, "start weights from a safetensors file");
  add_output(train, train_.output);
  train.footer(example(
      "  harmonics train net.harp --bind 'image=csv:digits.csv?columns=0-63&scale=0.0625' \\\n"
      "    --bind 'label=csv:digits.csv?columns=64' --epochs 30 --test-split 0.2\n\n"
      "Flags win over the data and train sections of the file. Ctrl-C finishes the step, "
      "saves and ends with exit code 130."));
  train.callback([this] { command_ = train_; });
}

void CommandTree::add_checkpoint_flags(CLI::App& train) {
  CLI::Option* checkpoint = add_path(train, "--checkpoint", train_.checkpoint,
                                     "save weights and progress here (safetensors)");
  train
      .add_option("--checkpoint-every", train_.checkpoint_every,
                  "save every so many steps (0: only at the end)")
      ->type_name("N")
      ->option_text("N")
      ->check(CLI::Validator(CLI::NonNegativeNumber).description(""))
      ->needs(checkpoint);
  train.add_flag("--resume", train_.resume, "go on from the checkpoint, if it exists")
      ->option_text(" ")
      ->needs(checkpoint);
}

void CommandTree::add_run() {
  CLI::App& run = *root_.add_subcommand("run", "computes the outputs of a trained graph");
  add_model_file(run, run_.file);
  add_path(run, "--weights", run_.weights, "weights: a checkpoint or any safetensors file")
      ->required()
      ->option_text("FILE (required)");
  add_bindings(run, "--bind", run_.bindings, "data of a producer (repeatable)");
  add_bindings(run, "--out", run_.outputs, "write a consumer's rows to a file (repeatable)");
  for (const char* key : {"batch_size", "parts", "threads", "backend"}) {
    add_setting(run, *find_train_setting_rule(key), run_.settings);
  }
  add_secure(run, run_.secure, true);
  add_output(run, run_.output);
  run.footer(
      example("  harmonics run examples/digits.harp --weights digits.safetensors \\\n"
              "    --out prediction=csv:predictions.csv\n\n"
              "Data that the file binds need not be bound again. With targets bound, loss and "
              "accuracy are printed."));
  run.callback([this] { command_ = run_; });
}

void CommandTree::add_doctor() {
  CLI::App& doctor = *root_.add_subcommand("doctor", "tells what this build and machine can do");
  add_output(doctor, doctor_.output);
  doctor.footer(example("  harmonics doctor --output json"));
  doctor.callback([this] { command_ = doctor_; });
}

void CommandTree::add_completion() {
  CLI::App& completion = *root_.add_subcommand("completion", "prints shell completions");
  add_choice(completion, "SHELL", completion_.shell, "bash|zsh|fish", "the shell")
      ->required()
      ->option_text("bash|zsh|fish");
  completion.footer(example("  source <(harmonics completion bash)"));
  completion.callback([this] { command_ = completion_; });
}

}  // namespace harmonics
