// Files of the known formats as other people write them: other keys and orders, other quoting, JSON lines for arrays,
// paths of Windows. Each is read, or refused in one line; nothing is left out in silence.
#include <cstdlib>

#include "tests/streams/prepare_support.h"

namespace asr {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const char* const kQuestions = "v2_OpenEnded_mscoco_train2014_questions.json";
const char* const kAnnotations = "v2_mscoco_train2014_annotations.json";

json answers_of(const std::vector<std::string>& texts) {
  json out = json::array();
  for (const auto& text : texts) out.push_back({{"answer", text}});
  return out;
}

class Variants : public Prepare {
 protected:
  Variants() { save_both(); }
  json rows_of(const char* name, const char* member) {
    return json::parse(read_text(folder_ / cat("in/", name)))[member];
  }
  // A stream of one task from these rows, in a file of this name.
  std::string manifest(const std::string& name, const std::string& text) {
    fs::remove_all(folder_ / "in");
    fs::remove_all(folder_ / "out");
    save(name, text);
    save("stream.json", json{{"tasks", {{{"name", "t"}, {"files", {{"train", name}, {"val", name}}}}}}}.dump());
    try {
      prepare("manifest");
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      return error.what();
    }
    return read_text(folder_ / "out/01-t/train.jsonl");
  }
};

TEST_F(Variants, VqaRowsAsLinesAndArraysWithOtherKeys) {
  auto questions = rows_of(kQuestions, "questions"), annotations = rows_of(kAnnotations, "annotations");
  std::string lines;
  for (auto& q : questions) {
    q["split"] = "train";
    q["image_id"] = std::to_string(q["image_id"].get<int64_t>());
    lines += q.dump() + "\r\n";
  }
  annotations[0]["answers"] = answers_of({"one", "Two", "Two"});
  for (auto& a : annotations) {
    a.erase("multiple_choice_answer");
    a.erase("answer_type");
    a["question_id"] = std::to_string(a["question_id"].get<int64_t>());
    a["extra"] = {{"deep", {1, 2}}};
  }
  save(kQuestions, lines);                  // JSON lines under the old name
  save(kAnnotations, annotations.dump(2));  // a list without its wrapping
  const auto index = prepare("vqav2-10");
  EXPECT_EQ(all_rows(index, "train"), 120);
  std::string all;
  for (const auto& task : index["tasks"])
    all += read_text(folder_ / "out/" + task["files"]["train"]["path"].get<std::string>());
  EXPECT_CONTAINS(all, "\"answer\":\"two\"");  // what most said
}

TEST_F(Variants, VqaFilesOfAnotherKindAreNamed) {
  save(kAnnotations, "{\"data\": [{\"question_id\": 1}]}");
  EXPECT_CONTAINS(refusal("vqav2-10"), "holds no 'annotations'; is it the official annotations file?");
  save(kQuestions, "{\"data\": []}");
  EXPECT_CONTAINS(refusal("vqav2-10"), "holds no 'questions'; is it the official questions file?");
  save(kQuestions, "{\"questions\": [{\"question_id\": 1, \"image_id\": 2.5, \"question\": \"q\"}]}");
  EXPECT_CONTAINS(refusal("vqav2-10"), "id '1': has no image_id that is a number");
  save(kQuestions, "{\"questions\": [{\"question_id\": NaN}]}");
  EXPECT_CONTAINS(refusal("vqav2-10"), "questions.json:1:32: not valid JSON");
}

json talk(const std::vector<std::pair<std::string, std::string>>& turns, const char* role, const char* text) {
  json out = json::array();
  for (const auto& [who, what] : turns) out.push_back({{role, who}, {text, what}});
  return out;
}

TEST_F(Variants, ConversationsOfOthers) {
  const auto row = [](json talked, json image) {
    json out = {{"id", "a"}, {"conversations", std::move(talked)}};
    if (!image.is_null()) out["image"] = std::move(image);
    return out.dump() + "\n";
  };
  const auto pair = talk({{"human", "<image>\nWhat?"}, {"gpt", "a cat"}}, "from", "value");
  EXPECT_CONTAINS(manifest("t.jsonl", row(pair, "x\\y.jpg")), "\"image\":\"x/y.jpg\",\"question\":\"What?\"");
  EXPECT_CONTAINS(manifest("t.jsonl", row(pair, json::array({"x.jpg"}))), "\"image\":\"x.jpg\"");
  EXPECT_CONTAINS(manifest("t.jsonl", row(pair, nullptr)), "id 'a': wants a picture but names none");
  EXPECT_CONTAINS(manifest("t.jsonl", row(pair, json::array({"x.jpg", "y.jpg"}))),
                  "t.jsonl:1:1: id 'a': 'image' names 2 pictures; a row has one");
  EXPECT_CONTAINS(manifest("t.jsonl", row(pair, json{{"bytes", "AAAA"}})), "'image' holds the picture itself");
  options_.text_only = true;
  const auto told = talk({{"system", "Be short."}, {"human", "What?"}, {"gpt", "a cat"}}, "from", "value");
  EXPECT_CONTAINS(manifest("t.jsonl", row(told, nullptr)), "\"question\":\"Be short.\\nWhat?\"");
  const auto roles = talk({{"user", "What?"}, {"assistant", "a cat"}}, "role", "content");
  EXPECT_CONTAINS(manifest("t.jsonl", json{{"id", 1}, {"messages", roles}}.dump()), "\"answer\":\"a cat\"");
  const auto four = talk({{"human", "a?"}, {"gpt", "b"}, {"human", "c?"}, {"gpt", "d"}}, "from", "value");
  EXPECT_CONTAINS(manifest("t.jsonl", row(four, nullptr)),
                  "{\"id\":\"a#2\",\"question\":\"a?\\nb\\nc?\",\"answer\":\"d\"}");
  const auto three = talk({{"human", "a?"}, {"gpt", "b"}, {"human", "c?"}}, "from", "value");
  EXPECT_CONTAINS(manifest("t.jsonl", row(three, nullptr)), "'conversations' has 3 turns; the last question has no");
  const auto turned = talk({{"gpt", "b"}, {"human", "a?"}}, "from", "value");
  EXPECT_CONTAINS(manifest("t.jsonl", row(turned, nullptr)), "is not human, then gpt, but has 'gpt' as turn 1");
  EXPECT_CONTAINS(manifest("t.jsonl", row(json::array({1, 2}), nullptr)), "has a turn without from and value");
  EXPECT_CONTAINS(manifest("t.jsonl", row("text", nullptr)), "'conversations' is no list of turns");

  options_.skip_bad = true;
  EXPECT_CONTAINS(manifest("t.jsonl", row(told, nullptr) + row(three, nullptr)), "\"answer\":\"a cat\"");
  EXPECT_CONTAINS(read_text(folder_ / "out/stream.json"), "\"'conversations' has\": 1");
  EXPECT_CONTAINS(read_text(folder_ / "out/skipped/01.jsonl"), "\"line\":2");
}

TEST_F(Variants, LinesAndDocumentsUnderEachOthersNames) {
  options_.text_only = true;
  const auto row = [](int id) { return json{{"id", id}, {"question", "q"}, {"answer", "a"}}.dump(); };
  const auto lines = manifest("t.json", row(1) + "\n" + row(2) + "\n");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
  const auto array = manifest("t.jsonl", "[\n " + row(1) + ",\n " + row(2) + "\n]\n");
  EXPECT_EQ(std::count(array.begin(), array.end(), '\n'), 2);
  const auto first = manifest("t.jsonl", "[" + row(1) + ",\n" + row(2) + "]");
  EXPECT_EQ(std::count(first.begin(), first.end(), '\n'), 2);
  EXPECT_CONTAINS(manifest("t.json", row(1) + "\n{\"id\": 2,\n"), "t.json:2:10: not valid JSON");
  const auto one = manifest("t.json", row(1));  // a single object is no list of rows
  EXPECT_CONTAINS(one, "t.json:1:");
  EXPECT_CONTAINS(manifest("t.jsonl", std::string(100000, '[') + std::string(100000, ']')), "nested deeper than 500");
  EXPECT_CONTAINS(manifest("t.json", "[" + std::string(100000, '[') + std::string(100000, ']') + "]"),
                  "nested deeper than 500");
}

TEST_F(Variants, NextqaTablesOfOthers) {
  const auto table = [&](const std::string& text) {
    fs::remove_all(folder_ / "in");
    fs::remove_all(folder_ / "out");
    for (const char* part : {"train", "val"}) save(cat(part, ".csv"), text);
    try {
      prepare("vqacl:nextqa");
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      return std::string(error.what());
    }
    return read_text(folder_ / "out/01-CW/train.jsonl");
  };
  std::string rows;
  for (const char* type : {"CW", "TN", "TC", "DL", "DB", "DC", "DO", "CH"})
    rows += cat("\"x\",\"he said \"\"no\"\",\nthen left\",\"", type, "\",\"1", type[0], type[1],
                "\",\"77\",\"why\",\"note, with comma\"\r\n");
  // Every field quoted, other columns, another order, one more of them.
  const auto quoted = table("\"id\",\"answer\",\"type\",\"qid\",\"video\",\"question\",\"remark\"\r\n" + rows);
  EXPECT_CONTAINS(quoted, "\"id\":\"77_1CW\",\"image\":\"77\",\"question\":\"why\"");
  EXPECT_CONTAINS(quoted, "he said \\\"no\\\",\\nthen left");
  EXPECT_CONTAINS(read_text(folder_ / "out/stream.json"), "tasks are trained without inner groups");
  EXPECT_TRUE(open("vqacl:nextqa")->phases(0).empty());
  EXPECT_CONTAINS(table("video;question;answer;qid;type\n1;q;a;1;CW\n"),
                  "train.csv: has no column 'video'; found (between commas): video;question;answer;qid;type");
  EXPECT_CONTAINS(table("video,question,answer,qid,type,a0,a1,a2,a3,a4\n1,q,2,1,CW,a,b,c,d,e\n"),
                  "is the multiple-choice form of NExT-QA");
  EXPECT_CONTAINS(table("video,question,answer,qid,type\n1,q,a,1,CW,more\n"), "has 6 fields, but the header has 5");
  EXPECT_CONTAINS(table("video,question,answer,qid,type\n1,q,\"a \\\" b\",1,CW\n"), "text after the closing quote");
  EXPECT_CONTAINS(table("video,question,answer,qid,type\n1,q,a,1,CW\n1,r,b,1,CW\n"),
                  "train.csv:3:1: id '1_1': the id stands twice");
  EXPECT_CONTAINS(table("video,question,answer,qid,type\n1,q,,1,CW\n"), "train.csv:2:1: id '1_1': has no answer");
  EXPECT_CONTAINS(table("video,question,answer,qid,type\n1,caf\xe9,a,1,CW\n"), "field 'question' is not UTF-8");
}

TEST_F(Variants, NextqaVideosInTheFoldersOfVidor) {
  std::string rows = "video,question,answer,qid,type\n";
  for (const char* type : {"CW", "TN", "TC", "DL", "DB", "DC", "DO", "CH"})
    rows += cat("77,q,a,", type, ",", type, "\n");
  save("train.csv", rows);
  save("val.csv", rows);
  save("map_vid_vidorID.json", "{\"77\": \"1164/77\"}");
  save("1164/77/1.png", picture(3));
  options_.check_images = true;
  prepare("vqacl:nextqa");
  EXPECT_CONTAINS(read_text(folder_ / "out/01-CW/train.jsonl"), "\"image\":\"1164/77\"");
  EXPECT_EQ(open("vqacl:nextqa")->sample(0, DataSplit::train, 0).pixels, std::vector<uint8_t>(48, 3));
}

TEST_F(Variants, PartitionRowsWithoutAnswersAreNamed) {
  save("ImgId_cate_map.json", "{\"COCO_val2014_1\": 58}");
  const auto refused = [&](const std::string& row) {
    for (const char* split : {"train", "test"})
      for (const char* task : {"recognition", "location", "judge", "commonsense", "count", "action", "color", "type",
                               "subcategory", "causal"})
        save(cat("Partition_Q/karpathy_", split, "_q_", task, ".json"), "[" + row + "]");
    return refusal("vqacl");
  };
  const std::string row = "{\"question_id\": 5, \"img_id\": \"COCO_val2014_1\", \"sent\": \"q\"";
  EXPECT_CONTAINS(refused(row + "}"), "id '5': has neither label nor answers");
  EXPECT_CONTAINS(refused(row + ", \"label\": [\"dog\"]}"), "id '5': 'label' is no object of answers and their scores");
  EXPECT_CONTAINS(refused(row + ", \"label\": {\"dog\": \"1\"}}"), "'label' has no number for 'dog'");
  EXPECT_CONTAINS(refused(row + ", \"answers\": 3}"), "'answers' is no list");
}

TEST_F(Variants, AFinishedFolderThatLostAFileIsNotComplete) {
  prepare("vqav2-10");
  EXPECT_TRUE(prepare("vqav2-10").contains("already_complete"));
  fs::remove(folder_ / "out/03-judge/val.jsonl");
  EXPECT_CONTAINS(refusal("vqav2-10"), "03-judge/val.jsonl: is missing, though");
}

TEST_F(Variants, OptionsAndFoldersThatCannotBeMeant) {
  options_.held_out = "G3";
  EXPECT_CONTAINS(refusal("vqav2-10"), "--held-out belongs to vqacl; vqav2-10 does not read it");
  options_.held_out.clear();
  options_.tune_images = 7;
  EXPECT_CONTAINS(refusal("coin"), "--tune-images belongs to vqav2-10");
  options_.output = folder_ / cat("in/", kQuestions);
  EXPECT_CONTAINS(refusal("vqav2-10"), "is a file; -o names a folder");
  options_.output = folder_ / "out";
  options_.check_images = true;
  EXPECT_CONTAINS(refusal("vqav2-10"), "; --images names their folder");
}

TEST_F(Variants, DamagedGzipIsNamedAndNothingIsLeftBehind) {
  ASSERT_EQ(std::system(cat("gzip '", folder_ / cat("in/", kAnnotations), "'").c_str()), 0);
  const auto bytes = read_text(folder_ / cat("in/", kAnnotations, ".gz"));
  write_text(folder_ / cat("in/", kAnnotations, ".gz"), bytes.substr(0, bytes.size() - 20));
  EXPECT_CONTAINS(refusal("vqav2-10"), "annotations.json.gz: the compressed file is damaged or cut off");
  EXPECT_FALSE(fs::exists(folder_ / "out/stream.json"));
  write_text(folder_ / cat("in/", kAnnotations, ".gz"), bytes);
  EXPECT_EQ(all_rows(prepare("vqav2-10"), "train"), 120);
}

}  // namespace
}  // namespace asr
