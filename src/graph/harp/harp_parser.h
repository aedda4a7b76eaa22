// The grammar of .harp: from tokens to a HarpTree.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "harp_lexer.h"
#include "harp_syntax.h"

namespace harmonics::inline in_graph {

/// Reads one text. Recursive descent; a `repeat` is read once per round with its variable set, so
/// that the tree holds only plain statements. Every mistake is an Error with its place.
class HarpParser {
 public:
  /// `source` must outlive the parser.
  explicit HarpParser(const HarpSource& source);

  /// Call once.
  [[nodiscard]] HarpTree run();

 private:
  enum class Scope : std::uint8_t { kGraph, kGroup };
  struct Variable {
    std::string name;
    std::int64_t value = 0;
  };

  // Statements (harp_parser.cc).
  void harmonic();
  bool section();
  void settings(Settings& into);
  void declaration(Scope scope);
  void axis();
  void producer();
  void consumer();
  void layer();
  void group();
  void cycle();
  void repeat(const std::function<void()>& statement);
  void block(const std::function<void()>& statement);

  // Flows (harp_parser_flow.cc).
  void flow();
  HarpName chain(std::vector<HarpName> from);
  HarpName arrow(std::vector<HarpName> from);
  HarpName tap(HarpName prediction);
  HarpName flow_name();
  [[nodiscard]] bool at_arrow(std::size_t ahead = 0) const;

  // Values (harp_parser_value.cc).
  HarpName node_name(std::string_view what);
  std::string label(std::string_view what);
  std::string expanded(const Token& token) const;
  [[nodiscard]] std::int64_t variable(std::string_view name, std::size_t offset) const;
  [[nodiscard]] std::int64_t placeholder(std::string_view text, std::size_t offset) const;
  std::int64_t integer(std::string_view what);
  double real(std::string_view what);
  std::uint32_t gradient_slots();
  /// With `named`, extents may follow an axis and are listed there; their numbers are left open.
  Shape shape(NamedExtents* named = nullptr);
  NamedExtent named_extent(std::size_t position);
  Ratio ratio();
  Attribute value();
  Attributes attributes(const LayerType& type);
  std::string setting_value();

  // Tokens (harp_parser_value.cc).
  [[nodiscard]] const Token& peek(std::size_t ahead = 0) const;
  const Token& next();
  [[nodiscard]] bool at_symbol(std::string_view symbol, std::size_t ahead = 0) const;
  [[nodiscard]] bool at_word(std::string_view word) const;
  bool accept(std::string_view symbol);
  void expect(std::string_view symbol, std::string_view what);
  [[noreturn]] void refuse(const Token& token, std::string_view what) const;
  /// Counts one step of work; the ceiling is kMaxHarpSteps.
  void spend();

  const HarpSource& source_;
  std::vector<Token> tokens_;
  std::size_t position_ = 0;
  std::size_t steps_ = 0;
  std::size_t depth_ = 0;
  std::vector<Variable> variables_;
  std::string group_;
  /// What a flow line without a source goes on from.
  std::optional<HarpName> last_;
  HarpTree tree_;
};

}  // namespace harmonics::inline in_graph
