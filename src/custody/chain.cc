#include <harmonics/custody/chain.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/custody/breach.h>

namespace harmonics::inline in_custody {
namespace {

// A frame: u32 bytes of the body, u8 kind, u16 stage, the body, and a check over the frame and the
// check before it, so that every damage shows where it is. Signatures, not checks, stop forgers.
using Check = std::array<std::byte, 8>;
constexpr std::size_t kFrameHead = 7;
constexpr std::string_view kMagic = "HMCHAIN1";

Check first_check() {
  Check check;
  std::memcpy(check.data(), kMagic.data(), check.size());
  return check;
}

Check next_check(const Check& before, ByteSpan frame) {
  const Digest digest = Sha256().update(before).update(frame).finish();
  Check check;
  std::memcpy(check.data(), digest.data(), check.size());
  return check;
}

void append_frame(Bytes& out, const ChainRecord& record, Check& check) {
  if (record.body.size() > kMaxChainRecordBytes) {
    fail(ErrorCode::kResourceExhausted, "a chain record of {} bytes is above the limit of {}",
         record.body.size(), kMaxChainRecordBytes);
  }
  ByteWriter frame;
  frame.number(static_cast<std::uint32_t>(record.body.size()));
  frame.number(static_cast<std::uint8_t>(record.kind));
  frame.number(record.stage);
  frame.raw(record.body);
  check = next_check(check, frame.bytes());
  out.insert(out.end(), frame.bytes().begin(), frame.bytes().end());
  out.insert(out.end(), check.begin(), check.end());
}

// The next record; nothing when the bytes end inside it.
std::optional<ChainRecord> read_frame(ByteSpan bytes, std::size_t& at, Check& check) {
  const ByteSpan rest = bytes.subspan(at);
  if (rest.size() < kFrameHead) return std::nullopt;
  ByteReader head(rest, "chain");
  const auto size = head.number<std::uint32_t>();
  const auto kind = head.number<std::uint8_t>();
  const auto stage = head.number<std::uint16_t>();
  if (size > kMaxChainRecordBytes) {
    fail_custody(Breach::kMalformed,
                 "the record at byte {} claims {} bytes, at most {} are allowed", at, size,
                 kMaxChainRecordBytes);
  }
  const std::size_t whole = kFrameHead + size;
  if (rest.size() < whole + check.size()) return std::nullopt;
  check = next_check(check, rest.first(whole));
  if (!std::ranges::equal(check, rest.subspan(whole, check.size()))) {
    fail_custody(Breach::kMalformed, "the record at byte {} is damaged: its check does not match",
                 at);
  }
  if (kind < 1 || kind > 8) {
    fail_custody(Breach::kMalformed, "the record at byte {} is of no known kind ({})", at,
                 int{kind});
  }
  at += whole + check.size();
  const ByteSpan body = rest.subspan(kFrameHead, size);
  return ChainRecord{static_cast<RecordKind>(kind), stage, Bytes(body.begin(), body.end())};
}

// What a file holds, and where its whole records end.
struct Scan {
  Chain chain;
  bool torn = false;
};

Scan scan(ByteSpan bytes) {
  const ByteSpan magic = bytes_of(kMagic);
  if (bytes.size() < magic.size()) fail_custody(Breach::kTruncated, "the chain has no header");
  if (!std::ranges::equal(magic, bytes.first(magic.size()))) {
    fail_custody(Breach::kMalformed, "this is no chain file: it does not begin with '{}'", kMagic);
  }
  Check check = first_check();
  std::size_t at = magic.size();
  Scan found;
  const auto opening = read_frame(bytes, at, check);
  if (!opening) fail_custody(Breach::kTruncated, "the chain ends before its opening");
  if (opening->kind != RecordKind::kOpening || opening->stage != 0) {
    fail_custody(Breach::kMalformed, "a chain begins with an opening");
  }
  found.chain.opening = decode_opening(opening->body);
  while (at < bytes.size()) {
    auto record = read_frame(bytes, at, check);
    if (!record) {
      found.torn = true;
      break;
    }
    if (record->kind == RecordKind::kOpening ||
        record->stage >= found.chain.opening.stages.size()) {
      fail_custody(Breach::kMalformed, "record {} belongs to no stage of the opening",
                   found.chain.records.size() + 1);
    }
    found.chain.records.push_back(std::move(*record));
  }
  return found;
}

Bytes encode_records(const Chain& chain, Check& check) {
  Bytes out(bytes_of(kMagic).begin(), bytes_of(kMagic).end());
  check = first_check();
  append_frame(out, {RecordKind::kOpening, 0, encode(chain.opening)}, check);
  for (const ChainRecord& record : chain.records) append_frame(out, record, check);
  return out;
}

// The weights that a stage announced last in the chain are those that its checkpoint says.
void require_weights(const std::string& stage, const WeightMark& there, const WeightMark& saved) {
  if (there == saved) return;
  fail_custody(Breach::kWrongWeights,
               "by the chain file stage '{}' announced weights {} for step {}, by the checkpoint "
               "{} for step {}: one of the two files was changed; go on from another checkpoint of "
               "this run",
               stage, digest_text(there.root), there.step, digest_text(saved.root), saved.step);
}

// Drops of each stage what follows its position.
Chain cut_at(const Chain& chain, const std::map<std::string, ChainPosition>& positions) {
  Chain kept{chain.opening, {}};
  std::vector<std::uint64_t> number(chain.opening.stages.size(), 0);
  std::vector<WeightMark> weights(chain.opening.stages.size());
  const auto position_of = [&](std::uint16_t stage) {
    const auto found = positions.find(chain.opening.stages[stage].stage);
    return found == positions.end() ? ChainPosition{} : found->second;
  };
  for (const ChainRecord& record : chain.records) {
    const ChainPosition end = position_of(record.stage);
    if (number[record.stage] == end.number) continue;
    if (record.kind == RecordKind::kHead && record.body.size() > sizeof(Signature)) {
      const ByteSpan head = ByteSpan(record.body).first(record.body.size() - sizeof(Signature));
      if (++number[record.stage] == end.number && head_digest(head) != end.head) {
        fail_custody(Breach::kFork,
                     "head {} of stage '{}' in the chain file is not the one of the checkpoint",
                     end.number, chain.opening.stages[record.stage].stage);
      }
    }
    if (record.kind == RecordKind::kWeights) {
      weights[record.stage] = decode_weight_mark(record.body);
    }
    kept.records.push_back(record);
  }
  for (std::size_t i = 0; i < number.size(); ++i) {
    const ChainPosition end = position_of(static_cast<std::uint16_t>(i));
    const std::string& stage = chain.opening.stages[i].stage;
    if (number[i] != end.number) {
      fail_custody(Breach::kRollback,
                   "the chain file ends at head {} of stage '{}' and the checkpoint is at head {}",
                   number[i], stage, end.number);
    }
    if (end.weights) require_weights(stage, weights[i], *end.weights);
  }
  return kept;
}

}  // namespace

Chain decode_chain(ByteSpan bytes) {
  Scan found = scan(bytes);
  if (found.torn) {
    fail_custody(Breach::kTruncated, "the chain ends inside record {}",
                 found.chain.records.size() + 1);
  }
  return std::move(found.chain);
}

Bytes encode_chain(const Chain& chain) {
  Check check;
  return encode_records(chain, check);
}

Chain read_chain(const std::filesystem::path& path) {
  const std::string text = read_text_file(path, kMaxChainBytes);
  try {
    return decode_chain(bytes_of(text));
  } catch (const CustodyError& error) {
    throw CustodyError(error.breach(), format("'{}': {}", path.string(), error.what()));
  }
}

void set_chain_aside(const std::filesystem::path& path) {
  if (path.empty() || !std::filesystem::exists(path)) return;
  for (int number = 1; number <= kMaxChainsAside; ++number) {
    const auto aside = std::filesystem::path(path).concat(format(".aside{}", number));
    if (std::filesystem::exists(aside)) continue;
    std::filesystem::rename(path, aside);
    return;
  }
  fail(ErrorCode::kResourceExhausted, "{} chains were set aside beside '{}': move them away",
       kMaxChainsAside, path.string());
}

ChainWriter::ChainWriter(std::filesystem::path path, const Opening& opening)
    : path_(std::move(path)) {
  descriptor_.reset(
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644));
  if (!descriptor_ && errno == EEXIST) {
    fail(ErrorCode::kAlreadyExists,
         "'{}' exists already: a chain is not overwritten; name another file or resume its run",
         path_.string());
  }
  if (!descriptor_) fail_errno(errno, format("cannot write '{}'", path_.string()));
  write(encode_records({opening, {}}, check_));
}

ChainWriter::ChainWriter(std::filesystem::path path, const Opening& opening,
                         const std::map<std::string, ChainPosition>& positions)
    : path_(std::move(path)) {
  const std::string text = read_text_file(path_, kMaxChainBytes);
  const Scan found = scan(bytes_of(text));
  if (found.chain.opening != opening) {
    fail_custody(Breach::kOtherRun, "'{}' is the chain of another run", path_.string());
  }
  AtomicFile file(path_);
  file.write(encode_records(cut_at(found.chain, positions), check_));
  file.commit();
  descriptor_.reset(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!descriptor_) fail_errno(errno, format("cannot write '{}'", path_.string()));
}

void ChainWriter::append(std::span<const ChainRecord> records) {
  const std::lock_guard lock(mutex_);
  Bytes out;
  for (const ChainRecord& record : records) append_frame(out, record, check_);
  write(out);
}

void ChainWriter::sync() {
  const std::lock_guard lock(mutex_);
  if (::fdatasync(descriptor_.get()) != 0)
    fail_errno(errno, format("cannot sync '{}'", path_.string()));
}

void ChainWriter::write(ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_errno(errno, format("cannot write '{}'", path_.string()));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

}  // namespace harmonics::inline in_custody
