// Arrow's files and streams of record batches, a batch at a time. A file is a stream between two
// magics and a footer, so one scan of the messages serves both; only their heads are read.
#include <arrow/buffer.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/message.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>

#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <harmonics/base/bytes.h>

#include "arrow_status.h"
#include "byte_source_file.h"
#include "row_groups.h"

namespace harmonics::inline in_data {
namespace {

constexpr std::string_view kMagic("ARROW1\0\0", 8);
constexpr std::uint32_t kMessageFollows = 0xFFFFFFFF;
constexpr std::int32_t kLongestHead = 64 << 20;
constexpr int kDeepestType = 16;

// Where a message stands in the file.
struct IpcMessage {
  std::uint64_t head_at = 0;
  std::int32_t head_bytes = 0;
  std::uint64_t body_at = 0;
  std::uint64_t body_bytes = 0;
};

// Tables of a flatbuffer, every read bounded.
class FlatTables {
 public:
  explicit FlatTables(ByteSpan bytes) : bytes_(bytes) {}

  // Where the value of a table's field stands; nothing where the table leaves it out.
  [[nodiscard]] std::optional<std::size_t> field(std::size_t table, std::size_t number) const {
    const std::size_t entries = table - static_cast<std::size_t>(at<std::int32_t>(table));
    const std::size_t entry = 4 + 2 * number;
    if (entry + 2 > at<std::uint16_t>(entries)) return std::nullopt;
    const auto offset = at<std::uint16_t>(entries + entry);
    return offset == 0 ? std::nullopt : std::optional(table + offset);
  }
  [[nodiscard]] std::size_t table(std::size_t place) const {
    return place + at<std::uint32_t>(place);
  }
  template <Arithmetic T>
  [[nodiscard]] T at(std::size_t place) const {
    ByteReader reader(bytes_, "Arrow message");
    if (place > bytes_.size()) reader.broken("points past its end");
    reader.take(place);
    return reader.number<T>();
  }

 private:
  ByteSpan bytes_;
};

// The rows of a record batch: Message.header is field 2 of its table, RecordBatch.length field 0 of
// its own. Arrow's functions say it only with the whole batch.
std::int64_t rows_of(const arrow::Buffer& head) {
  const FlatTables tables(
      {reinterpret_cast<const std::byte*>(head.data()), static_cast<std::size_t>(head.size())});
  const auto header = tables.field(tables.table(0), 2);
  if (!header) return 0;
  const auto length = tables.field(tables.table(*header), 0);
  return length ? tables.at<std::int64_t>(*length) : 0;
}

class IpcGroups final : public RowGroups {
 public:
  IpcGroups(const ByteSourcePtr& source, arrow::MemoryPool* memory)
      : source_(source), memory_(memory), options_(arrow::ipc::IpcReadOptions::Defaults()) {
    options_.memory_pool = memory;
    options_.use_threads = false;
    options_.max_recursion_depth = kDeepestType;
    scan();
  }

  [[nodiscard]] const std::string& path() const override { return source_->path(); }
  [[nodiscard]] const arrow::Schema& schema() const override { return *schema_; }
  [[nodiscard]] std::span<const std::int64_t> rows() const override { return rows_; }

  [[nodiscard]] ArrowColumns read(std::size_t group, const std::vector<int>& fields) override {
    return guarded(path(), [&] { return read_batch(group, fields); });
  }

 private:
  void scan() {
    const bool file = is_file();
    std::uint64_t at = file ? kMagic.size() : 0;
    std::int64_t sum = 0;
    while (auto message = message_at(at, file)) {
      const auto head = head_of(*message);
      const auto opened = arrow_value(arrow::ipc::Message::Open(head, nullptr), path());
      message->body_bytes = body_of(*opened, *message);
      at = message->body_at + message->body_bytes;
      if (schema_ == nullptr) {
        if (opened->type() != arrow::ipc::MessageType::SCHEMA) damaged("no schema comes first");
        schema_ = arrow_value(arrow::ipc::ReadSchema(*opened, &dictionaries_), path());
        if (!schema_->is_native_endian()) damaged("its numbers are big-endian");
      } else if (opened->type() == arrow::ipc::MessageType::RECORD_BATCH) {
        const std::int64_t rows = rows_of(*head);
        check_group(batches_.size(), rows, sum);
        sum += rows;
        batches_.push_back(*message);
        rows_.push_back(rows);
      } else if (opened->type() != arrow::ipc::MessageType::DICTIONARY_BATCH) {
        damaged("it holds other things than record batches");
      }
    }
    if (schema_ == nullptr) damaged("it holds nothing");
  }

  [[noreturn]] void damaged(std::string_view what) const {
    fail(ErrorCode::kDataLoss, "'{}' is no Arrow file or stream, or damaged: {}", path(), what);
  }

  // A file begins with the magic, padded, and ends with it.
  bool is_file() const {
    if (source_->size() < kMagic.size()) damaged("it is too short");
    std::array<char, kMagic.size()> edge{};
    const std::string_view magic = kMagic.substr(0, 6), begin(edge.data(), 6),
                           end(edge.data() + 2, 6);
    source_->read_at(0, edge);
    if (begin != magic) return false;
    source_->read_at(source_->size() - edge.size(), edge);
    if (end != magic) damaged("it begins as a file and does not end as one: it is cut short");
    return true;
  }

  // The message that begins there, without its body; nothing at the end. A stream may end without
  // saying so.
  std::optional<IpcMessage> message_at(std::uint64_t at, bool file) const {
    if (at == source_->size() && !file) return std::nullopt;
    if (source_->size() - at < 8) damaged("it ends in the middle of a message");
    std::array<char, 8> prefix{};
    source_->read_at(at, prefix);
    std::uint32_t mark = 0;
    std::int32_t bytes = 0;
    std::memcpy(&mark, prefix.data(), 4);
    std::memcpy(&bytes, prefix.data() + 4, 4);
    if (mark != kMessageFollows) damaged(format("no message begins at byte {}", at));
    if (bytes == 0) return std::nullopt;
    const std::uint64_t left = source_->size() - at - 8;
    if (bytes < 0 || bytes > kLongestHead || static_cast<std::uint64_t>(bytes) > left) {
      damaged(format("the message at byte {} claims a head of {} bytes", at, bytes));
    }
    return IpcMessage{at + 8, bytes, at + 8 + static_cast<std::uint64_t>(bytes), 0};
  }

  std::shared_ptr<arrow::Buffer> head_of(const IpcMessage& message) const {
    std::shared_ptr<arrow::Buffer> head =
        arrow_value(arrow::AllocateBuffer(message.head_bytes, memory_), path());
    source_->read_at(message.head_at, {reinterpret_cast<char*>(head->mutable_data()),
                                       static_cast<std::size_t>(message.head_bytes)});
    return head;
  }

  std::uint64_t body_of(const arrow::ipc::Message& opened, const IpcMessage& message) const {
    const std::int64_t bytes = opened.body_length();
    if (bytes < 0 || static_cast<std::uint64_t>(bytes) > source_->size() - message.body_at) {
      damaged(format("the message at byte {} claims {} bytes", message.head_at, bytes));
    }
    return static_cast<std::uint64_t>(bytes);
  }

  ArrowColumns read_batch(std::size_t group, const std::vector<int>& fields) {
    const IpcMessage& message = batches_.at(group);
    arrow::ipc::IpcReadOptions options = options_;
    options.included_fields = fields;
    ByteSourceFile body(source_, memory_, message.body_at, message.body_bytes);
    const auto batch = arrow_value(
        arrow::ipc::ReadRecordBatch(*head_of(message), schema_, &dictionaries_, options, &body),
        path());
    ArrowColumns columns;
    for (const auto& column : batch->columns()) {
      columns.push_back(std::make_shared<arrow::ChunkedArray>(column));
    }
    check(group, fields, columns);
    return columns;
  }

  ByteSourcePtr source_;
  arrow::MemoryPool* memory_;
  arrow::ipc::IpcReadOptions options_;
  std::shared_ptr<arrow::Schema> schema_;
  arrow::ipc::DictionaryMemo dictionaries_;
  std::vector<IpcMessage> batches_;
  std::vector<std::int64_t> rows_;
};

}  // namespace

std::unique_ptr<RowGroups> ipc_groups(const ByteSourcePtr& source, arrow::MemoryPool* memory) {
  return guarded(source->path(), [&]() -> std::unique_ptr<RowGroups> {
    return std::make_unique<IpcGroups>(source, memory);
  });
}

}  // namespace harmonics::inline in_data
