#include <harmonics/text/tokenizer.h>

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>

#include "tokenizer_parts.h"
#include "utf8.h"

namespace harmonics::inline in_text {
namespace {

void append_piece_ids(const Tokenizer::Parts& parts, std::string_view text, bool at_start,
                      std::vector<std::int64_t>& ids) {
  Pieces pieces{std::string(text), {{0, static_cast<std::uint32_t>(text.size())}}, at_start};
  if (parts.pre_tokenizer) parts.pre_tokenizer->apply(pieces);
  for (const Span span : pieces.spans) parts.model->append_ids(pieces.piece(span), ids);
}

// The ids of a text, in which added tokens are found first: some as it stands, some normalised.
std::vector<std::int64_t> ids_of_text(const Tokenizer::Parts& parts, std::string_view text) {
  std::vector<std::int64_t> ids;
  ids.reserve(text.size() / 3);
  for (const TokenFinder::Found& raw : parts.added->raw().split(text)) {
    if (raw.token != nullptr) {
      ids.push_back(raw.token->id);
      continue;
    }
    const std::string_view stretch = text.substr(raw.span.begin, raw.span.size());
    const std::string normal =
        parts.normalizer ? parts.normalizer->apply(stretch) : std::string(stretch);
    for (const TokenFinder::Found& found : parts.added->normalized().split(normal)) {
      if (found.token != nullptr) {
        ids.push_back(found.token->id);
        continue;
      }
      append_piece_ids(parts, std::string_view(normal).substr(found.span.begin, found.span.size()),
                       raw.span.begin == 0 && found.span.begin == 0, ids);
    }
  }
  return ids;
}

void cut(std::vector<std::int64_t>& ids, std::size_t most, Side side) {
  if (ids.size() <= most) return;
  const auto surplus = static_cast<std::ptrdiff_t>(ids.size() - most);
  if (side == Side::kLeft) {
    ids.erase(ids.begin(), ids.begin() + surplus);
  } else {
    ids.resize(most);
  }
}

void fill(std::vector<std::int64_t>& row, std::size_t length, std::int64_t value, Side side) {
  const auto at = side == Side::kLeft ? row.begin() : row.end();
  row.insert(at, length - row.size(), value);
}

void check_text(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    fail(ErrorCode::kInvalidArgument, "a text of {} bytes is too long, at most {}: split it",
         text.size(), kMaxTextBytes);
  }
  const std::size_t invalid = first_invalid_utf8(text);
  if (invalid != std::string_view::npos) {
    fail(ErrorCode::kInvalidArgument, "the text is no UTF-8 at byte {}: convert it first", invalid);
  }
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::filesystem::path& folder_or_file) {
  const bool folder = std::filesystem::is_directory(folder_or_file);
  const std::filesystem::path file = folder ? folder_or_file / "tokenizer.json" : folder_or_file;
  return parse(read_text_file(file, kMaxTokenizerBytes), file.string());
}

Tokenizer Tokenizer::parse(std::string_view json, std::string_view name) {
  if (json.size() > kMaxTokenizerBytes) {
    fail(ErrorCode::kInvalidArgument, "{} has {} bytes, at most {}", name, json.size(),
         kMaxTokenizerBytes);
  }
  const Json document = Json::parse(json, name);
  return Tokenizer(std::make_unique<const Parts>(Section(document, std::string(name))));
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  check_text(text);
  std::vector<std::int64_t> ids = ids_of_text(*parts_, text);
  const PostProcessor& post = parts_->post_processor;
  if (options.max_length > 0) {
    const std::size_t special = options.special_tokens ? post.special_count() : 0;
    if (options.max_length < special) {
      fail(ErrorCode::kInvalidArgument, "{} tokens are too few: the special ones alone are {}",
           options.max_length, special);
    }
    cut(ids, options.max_length - special, parts_->cut_side);
  }
  Encoding row = post.dress(std::move(ids), options.special_tokens);
  if (row.ids.size() < options.pad_to) {
    fill(row.ids, options.pad_to, parts_->pad_id, parts_->fill_side);
    fill(row.type_ids, options.pad_to, parts_->pad_type, parts_->fill_side);
    fill(row.mask, options.pad_to, 0, parts_->fill_side);
  }
  return row;
}

std::string Tokenizer::decode(std::span<const std::int64_t> ids, bool special_tokens) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const std::int64_t id : ids) {
    const std::string_view token = token_of(id);
    const AddedToken* added = parts_->added->by_id(id);
    if (token.empty() && added == nullptr && !parts_->model->vocabulary().token(id)) {
      fail(ErrorCode::kOutOfRange, "the id {} is none of this tokenizer, which has {}", id,
           vocabulary_size());
    }
    if (!special_tokens && added != nullptr && added->special) continue;
    tokens.emplace_back(token);
  }
  if (parts_->decoder) parts_->decoder->apply(tokens);
  std::string text;
  for (const std::string& token : tokens) {
    if (!parts_->decoder && !text.empty()) text += ' ';
    text += token;
  }
  return text;
}

std::size_t Tokenizer::vocabulary_size() const {
  return std::max(parts_->model->vocabulary().size(),
                  static_cast<std::size_t>(parts_->added->largest_id() + 1));
}

std::optional<std::int64_t> Tokenizer::id_of(std::string_view token) const {
  if (const AddedToken* added = parts_->added->by_content(token)) return added->id;
  return parts_->model->vocabulary().find(token);
}

std::string_view Tokenizer::token_of(std::int64_t id) const {
  if (const AddedToken* added = parts_->added->by_id(id)) return added->content;
  return parts_->model->vocabulary().token(id).value_or(std::string_view());
}

std::int64_t Tokenizer::pad_id() const { return parts_->pad_id; }

}  // namespace harmonics::inline in_text
