#include "part_map.h"

#include <gtest/gtest.h>

#include <functional>

#include <harmonics/base/error.h>

namespace harmonics::inline in_schedule {
namespace {

PartRecord part(const std::string& name, std::vector<BoundaryEnd> entering,
                std::vector<BoundaryEnd> leaving) {
  PartRecord record;
  record.name = name;
  record.entering = std::move(entering);
  record.leaving = std::move(leaving);
  record.precision = "full";
  record.order = "1f1b";
  return record;
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// a -> b -> c with a skip from a to c, and d, which only b feeds.
const PartRecord kA = part("a", {}, {{"ab", 1}, {"ac", 1}});
const PartRecord kB = part("b", {{"ab", 1}}, {{"bc", 1}, {"bd", 0}});
const PartRecord kC = part("c", {{"ac", 1}, {"bc", 1}}, {});
const PartRecord kD = part("d", {{"bd", 0}}, {});

TEST(PartMap, ClosesOnlyWhenNothingIsMissing) {
  PartMap map;
  for (const PartRecord& record : {kA, kB, kC}) {
    map.add(record);
    EXPECT_FALSE(map.closed()) << record.name;
  }
  map.add(kD);
  map.add(kA);  // known already
  EXPECT_TRUE(map.closed());
  EXPECT_EQ(map.parts().size(), 4u);
  EXPECT_EQ(map.diameter(), 2u);
  EXPECT_EQ(map.depth_of(kA), 3u);
  EXPECT_EQ(map.depth_of(kB), 2u);
  EXPECT_EQ(map.depth_of(kC), 1u);
  EXPECT_EQ(map.span_of("ab"), 1u);
  EXPECT_EQ(map.span_of("ac"), 2u);
  EXPECT_FALSE(map.learns());
}

// a and c in one process, b and d in another.
TEST(PartMap, PartsOfOneProcessAreOneHome) {
  PartMap map;
  for (PartRecord record : {kA, kB, kC, kD}) {
    record.home = record.name == "a" || record.name == "c" ? "one" : "two";
    map.add(record);
  }
  EXPECT_TRUE(map.closed());
  EXPECT_EQ(map.diameter(), 1u);
  // What enters c waits for a, which is in the same process.
  EXPECT_EQ(map.fed_from_outside("one"), (std::set<std::string, std::less<>>{}));
  EXPECT_EQ(map.fed_from_outside("two"), (std::set<std::string, std::less<>>{"ab"}));
  EXPECT_TRUE(map.all_boundaries_learn());
  EXPECT_EQ(map.homes_in_order(), (std::vector<std::string>{"one", "two"}));
}

TEST(PartMap, KnowsWhatFeedsAPartAndWhatDoesNotLearn) {
  PartMap map;
  for (const PartRecord& record : {kD, kC, kB, kA}) map.add(record);
  EXPECT_EQ(map.fed_from_outside(part_key(kC)), (std::set<std::string, std::less<>>{"ac", "bc"}));
  EXPECT_FALSE(map.all_boundaries_learn()) << "nothing comes back over bd";
  EXPECT_EQ(map.homes_in_order().front(), part_key(kA));
  EXPECT_EQ(map.homes_in_order()[1], part_key(kB));
}

TEST(PartMap, APartWithoutBoundariesIsAWholeRun) {
  PartMap map;
  map.add(part("alone", {}, {}));
  EXPECT_TRUE(map.closed());
  EXPECT_EQ(map.diameter(), 0u);
}

TEST(PartMap, RefusesWhatDoesNotFit) {
  PartMap map;
  map.add(kA);
  EXPECT_EQ(message_of([&] {
              map.add(part("z", {}, {{"ab", 1}}));
            }),
            "parts 'a' and 'z' both send boundary 'ab'");
  PartRecord other = kB;
  other.seed = 7;
  EXPECT_EQ(message_of([&] { map.add(other); }),
            "the seed is 0 in part 'a' and 7 in part 'b': all parts of a run need the same");
}

TEST(PartMap, GradientsMustAgree) {
  PartMap map;
  map.add(part("a", {}, {{"x", 2}}));
  map.add(part("b", {{"x", 1}}, {}));
  EXPECT_EQ(message_of([&] { map.check_gradients(); }),
            "boundary 'x': part 'a' waits for 2 gradients and part 'b' sends 1; declare the same "
            "number at both ends");
}

TEST(PartMap, BitsMustAgree) {
  PartMap map;
  map.add(part("a", {}, {{"x", 1, {8, 0}}}));
  EXPECT_EQ(
      message_of([&] {
        map.add(part("b", {{"x", 1, {8, 4}}}, {}));
      }),
      "boundary 'x': gradients have 32 bits in part 'a' and 4 in part 'b'; give both ends the "
      "same (--boundary-bits and --gradient-bits, or bits= and gradient_bits= in their URLs)");
}

TEST(PartMap, ACircleIsAnError) {
  PartMap map;
  const PartRecord a = part("a", {{"y", 0}}, {{"x", 0}});
  map.add(a);
  map.add(part("b", {{"x", 0}}, {{"y", 0}}));
  EXPECT_EQ(message_of([&] { static_cast<void>(map.depth_of(a)); }),
            "the boundaries lead from part 'a' back to it: parts must form no circle");
}

TEST(PartMap, HoldsNoMoreThanItsLimit) {
  PartMap map;
  for (std::size_t i = 0; i < kMaxRemoteParts; ++i) map.add(part(std::to_string(i), {}, {}));
  EXPECT_EQ(message_of([&] { map.add(part("one more", {}, {})); }),
            "a run has at most 1024 parts; 'one more' is one more");
}

TEST(Wire, RecordsNoticesAndHeadsComeBack) {
  EXPECT_EQ(decode_part_record(encode(kB)), kB);
  const Notice notice{{"a", std::string("\0\1", 2)}, {"b", ""}};
  const NoticeTag tag{Topic::kTaps, 3, 1};
  const Message message = notice_message(notice, tag);
  EXPECT_EQ(message.kind, MessageKind::kControl);
  EXPECT_EQ(tag_of(message), tag);
  EXPECT_EQ(decode_run_end(encode_run_end(17)), 17u);
  EXPECT_EQ(decode_notice(message), notice);
  const BatchHead head{70, 4, 9};
  EXPECT_EQ(decode_batch_head(encode(head)), head);
}

TEST(Wire, BrokenBytesAreAnError) {
  const std::string record = encode(kA);
  for (std::size_t length = 0; length < record.size(); ++length) {
    EXPECT_THROW(static_cast<void>(decode_part_record(record.substr(0, length))), Error);
  }
  EXPECT_THROW(static_cast<void>(decode_part_record(record + "x")), Error);
  for (const BatchHead& wrong : {BatchHead{0, 1}, BatchHead{5, 0}, BatchHead{2, 3}}) {
    EXPECT_THROW(static_cast<void>(decode_batch_head(encode(wrong))), Error);
  }
  Message message = notice_message({{"name", "text"}}, {});
  message.tensor = message.tensor.slice(0, message.tensor.shape()[0] - 1);
  EXPECT_THROW(static_cast<void>(decode_notice(message)), Error);
}

}  // namespace
}  // namespace harmonics::inline in_schedule
