// What a user asks of a language model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/options/output_style.h>

namespace harmonics::inline in_options {

/// How parts on other machines are spoken with; the deadline is that of all other processes.
struct StageAccessFlags {
  std::string run;
  std::filesystem::path token_file;
  std::filesystem::path tls_certificate;
  std::filesystem::path tls_key;
  std::filesystem::path tls_authority;
  std::int64_t first_contact_s = 60;
  std::int64_t deadline_s = 60;
};

/// What computes a model; kAuto: a GPU where one answers, else the CPU.
enum class TextBackend { kCpu, kGpu, kAuto };
struct TextComputing {
  TextBackend backend = TextBackend::kCpu;
  /// On a GPU too the bits of a sequence do not depend on what is computed beside it.
  bool deterministic = false;
};

/// The model, and how it is cut and held.
struct TextModelFlags {
  /// A .harp file, a folder from Hugging Face or a GGUF file.
  std::filesystem::path model;
  std::filesystem::path weights;
  /// Where it is not the model's own.
  std::filesystem::path tokenizer;
  std::int64_t parts = 1;
  /// Each part in a process of its own, which this transport joins.
  bool processes = false;
  std::string transport = "shm";
  /// Cut as this plan says; empty: into `parts`.
  std::filesystem::path plan;
  /// Where each host of the plan is reached; empty: all parts are on this machine.
  std::filesystem::path hosts;
  StageAccessFlags access = {};
  TextComputing computing = {};
  std::int64_t threads = 1;
  std::int64_t cache_mb = 1024;
  std::int64_t sequences = 16;
  std::int64_t chunk = 128;
};

/// harmonics generate
struct GenerateCommand {
  TextModelFlags model;
  std::optional<std::string> prompt;
  std::filesystem::path prompts;
  bool chat = false;
  std::string system;
  std::int64_t max_tokens = 256;
  double temperature = 0;
  double top_p = 1;
  std::int64_t top_k = 0;
  std::int64_t seed = 0;
  std::vector<std::string> stop;
  bool ignore_end = false;
  OutputStyle output = OutputStyle::kTable;
};

/// One part of a generation over processes; what `generate` and `serve` start.
struct TokenStageCommand {
  std::filesystem::path model;
  std::filesystem::path weights;
  std::int64_t first = 0;
  std::int64_t end = 0;
  TextComputing computing = {};
  std::int64_t threads = 1;
  std::int64_t cache_mb = 1024;
  std::string in;
  std::string out;
  std::string run;
};

/// harmonics serve
struct ServeCommand {
  TextModelFlags model;
  std::string listen = "127.0.0.1:8000";
  std::string name;
  std::filesystem::path token_file;
  /// Lines of clients' names and keys; empty: there is one key for all, or none.
  std::filesystem::path keys_file;
  std::filesystem::path tls_certificate;
  std::filesystem::path tls_key;
  std::filesystem::path tls_authority;
  std::int64_t queue = 256;
  std::int64_t max_tokens = 1024;
};

}  // namespace harmonics::inline in_options
