#include <harmonics/text/sampling.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>

namespace harmonics::inline in_text {
namespace {

// The first of the largest. Lanes side by side, since there are as many logits as words.
std::size_t largest(std::span<const float> logits) {
  constexpr std::size_t kLanes = 16;
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, -std::numeric_limits<float>::infinity());
  std::size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float logit = logits[i + lane];
      lanes[lane] = logit > lanes[lane] ? logit : lanes[lane];
    }
  }
  float best = *std::max_element(lanes, lanes + kLanes);
  for (; i < logits.size(); ++i) best = logits[i] > best ? logits[i] : best;
  if (!std::isfinite(best)) {
    fail(ErrorCode::kDataLoss,
         "the model's answer holds no finite number: are these the weights of this model?");
  }
  return static_cast<std::size_t>(std::ranges::find(logits, best) - logits.begin());
}

// The logarithm of the sum of e^logit, in float64 from the first to the last.
double normaliser(std::span<const float> logits) {
  const double most = logits[largest(logits)];
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  return most + std::log(sum);
}

// Ids from the most likely to the least, the smaller of equals first; the first `count` of them.
std::vector<std::int64_t> ranked(std::span<const float> logits, std::size_t count) {
  std::vector<std::int64_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto more_likely = [&](std::int64_t a, std::int64_t b) {
    const float left = logits[static_cast<std::size_t>(a)];
    const float right = logits[static_cast<std::size_t>(b)];
    return left != right ? left > right : a < b;
  };
  count = std::min(count, ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(),
                    more_likely);
  ids.resize(count);
  return ids;
}

std::int64_t drawn_token(std::span<const float> logits, const SamplingOptions& options,
                         double chance) {
  const std::size_t most =
      options.top_k > 0 ? static_cast<std::size_t>(options.top_k) : logits.size();
  const std::vector<std::int64_t> ids = ranked(logits, most);
  const double best = logits[static_cast<std::size_t>(ids.front())];
  std::vector<double> weights;
  double all = 0;
  for (const std::int64_t id : ids) {
    const double logit = logits[static_cast<std::size_t>(id)];
    weights.push_back(std::exp((logit - best) / options.temperature));
    all += weights.back();
  }
  double kept = 0;
  std::size_t count = 0;
  while (count < weights.size() && (count == 0 || kept < options.top_p * all)) {
    kept += weights[count++];
  }
  double target = chance * kept;
  for (std::size_t i = 0; i < count; ++i) {
    target -= weights[i];
    if (target < 0) return ids[i];
  }
  return ids[count - 1];
}

}  // namespace

void SamplingOptions::check() const {
  if (!(temperature >= 0 && temperature <= 100)) {
    fail(ErrorCode::kInvalidArgument, "temperature is {}: 0 to 100 can be", temperature);
  }
  if (!(top_p > 0 && top_p <= 1)) {
    fail(ErrorCode::kInvalidArgument, "top_p is {}: above 0 and at most 1 can be", top_p);
  }
  if (top_k < 0) fail(ErrorCode::kInvalidArgument, "top_k is {}: at least 0 can be", top_k);
}

std::uint64_t sampling_key(std::uint64_t seed, std::span<const std::int64_t> prompt) {
  const std::string_view bytes(reinterpret_cast<const char*>(prompt.data()), prompt.size_bytes());
  return random_key(seed, bytes);
}

std::int64_t choose_token(std::span<const float> logits, const SamplingOptions& options,
                          std::uint64_t key, std::int64_t position) {
  const auto best = static_cast<std::int64_t>(largest(logits));
  if (options.temperature == 0) return best;
  const auto place = static_cast<std::uint64_t>(position);
  const auto numbers = philox(
      {static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(place >> 32), 0, 0}, key);
  constexpr double kRange = 4294967296.0;
  return drawn_token(logits, options, (numbers[0] + numbers[1] / kRange) / kRange);
}

std::vector<TokenChoice> likeliest_tokens(std::span<const float> logits, std::size_t count) {
  const double all = normaliser(logits);
  std::vector<TokenChoice> choices;
  for (const std::int64_t id : ranked(logits, count)) {
    choices.push_back({id, static_cast<double>(logits[static_cast<std::size_t>(id)]) - all});
  }
  return choices;
}

double logprob_of(std::span<const float> logits, std::int64_t id) {
  return static_cast<double>(logits[static_cast<std::size_t>(id)]) - normaliser(logits);
}

}  // namespace harmonics::inline in_text
