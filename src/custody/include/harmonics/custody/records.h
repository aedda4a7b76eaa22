// The records of custody and their canonical bytes (docs/formats/custody.md).
//
// One value has exactly one encoding: decoders refuse every other, so a digest names a record.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <harmonics/base/bytes.h>
#include <harmonics/custody/digest.h>
#include <harmonics/custody/keys.h>

namespace harmonics::inline in_custody {

inline constexpr std::size_t kMaxCustodyStages = 1024;
inline constexpr std::size_t kMaxCustodyBoundaries = 65536;
/// Boundaries and data that one stage may receive in one micro-batch.
inline constexpr std::size_t kMaxLinkInputs = 1024;
inline constexpr std::size_t kMaxLinkAxes = 64;
/// Layers of one stage.
inline constexpr std::size_t kMaxLayerRoots = 65536;
/// Boundary ends and neighbours of one stage.
inline constexpr std::size_t kMaxHeadFlows = 4096;

/// The numbers are part of the format: never renumber.
enum class Direction : std::uint8_t { kForward = 1, kBackward = 2 };
[[nodiscard]] std::string_view direction_name(Direction direction);

/// A tensor as custody sees it: the code of its dtype, its shape, its bytes. Owns nothing.
struct TensorView {
  std::uint8_t dtype = 0;
  std::span<const std::int64_t> shape;
  ByteSpan bytes;
};

/// Which tensor of a run: an activation goes forward over a boundary, its gradient backward.
struct Passage {
  std::string boundary;
  Direction direction = Direction::kForward;
  std::uint64_t step = 0;
  std::uint32_t micro_batch = 0;
  auto operator<=>(const Passage&) const = default;
};
/// "forward 'hidden@1', step 3, micro-batch 0"; steps are counted from 1 for people.
[[nodiscard]] std::string passage_text(const Passage& passage);

/// What a tensor was made from: a tensor that came over a boundary, or data of a producer.
struct LinkInput {
  enum class Source : std::uint8_t { kForward = 1, kBackward = 2, kData = 3 };
  Source source = Source::kForward;
  std::string name;
  Digest root{};
  auto operator<=>(const LinkInput&) const = default;
};

/// One tensor that left a stage.
struct Link {
  Digest run{};    // of the opening
  Digest graph{};  // of the stage's graph
  Passage passage;
  /// From 1 on, per boundary and direction.
  std::uint64_t sequence = 0;
  std::uint8_t dtype = 0;
  std::vector<std::int64_t> shape;
  /// How the bytes under `root` are encoded: 0, as they lie in memory. Transports compress below.
  std::uint8_t codec = 0;
  Digest root{};
  /// Sorted, each once.
  std::vector<LinkInput> inputs;
  Digest weights{};
  std::uint64_t weights_step = 0;
  /// The link before this one over the same boundary in the same direction; zero for the first.
  Digest previous{};
  /// The digest of the zero-knowledge proof that goes with the tensor; zero: none.
  Digest proof{};
  bool operator==(const Link&) const = default;
};

/// A link that a stage received and checked.
struct Receipt {
  Passage passage;
  std::uint64_t sequence = 0;
  Digest link{};
  Digest root{};
  bool operator==(const Receipt&) const = default;
};

/// The root over a stage's weights from `step` on.
struct WeightMark {
  std::uint64_t step = 0;
  Digest root{};
  bool operator==(const WeightMark&) const = default;
};

/// What one layer gave.
struct LayerRoot {
  std::string layer;
  Digest root{};
  bool operator==(const LayerRoot&) const = default;
};

/// What the layers of a stage gave in a micro-batch of a step of learning, in the order of its
/// graph: for those who look for the one that was wrong.
struct LayerMark {
  std::uint64_t step = 0;
  std::uint32_t micro_batch = 0;
  std::vector<LayerRoot> layers;
  bool operator==(const LayerMark&) const = default;
};

/// All that a stage sent or received over a boundary in a direction so far.
struct Flow {
  std::string boundary;
  Direction direction = Direction::kForward;
  bool sent = false;
  std::uint64_t count = 0;
  Digest last{};
  auto operator<=>(const Flow&) const = default;
};

/// The latest head of another stage that this one has checked: its countersignature.
struct SeenHead {
  std::string stage;
  std::uint64_t number = 0;
  Digest head{};
  auto operator<=>(const SeenHead&) const = default;
};

/// What a stage signs once per step: its whole log so far.
struct Head {
  Digest run{};
  std::string stage;
  /// From 1 on, one per step of the stage.
  std::uint64_t number = 0;
  /// The last head of the run: nothing follows it.
  bool closing = false;
  std::uint64_t entries = 0;
  Digest log_root{};
  /// The head before; for the first, the run.
  Digest previous{};
  std::vector<Flow> flows;     // sorted
  std::vector<SeenHead> seen;  // sorted by stage, each once
  bool operator==(const Head&) const = default;
};

/// One stage of a run and whose key speaks for it.
struct StageEntry {
  std::string stage;
  std::string signer;
  PublicKey key{};
  Digest graph{};
  auto operator<=>(const StageEntry&) const = default;
};

/// Activations go over it `from` -> `to`, gradients back.
struct BoundaryEntry {
  std::string name;
  std::string from;
  std::string to;
  auto operator<=>(const BoundaryEntry&) const = default;
};

/// Who takes part in a run. Its digest is the run's name in every other record.
struct Opening {
  std::array<std::byte, 16> nonce{};
  std::vector<StageEntry> stages;         // sorted by stage, each once
  std::vector<BoundaryEntry> boundaries;  // sorted by name, each once
  /// All stages compute in the reproducible arithmetic: any machine must find the same bits.
  bool reproducible = false;
  bool operator==(const Opening&) const = default;

  [[nodiscard]] const StageEntry* stage(std::string_view name) const;
  [[nodiscard]] const BoundaryEntry* boundary(std::string_view name) const;
};

/// Sorts stages and boundaries and checks that names are there, unique and known. An Error
/// (kInvalidArgument) says what is wrong.
[[nodiscard]] Opening checked_opening(Opening opening);

[[nodiscard]] Bytes encode(const Link& link);
[[nodiscard]] Bytes encode(const Receipt& receipt);
[[nodiscard]] Bytes encode(const WeightMark& mark);
[[nodiscard]] Bytes encode(const LayerMark& mark);
[[nodiscard]] Bytes encode(const Head& head);
[[nodiscard]] Bytes encode(const Opening& opening);

// Bytes that are not the canonical encoding of a record are a CustodyError (kMalformed).
[[nodiscard]] Link decode_link(ByteSpan bytes);
[[nodiscard]] Receipt decode_receipt(ByteSpan bytes);
[[nodiscard]] WeightMark decode_weight_mark(ByteSpan bytes);
[[nodiscard]] LayerMark decode_layer_mark(ByteSpan bytes);
[[nodiscard]] Head decode_head(ByteSpan bytes);
[[nodiscard]] Opening decode_opening(ByteSpan bytes);

// Leaves of a stage's log: RFC 6962 leaves over a byte for the kind and the canonical bytes.
[[nodiscard]] Digest link_digest(ByteSpan encoded_link);
[[nodiscard]] Digest receipt_digest(ByteSpan encoded_receipt);
[[nodiscard]] Digest weight_mark_digest(ByteSpan encoded_mark);
[[nodiscard]] Digest layer_mark_digest(ByteSpan encoded_mark);
[[nodiscard]] Digest head_digest(ByteSpan encoded_head);
[[nodiscard]] Digest opening_digest(ByteSpan encoded_opening);

/// What a zero-knowledge proof of a tensor is for: this passage of this stage in this run.
[[nodiscard]] Digest proof_context(const Digest& run, const Digest& graph, const Passage& passage);

/// What is signed for a link that travels and for a head: a purpose, so that neither passes for the
/// other, and the digest.
[[nodiscard]] Bytes signed_text(std::string_view purpose, const Digest& digest);
inline constexpr std::string_view kLinkPurpose = "harmonics custody link 1";
inline constexpr std::string_view kHeadPurpose = "harmonics custody head 1";

}  // namespace harmonics::inline in_custody
