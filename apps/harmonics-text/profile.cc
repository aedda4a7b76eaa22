// harmonics profile --mode generation: measures a language model here, for the planner's files.
#include <cmath>

#include <harmonics/base/clock.h>
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/base/number_text.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/place/profile_bandwidth.h>
#include <harmonics/place/profile_files.h>
#include <harmonics/place/profile_machine.h>
#include <harmonics/plan/cost_model.h>
#include <harmonics/plan/generation.h>
#include <harmonics/schedule/token_profile.h>

#include "subcommands.h"
#include "text_model.h"

namespace harmonics::inline in_text_program {
namespace {

TokenProfileOptions options_of(const ProfileCommand& command) {
  TokenProfileOptions options;
  options.sequences = command.sequences;
  options.context = command.context;
  options.chunk = command.chunk;
  options.warmup = static_cast<int>(command.warmup);
  options.repeats = static_cast<int>(command.repeats);
  options.threads = static_cast<int>(std::max<std::int64_t>(1, command.threads));
  if (const auto free = free_memory_bytes()) {
    options.cache_bytes = static_cast<std::uint64_t>(*free);
  }
  return options;
}

double memory_mb(const ProfileCommand& command) {
  if (command.memory_mb > 0) return command.memory_mb;
  const auto free = free_memory_bytes();
  if (!free) {
    fail(ErrorCode::kUnavailable,
         "this machine does not say how much memory is free: give --mem-mb");
  }
  return std::floor(static_cast<double>(*free) / kBytesPerMegabyte);
}

std::string model_name(const ProfileCommand& command, const HarmonicGraph& graph) {
  std::string name = command.model.empty() ? graph.name() : command.model;
  if (!name.ends_with(kGenerationSuffix)) name += kGenerationSuffix;
  return name;
}

double total(const TokenTimes& times) {
  double seconds = 0;
  for (const double layer : times.time_s) seconds += layer;
  return seconds;
}

struct Measured {
  std::string model;
  MeasuredMachine machine;
  FoundBandwidth bandwidth;
  TokenProfile profile;
};

std::string as_text(const Measured& measured, const ProfileFiles& files, bool colour) {
  Table table{{{"sequences", Align::kRight},
               {"tokens of each", Align::kRight},
               {"in the cache", Align::kRight},
               {"step ms", Align::kRight},
               {"tokens/s", Align::kRight}},
              {}};
  for (const TokenTimes& one : measured.profile.times) {
    const double seconds = total(one);
    const auto rows = static_cast<double>(one.sequences * one.tokens);
    table.rows.push_back({std::to_string(one.sequences), std::to_string(one.tokens),
                          std::to_string(one.context), format("{:.3f}", seconds * 1e3),
                          as_rate(rows / seconds)});
  }
  double weights = 0;
  std::int64_t cache = 0;
  for (const double layer : measured.profile.model.memory_mb) weights += layer;
  for (const std::int64_t layer : measured.profile.model.cache_bytes) cache += layer;
  return table.text(colour) +
         format(
             "\n{} on {}: {} layers, {:.1f} MB of weights, {} bytes of cache for a token\n"
             "{:.0f} MB of memory, {:.0f} Mbps ({})\n  -> {}\n  -> {}\n",
             measured.model, measured.machine.type, measured.profile.model.layers(), weights, cache,
             measured.machine.memory_mb, measured.bandwidth.mbps, measured.bandwidth.source,
             files.models.string(), files.types.string());
}

Json as_json(const Measured& measured) {
  Json steps = Json::array();
  for (const TokenTimes& one : measured.profile.times) {
    Json layers = Json::array();
    for (const double seconds : one.time_s) layers.push(seconds);
    steps.push(Json::object()
                   .set("sequences", one.sequences)
                   .set("tokens", one.tokens)
                   .set("context", one.context)
                   .set("seconds", total(one))
                   .set("time_s", std::move(layers)));
  }
  Json memory = Json::array();
  for (const double layer : measured.profile.model.memory_mb) memory.push(layer);
  Json cache = Json::array();
  for (const std::int64_t layer : measured.profile.model.cache_bytes) cache.push(layer);
  return Json::object()
      .set("model", measured.model)
      .set("type", measured.machine.type)
      .set("mem_MB", measured.machine.memory_mb)
      .set("bw_Mbps", measured.bandwidth.mbps)
      .set("bandwidth_source", measured.bandwidth.source)
      .set("weights_mb", std::move(memory))
      .set("cache_bytes", std::move(cache))
      .set("steps", std::move(steps));
}

void print(const Measured& measured, const ProfileFiles& files, OutputStyle output) {
  switch (output) {
    case OutputStyle::kTable:
      write_text(TextStream::kOutput, as_text(measured, files, wants_colour(TextStream::kOutput)));
      break;
    case OutputStyle::kJson: write_json(as_json(measured)); break;
    case OutputStyle::kQuiet:
      write_text(TextStream::kOutput, format("{}\n", total(measured.profile.times.front())));
      break;
  }
}

}  // namespace

int profile(const ProfileCommand& command) {
  const TextGraph model = open_text_graph(command.graph, command.weights);
  const ProfileFiles files{command.models_file, command.types_file, {}};
  for (const auto& file : {files.models, files.types}) const AtomicFile trial(file);
  const SteadyClock clock;
  Measured measured;
  measured.model = model_name(command, model.graph);
  measured.machine.type = command.type.empty() ? cpu_type_name() : command.type;
  measured.machine.memory_mb = memory_mb(command);
  measured.bandwidth =
      find_bandwidth(command.bandwidth_mbps, command.peer,
                     known_bandwidth(read_profile_tables(files), measured.machine.type), clock);
  measured.machine.bandwidth_mbps = measured.bandwidth.mbps;
  measured.profile = profile_tokens(model.graph, model.weights, options_of(command), clock);
  // Others may have written meanwhile.
  ProfileTables tables = read_profile_tables(files);
  merge_generation(tables, measured.model, measured.machine, measured.profile.model,
                   measured.profile.times);
  write_profile_files(files, tables, "");
  print(measured, files, command.output);
  return kExitDone;
}

}  // namespace harmonics::inline in_text_program
