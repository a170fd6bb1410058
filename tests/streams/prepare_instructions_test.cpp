// Streams of instructions (CoIN, UCIT) and folders of a user's own.
#include <filesystem>
#include <set>

#include "base/atomic_file.h"
#include "io/video.h"
#include "streams/prepare/preparation.h"
#include "tests/streams/prepare_support.h"

namespace asr {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

json turn_rows(int count, const std::string& answer) {
  json list = json::array();
  for (int i = 0; i < count; ++i)
    list.push_back(
        {{"id", cat("r", i)},
         {"image", cat("./pictures/", i, ".jpg")},
         {"conversations", {{{"from", "human"}, {"value", "<image>\nWhat?"}}, {{"from", "gpt"}, {"value", answer}}}}});
  return list;
}

json test_rows(int count, const std::string& answer) {
  json list = json::array();
  for (int i = 0; i < count; ++i)
    list.push_back({{"question_id", i}, {"image", cat("pictures/", i, ".jpg")}, {"text", "What?"}, {"answer", answer}});
  return list;
}

TEST_F(Prepare, CoinInEightStages) {
  for (const char* task : {"ScienceQA", "TextVQA", "ImageNet", "GQA", "VizWiz", "Grounding", "VQAv2", "OCRVQA"}) {
    const auto root = cat("Instructions_Original/", task, "/");
    auto train = turn_rows(3, "B"), test = test_rows(2, "B");
    if (std::string(task) == "ScienceQA") {
      train[1].erase("image");
      train[1]["conversations"][0]["value"] = "What?";
    }
    if (std::string(task) == "Grounding") test[0]["answer_bbox"] = "[0.1, 0.2, 0.3, 0.4]";
    save(root + "train.json", train.dump());
    save(root + "test.json", test.dump());
  }
  json answers = json::array();
  for (int i = 0; i < 10; ++i) answers.push_back(cat("said ", i));
  save("Instructions_Original/TextVQA/TextVQA_0.5.1_val.json",
       json{{"data", {{{"question_id", 0}, {"answers", answers}}, {{"question_id", 1}, {"answers", answers}}}}}.dump());
  const auto index = prepare("coin");
  ASSERT_EQ(index["tasks"].size(), 8u);
  EXPECT_EQ(text(index, 7, "metric"), "exact_ocrvqa");
  EXPECT_EQ(text(index, 5, "metric"), "iou50");
  EXPECT_CONTAINS(read_text(folder_ / "out/06-Grounding/val.jsonl"), "\"references\":[\"[0.1, 0.2, 0.3, 0.4]\"]");
  EXPECT_CONTAINS(read_text(folder_ / "out/02-TextVQA/val.jsonl"), "\"said 9\"");
  EXPECT_CONTAINS(read_text(folder_ / "out/01-ScienceQA/train.jsonl"),
                  "{\"id\":\"r0\",\"image\":\"pictures/0.jpg\",\"question\":\"What?\",\"answer\":\"B\"}");
  const auto sample = open("coin")->sample(0, DataSplit::train, 1);  // no image: a black one
  EXPECT_EQ(sample.pixels, std::vector<uint8_t>(64 * 64 * 3, 0));
  EXPECT_FALSE(sample.has_picture);
  EXPECT_TRUE(index["tasks"][0]["text_only"].get<bool>());
  EXPECT_FALSE(index["tasks"][1].contains("text_only"));

  options_.native = true;
  options_.output = folder_ / "native";
  EXPECT_EQ(text(prepare("coin"), 2, "metric"), "contains_coin");
  options_.output = folder_ / "other";
  auto twice = turn_rows(3, "B");
  twice[2]["id"] = "r1";
  save("Instructions_Original/GQA/train.json", twice.dump());
  EXPECT_CONTAINS(refusal("coin"), "id 'r1': the id stands twice");
  options_.number_rows = true;
  options_.output = folder_ / "numbered";
  EXPECT_EQ(rows(prepare("coin"), 3, "train"), 3);
  EXPECT_CONTAINS(refusal("coin:diverse"), "other");
  options_.output = folder_ / "diverse";
  EXPECT_EQ(rows(prepare("coin:original"), 0, "val"), 2);
}

TEST_F(Prepare, UcitInSixStages) {
  for (const char* task : {"ImageNet-R", "ArxivQA", "VizWiz", "IconQA", "CLEVR", "Flickr30k"}) {
    const std::string name = task, root = "instructions/" + name + "/";
    const auto train = name == "ArxivQA" || name == "CLEVR" ? "train_4w.json"
                       : name == "Flickr30k"                ? "train_brief_4w.json"
                                                            : "train.json";
    save(root + train, turn_rows(3, "a cat").dump());
    save(root + "test_3000.json", test_rows(2, "a cat").dump());
    save(root + "val_coco_type_3000.json", json{{"images", {{{"id", 1}}, {{"id", 2}}}},
                                                {"annotations",
                                                 {{{"image_id", 1}, {"id", 1}, {"caption", "one"}},
                                                  {{"image_id", 2}, {"id", 2}, {"caption", "two"}},
                                                  {{"image_id", 2}, {"id", 3}, {"caption", "three"}}}}}
                                               .dump());
  }
  const auto index = prepare("ucit");
  EXPECT_EQ(index["tasks"].size(), 6u);
  EXPECT_EQ(prepared_table(index)[3].back(), "differs by 2998");
  const auto lines = read_text(folder_ / "out/06-Flickr30k/val.jsonl");
  EXPECT_CONTAINS(lines, "\"references\":[\"one\"]");
  EXPECT_CONTAINS(lines, "\"references\":[\"two\",\"three\"]");
}

TEST_F(Prepare, AUsersFolderAsItIs) {
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    save(cat("p", i, ".png"), picture(static_cast<uint8_t>(i)));
    lines += json{{"id", i}, {"image", cat("p", i, ".png")}, {"question", "how dark?"}, {"answer", i}}.dump() + "\r\n";
  }
  save("b second.jsonl", lines);
  save("a first.train.jsonl", lines);
  save("a first.val.jsonl", lines.substr(0, lines.find('\n') + 1));
  StreamOptions options;
  options.name = "manifest";
  options.path = folder_ / "in";
  const auto stream = make_stream(options);
  ASSERT_EQ(stream->tasks().size(), 2u);
  EXPECT_EQ(stream->tasks()[0].name, "a first");
  EXPECT_EQ(stream->size(0, DataSplit::train), 40);
  EXPECT_EQ(stream->size(0, DataSplit::val), 1);
  const int64_t val = stream->size(1, DataSplit::val);
  EXPECT_EQ(val + stream->size(1, DataSplit::train), 40);
  EXPECT_GT(val, 2);
  EXPECT_LT(val, 16);
  const auto sample = stream->sample(0, DataSplit::train, 7);
  EXPECT_EQ(sample.answer, "7");
  EXPECT_EQ(sample.references, std::vector<std::string>{"7"});
  EXPECT_EQ(sample.height, 4);
  EXPECT_EQ(sample.pixels, std::vector<uint8_t>(48, 7));

  options.train = 5;
  const auto cut = make_stream(options), again = make_stream(options);
  EXPECT_EQ(cut->size(0, DataSplit::train), 5);
  EXPECT_EQ(cut->sample(0, DataSplit::train, 2).id, again->sample(0, DataSplit::train, 2).id);
  EXPECT_NE(cut->fingerprint(), stream->fingerprint());

  options_.check_images = true;
  const auto index = prepare("manifest");
  EXPECT_EQ(rows(index, 1, "val"), val);
  EXPECT_EQ(open("manifest")->sample(1, DataSplit::val, 0).question, "how dark?");
}

TEST_F(Prepare, BadRowsOfAUser) {
  const auto run = [&](const std::string& text) {
    save("t.jsonl", text);
    StreamOptions options;
    options.name = "manifest";
    options.path = folder_ / "in";
    return error_of([&] { make_stream(options); });
  };
  save("p.png", picture(3));
  const std::string good = "{\"id\":1,\"image\":\"p.png\",\"question\":\"q\",\"answer\":\"a\"}\n";
  EXPECT_CONTAINS(run(good + "{\"id\":2,\n"), "t.jsonl:2: not valid JSON");
  EXPECT_CONTAINS(run(good + good), "t.jsonl:2: id '1': the id stands twice");
  EXPECT_CONTAINS(run(good + "{\"id\":2,\"image\":\"p.png\",\"question\":\"q\"}"), "t.jsonl:2: id '2': has no answer");
  EXPECT_CONTAINS(run("{\"id\":2,\"image\":\"no.png\",\"question\":\"q\",\"answer\":\"a\"}"), "there is no image");
  EXPECT_CONTAINS(run("{\"id\":2,\"image\":\"v.mp4\",\"question\":\"q\",\"answer\":\"a\"}"),
                  reads_videos() ? "there is no image" : "is a video, and this build reads no videos");
  EXPECT_CONTAINS(run("[1]\n"), "t.jsonl:1: the list holds something that is no object");
  save("t.jsonl", good + "{\"id\":2,\n" + good);
  options_.check_images = options_.skip_bad = true;
  EXPECT_CONTAINS(refusal("manifest"), "gives no rows for task t");  // one good row cannot be split
  EXPECT_CONTAINS(error_of([&] {
                    StreamOptions options;
                    options.name = "manifest";
                    make_stream(options);
                  }),
                  "stream.path is not set");
}

TEST_F(Prepare, AFolderOfFramesIsAPicture) {
  for (int i = 0; i < 8; ++i) save(cat("video/", i, ".png"), picture(static_cast<uint8_t>(10 * i), i == 3 ? 8 : 4));
  const std::string row = "\"image\":\"video\",\"question\":\"q\",\"answer\":\"a\"}\n";
  save("t.train.jsonl", "{\"id\":1," + row);
  save("t.val.jsonl", "{\"id\":2," + row);
  StreamOptions options;
  options.name = "manifest";
  options.path = folder_ / "in";
  const auto sample = make_stream(options)->sample(0, DataSplit::train, 0);
  EXPECT_EQ(sample.height, 8);
  EXPECT_EQ(sample.width, 8);
  EXPECT_EQ(sample.pixels[0], 10);              // the second of eight, in the first quarter
  EXPECT_EQ(sample.pixels[4 * 3], 30);          // shrunk to the size of the first
  EXPECT_EQ(sample.pixels[4 * 8 * 3], 50);      // below
  EXPECT_EQ(sample.pixels[8 * 8 * 3 - 1], 70);  // the last
}

// Counts of the released map of images, group by group (docs/streams.md).

}  // namespace
}  // namespace asr
