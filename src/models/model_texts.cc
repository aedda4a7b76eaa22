#include <harmonics/models/model_texts.h>

#include <algorithm>
#include <map>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/models/gguf.h>
#include <harmonics/models/import_model.h>

namespace harmonics::inline in_models {
namespace {

constexpr std::size_t kMaxTokenizerFile = std::size_t{64} << 20;
// Kinds of GGUF's tokens.
constexpr std::int64_t kControlToken = 3, kUserToken = 4;

constexpr std::string_view kQwen2Words =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kLlama3Words =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";

Json byte_level(bool cuts_words) {
  Json step;
  step.set("type", "ByteLevel").set("add_prefix_space", false).set("trim_offsets", true);
  return step.set("use_regex", cuts_words);
}

Json in_sequence(Json first, Json second) {
  Json list = Json::array();
  list.push(std::move(first)).push(std::move(second));
  return Json().set("type", "Sequence").set("pretokenizers", std::move(list));
}

Json split_by(std::string_view words) {
  Json step;
  step.set("type", "Split").set("pattern", Json().set("Regex", words));
  return step.set("behavior", "Isolated").set("invert", false);
}

/// A tokenizer.json out of the settings and lists of a GGUF file.
class GgufVocabulary {
 public:
  GgufVocabulary(const std::filesystem::path& path, const MappedFilePtr& file)
      : path_(path), settings_(open_gguf(file).settings), lists_(gguf_lists(file)) {}

  ModelTexts texts() const {
    const std::string model = text("tokenizer.ggml.model");
    if (model != "gpt2") {
      refuse(
          format("its vocabulary is of the kind '{}'; byte-level ones ('gpt2') are read", model));
    }
    ModelTexts out;
    out.origin = format("the vocabulary of '{}'", path_.string());
    out.tokenizer = tokenizer().dump();
    out.chat_template = text("tokenizer.chat_template");
    for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
      if (const auto id = whole(key)) out.end_ids.push_back(*id);
    }
    for (const char* name : {"bos", "eos"}) {
      if (const auto id = whole(format("tokenizer.ggml.{}_token_id", name))) {
        out.variables.set(format("{}_token", name), token(*id));
      }
    }
    return out;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail(ErrorCode::kUnimplemented,
         "'{}': {}; name a tokenizer.json of this model with --tokenizer", path_.string(), what);
  }

  std::string text(std::string_view key) const {
    const auto found = settings_.find(key);
    return found == settings_.end() || !found->second.is_string() ? "" : found->second.as_string();
  }

  std::optional<std::int64_t> whole(std::string_view key) const {
    const auto found = settings_.find(key);
    if (found == settings_.end() || !found->second.is_integer()) return std::nullopt;
    return found->second.as_integer();
  }

  bool truth(std::string_view key) const {
    const auto found = settings_.find(key);
    return found != settings_.end() && found->second.dump() == "true";
  }

  const std::vector<std::string>& tokens() const {
    const auto found = lists_.texts.find("tokenizer.ggml.tokens");
    if (found == lists_.texts.end()) refuse("it lists no tokens");
    return found->second;
  }

  const std::string& token(std::int64_t id) const {
    if (id < 0 || id >= static_cast<std::int64_t>(tokens().size())) {
      refuse(format("token {} is named, and there are {}", id, tokens().size()));
    }
    return tokens()[static_cast<std::size_t>(id)];
  }

  Json tokenizer() const {
    Json json;
    json.set("version", "1.0").set("truncation", Json()).set("padding", Json());
    json.set("added_tokens", added_tokens());
    const std::string cut = text("tokenizer.ggml.pre");
    json.set("normalizer", cut == "qwen2" ? Json().set("type", "NFC") : Json());
    json.set("pre_tokenizer", pre_tokenizer(cut)).set("post_processor", post_processor());
    json.set("decoder", byte_level(true));
    return json.set("model", model(cut));
  }

  Json added_tokens() const {
    Json list = Json::array();
    const auto kinds = lists_.numbers.find("tokenizer.ggml.token_type");
    if (kinds == lists_.numbers.end()) return list;
    const std::size_t count = std::min(kinds->second.size(), tokens().size());
    for (std::size_t id = 0; id < count; ++id) {
      const std::int64_t kind = kinds->second[id];
      if (kind != kControlToken && kind != kUserToken) continue;
      Json each;
      each.set("id", static_cast<std::int64_t>(id)).set("content", tokens()[id]);
      each.set("single_word", false).set("lstrip", false).set("rstrip", false);
      list.push(each.set("normalized", false).set("special", kind == kControlToken));
    }
    return list;
  }

  Json pre_tokenizer(const std::string& cut) const {
    if (cut == "smollm") {
      return in_sequence(Json().set("type", "Digits").set("individual_digits", true),
                         byte_level(true));
    }
    if (cut == "gpt-2") return byte_level(true);
    if (cut == "qwen2") return in_sequence(split_by(kQwen2Words), byte_level(false));
    if (cut == "llama-bpe") return in_sequence(split_by(kLlama3Words), byte_level(false));
    refuse(format("it cuts words as '{}' does; gpt-2, smollm, qwen2 and llama-bpe are known", cut));
  }

  Json post_processor() const {
    if (!truth("tokenizer.ggml.add_bos_token")) return byte_level(true);
    const auto id = whole("tokenizer.ggml.bos_token_id");
    if (!id) refuse("every text is to begin with a token that it does not name");
    const std::string& first = token(*id);
    const auto special = [&](const std::string& name) {
      return Json().set("SpecialToken", Json().set("id", name).set("type_id", 0));
    };
    const auto sequence = [](const char* name) {
      return Json().set("Sequence", Json().set("id", name).set("type_id", 0));
    };
    Json single = Json::array(), pair = Json::array(), ids = Json::array(), names = Json::array();
    single.push(special(first)).push(sequence("A"));
    pair.push(special(first)).push(sequence("A")).push(sequence("B"));
    ids.push(*id);
    names.push(first);
    Json about;
    about.set("id", first).set("ids", std::move(ids)).set("tokens", std::move(names));
    Json step;
    step.set("type", "TemplateProcessing").set("single", std::move(single));
    step.set("pair", std::move(pair));
    return step.set("special_tokens", Json().set(first, std::move(about)));
  }

  Json model(const std::string& cut) const {
    Json json;
    json.set("type", "BPE").set("dropout", Json()).set("unk_token", Json());
    json.set("continuing_subword_prefix", Json()).set("end_of_word_suffix", Json());
    json.set("fuse_unk", false).set("byte_fallback", false);
    json.set("ignore_merges", cut == "llama-bpe");
    Json::Object vocabulary;  // set() would look for each key among all before it
    vocabulary.reserve(tokens().size());
    for (std::size_t id = 0; id < tokens().size(); ++id) {
      vocabulary.emplace_back(tokens()[id], static_cast<std::int64_t>(id));
    }
    json.set("vocab", Json(std::move(vocabulary)));
    const auto merges = lists_.texts.find("tokenizer.ggml.merges");
    if (merges == lists_.texts.end()) refuse("it lists no merges");
    Json::Array list(merges->second.begin(), merges->second.end());
    return json.set("merges", Json(std::move(list)));
  }

  std::filesystem::path path_;
  std::map<std::string, Json, std::less<>> settings_;
  GgufLists lists_;
};

std::optional<Json> json_file(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path)) return std::nullopt;
  return Json::parse(read_text_file(path, kMaxConfigBytes), path.string());
}

// A token is a text, or an object that holds it.
std::string token_text(const Json* value) {
  if (value == nullptr) return {};
  if (value->is_string()) return value->as_string();
  const Json* const content = value->is_object() ? value->find("content") : nullptr;
  return content == nullptr ? "" : content->as_string();
}

// One text, or a list of named ones, of which "default" is meant.
std::string template_text(const Json* value) {
  if (value == nullptr || value->is_null()) return {};
  if (value->is_string()) return value->as_string();
  for (const Json& each : value->as_array()) {
    if (each.at("name").as_string() == "default") return each.at("template").as_string();
  }
  return {};
}

void add_end_ids(const std::filesystem::path& folder, ModelTexts& out) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    const auto json = json_file(folder / name);
    const Json* const ids = json ? json->find("eos_token_id") : nullptr;
    if (ids == nullptr || ids->is_null()) continue;
    if (ids->is_integer()) {
      out.end_ids.push_back(ids->as_integer());
    } else {
      for (const Json& id : ids->as_array()) out.end_ids.push_back(id.as_integer());
    }
    return;
  }
}

ModelTexts folder_texts(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.parent_path();
  ModelTexts out;
  out.origin = format("'{}'", file.string());
  out.tokenizer = read_text_file(file, kMaxTokenizerFile);
  if (const auto config = json_file(folder / "tokenizer_config.json")) {
    out.chat_template = template_text(config->find("chat_template"));
    for (const char* name : {"bos_token", "eos_token"}) {
      const std::string token = token_text(config->find(name));
      if (!token.empty()) out.variables.set(name, token);
    }
    const std::string end = token_text(config->find("eos_token"));
    if (!end.empty()) out.end_tokens.push_back(end);
  }
  const std::filesystem::path apart = folder / "chat_template.jinja";
  if (std::filesystem::is_regular_file(apart)) {
    out.chat_template = read_text_file(apart, kMaxConfigBytes);
  }
  add_end_ids(folder, out);
  return out;
}

}  // namespace

ModelTexts model_texts(const std::filesystem::path& source) {
  if (std::filesystem::is_directory(source)) {
    const std::filesystem::path file = source / "tokenizer.json";
    if (!std::filesystem::is_regular_file(file)) {
      fail(ErrorCode::kNotFound, "the folder '{}' has no tokenizer.json", source.string());
    }
    return folder_texts(file);
  }
  const auto file = std::make_shared<const MappedFile>(source);
  if (is_gguf(*file)) return GgufVocabulary(source, file).texts();
  return folder_texts(source);
}

}  // namespace harmonics::inline in_models
