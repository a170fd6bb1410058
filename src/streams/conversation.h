// Conversations in the forms that instruction data come in: `conversations` of LLaVA and ShareGPT (from, value) and
// `messages` (role, content), whose content is a text or a list of parts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace asr {

// One answer and what stands before it: what the system says and all turns so far, a line each, the question last.
struct Exchange {
  std::string question, answer;
};

struct Conversation {
  std::vector<Exchange> exchanges;
  std::vector<std::string> pictures;  // named by parts of the content
  bool marked = false;                // says <image>, or has a part that stands for a picture
};

// "" or why the list is no conversation.
std::string read_conversation(const nlohmann::json& list, Conversation& out);

// The text without <image> and <video>; `marked` becomes true where it had one.
std::string without_picture_marks(const std::string& text, bool& marked);

}  // namespace asr
