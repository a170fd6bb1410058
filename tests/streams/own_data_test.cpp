// A stranger's data as it comes: LLaVA's and ShareGPT's lists, many names for a picture, several turns, many tasks in
// one file. What has no picture is said, never trained on a black one.
#include <functional>

#include "streams/row_file.h"
#include "tests/streams/prepare_support.h"

namespace asr {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class OwnData : public Prepare {
 protected:
  OwnData() {
    for (int i = 0; i < 20; ++i) save(cat("p/", i, ".png"), picture(static_cast<uint8_t>(i)));
    options_.check_images = true;
  }
  static json llava(int i) {
    return {
        {"id", cat("r", i)},
        {"image", cat("p/", i, ".png")},
        {"conversations", {{{"from", "human"}, {"value", "<image>\nWhat?"}}, {{"from", "gpt"}, {"value", cat(i)}}}}};
  }
  static json list_of(json (*row)(int), int count = 20) {
    json out = json::array();
    for (int i = 0; i < count; ++i) out.push_back(row(i));
    return out;
  }
  std::unique_ptr<Stream> direct() const {
    StreamOptions options;
    options.name = "manifest";
    options.path = folder_ / "in";
    return make_stream(options);
  }
  static std::string complaint(const std::function<void()>& call) {  // or ""
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  // What a run and 'asr prepare' say to this one row.
  std::string refusal_of(const json& row) {
    fs::remove_all(folder_ / "out");
    save("t.train.json", json::array({row}).dump());
    save("t.val.json", json::array({row}).dump());
    const auto run = complaint([&] { direct(); }), prepared = complaint([&] { prepare("manifest"); });
    EXPECT_EQ(run.find('\n'), std::string::npos) << run;
    EXPECT_EQ(run.empty(), prepared.empty()) << run << " / " << prepared;
    if (run.empty()) return run;
    const auto said = run.substr(run.find(": ") + 2);
    EXPECT_CONTAINS(prepared, said.substr(0, said.find(';')));
    return run;
  }
};

TEST_F(OwnData, AListOfLlavaIsAStreamAsItIs) {
  save("colors.json", list_of(llava).dump(1));
  save("shapes.train.json", list_of(llava).dump());
  save("shapes.val.json", list_of(llava, 3).dump());
  const auto stream = direct();
  ASSERT_EQ(stream->tasks().size(), 2u);
  EXPECT_EQ(stream->tasks()[0].name, "colors");
  const int64_t val = stream->size(0, DataSplit::val);
  EXPECT_EQ(stream->size(0, DataSplit::train) + val, 20);
  EXPECT_EQ(stream->size(1, DataSplit::val), 3);
  const auto sample = stream->sample(1, DataSplit::train, 7);
  EXPECT_EQ(sample.id, "r7");
  EXPECT_EQ(sample.question, "What?");
  EXPECT_EQ(sample.pixels, std::vector<uint8_t>(48, 7));
  const auto index = prepare("manifest");
  EXPECT_EQ(rows(index, 0, "val"), val);
  EXPECT_EQ(open("manifest")->sample(1, DataSplit::train, 7).pixels, sample.pixels);
  save("shapes.train.jsonl", llava(1).dump());
  EXPECT_CONTAINS(error_of([&] { direct(); }), "task 'shapes' has two files for train");
}

json sharegpt(int i) {
  return {{"messages", {{{"role", "user"}, {"content", "<image>What?"}}, {{"role", "assistant"}, {"content", cat(i)}}}},
          {"images", {cat("p/", i, ".png")}}};
}

TEST_F(OwnData, ShareGptWithoutIds) {
  save("t.train.json", list_of(sharegpt).dump());
  save("t.val.json", list_of(sharegpt, 2).dump());
  const auto sample = direct()->sample(0, DataSplit::train, 4);
  EXPECT_EQ(sample.id, "t.train:5");
  EXPECT_EQ(sample.answer, "4");
  EXPECT_EQ(sample.pixels, std::vector<uint8_t>(48, 4));
  prepare("manifest");
  EXPECT_EQ(open("manifest")->sample(0, DataSplit::train, 4).id, sample.id);
}

TEST_F(OwnData, EveryAnswerOfAConversationIsASample) {
  json talk = json::array();
  for (int i = 0; i < 3; ++i) {
    talk.push_back({{"from", "human"}, {"value", cat(i == 0 ? "<image>\n" : "", "q", i)}});
    talk.push_back({{"from", "gpt"}, {"value", cat("a", i)}});
  }
  const json row = {{"id", 9}, {"image", "p/1.png"}, {"conversations", talk}};
  save("t.train.json", json::array({row}).dump());
  save("t.val.json", json::array({row}).dump());
  const auto stream = direct();
  ASSERT_EQ(stream->size(0, DataSplit::train), 3);
  const auto last = stream->sample(0, DataSplit::train, 2);
  EXPECT_EQ(last.id, "9#3");
  EXPECT_EQ(last.question, "q0\na0\nq1\na1\nq2");
  EXPECT_EQ(last.answer, "a2");
  EXPECT_TRUE(last.has_picture);
  EXPECT_EQ(rows(prepare("manifest"), 0, "train"), 3);
  EXPECT_EQ(open("manifest")->text(0, DataSplit::train, 2).question, last.question);
  const json parts = {
      {"messages",
       {{{"role", "user"},
         {"content", {{{"type", "image"}, {"image", "p/2.png"}}, {{"type", "text"}, {"text", "What?"}}}}},
        {{"role", "assistant"}, {"content", "two"}}}}};
  EXPECT_EQ(refusal_of(parts), "");
  EXPECT_EQ(direct()->sample(0, DataSplit::train, 0).pixels, std::vector<uint8_t>(48, 2));
}

TEST_F(OwnData, APictureUnderItsUsualNames) {
  for (const char* name : {"image", "images", "image_path", "image_name", "image_file", "img", "picture"}) {
    EXPECT_EQ(refusal_of({{"id", 1}, {name, "p/3.png"}, {"question", "q"}, {"answer", "a"}}), "") << name;
    EXPECT_EQ(direct()->sample(0, DataSplit::train, 0).pixels, std::vector<uint8_t>(48, 3)) << name;
  }
}

TEST_F(OwnData, ARowWithoutItsPictureIsRefused) {
  const json plain = {{"id", 1}, {"question", "q"}, {"answer", "a"}};
  const auto with = [&](const char* name, const json& value) {
    auto row = plain;
    row[name] = value;
    return row;
  };
  EXPECT_CONTAINS(refusal_of(plain),
                  "t.train.json:1: id '1': names no picture; has 'answer', 'id', 'question'; name it");
  EXPECT_CONTAINS(refusal_of(with("photo_file", "p/3.png")),
                  "wants a picture but names none; has 'answer', 'id', 'photo");
  EXPECT_CONTAINS(refusal_of(with("image_id", 12)), "names no picture; has 'answer', 'id', 'image_id'");
  EXPECT_CONTAINS(refusal_of(with("question", "<image>\nq")), "wants a picture but names none");
  EXPECT_CONTAINS(refusal_of(with("images", json::array())), "names no picture");
  EXPECT_CONTAINS(refusal_of(with("image", nullptr)), "names no picture");
  EXPECT_CONTAINS(refusal_of(with("image", "http://x.org/a.png")), "'image' is a web address; nothing is downloaded");
  EXPECT_CONTAINS(refusal_of(with("image", "data:image/png;base64,AAAA")), "'image' holds the picture itself");
  EXPECT_CONTAINS(refusal_of(with("images", {"p/1.png", "p/2.png"})), "'images' names 2 pictures; a row has one");
  // Declared, rows of text alone pass; those that speak of a picture do not.
  options_.text_only = true;
  save("stream.json", "{\"text_only\": true}");
  EXPECT_EQ(refusal_of(plain), "");
  EXPECT_FALSE(direct()->text(0, DataSplit::train, 0).has_picture);
  EXPECT_FALSE(open("manifest")->text(0, DataSplit::train, 0).has_picture);
  EXPECT_EQ(refusal_of(with("image", nullptr)), "");
  EXPECT_CONTAINS(refusal_of(with("question", "<image>\nq")), "wants a picture but names none");
  EXPECT_CONTAINS(refusal_of(with("photo_file", "p/3.png")), "wants a picture but names none");
}

// A folder prepared before rows of text alone had to be declared.
TEST_F(OwnData, AnOldFolderWithRowsOfTextAlone) {
  options_.text_only = true;
  save("t.train.json", "[{\"id\":1,\"question\":\"say \\\"image\\\":\\\"x\\\"\",\"answer\":\"a\"}]");
  save("t.val.json", list_of(llava, 2).dump());
  prepare("manifest");
  auto index = json::parse(read_text(folder_ / "out/stream.json"));
  index["tasks"][0].erase("text_only");
  write_text(folder_ / "out/stream.json", index.dump());
  EXPECT_CONTAINS(error_of([&] { open("manifest"); }), "train.jsonl:1: names no picture, and stream.json declares no");
}

TEST_F(OwnData, TasksByAField) {
  json list = json::array();
  for (int i = 0; i < 20; ++i) {
    list.push_back(llava(i));
    list.back()["topic"] = i % 2 ? json("old") : json(7);
  }
  save("all.json", list.dump());
  options_.source = folder_ / "in/all.json";
  options_.task_field = "topic";
  const auto index = prepare("manifest");
  ASSERT_EQ(index["tasks"].size(), 2u);
  EXPECT_EQ(text(index, 0, "name"), "7");  // as they come
  EXPECT_EQ(text(index, 1, "name"), "old");
  EXPECT_EQ(all_rows(index, "train") + all_rows(index, "val"), 20);
  EXPECT_EQ(open("manifest")->sample(1, DataSplit::train, 0).height, 4);
  EXPECT_TRUE(prepare("manifest").contains("already_complete"));
  options_.output = folder_ / "other";
  options_.task_field = "tpic";
  EXPECT_CONTAINS(refusal("manifest"), "all.json: no row has a member 'tpic' (--task-field); did you mean 'topic'?");
  options_.task_field = "topic";
  list[3].erase("topic");
  list[4]["topic"] = "a/b";
  save("all.json", list.dump());
  EXPECT_CONTAINS(refusal("manifest"), "id 'r3': has no text 'topic', which names its task");
  list[5]["topic"] = "line\nbreak";
  list[6]["topic"] = std::string(121, 'x');
  save("all.json", list.dump());
  options_.skip_bad = true;
  const auto skipped = prepare("manifest")["skipped"];
  EXPECT_EQ(skipped["has no text"], 1);
  EXPECT_EQ(skipped["its task"], 3);
  options_.stream = "coin";
  EXPECT_CONTAINS(refusal("coin"), "--task-field belongs to manifest");
}

TEST_F(OwnData, AFileOrItsPicturesElsewhere) {
  fs::create_directories(folder_ / "elsewhere");
  fs::rename(folder_ / "in/p", folder_ / "elsewhere/p");
  save("all.json", list_of(llava).dump());
  options_.source = folder_ / "in/all.json";
  EXPECT_CONTAINS(refusal("manifest"), "there is no image '");
  options_.images = folder_ / "elsewhere";
  EXPECT_EQ(text(prepare("manifest"), 0, "name"), "all");
  save("stream.json", "{\"images\": \"../elsewhere\", \"metric\": \"vqa\"}");
  EXPECT_EQ(direct()->tasks()[0].metric, "vqa");
}

TEST_F(OwnData, OtherFilesAreNamedWithWhatReadsThem) {
  save("a.parquet", "PAR1");
  EXPECT_CONTAINS(refusal("manifest"), "in/a.parquet: parquet is not read; convert it: python3 -c \"import pandas; ");
  options_.source = folder_ / "in/a.parquet";
  EXPECT_CONTAINS(refusal("manifest"), ".to_json('");
  options_.source = folder_ / "in";
  fs::remove(folder_ / "in/a.parquet");
  EXPECT_CONTAINS(refusal("manifest"), "holds no stream.json and no *.jsonl or *.json files of rows");
  save("t.json", "{\"data\": [\n{}\n]}");
  EXPECT_CONTAINS(error_of([&] { direct(); }), "t.json:1: not valid JSON");
  EXPECT_CONTAINS(error_of([&] { direct(); }), "; a .json file is a list of rows");
  save("t.json", "[" + llava(1).dump() + ",\n" + llava(2).dump());
  EXPECT_CONTAINS(error_of([&] { direct(); }), "is the file cut off?");
  save("t.json", "[" + llava(1).dump() + ",\n[1]]");
  EXPECT_CONTAINS(error_of([&] { direct(); }), "t.json:2: the list holds something that is no object");
  save("t.json", "[" + llava(1).dump() + "] x");
  EXPECT_CONTAINS(error_of([&] { direct(); }), "something stands after the list");
  save("t.json", "[" + llava(1).dump() + ",\n{\"id\": 1,}]");
  EXPECT_CONTAINS(error_of([&] { direct(); }), "t.json:2: not valid JSON");
}

// By the plain rule none of these twenty pictures would be for validation.
TEST_F(OwnData, ASmallFileHasRowsForValidation) {
  save("t.json", list_of(llava).dump());
  EXPECT_EQ(direct()->size(0, DataSplit::val), 1);
  const auto id = direct()->text(0, DataSplit::val, 0).id;
  EXPECT_EQ(rows(prepare("manifest"), 0, "val"), 1);
  EXPECT_EQ(open("manifest")->text(0, DataSplit::val, 0).id, id);
}

TEST_F(OwnData, TheAdviceFitsAnEmptySplit) {
  save("t.json", json::array({llava(1), llava(1)}).dump());
  options_.number_rows = true;
  const auto said = refusal("manifest");
  EXPECT_CONTAINS(said, "gives no rows for task t, split ");
  EXPECT_EQ(said.find("are all source files there"), std::string::npos) << said;
}

TEST_F(OwnData, PicturesAreOpenedBeforeTraining) {
  const json row = {{"id", 1}, {"image", "bad.png"}, {"question", "q"}, {"answer", "a"}};
  save("bad.png", "GIF89a and more");
  EXPECT_CONTAINS(refusal_of(row), "cannot read the picture '");
  EXPECT_CONTAINS(refusal_of(row), "': a GIF; convert it to JPEG or PNG");
  save("bad.png", "");
  EXPECT_CONTAINS(refusal_of(row), "the file is empty");
  save("bad.png", picture(1).substr(0, 20));
  EXPECT_CONTAINS(refusal_of(row), "damaged PNG: no header");
  auto huge = picture(1);
  huge[16] = '\x7f';  // the width
  save("bad.png", huge);
  EXPECT_CONTAINS(refusal_of(row), "is too large");
  save("frames/1.png", "no picture");
  EXPECT_CONTAINS(refusal_of({{"id", 1}, {"image", "frames"}, {"question", "q"}, {"answer", "a"}}), "frames/1.png");
  fs::remove_all(folder_ / "out");
  save("t.train.json", json::array({row}).dump());
  save("t.val.json", json::array({row}).dump());
  options_.trust_pictures = true;
  EXPECT_EQ(rows(prepare("manifest"), 0, "train"), 1);
  fs::remove_all(folder_ / "out");
  fs::remove(folder_ / "in/bad.png");
  EXPECT_CONTAINS(refusal("manifest"), "there is no image");
}

TEST_F(OwnData, LongTextsAreNamedWithTheirRow) {
  const auto row = [](const std::string& question, const std::string& answer) {
    return json{{"id", 1}, {"image", "p/1.png"}, {"question", question}, {"answer", answer}};
  };
  EXPECT_CONTAINS(refusal_of(row(std::string(100000, 'q'), "a")),
                  "t.train.json:1: id '1': the question has 100000 characters; at most 10000");
  EXPECT_CONTAINS(refusal_of(row("q", std::string(10001, 'a'))), "the answer has 10001 characters");
  std::string letters;
  for (int i = 0; i < 10000; ++i) letters += "é";
  EXPECT_EQ(refusal_of(row(letters, "a")), "");
  auto many = row("q", "a");
  many["references"] = std::vector<std::string>(1001, "a");
  EXPECT_CONTAINS(refusal_of(many), "'references' has 1001 entries; at most 1000");
}

}  // namespace
}  // namespace asr
