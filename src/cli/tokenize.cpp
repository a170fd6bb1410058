// asr tokenize: lines of text to lines of token ids, or back, with a checkpoint's own tokenizer.
#include <iostream>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "io/tokenizer.h"

namespace asr {
namespace {

using nlohmann::json;

struct TokenizeArguments {
  std::string model;
  bool decode = false;
};

std::vector<int64_t> parse_ids(const std::string& line, size_t number) {
  std::vector<int64_t> out;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    int64_t id = 0;
    check(parse_int(word, id), "standard input, line ", number, ": '", printable(word), "' is not a token id");
    out.push_back(id);
  }
  return out;
}

// One object a line; offsets are bytes of the unescaped text.
json encoded_json(const std::vector<Token>& tokens) {
  json ids = json::array(), offsets = json::array();
  for (const auto& token : tokens) {
    ids.push_back(token.id);
    offsets.push_back({token.begin, token.end});
  }
  return {{"ids", ids}, {"offsets", offsets}};
}

void print_ids(const std::vector<Token>& tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) std::cout << (i > 0 ? " " : "") << tokens[i].id;
  std::cout << "\n";
}

void run(const TokenizeArguments& arguments, const Common& common) {
  const auto tokenizer = load_tokenizer(arguments.model);
  json lines = json::array();
  std::string line;
  for (size_t number = 1; next_line(line); ++number) {
    if (arguments.decode) {
      const auto text = tokenizer->decode(parse_ids(line, number));
      if (common.json)
        lines.push_back({{"text", text}});
      else
        std::cout << escape_line(text) << "\n";
    } else {
      const auto tokens = tokenizer->encode(unescape_line(line));
      if (common.json)
        lines.push_back(encoded_json(tokens));
      else
        print_ids(tokens);
    }
  }
  if (common.json) print_json({{"lines", lines}, {"vocabulary", tokenizer->size()}});
}

}  // namespace

void add_tokenize_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand(
      "tokenize", "lines of text on standard input to lines of token ids; \\n and \\\\ mean newline and backslash");
  auto arguments = std::make_shared<TokenizeArguments>();
  command
      ->add_option("--model", arguments->model,
                   "folder with tokenizer.json, tokenizer.model or vocab.json and merges.txt")
      ->required()
      ->type_name("DIR");
  command->add_flag("--decode", arguments->decode, "lines of token ids to lines of text");
  command->callback([arguments, &common] { run(*arguments, common); });
}

}  // namespace asr
