// A folder of source files, what 'asr prepare' makes of it, and what it says about it.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "io/png.h"
#include "streams/manifest.h"
#include "streams/prepare/preparation.h"
#include "tests/support/files.h"

namespace asr {

inline std::string picture(uint8_t value, int side = 4) {
  return encode_png(std::vector<uint8_t>(static_cast<size_t>(side * side * 3), value).data(), side, side);
}

class Prepare : public testing::Test {
 protected:
  Prepare() {
    std::filesystem::create_directories(folder_ / "in");
    options_.source = folder_ / "in";
    options_.output = folder_ / "out";
    options_.check_images = false;
  }
  void save(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_ / ("in/" + name)).parent_path());
    write_text(folder_ / ("in/" + name), text);
  }
  nlohmann::json prepare(const std::string& name) {
    const auto colon = name.find(':');
    options_.stream = name.substr(0, colon);
    options_.variant = colon == std::string::npos ? "" : name.substr(colon + 1);
    return prepare_stream(options_);
  }
  std::string refusal(const std::string& name) {
    return error_of([&] { prepare(name); });
  }
  std::unique_ptr<Stream> open(const std::string& name) const {
    StreamOptions options;
    options.name = name;
    options.path = options_.output;
    return make_stream(options);
  }
  static int64_t rows(const nlohmann::json& index, size_t task, const char* split) {
    const auto& files = index["tasks"][task]["files"];
    return files.contains(split) ? files[split]["rows"].get<int64_t>() : 0;
  }
  static std::string text(const nlohmann::json& index, size_t task, const char* member) {
    return index["tasks"][task][member].get<std::string>();
  }
  static int64_t all_rows(const nlohmann::json& index, const char* split) {
    int64_t sum = 0;
    for (size_t i = 0; i < index["tasks"].size(); ++i) sum += rows(index, i, split);
    return sum;
  }

  // A pair of official files; `each` questions a type.
  void save_vqa(const std::string& split, const std::vector<std::string>& types, int each, int first_image = 1) {
    nlohmann::json questions = nlohmann::json::array(), annotations = nlohmann::json::array();
    int64_t n = 0;
    for (const auto& type : types)
      for (int i = 0; i < each; ++i) {
        const int64_t image = first_image + n % 40, id = image * 1000 + n;
        questions.push_back({{"image_id", image}, {"question", type + " here?"}, {"question_id", id}});
        nlohmann::json answers = nlohmann::json::array();
        for (int k = 0; k < 10; ++k)
          answers.push_back({{"answer", k < 6 ? "Yes" : "maybe"}, {"answer_confidence", "yes"}, {"answer_id", k + 1}});
        annotations.push_back({{"question_id", id},
                               {"image_id", image},
                               {"question_type", type},
                               {"answer_type", "other"},
                               {"multiple_choice_answer", "Yes"},
                               {"answers", answers}});
        ++n;
      }
    std::reverse(annotations.begin(), annotations.end());
    save("v2_OpenEnded_mscoco_" + split + "2014_questions.json",
         nlohmann::json{{"info", {{"year", 2017}}}, {"questions", questions}}.dump());
    save("v2_mscoco_" + split + "2014_annotations.json",
         nlohmann::json{{"annotations", annotations}, {"info", {}}}.dump());
  }
  void save_both() {
    const std::vector<std::string> types = {"what is the", "where is the", "is the",       "does the",  "how many",
                                            "is the man",  "what color",   "what kind of", "what time", "why"};
    save_vqa("train", types, 12);
    save_vqa("val", types, 8);
  }

  TemporaryFolder folder_;
  PrepareOptions options_;
};

}  // namespace asr
