#include <harmonics/text/text_producer.h>

#include <algorithm>
#include <cstring>

#include <harmonics/base/error.h>
#include <harmonics/data/label_producer.h>
#include <harmonics/data/producer_settings.h>

// Linking the module takes this file in, and with it the scheme that it registers.
extern "C" void harmonics_text_part() {}

namespace harmonics::inline in_text {
namespace {

// The tokenizer of a folder or of a file that ends with .json.
std::shared_ptr<const Tokenizer> open_tokenizer(const ProducerSettings& settings,
                                                const OpenBytes& open) {
  const std::string* place = settings.text("tokenizer");
  if (place == nullptr || place->empty()) {
    fail(ErrorCode::kInvalidArgument,
         "text data needs a tokenizer: write text:{}?tokenizer=FOLDER&length=128", settings.path());
  }
  const ByteSourcePtr file = open(place->ends_with(".json") ? *place : *place + "/tokenizer.json");
  if (file->size() > kMaxTokenizerBytes) {
    fail(ErrorCode::kInvalidArgument, "'{}' has {} bytes, at most {}", file->path(), file->size(),
         kMaxTokenizerBytes);
  }
  std::string json(static_cast<std::size_t>(file->size()), '\0');
  file->read_at(0, json);
  return std::make_shared<const Tokenizer>(Tokenizer::parse(json, file->path()));
}

IndexedProducerPtr open_text(const ProducerSettings& settings, const OpenBytes& open) {
  settings.allow({"tokenizer", "field", "length", "column", "format", "pad", "dtype"});
  TextOptions options;
  const auto length = settings.number<std::int64_t>("length");
  if (!length) {
    fail(ErrorCode::kInvalidArgument, "text data needs a length: write &length=128");
  }
  options.length = *length;
  options.dtype = settings.dtype().value_or(DType::kInt64);
  options.column = static_cast<TextColumn>(
      settings.choice("column", {"input_ids", "attention_mask", "token_type_ids", "labels"})
          .value_or(0));
  options.padding =
      static_cast<TextPadding>(settings.choice("pad", {"max", "longest"}).value_or(0));
  const bool plain = settings.path().ends_with(".txt");
  options.json = settings.choice("format", {"jsonl", "lines"}).value_or(plain ? 1 : 0) == 0;
  if (const std::string* field = settings.text("field")) options.field = *field;
  return std::make_shared<TextProducer>(std::make_shared<const TextRows>(settings.bytes(open)),
                                        open_tokenizer(settings, open), std::move(options));
}

// At least one, so that no batch is empty.
std::int32_t tokens_of(const Encoding& made) {
  return std::max<std::int32_t>(1, static_cast<std::int32_t>(std::ranges::count(made.mask, 1)));
}

const bool kRegistered = [] {
  register_producer_scheme("text", open_text);
  return true;
}();

}  // namespace

TextProducer::TextProducer(std::shared_ptr<const TextRows> rows,
                           std::shared_ptr<const Tokenizer> tokenizer, TextOptions options)
    : rows_(std::move(rows)), tokenizer_(std::move(tokenizer)), options_(std::move(options)) {
  if (options_.length < 1 || options_.length > kMaxTextLength) {
    fail(ErrorCode::kInvalidArgument, "rows of {} tokens: 1 to {} can be made", options_.length,
         kMaxTextLength);
  }
  if (options_.dtype != DType::kInt64 && options_.dtype != DType::kInt32) {
    fail(ErrorCode::kInvalidArgument, "tokens are int64 or int32, not {}",
         dtype_name(options_.dtype));
  }
  if (options_.padding == TextPadding::kLongest) {
    lengths_.resize(static_cast<std::size_t>(rows_->count()));
  }
}

TensorSpec TextProducer::sample_spec() const { return {{options_.length}, options_.dtype}; }

Encoding TextProducer::encoding_of(std::int64_t row) const {
  const std::string text = options_.json ? rows_->json_text(row, options_.field) : rows_->line(row);
  EncodeOptions encode;
  encode.max_length = encode.pad_to = static_cast<std::size_t>(options_.length);
  try {
    return tokenizer_->encode(text, encode);
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", rows_->place_of(row), std::string_view(error.what()));
  }
}

std::vector<std::int64_t> TextProducer::column_of(std::int64_t row) {
  Encoding made = encoding_of(row);
  if (!lengths_.empty()) lengths_[static_cast<std::size_t>(row)] = tokens_of(made);
  switch (options_.column) {
    case TextColumn::kInputIds: return std::move(made.ids);
    case TextColumn::kAttentionMask: return std::move(made.mask);
    case TextColumn::kTokenTypeIds: return std::move(made.type_ids);
    case TextColumn::kLabels: break;
  }
  for (std::size_t i = 0; i < made.ids.size(); ++i) {
    if (made.mask[i] == 0) made.ids[i] = kIgnoredLabel;
  }
  return std::move(made.ids);
}

std::vector<std::int64_t> TextProducer::row_lengths(std::span<const std::int64_t> rows) {
  if (options_.padding == TextPadding::kMax) return {};
  std::vector<std::int64_t> found;
  for (const std::int64_t row : rows) {
    std::int32_t& length = lengths_.at(static_cast<std::size_t>(row));
    if (length == 0) length = tokens_of(encoding_of(row));
    found.push_back(length);
  }
  return found;
}

std::string TextProducer::place_of(std::int64_t row, std::size_t element) const {
  return format("{}, token {}", rows_->place_of(row), element + 1);
}

void TextProducer::read(std::span<const std::int64_t> rows, std::span<std::byte> out) {
  check_read(rows, out);
  const std::size_t bytes = sample_bytes(sample_spec());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::vector<std::int64_t> column = column_of(rows[i]);
    std::byte* const to = out.data() + i * bytes;
    if (options_.dtype == DType::kInt64) {
      std::memcpy(to, column.data(), bytes);
    } else {
      const std::vector<std::int32_t> narrow(column.begin(), column.end());
      std::memcpy(to, narrow.data(), bytes);
    }
  }
}

}  // namespace harmonics::inline in_text
