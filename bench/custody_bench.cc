// Custody without a network: the rate at which tensors are hashed, against one call of SHA-256 over
// the same bytes, and what a hand-over costs beyond hashing. CPU seconds.
#include <cstdio>
#include <string_view>
#include <vector>

#include <harmonics/custody/custody_log.h>
#include <harmonics/custody/merkle.h>

#include "rounds.h"

namespace {

using namespace harmonics;

bool hashing(int rounds) {
  const Bytes tensor(std::size_t{64} << 20, std::byte{3});
  std::vector<double> ours, theirs;
  for (int i = 0; i < rounds; ++i) {
    ours.push_back(bench::measured([&] { (void)tensor_root(tensor); }).cpu);
    theirs.push_back(bench::measured([&] { (void)sha256(tensor); }).cpu);
  }
  const double gigabytes = static_cast<double>(tensor.size()) / 1e9;
  const double rate = gigabytes / bench::median(ours);
  std::printf("tensor root, 64 MB | %.2f GB/s | %.2f GB/s in one SHA-256 | %.2f | >= 0.90\n", rate,
              gigabytes / bench::median(theirs), bench::median(theirs) / bench::median(ours));
  std::printf("tensor root, 64 MB, per core | %.2f GB/s | 1.00 GB/s asked for | %.2f | >= 1.00\n",
              rate, rate);
  return rate >= 1;
}

SigningKey key_of(const char* name, unsigned number) {
  const Bytes seed(32, static_cast<std::byte>(number));
  return SigningKey::from_seed(name, seed);
}

// Two stages, an activation and a gradient of 1 MB per step.
void hand_over(int steps) {
  const SigningKey keys[2] = {key_of("a", 1), key_of("b", 2)};
  Opening opening;
  opening.stages = {{"part0", "a", keys[0].public_key(), {}},
                    {"part1", "b", keys[1].public_key(), {}}};
  opening.boundaries = {{"hidden@1", "part0", "part1"}};
  CustodyLog first(opening, "part0", keys[0]);
  CustodyLog second(opening, "part1", keys[1]);
  first.weights(0, {});
  second.weights(0, {});
  const Bytes bytes(std::size_t{1} << 20, std::byte{3});
  const std::int64_t shape[] = {256, 1024};
  const TensorView tensor{1, shape, bytes};
  const auto custody = [&] {
    for (int i = 0; i < steps; ++i) {
      const Passage on{"hidden@1", Direction::kForward, 0, 0};
      second.check_incoming(on, tensor, first.sign_outgoing(on, tensor));
      const Passage back{"hidden@1", Direction::kBackward, 0, 0};
      first.check_incoming(back, tensor, second.sign_outgoing(back, tensor));
      first.end_step();
      second.end_step();
    }
  };
  const auto hashes = [&] {
    for (int i = 0; i < 4 * steps; ++i) (void)tensor_root(bytes);
  };
  const double ours = bench::measured(custody).cpu / steps * 1e3;
  const double theirs = bench::measured(hashes).cpu / steps * 1e3;
  std::printf("1 MB there and back, both ends | %.2f ms | %.2f ms of hashing | %.2f |\n", ours,
              theirs, ours / theirs);
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  std::printf("name | ours | reference | ratio | bar\n");
  const bool good = hashing(short_run ? 1 : 9);
  hand_over(short_run ? 5 : 200);
  return check && !good ? 1 : 0;
}
