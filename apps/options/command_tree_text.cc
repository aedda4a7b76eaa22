// harmonics tokens.
#include "command_tree.h"
#include "shared_options.h"

namespace harmonics::inline in_options {

void CommandTree::add_tokens() {
  CLI::App& tokens =
      *root_.add_subcommand("tokens", "turns texts into the ids that a model reads, and back");
  add_folder(tokens, "--tokenizer", tokens_.tokenizer,
             "folder of a model with its tokenizer.json, or that file")
      ->required()
      ->option_text("FOLDER (required)");
  CLI::Option* const file =
      add_path(tokens, "FILE", tokens_.file, "texts: a line each (.txt), else JSON lines");
  CLI::Option* const text =
      tokens
          .add_option_function<std::string>(
              "--text", [this](const std::string& given) { tokens_.text = given; },
              "one text; with --decode, ids with spaces between them")
          ->type_name("TEXT");
  text->excludes(file);
  add_text(tokens, "--field", tokens_.field, "NAME",
           "member of JSON lines that is the text (text)");
  tokens.add_flag("--decode", tokens_.decode, "from ids to text")->option_text(" ");
  CLI::Option* const length =
      add_whole(tokens, "--length", tokens_.length, {1, 1 << 20}, "cut rows to this many ids");
  tokens.add_flag("--pad", tokens_.pad, "fill shorter rows up to --length")
      ->needs(length)
      ->option_text(" ");
  tokens.add_flag("--no-special", tokens_.no_special, "without [CLS], [SEP] and their like")
      ->option_text(" ");
  add_output(tokens, tokens_.output);
  tokens.footer(
      example("  harmonics tokens --tokenizer all-MiniLM-L6-v2 --text 'Hello, world!'\n"
              "  harmonics tokens --tokenizer all-MiniLM-L6-v2 reviews.jsonl --output json\n"
              "  harmonics tokens --tokenizer all-MiniLM-L6-v2 --decode --text '101 7592 102'\n\n"
              "JSON lines are texts, or objects with a member --field; with --decode they are "
              "lists of ids, or objects with one as input_ids. --output json prints a line of "
              "JSON for each."));
  tokens.callback([this, file, text] {
    if (file->count() + text->count() == 0) {
      throw CLI::RequiredError("FILE or --text");
    }
    command_ = tokens_;
  });
}

}  // namespace harmonics::inline in_options
