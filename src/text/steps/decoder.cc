#include "decoder.h"

#include <charconv>

#include "byte_alphabet.h"
#include "metaspace.h"
#include "replacement.h"
#include "utf8.h"

namespace harmonics::inline in_text {
namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

class WordPieceDecoder final : public Decoder {
 public:
  explicit WordPieceDecoder(const Section& section)
      : prefix_(section.text("prefix")), cleanup_(section.flag("cleanup")) {
    section.only({"prefix", "cleanup"});
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0) {
        if (token.starts_with(prefix_)) {
          token.erase(0, prefix_.size());
        } else {
          token.insert(0, 1, ' ');
        }
      }
      if (cleanup_) token = cleaned(std::move(token));
    }
  }

 private:
  static std::string cleaned(std::string token) {
    constexpr std::pair<std::string_view, std::string_view> kTidied[] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (const auto& [from, to] : kTidied) token = with_replaced(token, from, to);
    return token;
  }

  std::string prefix_;
  bool cleanup_;
};

class ByteLevelDecoder final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) bytes += bytes_spelled(token).value_or(token);
    tokens = {repaired_utf8(bytes)};
  }
};

class BpeDecoder final : public Decoder {
 public:
  explicit BpeDecoder(const Section& section) : suffix_(section.text("suffix")) {
    section.only({"suffix"});
    if (suffix_.empty()) section.refuse("has an empty suffix");
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      token = with_replaced(token, suffix_, &token == &tokens.back() ? "" : " ");
    }
  }

 private:
  std::string suffix_;
};

class MetaspaceDecoder final : public Decoder {
 public:
  explicit MetaspaceDecoder(MetaspaceSettings settings) : settings_(std::move(settings)) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      const bool dropped = &token == &tokens.front() && settings_.prepend != PrependScheme::kNever;
      token = with_replaced(token, settings_.replacement, dropped ? "" : " ");
    }
  }

 private:
  MetaspaceSettings settings_;
};

/// <0xE2> and its like, put together where they are UTF-8.
class ByteFallbackDecoder final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> out;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (first_invalid_utf8(bytes) == std::string::npos) {
        out.push_back(bytes);
      } else {
        out.insert(out.end(), bytes.size(), std::string(kReplacementCharacter));
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const int byte = byte_of(token); byte >= 0) {
        bytes += static_cast<char>(byte);
        continue;
      }
      flush();
      out.push_back(std::move(token));
    }
    flush();
    tokens = std::move(out);
  }

 private:
  static int byte_of(const std::string& token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
    int byte = -1;
    const char* const digits = token.data() + 3;
    return std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2 ? byte : -1;
  }
};

class FuseDecoder final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens = {std::move(all)};
  }
};

class StripDecoder final : public Decoder {
 public:
  explicit StripDecoder(const Section& section)
      : content_(section.text("content")),
        start_(section.count("start", kMost)),
        stop_(section.count("stop", kMost)) {
    section.only({"content", "start", "stop"});
    if (point_count(content_) != 1) section.refuse("needs one character as content");
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      std::string_view left = token;
      for (std::int64_t i = 0; i < start_ && left.starts_with(content_); ++i) {
        left.remove_prefix(content_.size());
      }
      for (std::int64_t i = 0; i < stop_ && left.ends_with(content_); ++i) {
        left.remove_suffix(content_.size());
      }
      token = std::string(left);
    }
  }

 private:
  static constexpr std::int64_t kMost = 1 << 16;
  std::string content_;
  std::int64_t start_;
  std::int64_t stop_;
};

class ReplaceDecoder final : public Decoder {
 public:
  explicit ReplaceDecoder(const Section& section)
      : finder_(section.at("pattern")), content_(section.text("content")) {
    section.only({"pattern", "content"});
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) token = finder_.replaced(token, content_);
  }

 private:
  Finder finder_;
  std::string content_;
};

class DecoderSequence final : public Decoder {
 public:
  explicit DecoderSequence(const Section& section) {
    section.only({"decoders"});
    for (const Section& each : section.items("decoders")) steps_.push_back(read_decoder(each));
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (const DecoderPtr& step : steps_) step->apply(tokens);
  }

 private:
  std::vector<DecoderPtr> steps_;
};

}  // namespace

DecoderPtr read_decoder(const Section& section) {
  const std::string& type = section.text("type");
  if (type == "WordPiece") return std::make_unique<WordPieceDecoder>(section);
  if (type == "BPEDecoder") return std::make_unique<BpeDecoder>(section);
  if (type == "Metaspace") {
    return std::make_unique<MetaspaceDecoder>(read_metaspace_settings(section));
  }
  if (type == "Strip") return std::make_unique<StripDecoder>(section);
  if (type == "Replace") return std::make_unique<ReplaceDecoder>(section);
  if (type == "Sequence") return std::make_unique<DecoderSequence>(section);
  if (type == "ByteLevel") {
    section.only({"add_prefix_space", "trim_offsets", "use_regex"});
    return std::make_unique<ByteLevelDecoder>();
  }
  if (type == "ByteFallback" || type == "Fuse") section.only({});
  if (type == "ByteFallback") return std::make_unique<ByteFallbackDecoder>();
  if (type == "Fuse") return std::make_unique<FuseDecoder>();
  section.refuse_type({"WordPiece", "ByteLevel", "BPEDecoder", "Metaspace", "ByteFallback", "Fuse",
                       "Strip", "Replace", "Sequence"});
}

}  // namespace harmonics::inline in_text
