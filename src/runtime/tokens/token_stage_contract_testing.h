// What every kind of token stage keeps: a row's bits depend on its own sequence alone. Included by
// one test of each kind, which says INSTANTIATE_TEST_SUITE_P(Name, TokenStageContract, …).
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>

#include <harmonics/base/error.h>
#include <harmonics/runtime/token_stage.h>

#include "error_testing.h"
#include "small_model_testing.h"

namespace harmonics::inline in_runtime {

using Ids = std::vector<std::int64_t>;

inline Ids drawn_ids(std::size_t count, std::uint64_t seed) {
  Random random(seed, "ids");
  Ids ids(count);
  for (std::int64_t& id : ids) id = static_cast<std::int64_t>(random.below(50));
  return ids;
}

struct TokenStageKind {
  std::string name;
  TokenStageMaker make;
  /// Whether there is a device for it; a test without is skipped, or fails if it is required.
  std::function<bool()> present = [] { return true; };
};

inline std::ostream& operator<<(std::ostream& out, const TokenStageKind& kind) {
  return out << kind.name;
}

/// Stages in a row.
class Row {
 public:
  explicit Row(const TokenStageMaker& make, const std::vector<std::size_t>& cuts, int threads = 1)
      : graph_(small_llama()), weights_(drawn_weights(graph_)) {
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      stages_.push_back(
          make(graph_, weights_, TokenStageOptions{cuts[i], cuts[i + 1], 1 << 20, threads}));
    }
  }
  explicit Row(const TokenStageMaker& make) : Row(make, {0, small_llama().layers().size()}) {}

  std::vector<float> run(const std::vector<TokenSpan>& spans, const Ids& ids) {
    TokenTensors tensors;
    tensors.emplace("input_ids", Tensor::of<std::int64_t>({static_cast<std::int64_t>(ids.size())},
                                                          std::span(ids)));
    for (TokenStage& stage : stages_) tensors = stage.compute(spans, tensors);
    const auto values = tensors.at("logits").values<float>();
    return {values.begin(), values.end()};
  }
  /// Logits after all ids, in pieces of `chunk`.
  std::vector<float> last(SequenceId sequence, const Ids& ids, std::size_t chunk) {
    std::vector<float> out;
    for (std::size_t first = 0; first < ids.size(); first += chunk) {
      const std::size_t end = std::min(first + chunk, ids.size());
      const Ids piece(ids.begin() + static_cast<std::ptrdiff_t>(first),
                      ids.begin() + static_cast<std::ptrdiff_t>(end));
      out = run({{sequence, static_cast<std::int64_t>(first),
                  static_cast<std::int64_t>(piece.size()), 1}},
                piece);
    }
    return out;
  }
  TokenStage& stage(std::size_t index) { return stages_[index]; }

 private:
  HarmonicGraph graph_;
  WeightSource weights_;
  std::vector<TokenStage> stages_;
};

inline void expect_same_bits(const std::vector<float>& one, const std::vector<float>& other) {
  ASSERT_EQ(one.size(), other.size());
  EXPECT_EQ(std::memcmp(one.data(), other.data(), one.size() * sizeof(float)), 0);
}

class TokenStageContract : public testing::TestWithParam<TokenStageKind> {
 protected:
  void SetUp() override {
    if (GetParam().present()) return;
    const char* const required = std::getenv("HARMONICS_REQUIRE_GPU");
    if (required != nullptr && *required == '1') FAIL() << "no GPU answers";
    GTEST_SKIP() << "no GPU answers";
  }
  static const TokenStageMaker& make() { return GetParam().make; }
};

inline std::string kind_name(const testing::TestParamInfo<TokenStageKind>& info) {
  return info.param.name;
}

TEST_P(TokenStageContract, BitsDoNotDependOnChunks) {
  const Ids ids = drawn_ids(100, 1);
  Row whole(make());
  const std::vector<float> want = whole.last(1, ids, 100);
  for (const std::size_t chunk : {1u, 3u, 16u, 17u, 64u, 99u}) {
    Row row(make());
    expect_same_bits(row.last(1, ids, chunk), want);
  }
}

TEST_P(TokenStageContract, BitsDoNotDependOnCutsOrThreads) {
  const Ids ids = drawn_ids(60, 2);
  const std::size_t all = small_llama().layers().size();
  Row whole(make());
  const std::vector<float> want = whole.last(1, ids, 60);
  for (std::size_t cut = 1; cut < all; ++cut) {
    SCOPED_TRACE(cut);
    Row row(make(), {0, cut, all});
    expect_same_bits(row.last(1, ids, 25), want);
  }
  Row many(make(), {0, 3, 4, 11, 12, 20, all});
  expect_same_bits(many.last(1, ids, 60), want);
  Row threads(make(), {0, all}, 3);
  expect_same_bits(threads.last(1, ids, 60), want);
}

TEST_P(TokenStageContract, BitsDoNotDependOnTheBatch) {
  std::vector<Ids> all;
  std::vector<std::vector<float>> want;
  for (std::size_t i = 0; i < 16; ++i) {
    all.push_back(drawn_ids(1 + 7 * i % 40, 10 + i));
    Row alone(make());
    want.push_back(alone.last(1, all.back(), 1000));
  }
  for (const std::size_t batch : {2u, 8u, 16u}) {
    Row row(make());
    std::vector<TokenSpan> spans;
    Ids ids;
    for (std::size_t i = 0; i < batch; ++i) {
      spans.push_back({i + 1, 0, static_cast<std::int64_t>(all[i].size()), 1});
      ids.insert(ids.end(), all[i].begin(), all[i].end());
    }
    const std::vector<float> together = row.run(spans, ids);
    for (std::size_t i = 0; i < batch; ++i) {
      expect_same_bits({together.begin() + static_cast<std::ptrdiff_t>(50 * i),
                        together.begin() + static_cast<std::ptrdiff_t>(50 * (i + 1))},
                       want[i]);
    }
  }
}

TEST_P(TokenStageContract, ForksAndRestoredSequencesGoOnAsTheFirst) {
  const Ids ids = drawn_ids(50, 3);
  Row whole(make());
  const std::vector<float> want = whole.last(1, ids, 50);
  Row row(make());
  const Ids start(ids.begin(), ids.begin() + 37), rest(ids.begin() + 37, ids.end());
  (void)row.last(1, start, 50);
  row.stage(0).fork(1, 2, 37);
  const Tensor saved = row.stage(0).saved(1);
  (void)row.run({{1, 37, 1, 1}}, {0});  // the first goes another way
  expect_same_bits(row.run({{2, 37, 13, 1}}, rest), want);
  Row other(make());
  other.stage(0).restore(9, saved);
  expect_same_bits(other.run({{9, 37, 13, 1}}, rest), want);
  expect_error(ErrorCode::kInvalidArgument, "does not fit sequence 9",
               [&] { other.stage(0).restore(9, saved); });
}

TEST_P(TokenStageContract, GivesTheWantedRows) {
  const Ids ids = drawn_ids(10, 4);
  Row row(make());
  const std::vector<float> all = row.run({{1, 0, 10, 10}}, ids);
  ASSERT_EQ(all.size(), 500u);
  Row other(make());
  const std::vector<float> some = other.run({{1, 0, 10, 3}}, ids);
  expect_same_bits(some, {all.begin() + 350, all.end()});
}

TEST_P(TokenStageContract, SaysWhatDoesNotFit) {
  Row row(make());
  expect_error(ErrorCode::kInvalidArgument, "2 tokens of sequence 1 from 5 on: it has 0", [&] {
    (void)row.run({{1, 5, 2, 1}}, {1, 2});
  });
  expect_error(ErrorCode::kOutOfRange, "id 50 is no row of its table of 50", [&] {
    (void)row.run({{1, 0, 1, 1}}, {50});
  });
  EXPECT_EQ(row.stage(0).length(1), 0);
  expect_error(ErrorCode::kOutOfRange, "201 tokens long; the model takes 200", [&] {
    (void)row.run({{1, 0, 201, 1}}, drawn_ids(201, 1));
  });
  const HarmonicGraph ahead = parse_harp(
      "harmonic g { axis T <= 8; producer input_ids {T} int64; consumer logits; "
      "layer e embedding(rows=4, width=8); layer a attention(heads=2, separate=true); cycle { "
      "input_ids -> e -> a -> logits; } }");
  expect_error(ErrorCode::kInvalidArgument, "looks ahead",
               [&] { (void)make()(ahead, drawn_weights(ahead), {}); });
  const HarmonicGraph windows = parse_harp(
      "harmonic g { axis T <= 8; producer input_ids {T} int64; consumer logits; "
      "layer e embedding(rows=4, width=8); layer s select(index=0); cycle { input_ids -> e -> s -> "
      "logits; } }");
  expect_error(ErrorCode::kUnimplemented, "'s'",
               [&] { (void)make()(windows, drawn_weights(windows), {}); });
}

}  // namespace harmonics::inline in_runtime
