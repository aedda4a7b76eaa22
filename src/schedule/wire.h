// What schedulers put into the messages between processes (private to schedule).
//
// All numbers are little-endian (docs/guides/two-machines.md describes the conversation).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <harmonics/base/bytes.h>
#include <harmonics/transport/message.h>

namespace harmonics {

/// The most parts that may form one run, and the most entries and bytes of one notice.
inline constexpr std::size_t kMaxRemoteParts = 1024;
inline constexpr std::size_t kMaxNoticeEntries = std::size_t{1} << 20;
inline constexpr std::size_t kMaxNoticeText = std::size_t{1} << 20;

/// Rides with every activation: what a part without data of its own cannot know.
/// i64 rows of the whole batch, u32 number of micro-batches.
struct BatchHead {
  std::int64_t batch_samples = 0;
  std::uint32_t micro_batches = 0;
  bool operator==(const BatchHead&) const = default;
};
[[nodiscard]] Bytes encode(const BatchHead& head);
/// Bytes that are no head, or numbers that make no sense, are an Error (kDataLoss).
[[nodiscard]] BatchHead decode_batch_head(ByteSpan bytes);

/// Facts that spread from part to part, by name.
using Notice = std::map<std::string, std::string, std::less<>>;
/// A control message: the notice is its tensor, bytes of u32 count, then name and text each.
[[nodiscard]] Message notice_message(const Notice& notice, std::uint64_t step, std::uint32_t round);
[[nodiscard]] Notice decode_notice(const Message& message);

/// This part's end of a boundary, and how many gradients come back over it per micro-batch.
struct BoundaryEnd {
  std::string name;
  std::uint32_t gradients = 0;
  bool operator==(const BoundaryEnd&) const = default;
};

/// What the parts of a run tell each other when they meet.
struct PartRecord {
  std::string name;
  std::vector<BoundaryEnd> entering;
  std::vector<BoundaryEnd> leaving;
  bool learns = false;
  /// These must agree in all parts.
  std::uint64_t seed = 0;
  std::int64_t micro_batches = 1;
  double clip_norm = 0;
  std::string precision;
  std::string order;
  std::int64_t steps = 0;
  bool operator==(const PartRecord&) const = default;
};
[[nodiscard]] std::string encode(const PartRecord& record);
[[nodiscard]] PartRecord decode_part_record(std::string_view text);

}  // namespace harmonics
