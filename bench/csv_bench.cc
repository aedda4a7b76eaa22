// CPU seconds of reading a CSV file through CsvProducer and BatchProducer over a naive reader, on a
// file of small integers (such as pixels) and one of decimals (such as measurements).
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/file.h>
#include <harmonics/base/format.h>
#include <harmonics/base/random.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/data/csv_producer.h>

#include <temporary_folder_testing.h>

#include "reference/naive_csv.h"
#include "rounds.h"

namespace {

using namespace harmonics;

constexpr double kBar = 5.0;

std::string integers(int rows) {
  std::string text;
  Random random(1, "integers");
  for (int i = 0; i < rows * 65; ++i) {
    text += std::to_string(random.below(17));
    text += i % 65 == 64 ? '\n' : ',';
  }
  return text;
}

std::string decimals(int rows) {
  std::string text;
  Random random(2, "decimals");
  for (int i = 0; i < rows * 16; ++i) {
    text += format("{:.6f}", random.normal());
    text += i % 16 == 15 ? '\n' : ',';
  }
  return text;
}

// Opens the file anew, so that finding the rows counts too.
void read_ours(const std::string& path, std::vector<float>& values) {
  BatchProducer batches(std::make_shared<CsvProducer>(path), 256);
  while (const auto batch = batches.next()) {
    values.insert(values.end(), batch->values<float>().begin(), batch->values<float>().end());
  }
}

struct Scene {
  const char* name;
  std::string text;
};

bool compare(const Scene& scene, const std::filesystem::path& path, int rounds) {
  write_text_file(path, scene.text);
  const double megabytes = 1e-6 * static_cast<double>(scene.text.size());
  std::vector<double> ours, references, ratios;
  std::vector<float> mine, theirs;  // keep their room, so that only the first round pays for it
  for (int round = 0; round < rounds; ++round) {
    mine.clear();
    theirs.clear();
    const double start = bench::seconds(CLOCK_PROCESS_CPUTIME_ID);
    read_ours(path, mine);
    const double middle = bench::seconds(CLOCK_PROCESS_CPUTIME_ID);
    reference::read_csv(path, theirs);
    const double end = bench::seconds(CLOCK_PROCESS_CPUTIME_ID);
    if (mine != theirs) {
      std::fprintf(stderr, "%s: the two readers disagree\n", scene.name);
      std::exit(2);
    }
    ours.push_back(middle - start);
    references.push_back(end - middle);
    ratios.push_back(references.back() / ours.back());
  }
  std::printf("%s | %.0f MB/s | %.0f MB/s | %.1f | >= %.0f\n", scene.name,
              megabytes / bench::median(ours), megabytes / bench::median(references),
              bench::median(ratios), kBar);
  return bench::median(ratios) >= kBar;
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  const TemporaryFolder folder;
  const int scale = short_run ? 1 : 40;
  const Scene scenes[] = {
      {"CSV, 65 small integers a row", integers(1000 * scale)},
      {"CSV, 16 decimals a row", decimals(2000 * scale)},
  };
  std::printf("name | ours | reference | ratio | bar\n");
  bool good = true;
  for (const Scene& scene : scenes) good &= compare(scene, folder / "data.csv", short_run ? 1 : 9);
  return check && !good ? 1 : 0;
}
