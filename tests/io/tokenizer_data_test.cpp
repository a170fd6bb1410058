// Real vocabularies against published ids, and real questions there and back.
#include <sstream>

#include "io/json_records.h"
#include "io/tokenizer.h"
#include "tests/support/files.h"
#include "tests/support/gzip.h"
#include "tests/support/tokenizer_files.h"

namespace asr {
namespace {

using Ids = std::vector<int64_t>;

std::string data_folder() {
  return shared_data() + "/data";
}

#define SKIP_WITHOUT(path) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no reference data at " << (path) << "; set ASR_TEST_DATA"

std::unique_ptr<Tokenizer> unpacked(const std::string& name) {
  const auto path = data_folder() + "/tokenizers/" + name + "/tokenizer.json.gz";
  return tokenizer_from_json(gunzipped(path), path);
}

struct Vector {
  std::string text;
  Ids ids;
};

// Texts between marks in one file, a line of ids each in the other.
std::vector<Vector> llama_vectors() {
  const auto folder = data_folder() + "/tokenizers/llama2/";
  const std::string texts = read_text(folder + "vectors.inp"), mark = "\n__ggml_vocab_test__\n";
  std::istringstream lines(read_text(folder + "vectors.out"));
  std::vector<Vector> out;
  size_t begin = 0;
  for (std::string line; std::getline(lines, line);) {
    const size_t end = texts.find(mark, begin);
    Vector vector{texts.substr(begin, end - begin), {}};
    std::istringstream ids(line);
    for (int64_t id; ids >> id;) vector.ids.push_back(id);
    out.push_back(vector);
    begin = end + mark.size();
  }
  out.push_back({texts.substr(begin), {}});  // after the last mark: the empty text, which has no line
  return out;
}

// Some of the questions of VQA v2 and NExT-QA, as their files have them.
std::vector<std::string> questions() {
  std::vector<std::string> out;
  const auto text = gunzipped(data_folder() + "/vqav2_subset/vqa_questions_train.json.gz");
  size_t count = 0;
  read_json_records({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, "questions", [&](const auto& record) {
    if (count++ % 8 == 0) out.push_back(record.value.at("question").template get<std::string>());
  });
  std::istringstream lines(gunzipped(data_folder() + "/nextqa_oe/val.csv.gz"));
  for (std::string line; std::getline(lines, line);) out.push_back(line);
  return out;
}

// Decoded, the text is back; the places are in order and leave nothing out.
void expect_round_trip(const Tokenizer& t, const std::string& text) {
  const auto tokens = t.encode(text);
  ASSERT_EQ(t.decode(ids_of(tokens)), text);
  size_t at = 0;
  for (const auto& token : tokens) {
    ASSERT_EQ(token.begin, at) << text;
    at = token.end;
  }
  ASSERT_EQ(at, text.size()) << text;
}

TEST(TokenizerData, LlamaVectors) {
  const auto folder = data_folder() + "/tokenizers/llama2";
  SKIP_WITHOUT(folder);
  const auto model = load_tokenizer(folder);  // tokenizer.model: the JSON file is packed
  const auto from_json = unpacked("llama2");
  const auto vectors = llama_vectors();
  ASSERT_EQ(vectors.size(), 47u);
  for (const auto& vector : vectors) {
    EXPECT_EQ(ids_of(model->encode(vector.text)), vector.ids) << vector.text;
    EXPECT_EQ(ids_of(from_json->encode(vector.text)), vector.ids) << vector.text;
    expect_round_trip(*model, vector.text);
    expect_round_trip(*from_json, vector.text);
  }
  EXPECT_EQ(model->size(), 32000);
  EXPECT_EQ(model->id_of("</s>"), 2);
}

TEST(TokenizerData, QwenVectors) {
  SKIP_WITHOUT(data_folder() + "/tokenizers/qwen2_5");
  const auto t = unpacked("qwen2_5");
  // Ids as llama.cpp publishes them for this vocabulary.
  const std::vector<Vector> vectors = {
      {"ied 4 \xc2\xbd months", {1122, 220, 19, 220, 26062, 3951}},
      {"\n\n\n", {1406}},
      {"\t\n", {1572}},
      {" this is \xf0\x9f\xa6\x99.cpp", {419, 374, 11162, 99, 247, 13, 10821}},
      {"w048 7tuijk dsdfhu", {86, 15, 19, 23, 220, 22, 83, 1963, 41808, 11472, 2940, 16739}},
      {"    Hello\n    Hello", {262, 21927, 198, 262, 21927}},
      {"\n =", {198, 284}},
      {"' era", {6, 11385}},
      {"Hello, y'all! How are you", {9707, 11, 379, 64848, 0, 2585, 525, 498}},
      {"333", {18, 18, 18}},
  };
  for (const auto& vector : vectors) EXPECT_EQ(ids_of(t->encode(vector.text)), vector.ids) << vector.text;
  for (const auto& vector : llama_vectors()) expect_round_trip(*t, vector.text);
  const auto chat = t->encode("<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Hello<|im_end|>");
  EXPECT_EQ(ids_of(chat), Ids({151644, 872, 198, 151652, 151655, 151653, 9707, 151645}));
  EXPECT_TRUE(t->is_special(t->id_of("<|im_end|>")));
}

TEST(TokenizerData, QuestionsComeBack) {
  SKIP_WITHOUT(data_folder() + "/vqav2_subset");
  SKIP_WITHOUT(data_folder() + "/tokenizers/llama2");
  const auto model = load_tokenizer(data_folder() + "/tokenizers/llama2");
  const auto from_json = unpacked("llama2"), qwen = unpacked("qwen2_5");
  const auto texts = questions();
  ASSERT_GT(texts.size(), 10000u);
  for (size_t i = 0; i < texts.size(); i += kSanitized ? 25 : 1) {
    const auto& text = texts[i];
    ASSERT_EQ(ids_of(model->encode(text)), ids_of(from_json->encode(text))) << text;
    expect_round_trip(*model, text);
    expect_round_trip(*qwen, text);
  }
}

// Qwen2.5's vocabulary as vocab.json and merges.txt, the form that InternVL3's folders have.
TEST(TokenizerData, VocabularyFilesGiveTheSameIds) {
  const auto folder = data_folder() + "/tokenizers/qwen2_5";
  SKIP_WITHOUT(folder);
  SKIP_WITHOUT(data_folder() + "/vqav2_subset");
  const auto file = nlohmann::json::parse(gunzipped(folder + "/tokenizer.json.gz"));
  TemporaryFolder place;
  std::string merges = "#version: 0.2\n";
  for (const auto& merge : file["model"]["merges"])
    merges += (merge.is_string() ? merge.get<std::string>()
                                 : merge[0].get<std::string>() + " " + merge[1].get<std::string>()) +
              "\n";
  write_text(place / "vocab.json", file["model"]["vocab"].dump());
  write_text(place / "merges.txt", merges);
  write_text(place / "tokenizer_config.json", read_text(folder + "/tokenizer_config.json"));
  const auto pair = load_tokenizer(place / "."), from_json = unpacked("qwen2_5");
  EXPECT_EQ(pair->size(), from_json->size());
  auto texts = questions();
  for (const auto& vector : llama_vectors()) texts.push_back(vector.text);
  texts.push_back("<|im_start|>system\n\xe4\xbd\xa0\xe6\x98\xaf<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>");
  ASSERT_GT(texts.size(), 1000u);
  for (size_t i = 0; i < texts.size(); i += kSanitized ? 25 : 1) {
    const auto expected = from_json->encode(texts[i]), found = pair->encode(texts[i]);
    ASSERT_EQ(ids_of(expected), ids_of(found)) << texts[i];
    ASSERT_EQ(pair->decode(ids_of(found)), from_json->decode(ids_of(expected))) << texts[i];
  }
}

}  // namespace
}  // namespace asr
