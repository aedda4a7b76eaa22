#include <harmonics/settings/batch_shares.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_settings {
namespace {

constexpr std::uint64_t kMaxShareStep = std::uint64_t{1} << 50;

[[noreturn]] void fail_shares(std::string_view text, const std::string& why) {
  fail(ErrorCode::kInvalidArgument,
       "'{}' are no shares ({}): write equal, auto, or a weight for each replica, such as 3,1, and "
       "changes as /STEP:1,1",
       text, why);
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const std::size_t end = text.find(at);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

ShareWeights weights_from(std::string_view text, std::string_view whole) {
  ShareWeights weights;
  for (const std::string_view piece : split(text, ',')) {
    const auto weight = number_from<std::int64_t>(piece);
    if (!weight || *weight < 0 || *weight > kMaxShareWeight) {
      fail_shares(whole, format("'{}' is no weight from 0 to {}", piece, kMaxShareWeight));
    }
    weights.push_back(*weight);
  }
  if (weights.size() > kMaxShares) fail_shares(whole, format("more than {}", kMaxShares));
  if (std::ranges::all_of(weights, [](std::int64_t weight) { return weight == 0; })) {
    fail_shares(whole, "nobody computes anything");
  }
  return weights;
}

std::string weights_text(const ShareWeights& weights) {
  std::string text;
  for (const std::int64_t weight : weights) text += format("{}{}", text.empty() ? "" : ",", weight);
  return text;
}

}  // namespace

DealtRows deal_rows(std::int64_t rows, std::int64_t micro_batches, const ShareWeights& weights) {
  const std::int64_t all = std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
  DealtRows dealt(weights.size());
  std::int64_t weight = 0;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weight += weights[i];
    const std::int64_t end = (rows * weight + all - 1) / all;  // the first shares take odd rows
    const std::int64_t own = weights[i] == 0 ? 0 : end - first;
    const std::int64_t count = std::min(micro_batches, own);
    for (std::int64_t k = 0; k < count; ++k) {
      dealt[i].push_back(own / count + (k < own % count ? 1 : 0));
    }
    first += own;
  }
  return dealt;
}

BatchShares BatchShares::parse(std::string_view text) {
  BatchShares shares;
  if (text == "equal") return shares;
  if (text == "auto") {
    shares.measured_ = true;
    return shares;
  }
  for (const std::string_view piece : split(text, '/')) {
    const std::size_t colon = piece.find(':');
    std::uint64_t step = 0;
    if (colon != std::string_view::npos) {
      const auto from = number_from<std::uint64_t>(piece.substr(0, colon));
      if (!from || *from < 1 || *from > kMaxShareStep) {
        fail_shares(text, format("'{}' is no step", piece.substr(0, colon)));
      }
      step = *from - 1;
    } else if (!shares.course_.empty()) {
      fail_shares(text, format("'{}' does not say from which step on", piece));
    }
    ShareWeights weights =
        weights_from(colon == std::string_view::npos ? piece : piece.substr(colon + 1), text);
    if (!shares.course_.empty() && weights.size() != shares.count()) {
      fail_shares(text, format("'{}' is not for {} replicas", piece, shares.count()));
    }
    if (!shares.course_.empty() && step <= shares.course_.back().step) {
      fail_shares(text, format("step {} does not come after the one before", step + 1));
    }
    if (!shares.change(step, std::move(weights))) {
      fail_shares(text, format("more than {} changes", kMaxShareChanges));
    }
  }
  return shares;
}

std::size_t BatchShares::count() const {
  return course_.empty() ? 0 : course_.front().weights.size();
}

const ShareWeights* BatchShares::at(std::uint64_t step) const {
  const auto later = std::ranges::upper_bound(course_, step, {}, &Change::step);
  return later == course_.begin() ? nullptr : &std::prev(later)->weights;
}

bool BatchShares::change(std::uint64_t step, ShareWeights weights) {
  if (!course_.empty() && course_.back().step >= step) {
    course_.erase(std::ranges::lower_bound(course_, step, {}, &Change::step), course_.end());
  }
  if (!course_.empty() && course_.back().weights == weights) return true;
  if (course_.size() >= kMaxShareChanges) return false;
  course_.push_back({step, std::move(weights)});
  return true;
}

std::string BatchShares::text() const {
  if (measured_ && course_.empty()) return "auto";
  if (course_.empty()) return "equal";
  std::string text;
  for (const Change& change : course_) {
    if (!text.empty()) text += "/";
    if (change.step > 0) text += format("{}:", change.step + 1);
    text += weights_text(change.weights);
  }
  return text;
}

}  // namespace harmonics::inline in_settings
