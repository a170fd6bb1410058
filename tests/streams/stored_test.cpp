// stream.json and progress.json with every member removed or changed: the next call succeeds or ends with one line.
#include <sys/stat.h>

#include <functional>
#include <set>

#include "tests/streams/prepare_support.h"

namespace asr {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class Stored : public Prepare {
 protected:
  Stored() {
    for (const char* split : {"train", "val"})
      for (const char* task : {"a", "b"}) {
        std::string lines;
        for (int i = 0; i < 3; ++i)
          lines +=
              json{{"id", i}, {"image", "p.png"}, {"question", "q"}, {"answer", "x"}, {"group", "g"}}.dump() + "\n";
        save(cat(task, ".", split, ".jsonl"), lines + "{\"id\": 9}\n");
      }
    save("stream.json",
         R"({"tasks": [{"name": "a", "groups": ["g"], "files": {"train": "a.train.jsonl", "val": "a.val.jsonl"}},
                                      {"name": "b", "files": {"train": "b.train.jsonl", "val": "b.val.jsonl"}}]})");
    options_.skip_bad = true;
  }

  // Success, or an Error of status 2 and one line.
  static void expect_sound(const std::function<void()>& call, const std::string& what) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.status, 2) << what << ": " << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << what << ": " << error.what();
      EXPECT_LT(std::string(error.what()).size(), 1000u) << what;
    }  // anything else, an exception of the JSON library too, fails the test
  }

  // Every member, at any depth, removed and replaced in many ways.
  static void for_every_edit(const json& whole, const std::function<void(const json&, const std::string&)>& use) {
    const auto flat = whole.flatten();
    std::set<std::string> places;
    for (const auto& [leaf, value] : flat.items())
      for (json::json_pointer at(leaf); !at.empty(); at.pop_back()) places.insert(at.to_string());
    json deep = 1;
    for (int i = 0; i < 600; ++i) deep = json::array({std::move(deep)});
    const std::vector<json> others = {nullptr,
                                      true,
                                      -1,
                                      -9223372036854775807,
                                      18446744073709551615u,
                                      1e300,
                                      2.5,
                                      "",
                                      "text",
                                      "line\nbreak\x01",
                                      json::array(),
                                      json::array({1}),
                                      json::object(),
                                      {{"a", {{"b", 1}}}},
                                      deep,
                                      std::string(5000, 'x')};
    for (const auto& place : places) {
      const json::json_pointer at(place);
      auto without = whole;
      without.at(at.parent_pointer()).is_object() ? static_cast<void>(without.at(at.parent_pointer()).erase(at.back()))
                                                  : without.at(at.parent_pointer()).erase(std::stoul(at.back()));
      use(without, place + " removed");
      if (place.rfind("/options/", 0) == 0) continue;  // options are compared as a whole
      for (const auto& other : others) {
        auto changed = whole;
        changed.at(at) = other;
        use(changed, cat(place, " = ", other.dump().substr(0, 40)));
      }
    }
  }
};

TEST_F(Stored, EveryEditOfStreamJson) {
  const auto whole = prepare("manifest");
  size_t edits = 0;
  for_every_edit(whole, [&](const json& edited, const std::string& what) {
    write_text(folder_ / "out/stream.json", edited.dump());
    expect_sound([&] { prepared_table(prepare("manifest")); }, "prepare, " + what);
    expect_sound([&] { open("manifest")->sample(0, DataSplit::train, 0); }, "run, " + what);
    ++edits;
  });
  EXPECT_GT(edits, 500u);
}

TEST_F(Stored, EveryEditOfProgressJson) {
  // The second task is broken, so that a preparation stops behind the first.
  options_.skip_bad = false;
  for (const char* split : {"train", "val"}) {
    const auto name = cat("a.", split, ".jsonl");
    const auto text = read_text(folder_ / ("in/" + name));
    save(name, text.substr(0, text.rfind("{\"id\": 9}")));
  }
  EXPECT_CONTAINS(refusal("manifest"), "b.train.jsonl:4:1: id '9'");
  const auto progress = folder_ / "out/progress.json";
  const auto whole = json::parse(read_text(progress));
  ASSERT_EQ(whole["units"].size(), 1u);
  size_t edits = 0;
  for_every_edit(whole, [&](const json& edited, const std::string& what) {
    write_text(progress, edited.dump());
    expect_sound([&] { prepare("manifest"); }, what);
    ++edits;
  });
  EXPECT_GT(edits, 200u);
  auto odd = whole;
  odd["units"]["a"]["files"]["7/train"] = odd["units"]["a"]["files"]["0/train"];
  write_text(progress, odd.dump());
  EXPECT_CONTAINS(refusal("manifest"),
                  "progress.json: unit 'a': files: '7' is no number of a task below 2; it is damaged");
  odd = whole;
  odd["units"]["a"]["groups"]["99999999999999999999"] = json::array({"g"});
  write_text(progress, odd.dump());
  EXPECT_CONTAINS(refusal("manifest"), "is no number of a task");
  write_text(progress, "{\"options\":");
  const auto cut = refusal("manifest");
  EXPECT_CONTAINS(cut, "progress.json:");
  EXPECT_CONTAINS(cut, "; it is damaged: remove ");
}

TEST_F(Stored, PipesAndFoldersInPlaceOfFiles) {
  options_.skip_bad = false;
  const auto expect = [&](const std::string& name, const std::string& part) {
    fs::remove_all(folder_ / "in");
    fs::create_directories(folder_ / "in");
    ASSERT_EQ(mkfifo((folder_ / ("in/" + name)).c_str(), 0600), 0);
    EXPECT_CONTAINS(refusal("manifest"), part);
    StreamOptions options;
    options.name = "manifest";
    options.path = folder_ / "in";
    EXPECT_CONTAINS(error_of([&] { make_stream(options); }), part);
  };
  expect("t.jsonl", "t.jsonl: is not a regular file");
  expect("t.json", "t.json: is not a regular file");
  expect("stream.json", "stream.json: is not a regular file");
  fs::remove_all(folder_ / "in");
  fs::create_directories(folder_ / "in/t.jsonl");
  EXPECT_CONTAINS(refusal("manifest"), "t.jsonl: is a folder, not a file");
  fs::remove_all(folder_ / "in");
  fs::create_directories(folder_ / "in");
  fs::create_symlink("/dev/zero", folder_ / "in/t.jsonl");
  EXPECT_CONTAINS(refusal("manifest"), "t.jsonl: is not a regular file");
  fs::remove(folder_ / "in/t.jsonl");
  save("t.jsonl", "{\"id\":1,\"image\":\"pipe.png\",\"question\":\"q\",\"answer\":\"a\"}\n");
  ASSERT_EQ(mkfifo((folder_ / "in/pipe.png").c_str(), 0600), 0);
  options_.check_images = true;
  EXPECT_CONTAINS(refusal("manifest"), "there is no image");
}

}  // namespace
}  // namespace asr
