// harmonics dispatch-sweep, dispatch-trace and trace.
#include <tuple>

#include <harmonics/dispatch/device.h>

#include "command_tree.h"
#include "shared_options.h"

namespace harmonics::inline in_options {
namespace {

constexpr std::int64_t kMaxSweepRows = 1'000'000'000;
constexpr std::size_t kMaxSweepSizes = 64;
constexpr std::size_t kMaxSweepAxes = 16;
constexpr std::int64_t kMaxSweepMilliseconds = 3'600'000;
constexpr std::int64_t kMaxStep = 1'000'000'000'000;

std::vector<std::int64_t> wholes(const std::string& text, char between, std::size_t most) {
  std::vector<std::int64_t> values;
  for (const std::string& piece : CLI::detail::split(text, between)) {
    values.push_back(whole_number(piece, 1, kMaxSweepRows));
  }
  if (values.empty() || values.size() > most) {
    fail(ErrorCode::kInvalidArgument, "'{}' has {} numbers, 1 to {} are possible", text,
         values.size(), most);
  }
  return values;
}

SweepInput sweep_input(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    fail(ErrorCode::kInvalidArgument, "'{}' is not of the form NAME=3x224x224", text);
  }
  return {text.substr(0, equals), wholes(text.substr(equals + 1), 'x', kMaxSweepAxes)};
}

/// "7" or "7-9".
std::pair<std::int64_t, std::int64_t> steps_of(const std::string& text) {
  const std::size_t dash = text.find('-');
  const std::int64_t first = whole_number(text.substr(0, dash), 0, kMaxStep);
  if (dash == std::string::npos) return {first, first};
  return {first, whole_number(text.substr(dash + 1), first, kMaxStep)};
}

}  // namespace

void CommandTree::add_dispatch_sweep() {
  CLI::App& sweep = *root_.add_subcommand(
      "dispatch-sweep", "measures rows per second over sub-batch sizes of a model on a device");
  DispatchSweepCommand& s = dispatch_sweep_;
  add_path(sweep, "MODEL", s.model,
           "a .harp file, a name of 'harmonics graph zoo', or a TorchScript module (.pt)")
      ->required()
      ->option_text("(required)");
  add_text(sweep, "--device", s.device, "NAME", "cpu, cuda:0, emulated:2e6,1ms (cpu)")
      ->check(check_by([](const std::string& text) { (void)parse_work_device(text); }));
  sweep
      .add_option_function<std::string>(
          "--sizes", [&s](const std::string& text) { s.sizes = wholes(text, ',', kMaxSweepSizes); },
          "sub-batch sizes to try (1 to 4096 in powers of two)")
      ->type_name("N[,N...]")
      ->check(check_by([](const std::string& text) { (void)wholes(text, ',', kMaxSweepSizes); }));
  add_whole(sweep, "--milliseconds", s.milliseconds, {1, kMaxSweepMilliseconds},
            "how long to measure each size (300)");
  add_whole(sweep, "--streams", s.lanes, {1, kMaxLanes},
            "workers of the device (2 on a GPU, else 1)");
  sweep
      .add_option_function<std::vector<std::string>>(
          "--input",
          [&s](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) s.inputs.push_back(sweep_input(text));
          },
          "TorchScript: an argument and the shape of its rows, in order (repeatable)")
      ->type_name("NAME=AxBxC")
      ->allow_extra_args(false)
      ->check(check_by([](const std::string& text) { (void)sweep_input(text); }));
  add_output(sweep, s.output);
  sweep.footer(
      example("  harmonics dispatch-sweep lenet --device cpu --sizes 1,8,64,512\n"
              "  harmonics dispatch-sweep model.pt --device cuda:0 --input x=3x224x224"));
  sweep.callback([this] { command_ = dispatch_sweep_; });
}

void CommandTree::add_dispatch_trace() {
  CLI::App& trace =
      *root_.add_subcommand("dispatch-trace", "sums up or draws the trace of a dispatcher");
  add_path(trace, "FILE", dispatch_trace_.file, "what a DispatchTrace wrote")
      ->required()
      ->option_text("(required)");
  trace.add_flag("--svg", dispatch_trace_.svg, "draw it as an SVG picture")->option_text(" ");
  add_path(trace, "--out", dispatch_trace_.out, "write to a file instead of standard output");
  add_output(trace, dispatch_trace_.output);
  trace.footer(example("  harmonics dispatch-trace trace.json --svg --out trace.svg"));
  trace.callback([this] { command_ = dispatch_trace_; });
}

void CommandTree::add_trace() {
  CLI::App& trace = *root_.add_subcommand(
      "trace", "sums up or draws what the stages of a pipeline did, from what --trace kept");
  trace
      .add_option_function<std::vector<std::string>>(
          "FILE",
          [this](const std::vector<std::string>& files) {
            trace_.files.assign(files.begin(), files.end());
          },
          "passes-….jsonl of each stage, or the folder that holds them")
      ->type_name("FILE...")
      ->required()
      ->option_text("(required)");
  trace
      .add_option_function<std::string>(
          "--steps",
          [this](const std::string& text) {
            std::tie(trace_.first_step, trace_.last_step) = steps_of(text);
          },
          "only these steps (all)")
      ->type_name("N[-M]")
      ->check(check_by([](const std::string& text) { (void)steps_of(text); }));
  add_path(trace, "-o,--out", trace_.out,
           "write a picture (.svg), or what Perfetto and chrome://tracing open (.json)")
      ->check([](const std::string& text) {
        return text.ends_with(".svg") || text.ends_with(".json")
                   ? std::string()
                   : format("'{}' ends neither in .svg nor in .json", text);
      });
  add_output(trace, trace_.output);
  trace.footer(
      example("  harmonics trace checkpoints/task-7-3 -o passes.svg --steps 100-101\n"
              "  harmonics trace passes-task-7.1-*.jsonl -o perfetto.json"));
  trace.callback([this] { command_ = trace_; });
}

}  // namespace harmonics::inline in_options
