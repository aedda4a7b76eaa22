// What schedulers put into the messages between processes (private to schedule).
//
// All numbers are little-endian (docs/guides/two-machines.md describes the conversation).
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/bytes.h>
#include <harmonics/schedule/manifest.h>
#include <harmonics/schedule/run_agreement.h>
#include <harmonics/schedule/secure_run.h>
#include <harmonics/transport/message.h>
#include <harmonics/transport/packing.h>

namespace harmonics::inline in_schedule {

/// The most parts that may form one run, and the most entries and bytes of one notice.
inline constexpr std::size_t kMaxRemoteParts = 1024;
inline constexpr std::size_t kMaxNoticeEntries = std::size_t{1} << 20;
inline constexpr std::size_t kMaxNoticeText = std::size_t{1} << 20;

/// A number of steps that no run reaches: nobody wants it to end early.
inline constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();

/// Rides with every activation: what a part without data of its own cannot know.
/// i64 rows of the whole batch, u32 number of micro-batches, u64 steps after which the run ends.
struct BatchHead {
  std::int64_t batch_samples = 0;
  std::uint32_t micro_batches = 0;
  std::uint64_t ends_after = kNoEnd;
  bool operator==(const BatchHead&) const = default;
};
/// Bytes of an encoded head; a link of custody may follow them in the attachment.
inline constexpr std::size_t kBatchHeadBytes = 20;
[[nodiscard]] Bytes encode(const BatchHead& head);
/// Bytes that are no head, or numbers that make no sense, are an Error (kDataLoss).
[[nodiscard]] BatchHead decode_batch_head(ByteSpan bytes);

/// Rides with every gradient: u64 steps after which the run ends.
inline constexpr std::size_t kRunEndBytes = 8;
[[nodiscard]] Bytes encode_run_end(std::uint64_t ends_after);
[[nodiscard]] std::uint64_t decode_run_end(ByteSpan bytes);

/// What a notice is about. The numbers are part of the conversation: never renumber.
enum class Topic : std::uint8_t {
  kMeeting = 0,
  kTerms = 1,
  kSquareSums = 2,
  kTaps = 3,
  kCheckpoint = 4,
  kCheckpointDone = 5,
  kResume = 6,
  kStream = 7,
  kCredit = 8,
  kBatch = 9,
};
[[nodiscard]] std::string_view topic_name(Topic topic);

/// Facts that spread from part to part, by name.
using Notice = std::map<std::string, std::string, std::less<>>;
/// What a control message is about, and in which round of spreading it was sent.
struct NoticeTag {
  Topic topic = Topic::kMeeting;
  std::uint64_t step = 0;
  std::uint32_t round = 0;
  bool operator==(const NoticeTag&) const = default;
};
/// A control message: the notice is its tensor, bytes of u32 count, then name and text each; the
/// topic stands in the highest byte of the micro-batch, the round in the others.
[[nodiscard]] Message notice_message(const Notice& notice, const NoticeTag& tag);
[[nodiscard]] NoticeTag tag_of(const Message& message);
[[nodiscard]] Notice decode_notice(const Message& message);

/// A control message without a notice: the part that sends it is done with a batch of a stream.
[[nodiscard]] Message credit_message(std::uint64_t step);

/// The same with the head of a batch, for parts whose copies share its micro-batches.
[[nodiscard]] Message batch_message(std::uint64_t step, const Bytes& head);

/// This part's end of a boundary, and how many gradients come back over it per micro-batch.
struct BoundaryEnd {
  std::string name;
  std::uint32_t gradients = 0;
  /// What it is packed to; 0 stands for exact.
  BoundaryBits bits = {};
  bool operator==(const BoundaryEnd&) const = default;
};

/// How a part's precision ends that computes in the reproducible arithmetic.
inline constexpr std::string_view kReproducibly = ", reproducible";

/// The same of a part that proves what it computes.
inline constexpr std::string_view kProvably = ", with proofs";

/// What the parts of a run tell each other when they meet.
struct PartRecord {
  std::string name;
  /// Parts of one process name the same home. Empty: the part is alone.
  std::string home;
  std::vector<BoundaryEnd> entering;
  std::vector<BoundaryEnd> leaving;
  bool learns = false;
  /// These must agree in all parts.
  std::uint64_t seed = 0;
  std::int64_t micro_batches = 1;
  double clip_norm = 0;
  /// Ends with kReproducibly in a reproducible run.
  std::string precision;
  std::string order;
  std::int64_t steps = 0;
  /// An encoded CustodyClaim; empty when the part is not secure.
  std::string custody = {};
  bool operator==(const PartRecord&) const = default;
};
[[nodiscard]] std::string encode(const PartRecord& record);
[[nodiscard]] PartRecord decode_part_record(std::string_view text);
/// In the name of a part that is one of several copies, after the part's own.
inline constexpr std::string_view kCopyTitle = " (copy ";
[[nodiscard]] bool is_first_copy(std::string_view name);
/// Tells a part from all others: no two share a boundary.
[[nodiscard]] std::string part_key(const PartRecord& record);

// Of all decoders here and below: bytes that are no such record are an Error (kDataLoss).
[[nodiscard]] std::string encode(const FitTerms& terms);
[[nodiscard]] FitTerms decode_fit_terms(std::string_view text);
[[nodiscard]] std::string encode(const StreamTerms& terms);
[[nodiscard]] StreamTerms decode_stream_terms(std::string_view text);
[[nodiscard]] std::string encode(const TapReport& taps);
[[nodiscard]] TapReport decode_tap_report(std::string_view text);

/// The file that a stage has saved, and the ids of the steps that it could go on from.
[[nodiscard]] std::string encode(const StageFile& file);
[[nodiscard]] StageFile decode_stage_file(std::string_view text);
[[nodiscard]] std::string encode_ids(const std::vector<std::string>& ids);
[[nodiscard]] std::vector<std::string> decode_ids(std::string_view text);

/// What a part in another process says of itself. Its key is only there to say early when it is not
/// the one that the roster here has: what is believed comes from the roster.
struct CustodyClaim {
  SecurePart part;
  RunNonce nonce{};
};
[[nodiscard]] std::string encode(const CustodyClaim& claim);
[[nodiscard]] CustodyClaim decode_custody_claim(std::string_view text);

}  // namespace harmonics::inline in_schedule
