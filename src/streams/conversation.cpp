#include "streams/conversation.h"

#include "base/error.h"
#include "base/text.h"
#include "streams/picture_member.h"

namespace asr {
namespace {

using nlohmann::json;

struct Turn {
  std::string role, text;
};

// {"type": "text", "text": ...}, {"type": "image", "image": ...} and {"type": "image_url", "image_url": {"url": ...}}.
std::string read_part(const json& part, Turn& turn, Conversation& out) {
  if (part.is_string()) {
    turn.text += part.get<std::string>();
    return "";
  }
  const auto type = part.is_object() ? part.value("type", json()) : json();
  if (!type.is_string()) return "has content that is neither text nor parts with a 'type'";
  const auto name = type.get<std::string>();
  if (name == "text") {
    const auto text = part.value("text", json());
    if (!text.is_string()) return "has a part of text without its 'text'";
    turn.text += (turn.text.empty() ? "" : "\n") + text.get<std::string>();
    return "";
  }
  if (name != "image" && name != "image_url" && name != "video")
    return cat("has a part of type '", printable(name), "'");
  out.marked = true;
  std::string path;
  if (auto reason = read_picture_member(part, path); !reason.empty()) return "has a part whose " + reason;
  if (!path.empty()) out.pictures.push_back(path);
  return "";
}

// {"from": "human", "value": ...} of LLaVA, or {"role": "user", "content": ...}.
std::string read_turn(const json& turn, Turn& out, Conversation& talk) {
  for (const auto& [role, text] : {std::pair("from", "value"), std::pair("role", "content")}) {
    if (!turn.is_object() || !turn.contains(role) || !turn.contains(text) || !turn[role].is_string()) continue;
    out.role = turn[role].get<std::string>();
    const auto& content = turn[text];
    if (!content.is_string() && !content.is_array()) continue;
    if (content.is_string()) out.text = content.get<std::string>();
    if (content.is_array())
      for (const auto& part : content)
        if (auto reason = read_part(part, out, talk); !reason.empty()) return reason;
    out.text = without_picture_marks(out.text, talk.marked);
    if (out.role == "user") out.role = "human";
    if (out.role == "assistant") out.role = "gpt";
    return "";
  }
  return "has a turn without from and value";
}

}  // namespace

std::string without_picture_marks(const std::string& text, bool& marked) {
  static const std::string marks[] = {"<image>", "<video>"};
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t skipped = 0;
    for (const auto& mark : marks)
      if (text[at] == '<' && text.compare(at, mark.size(), mark) == 0) skipped = mark.size();
    marked = marked || skipped > 0;
    if (skipped == 0) out += text[at];
    at += skipped > 0 ? skipped : 1;
  }
  return trimmed(out);
}

std::string read_conversation(const json& list, Conversation& out) {
  if (!list.is_array()) return "is no list of turns";
  std::vector<Turn> turns;
  for (const auto& entry : list) {
    turns.emplace_back();
    if (auto reason = read_turn(entry, turns.back(), out); !reason.empty()) return reason;
  }
  std::string before;  // what a system turn says stands before the first question, so that no text is lost
  if (!turns.empty() && turns[0].role == "system") {
    if (!turns[0].text.empty()) before = turns[0].text + "\n";
    turns.erase(turns.begin());
  }
  for (size_t i = 0; i < turns.size(); ++i) {
    const char* expected = i % 2 == 0 ? "human" : "gpt";
    if (turns[i].role != expected)
      return cat("is not human, then gpt, but has '", printable(turns[i].role), "' as turn ", i + 1);
  }
  if (turns.empty() || turns.size() % 2 != 0)
    return cat("has ", turns.size(), " turns; the last question has no answer");
  for (size_t i = 0; i < turns.size(); i += 2) {
    out.exchanges.push_back({before + turns[i].text, turns[i + 1].text});
    before += turns[i].text + "\n" + turns[i + 1].text + "\n";
  }
  return "";
}

}  // namespace asr
