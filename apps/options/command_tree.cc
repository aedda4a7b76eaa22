#include "command_tree.h"

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/graph/zoo.h>

#include "shared_options.h"

namespace harmonics::inline in_options {
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
  add_import();
  add_export();
  add_train();
  add_stage();
  add_run();
  add_profile();
  add_plan();
  add_quantize();
  add_dispatch_sweep();
  add_dispatch_trace();
  add_trace();
  add_keys();
  add_sign();
  add_verify();
  add_custody();
  add_tokens();
  add_generate();
  add_token_stage();
  add_serve();
  add_cluster();
  add_devices();
  add_doctor();
  add_completion();
}

void CommandTree::add_graph() {
  CLI::App& graph = *root_.add_subcommand("graph", "shows, checks and draws graphs");
  graph.require_subcommand(1);
  graph.footer(example("  harmonics graph show examples/digits.harp"));

  CLI::App& show = *graph.add_subcommand("show", "lists the layers of a graph");
  add_model_file(show, show_.file);
  add_axes(show, show_.axes, "show shapes and costs at a length of a named axis (repeatable)");
  add_output(show, show_.output);
  show.footer(example("  harmonics graph show examples/lenet.harp"));
  show.callback([this] { command_ = show_; });

  CLI::App& check = *graph.add_subcommand("check", "says whether a file is in order");
  add_model_file(check, check_.file);
  check.footer(example("  harmonics graph check examples/lenet.harp"));
  check.callback([this] { command_ = check_; });

  CLI::App& parts = *graph.add_subcommand("parts", "lists the parts of a cut graph and boundaries");
  add_model_file(parts, parts_.file);
  add_axes(parts, parts_.axes, "cut for a length of a named axis (its ceiling; repeatable)");
  add_whole(parts, "--parts", parts_.parts, {1, 100'000}, "cut the graph into so many parts (2)");
  add_output(parts, parts_.output);
  parts.footer(example(
      "  harmonics graph parts examples/lenet.harp --parts 3\n\n"
      "These are the parts of 'harmonics train' and 'harmonics stage' with the same --parts; a "
      "boundary has the name that --boundary takes."));
  parts.callback([this] { command_ = parts_; });

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

void CommandTree::add_devices() {
  CLI::App& devices =
      *root_.add_subcommand("devices", "lists the devices of this machine and their backends");
  add_output(devices, devices_.output);
  devices.footer(example("  harmonics devices --output json"));
  devices.callback([this] { command_ = devices_; });
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

}  // namespace harmonics::inline in_options
