// What a stage of a large model takes: a Llama of random numbers as a folder, imported with linked
// weights, cut in four, each stage in a process of its own that loads its tensors and computes.
//
// Folders hold float32, whose tensors are computed with where they lie, and bfloat16, which becomes
// float32 as it is loaded.
//
// A row is the peak of one process (VmHWM) beside its own tensors; the bar is 1.15 of these and
// 150 MB for the program itself. `--short` takes a model of some tens of MB and counts from what
// the program took before it began.
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <iostream>

#include <harmonics/base/file.h>
#include <harmonics/base/number_text.h>
#include <harmonics/base/random.h>
#include <harmonics/base/subprocess.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/partition.h>
#include <harmonics/models/import_model.h>
#include <harmonics/models/safetensors_header.h>
#include <harmonics/schedule/checkpoint.h>
#include <harmonics/schedule/stage_row.h>

#include <temporary_folder_testing.h>

#include "pieces/process_memory.h"
#include "rounds.h"

using namespace harmonics;

namespace {

constexpr std::size_t kStages = 4;
constexpr std::int64_t kTokens = 16;
constexpr double kMega = 1e6;
constexpr double kProgramMegabytes = 150, kShortMegabytes = 16, kShare = 1.15;
constexpr double kImportSeconds = 2;

struct Sizes {
  std::int64_t blocks, width, inner, heads, groups, words;
};
constexpr Sizes kLarge = {22, 2048, 5632, 32, 4, 32000};  // 1.1 thousand million parameters
constexpr Sizes kSmall = {4, 512, 1408, 8, 2, 8000};      // 18 million

std::vector<SafetensorsEntry> llama_tensors(const Sizes& s, DType dtype) {
  std::vector<SafetensorsEntry> all;
  const auto add = [&](const std::string& name, Shape shape) {
    all.push_back({name, {std::move(shape), dtype}});
  };
  const std::int64_t shared = s.width / s.heads * s.groups;
  add("model.embed_tokens.weight", {s.words, s.width});
  for (std::int64_t i = 0; i < s.blocks; ++i) {
    const std::string block = format("model.layers.{}.", i);
    add(block + "input_layernorm.weight", {s.width});
    add(block + "self_attn.q_proj.weight", {s.width, s.width});
    add(block + "self_attn.k_proj.weight", {shared, s.width});
    add(block + "self_attn.v_proj.weight", {shared, s.width});
    add(block + "self_attn.o_proj.weight", {s.width, s.width});
    add(block + "post_attention_layernorm.weight", {s.width});
    add(block + "mlp.gate_proj.weight", {s.inner, s.width});
    add(block + "mlp.up_proj.weight", {s.inner, s.width});
    add(block + "mlp.down_proj.weight", {s.width, s.inner});
  }
  add("model.norm.weight", {s.width});
  add("lm_head.weight", {s.words, s.width});
  return all;
}

// The upper half of a float32.
std::uint16_t bfloat_of(float number) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(number) >> 16);
}

void write_llama(const std::filesystem::path& folder, const Sizes& s, DType dtype) {
  Json config;
  config.set("architectures", Json(Json::Array{Json("LlamaForCausalLM")}));
  config.set("model_type", "llama").set("hidden_size", s.width).set("vocab_size", s.words);
  config.set("num_hidden_layers", s.blocks).set("intermediate_size", s.inner);
  config.set("num_attention_heads", s.heads).set("num_key_value_heads", s.groups);
  config.set("max_position_embeddings", 2048).set("rms_norm_eps", 1e-5);
  config.set("tie_word_embeddings", false).set("hidden_act", "silu");
  write_text_file(folder / "config.json", config.dump());
  const std::vector<SafetensorsEntry> tensors = llama_tensors(s, dtype);
  AtomicFile file(folder / "model.safetensors");
  const std::string header = safetensors_header_text(tensors, Json().set("format", "pt"));
  const std::uint64_t length = header.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(bytes_of(header));
  std::vector<float> numbers(std::size_t{1} << 20);  // again and again, from another place
  Random random(1, "llama");
  for (float& number : numbers) number = 0.02F * random.normal();
  std::vector<std::uint16_t> narrow(numbers.size());
  std::ranges::transform(numbers, narrow.begin(), bfloat_of);
  for (const SafetensorsEntry& tensor : tensors) {
    auto left = static_cast<std::size_t>(element_count(tensor.spec.shape));
    while (left > 0) {
      const std::size_t from = random.below(static_cast<std::uint32_t>(numbers.size() / 2));
      const std::size_t count = std::min(left, numbers.size() - from);
      file.write(dtype == DType::kBFloat16
                     ? std::as_bytes(std::span(narrow).subspan(from, count))
                     : std::as_bytes(std::span(numbers).subspan(from, count)));
      left -= count;
    }
  }
  file.commit();
}

double own_bytes(const HarmonicGraph& part) {
  double bytes = 0;
  for (std::size_t i = 0; i < part.layers().size(); ++i) {
    for (const ParameterSpec& spec : part.layer_shape(i).parameters) {
      bytes += 4 * static_cast<double>(element_count(spec.shape));
    }
  }
  return bytes;
}

/// What one stage does; prints its own tensors, what the program took before, and the peak.
int run_stage(const std::filesystem::path& harp, std::size_t number) {
  const HarpDocument document = load_harp_document(harp);
  const HarmonicGraph part =
      partition_graph(document.graph.with_axes({{"T", kTokens}}), kStages).at(number);
  const double before = bench::memory_of_this("VmHWM");
  RuntimeOptions options;
  options.threads = 1;
  options.maps_weights = true;
  OpenBoundaries open;
  NamedTensors inputs;
  for (const ProducerNode& node : part.producers()) {
    if (is_boundary_name(node.name)) open.entering.insert(node.name);
    Shape shape = *node.shape;
    shape.insert(shape.begin(), 1);  // also for a weight of another part
    inputs.emplace(node.name, Tensor::zeros(shape, node.dtype));
  }
  for (const ConsumerNode& node : part.consumers()) {
    if (is_boundary_name(node.name)) open.leaving.insert(node.name);
  }
  StageRow row({part}, {options}, open);
  load_weights(document.folder / document.weights.find("file")->value, row);
  for (int i = 0; i < 2; ++i) (void)row.stages().front()->infer(inputs);
  std::cout << format("{} {} {}\n", own_bytes(part), before, bench::memory_of_this("VmHWM"));
  return 0;
}

struct StagePeak {
  double own = 0, before = 0, peak = 0;
};

StagePeak measure_stage(const std::filesystem::path& harp, std::size_t number) {
  const std::filesystem::path answer = harp.parent_path() / "answer.txt";
  ProgramStart start("/proc/self/exe",
                     {"stage_memory", "--stage", harp.string(), std::to_string(number)});
  if (const int status = wait_for_program(start.write_to(1, answer).start()); status != 0) {
    std::cerr << format("stage {} ended with status {}\n", number, status);
    std::exit(2);
  }
  StagePeak measured;
  std::ifstream(answer) >> measured.own >> measured.before >> measured.peak;
  return measured;
}

bool stage_row(const StagePeak& stage, std::size_t number, DType stored, bool short_run) {
  const double took = short_run ? stage.peak - stage.before : stage.peak;
  const double allowed =
      kShare * stage.own + kMega * (short_run ? kShortMegabytes : kProgramMegabytes);
  return bench::row(format("stage {} of {}, {:.0f} MB of tensors, stored as {}", number + 1,
                           kStages, stage.own / kMega, dtype_name(stored)),
                    format("{:.0f} MB", took / kMega), format("{:.0f} MB", allowed / kMega),
                    took / allowed, "<= 1");
}

/// Writes, imports and measures one model; false where a bar is missed.
bool measure_model(DType stored, bool short_run) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "llama");
  write_llama(folder / "llama", short_run ? kSmall : kLarge, stored);
  const bench::Cost import = bench::measured([&] {
    write_model(import_model(folder / "llama"), folder / "llama.harp", WeightsMode::kLink);
  });
  bool good = bench::row(
      format("import of {:.1f} GB, linked", 1e-9 * static_cast<double>(std::filesystem::file_size(
                                                       folder / "llama" / "model.safetensors"))),
      format("{:.3f} s CPU", import.cpu), format("{} s", kImportSeconds),
      import.cpu / kImportSeconds, "<= 1");
  for (std::size_t number = 0; number < kStages; ++number) {
    good &= stage_row(measure_stage(folder / "llama.harp", number), number, stored, short_run);
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 3 && words[0] == "--stage") {
    return run_stage(words[1], number_from<std::size_t>(words[2]).value());
  }
  const bool short_run = std::ranges::find(words, "--short") != words.end();
  const bool check = std::ranges::find(words, "--check") != words.end();
  std::cout << "name | ours | reference | ratio | bar\n";
  bool good = true;
  for (const DType stored : {DType::kFloat32, DType::kBFloat16}) {
    good &= measure_model(stored, short_run);
  }
  return check && !good ? 1 : 0;
}
