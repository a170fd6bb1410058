// Analysis files: moments of tasks pool to those of all samples together, and only tasks of both files are compared.
#include "io/analysis_file.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"
#include "tests/support/files.h"
#include "tests/support/tensor_list.h"

namespace asr {
namespace {

using Rows = std::vector<std::vector<double>>;

Rows random_rows(uint64_t key, size_t count, double shift) {
  Rows out;
  Random random({key, 77});
  for (size_t i = 0; i < count; ++i) {
    out.emplace_back();
    for (int d = 0; d < 4; ++d) out.back().push_back(shift * d + random.uniform());
  }
  return out;
}

// The definition, on samples: mean spectra are stood in for by the descriptors themselves.
SpectraMoments moments_of(const Rows& rows) {
  SpectraMoments out;
  const auto n = static_cast<double>(rows.size());
  out.count = static_cast<int64_t>(rows.size());
  out.mean.assign(4, 0);
  out.variance.assign(4, 0);
  for (const auto& row : rows)
    for (size_t d = 0; d < 4; ++d) out.mean[d] += row[d] / n;
  for (const auto& row : rows)
    for (size_t d = 0; d < 4; ++d)
      if (rows.size() > 1) out.variance[d] += (row[d] - out.mean[d]) * (row[d] - out.mean[d]) / (n - 1);
  out.radial = out.angular = out.embedding = out.mean;
  out.entropy = out.mean[0];
  out.accuracy = out.mean[1];
  out.scored = out.count;
  return out;
}

Rows joined(Rows a, const Rows& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12) << what;
}

TEST(AnalysisFile, PooledMomentsAreThoseOfAllSamplesTogether) {
  const auto x = random_rows(1, 15, 0), y = random_rows(2, 31, 3), z = random_rows(3, 1, -2);
  const auto a = moments_of(x), b = moments_of(y), c = moments_of(z);
  const auto whole = moments_of(joined(joined(x, y), z)), pooled = pool_moments({&a, &b, &c});
  EXPECT_EQ(pooled.count, 47);
  EXPECT_EQ(pooled.scored, 47);
  expect_near(pooled.mean, whole.mean, "mean");
  expect_near(pooled.variance, whole.variance, "variance");
  expect_near(pooled.radial, whole.radial, "radial");
  expect_near(pooled.angular, whole.angular, "angular");
  expect_near(pooled.embedding, whole.embedding, "embedding");
  EXPECT_NEAR(pooled.entropy, whole.entropy, 1e-12);
  EXPECT_NEAR(pooled.accuracy, whole.accuracy, 1e-12);
}

struct TestRow {
  int64_t skill, task;
  Rows samples;
};

class AnalysisFiles : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::vector<TestRow>& rows, bool tasks = true) {
    TensorList tensors;
    std::vector<int64_t> skill, task, count;
    std::vector<double> mean, variance;
    for (const auto& row : rows) {
      const auto m = moments_of(row.samples);
      skill.push_back(row.skill);
      task.push_back(row.task);
      count.push_back(m.count);
      mean.insert(mean.end(), m.mean.begin(), m.mean.end());
      variance.insert(variance.end(), m.variance.begin(), m.variance.end());
    }
    const auto n = static_cast<int64_t>(rows.size());
    tensors.add("skill", Dtype::I64, {n}, skill);
    if (tasks) tensors.add("task", Dtype::I64, {n}, task);
    if (tasks) tensors.add("count", Dtype::I64, {n}, count);
    tensors.add("mean", Dtype::F64, {n, 4}, mean);
    tensors.add("variance", Dtype::F64, {n, 4}, variance);
    tensors.add("radial", Dtype::F64, {n, 4}, std::vector<double>(4 * rows.size(), 0.25));
    tensors.add("angular", Dtype::F64, {n, 4}, std::vector<double>(4 * rows.size(), 0.25));
    for (const auto& [key, values] : extra) tensors.add(key, Dtype::I64, {static_cast<int64_t>(values.size())}, values);
    write_safetensors(folder / name, tensors.views(), metadata);
    return folder / name;
  }

  TemporaryFolder folder;
  std::map<std::string, std::vector<int64_t>> extra;
  std::map<std::string, std::string> metadata = {
      {"asr_analysis", "2"}, {"skill_names", R"(["count", "color"])"}, {"task_names", R"(["first", "second"])"}};
};

TEST_F(AnalysisFiles, ATaskThatCameLaterIsLeftOut) {
  const auto old = random_rows(1, 15, 0), moved = random_rows(2, 15, 0.1), added = random_rows(3, 16, 5);
  const auto a = read_analysis_file(write("a", {{1, 0, old}}));
  const auto b = read_analysis_file(write("b", {{0, 1, added}, {1, 0, moved}, {1, 1, added}}));
  const auto tasks = shared_tasks(a, b, 1);
  EXPECT_EQ(tasks, (std::set<std::string>{"first"}));
  expect_near(b.moments(1, tasks).mean, moments_of(moved).mean, "on the shared samples alone");
  EXPECT_EQ(b.moments(1, tasks).count, 15);
  EXPECT_EQ(b.moments(1, b.tasks(1)).count, 31);
  EXPECT_TRUE(shared_tasks(b, a, 0).empty());
  EXPECT_EQ(a.skill_name(1), "color");
}

// Two files of one run need not number their tasks alike; two runs in another order do not.
TEST_F(AnalysisFiles, TasksAreMatchedByName) {
  const auto rows = random_rows(1, 5, 0), others = random_rows(2, 7, 1);
  const auto a = read_analysis_file(write("a", {{0, 0, rows}, {0, 1, others}}));
  metadata["task_names"] = R"(["second", "first"])";
  const auto b = read_analysis_file(write("b", {{0, 0, others}, {0, 1, rows}}));
  EXPECT_EQ(shared_tasks(a, b, 0).size(), 2u);
  expect_near(b.moments(0, {"first"}).mean, moments_of(rows).mean, "first");
}

TEST_F(AnalysisFiles, OtherSamplesAndOtherSkillsAreRefused) {
  const auto a = read_analysis_file(write("a", {{0, 0, random_rows(1, 5, 0)}}));
  const auto fewer = read_analysis_file(write("b", {{0, 0, random_rows(1, 4, 0)}}));
  EXPECT_CONTAINS(error_of([&] { shared_tasks(a, fewer, 0); }), "task 'first' was measured on other samples");
  metadata["task_samples"] = R"(["aa", "bb"])";
  const auto hashed = read_analysis_file(write("c", {{0, 0, random_rows(1, 5, 0)}}));
  EXPECT_EQ(shared_tasks(a, hashed, 0).size(), 1u) << "one of them does not say which samples";
  metadata["task_samples"] = R"(["cc", "bb"])";
  const auto other = read_analysis_file(write("d", {{0, 0, random_rows(1, 5, 0)}}));
  EXPECT_CONTAINS(error_of([&] { shared_tasks(hashed, other, 0); }), "was measured on other samples");
  metadata["skill_names"] = R"(["where", "color"])";
  const auto renamed = read_analysis_file(write("e", {{0, 0, random_rows(1, 5, 0)}}));
  EXPECT_CONTAINS(error_of([&] { shared_tasks(a, renamed, 0); }), "skill 0 is 'where', but 'count'");
}

TEST_F(AnalysisFiles, OlderAndForeignFiles) {
  extra["sample.task"] = {0};
  const auto old = write("old", {{0, 0, random_rows(1, 5, 0)}}, /*tasks=*/false);
  EXPECT_TRUE(pools_all_tasks(read_safetensors(old)));
  EXPECT_CONTAINS(error_of([&] { read_analysis_file(old); }), "pools all tasks, as an older version wrote it");
  extra.clear();
  metadata.clear();
  const auto foreign = read_analysis_file(write("foreign", {{0, 0, random_rows(1, 5, 0)}}, /*tasks=*/false));
  EXPECT_EQ(shared_tasks(foreign, foreign, 0), (std::set<std::string>{""}));
  EXPECT_EQ(foreign.skill_name(0), "skill0");
}

TEST_F(AnalysisFiles, BadFilesAreNamed) {
  const auto rows = random_rows(1, 5, 0);
  const auto error = [&](const std::vector<TestRow>& list) {
    const auto path = write("bad", list);
    return error_of([&] { read_analysis_file(path); });
  };
  EXPECT_CONTAINS(error({{0, 0, rows}, {0, 0, rows}}), "skill 0 of task 'first' stands twice");
  EXPECT_CONTAINS(error({{7, 0, rows}}), "skill 7 has no name");
  EXPECT_CONTAINS(error({{0, 2, rows}}), "task 2 has no name");
  EXPECT_CONTAINS(error({{0, -1, rows}}), "'task' holds -1");
  EXPECT_CONTAINS(error({{0, 0, {}}}), "'count' is 0");
  metadata["task_names"] = R"(["first", "first"])";
  EXPECT_CONTAINS(error({{0, 0, rows}}), "names a task twice");
  metadata["task_names"] = "[1]";
  EXPECT_CONTAINS(error({{0, 0, rows}}), "must be a list of texts");
  metadata.erase("task_names");
  EXPECT_CONTAINS(error({{0, 0, rows}}), "metadata 'task_names' is missing");
  metadata["asr_analysis"] = "9";
  EXPECT_CONTAINS(error({{0, 0, rows}}), "analysis format 9 is not known");
}

// One flipped bit of a number must not become another drift.
TEST_F(AnalysisFiles, DamageIsSeen) {
  const auto path = write("a", {{0, 0, random_rows(1, 5, 0)}});
  auto bytes = read_text(path);
  bytes[bytes.size() - 20] ^= 4;
  write_text(path, bytes);
  EXPECT_CONTAINS(error_of([&] { read_analysis_file(path); }), "checksum does not match");
}

}  // namespace
}  // namespace asr
