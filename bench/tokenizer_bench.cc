// Bytes of text per second that become ids, beside the `tokenizers` package on one thread
// (reference/tokenizers_rounds.py). The ids are compared before anything is timed; rounds of both
// take turns, each measured in its own CPU time.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/text/tokenizer.h>

#include "reference/line_peer.h"
#include "rounds.h"

namespace {

using namespace harmonics;
namespace fs = std::filesystem;

struct Case {
  const char* title;
  const char* name;  ///< As the peer knows it.
  const char* bar;
};

/// What the lines have become: how many ids, and their sum.
struct Ids {
  std::int64_t count = 0;
  std::int64_t sum = 0;
  bool operator==(const Ids&) const = default;
};

std::vector<std::string> lines_of(const fs::path& file) {
  std::istringstream text(read_text_file(file, std::size_t{64} << 20));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

Ids encoded(const Tokenizer& tokenizer, const std::vector<std::string>& lines) {
  Ids ids;
  for (const std::string& line : lines) {
    for (const std::int64_t id : tokenizer.encode(line).ids) {
      ++ids.count;
      ids.sum += id;
    }
  }
  return ids;
}

bool compare(const Case& test, bench::LinePeer& peer, const fs::path& folder, int rounds) {
  const auto answer = peer.ask(format("case {}", test.name));
  if (!answer) {
    std::printf("%s: %s\n", test.title, peer.failure().c_str());
    return true;
  }
  std::istringstream words(*answer);
  std::string file;
  Ids theirs;
  words >> file >> theirs.count >> theirs.sum;
  const std::vector<std::string> lines = lines_of(folder / "lines.txt");
  const Tokenizer tokenizer = Tokenizer::load(file);
  if (const Ids ours = encoded(tokenizer, lines); ours != theirs) {
    fail(ErrorCode::kInternal, "{}: {} ids with the sum {}, the reference has {} with {}",
         test.title, ours.count, ours.sum, theirs.count, theirs.sum);
  }
  double bytes = 0;
  for (const std::string& line : lines) bytes += static_cast<double>(line.size());
  std::vector<double> our_times, their_times, ratios;
  for (int i = 0; i < rounds; ++i) {
    const auto time = peer.ask("round");
    if (!time) fail(ErrorCode::kUnavailable, "{}: {}", test.title, peer.failure());
    their_times.push_back(std::strtod(time->c_str(), nullptr));
    our_times.push_back(bench::measured([&] { (void)encoded(tokenizer, lines); }).cpu);
    ratios.push_back(their_times.back() / our_times.back());
  }
  const auto rate = [&](const std::vector<double>& times) {
    return format("{:.2f} MB/s", 1e-6 * bytes / bench::median(times));
  };
  return bench::row(format("{}, {} ids of {:.1f} MB", test.title, theirs.count, 1e-6 * bytes),
                    rate(our_times), rate(their_times), bench::median(ratios), test.bar);
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  const fs::path build = fs::canonical("/proc/self/exe").parent_path().parent_path();
  const fs::path folder = build / "bench-tokenizers";
  bench::LinePeer peer({"python3", HARMONICS_TOKENIZERS_PEER, folder.string()},
                       {format("HARMONICS_BINARY_DIR={}", build.string())});
  std::printf("name | ours | reference | ratio | bar\n");
  bool good = true;
  for (const Case& test : {Case{"WordPiece of MiniLM", "minilm", ">= 1"},
                           Case{"byte pairs, GPT-2's words", "gpt2", ">= 1"},
                           Case{"byte pairs, Llama 3's words", "llama3", ">= 1"}}) {
    good &= compare(test, peer, folder, short_run ? 1 : 11);
  }
  return check && !good ? 1 : 0;
}
