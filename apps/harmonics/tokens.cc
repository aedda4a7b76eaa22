// harmonics tokens: texts to token ids, and back.
#include <functional>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/base/json.h>
#include <harmonics/base/number_text.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/text/text_rows.h>
#include <harmonics/text/tokenizer.h>

#include "subcommands.h"

namespace harmonics::inline in_front {
namespace {

Json json_of(const std::vector<std::int64_t>& numbers) {
  Json list = Json::array();
  for (const std::int64_t number : numbers) list.push(number);
  return list;
}

std::string spelled(const Encoding& row) {
  std::string text;
  for (const std::int64_t id : row.ids) text += format("{}{}", text.empty() ? "" : " ", id);
  return text + "\n";
}

std::string encoded(const Tokenizer& tokenizer, const TokensCommand& command,
                    const std::string& text) {
  EncodeOptions options;
  options.special_tokens = !command.no_special;
  options.max_length = static_cast<std::size_t>(command.length);
  options.pad_to = command.pad ? options.max_length : 0;
  const Encoding row = tokenizer.encode(text, options);
  if (command.output == OutputStyle::kJson) {
    Json json;
    json.set("input_ids", json_of(row.ids)).set("attention_mask", json_of(row.mask));
    return json.set("token_type_ids", json_of(row.type_ids)).dump() + "\n";
  }
  if (command.output == OutputStyle::kQuiet || !command.text) return spelled(row);
  Table table{{{"id", Align::kRight}, {"token"}, {"type", Align::kRight}}, {}};
  for (std::size_t i = 0; i < row.ids.size(); ++i) {
    table.rows.push_back({format("{}", row.ids[i]), std::string(tokenizer.token_of(row.ids[i])),
                          format("{}", row.type_ids[i])});
  }
  return table.text(wants_colour(TextStream::kOutput));
}

std::string decoded(const Tokenizer& tokenizer, const TokensCommand& command,
                    const std::vector<std::int64_t>& ids) {
  const std::string text = tokenizer.decode(ids, !command.no_special);
  if (command.output != OutputStyle::kJson) return text + "\n";
  return Json().set("text", text).dump() + "\n";
}

std::vector<std::int64_t> ids_in_text(const std::string& text) {
  std::vector<std::int64_t> ids;
  for (std::size_t at = text.find_first_not_of(" ,"); at != std::string::npos;) {
    const std::size_t end = std::min(text.find_first_of(" ,", at), text.size());
    const auto id = number_from<std::int64_t>(std::string_view(text).substr(at, end - at));
    if (!id) {
      fail(ErrorCode::kInvalidArgument, "'{}' is no id: write ids with spaces between them",
           text.substr(at, end - at));
    }
    ids.push_back(*id);
    at = text.find_first_not_of(" ,", end);
  }
  return ids;
}

// A list of ids, or an object with one as "input_ids".
std::vector<std::int64_t> ids_in_row(const TextRows& rows, std::int64_t row) {
  const Json json = rows.json(row);
  const Json* list = json.is_object() ? json.find("input_ids") : &json;
  if (list == nullptr || !list->is_array()) {
    fail(ErrorCode::kInvalidArgument, "{} is no list of ids and has none as 'input_ids'",
         rows.place_of(row));
  }
  std::vector<std::int64_t> ids;
  for (const Json& id : list->as_array()) ids.push_back(id.as_integer());
  return ids;
}

void convert_file(const Tokenizer& tokenizer, const TokensCommand& command) {
  const TextRows rows(open_file(command.file.string()));
  const bool plain = command.file.extension() == ".txt";
  for (std::int64_t row = 0; row < rows.count(); ++row) {
    std::string line;
    try {
      if (command.decode) {
        line = decoded(tokenizer, command, ids_in_row(rows, row));
      } else {
        line = encoded(tokenizer, command,
                       plain ? rows.line(row) : rows.json_text(row, command.field));
      }
    } catch (const Error& error) {
      const std::string_view what = error.what();
      if (what.starts_with(rows.place_of(row))) throw;
      fail(error.code(), "{}: {}", rows.place_of(row), what);
    }
    write_text(TextStream::kOutput, line);
  }
}

}  // namespace

int tokens(const TokensCommand& command) {
  const Tokenizer tokenizer = Tokenizer::load(command.tokenizer);
  if (!command.text) {
    convert_file(tokenizer, command);
  } else if (command.decode) {
    write_text(TextStream::kOutput, decoded(tokenizer, command, ids_in_text(*command.text)));
  } else {
    write_text(TextStream::kOutput, encoded(tokenizer, command, *command.text));
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_front
