// The chain file: what every stage of a run sent, received and signed (docs/formats/custody.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <harmonics/base/bytes.h>
#include <harmonics/base/descriptor.h>
#include <harmonics/custody/records.h>

namespace harmonics::inline in_custody {

/// The largest chain file that is read, and the largest record in one.
inline constexpr std::size_t kMaxChainBytes = std::size_t{1} << 30;
inline constexpr std::size_t kMaxChainRecordBytes = std::size_t{16} << 20;
/// Chains that were set aside are numbered up to this.
inline constexpr int kMaxChainsAside = 1000;

/// The numbers are part of the format: never renumber.
enum class RecordKind : std::uint8_t {
  kOpening = 1,
  kLink = 2,
  kReceipt = 3,
  kWeights = 4,
  kHead = 5,   // the head, then its signature
  kProof = 6,  // a zero-knowledge proof: the digest of the body stands in the link that follows
  kCommitments = 7,  // to weights: the digest of the body is the root of the mark that follows
  kLayers = 8,       // what layers gave
};

/// One record of a stage, still encoded.
struct ChainRecord {
  RecordKind kind = RecordKind::kLink;
  /// Position of the stage in the opening.
  std::uint16_t stage = 0;
  Bytes body;
  bool operator==(const ChainRecord&) const = default;
};

/// A chain file in memory. Nothing but the framing and the opening has been checked.
struct Chain {
  Opening opening;
  std::vector<ChainRecord> records;
};

/// Bytes that are no chain are a CustodyError: kMalformed, or kTruncated when they end inside a
/// record.
[[nodiscard]] Chain decode_chain(ByteSpan bytes);
[[nodiscard]] Bytes encode_chain(const Chain& chain);
/// Reads a file of at most kMaxChainBytes; errors name the path.
[[nodiscard]] Chain read_chain(const std::filesystem::path& path);

/// Renames a chain that nobody goes on with to `….aside1` or the next free number, so that the run
/// may begin again: evidence is not deleted. Does nothing when there is no such file.
void set_chain_aside(const std::filesystem::path& path);

/// Where a stage's part of a chain ends: the number and digest of its last head, and the weights
/// that it announced last.
struct ChainPosition {
  std::uint64_t number = 0;
  Digest head{};
  /// Not set: not compared.
  std::optional<WeightMark> weights = std::nullopt;
};

/// Appends to a chain file. What was appended before a crash is readable but for a torn last
/// record, which `resume` cuts off. Several stages may share one; any thread.
class ChainWriter {
 public:
  /// Begins a file. One that exists already is an Error (kAlreadyExists): evidence is not
  /// overwritten.
  ChainWriter(std::filesystem::path path, const Opening& opening);
  /// Goes on after `positions`, by stage: what the stages wrote after them is cut off, as a run
  /// that resumes from a checkpoint does it again. A file of another run, without these heads, or
  /// with other weights under them is a CustodyError.
  ChainWriter(std::filesystem::path path, const Opening& opening,
              const std::map<std::string, ChainPosition>& positions);

  /// Appends all or, on an Error, leaves a torn end that the next `resume` cuts off.
  void append(std::span<const ChainRecord> records);
  /// Returns when everything appended lies on the disk.
  void sync();

 private:
  void write(ByteSpan bytes);

  const std::filesystem::path path_;
  std::mutex mutex_;
  Descriptor descriptor_;
  std::array<std::byte, 8> check_{};
};

}  // namespace harmonics::inline in_custody
