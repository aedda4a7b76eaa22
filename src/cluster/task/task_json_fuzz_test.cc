// A bounded round of the fuzzer of task JSON: a valid text, changed at random.
#include <gtest/gtest.h>

#include <harmonics/base/random.h>
#include <harmonics/cluster/task.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_cluster {
namespace {

TEST(TaskJsonFuzz, ChangedTextsNeverCrash) {
  TaskSpec spec;
  spec.name = "a \"task\"";
  spec.params = {{"model", "resnet50"}, {"lr", "0.1"}};
  spec.command = {"run", "-x"};
  spec.depends_on = {TaskId{1}, TaskId{2}};
  spec.priority = -3;
  spec.on_disconnect = OnDisconnect::kContinue;
  const std::string text = write_task(spec);
  Random random(6, "task json");
  for (int round = 0; round < 20'000; ++round) {
    std::string changed = text;
    for (std::uint64_t n = 1 + random.below(4); n > 0; --n) {
      const std::size_t at = random.below(changed.size());
      switch (random.below(3)) {
        case 0: changed[at] = static_cast<char>(random.below(256)); break;
        case 1: changed.erase(at, 1 + random.below(8)); break;
        default: changed.insert(at, changed.substr(random.below(changed.size()), 9)); break;
      }
      if (changed.empty()) changed = text;
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(changed.data()), changed.size());
  }
}

}  // namespace
}  // namespace harmonics::inline in_cluster
