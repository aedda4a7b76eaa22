#include <harmonics/schedule/stretch_choice.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <harmonics/base/entropy.h>
#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>
#include <harmonics/base/random.h>
#include <harmonics/custody/digest.h>

namespace harmonics::inline in_schedule {
namespace {

[[noreturn]] void refuse(const std::string& how, std::uint64_t steps) {
  fail(ErrorCode::kInvalidArgument,
       "'{}' does not say what to compute again: all, steps from 1 to {} such as 5,10-20, sample=N "
       "with N up to {}, or a share such as 1%",
       how, steps, steps);
}

// A generator that is a function of the seed's text.
Random drawn_with(const std::string& seed) {
  const Digest digest = sha256(bytes_of("harmonics audit 1 " + seed));
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < sizeof(number); ++i) {
    number = number << 8 | std::to_integer<std::uint64_t>(digest[i]);
  }
  return Random(number);
}

// The stretches that hold these steps, each up to the last of them.
std::vector<AuditStretch> holding(const std::vector<AuditStretch>& all,
                                  const std::set<std::uint64_t>& steps) {
  std::vector<AuditStretch> chosen;
  for (AuditStretch stretch : all) {
    const auto after = steps.lower_bound(stretch.end);
    if (after == steps.begin() || *std::prev(after) < stretch.first) continue;
    stretch.end = *std::prev(after) + 1;
    chosen.push_back(std::move(stretch));
  }
  return chosen;
}

std::set<std::uint64_t> listed_steps(const std::string& how, std::uint64_t count) {
  std::set<std::uint64_t> steps;
  for (std::size_t at = 0; at <= how.size();) {
    const std::size_t comma = std::min(how.find(',', at), how.size());
    const std::string item = how.substr(at, comma - at);
    at = comma + 1;
    const std::size_t dash = item.find('-');
    const auto first = number_from<std::uint64_t>(item.substr(0, dash));
    const auto last =
        dash == std::string::npos ? first : number_from<std::uint64_t>(item.substr(dash + 1));
    if (!first || !last || *first == 0 || *last < *first || *last > count) refuse(how, count);
    for (std::uint64_t step = *first; step <= *last; ++step) steps.insert(step - 1);
  }
  return steps;
}

std::vector<AuditStretch> drawn_share(const std::vector<AuditStretch>& all, double share,
                                      Random& random) {
  const std::uint64_t count = all.back().end;
  const auto wanted = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(std::llround(share / 100 * static_cast<double>(count))));
  std::vector<AuditStretch> left = all;
  std::vector<AuditStretch> chosen;
  for (std::uint64_t steps = 0; steps < wanted && !left.empty();) {
    const auto at = left.begin() + static_cast<std::ptrdiff_t>(random.below(left.size()));
    steps += at->end - at->first;
    chosen.push_back(*at);
    left.erase(at);
  }
  std::ranges::sort(chosen, {}, &AuditStretch::first);
  return chosen;
}

}  // namespace

std::vector<AuditStretch> stretches_between(
    const std::map<std::uint64_t, std::filesystem::path>& checkpoints, std::uint64_t steps) {
  std::vector<AuditStretch> all = {{0, steps, {}}};
  for (const auto& [step, path] : checkpoints) {
    if (step == 0 || step >= steps) continue;
    all.back().end = step;
    all.push_back({step, steps, path});
  }
  return all;
}

StretchChoice choose_stretches(const std::vector<AuditStretch>& all, const std::string& how,
                               const std::string& seed) {
  constexpr std::string_view kSample = "sample=";
  const std::uint64_t count = all.back().end;
  if (how == "all") return {all, ""};
  const bool samples = how.starts_with(kSample);
  if (!samples && !how.ends_with('%')) return {holding(all, listed_steps(how, count)), ""};
  StretchChoice choice{{}, seed.empty() ? random_hex(16) : seed};
  Random random = drawn_with(choice.seed);
  if (samples) {
    const auto number = number_from<std::uint64_t>(how.substr(kSample.size()));
    if (!number || *number == 0 || *number > count) refuse(how, count);
    std::set<std::uint64_t> steps;
    while (steps.size() < *number) steps.insert(random.below(count));
    choice.stretches = holding(all, steps);
    return choice;
  }
  const auto share = number_from<double>(how.substr(0, how.size() - 1));
  if (!share || !(*share > 0) || *share > 100) refuse(how, count);
  choice.stretches = drawn_share(all, *share, random);
  return choice;
}

}  // namespace harmonics::inline in_schedule
