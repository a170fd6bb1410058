// The numbers behind the figures, against small computations by hand.
#include <cmath>

#include "report/data_csv.h"
#include "report/figures.h"
#include "report/potential_field.h"
#include "report/run_files.h"
#include "report/skill_steps.h"
#include "tests/report/figure_fixture.h"

namespace asr {
namespace {

TEST(SkillNumbers, Distances) {
  SpectraMoments one, other;
  EXPECT_TRUE(std::isnan(divergence_between(one, other))) << "a file without spectra";
  one.radial = other.radial = other.angular = {1, 0};
  one.angular = {0, 1};
  EXPECT_NEAR(divergence_between(one, other), std::log(2), 1e-12);
  // (0.5 log(0.5 / 0.375) + 0.25 log(0.25 / 0.375)) / 2, once for each coordinate's pair
  const double by_hand = 0.5 * std::log(0.5 / 0.375) + 0.25 * std::log(0.25 / 0.375);
  one.radial = {0.5, 0.25};
  other.radial = {0.25, 0.5};
  EXPECT_NEAR(divergence_between(one, other), by_hand + std::log(2), 1e-12);
  SpectraMoments old, now;
  old.mean = {0, 1};
  old.variance = {4, 0.25};
  now.mean = {2, 1};
  now.variance = {4, 1};
  EXPECT_NEAR(whitened_drift(old, now, 0), std::sqrt(4 / 4.0 + 0.25 / 0.25), 1e-12);
  old.variance = {4, 0};
  EXPECT_TRUE(std::isnan(whitened_drift(old, now, 0)));
  EXPECT_NEAR(whitened_drift(old, now, 1), 1, 1e-12);
}

TEST(Potential, IsTheWeightedMeanOfThePoints) {
  const std::vector<FieldPoint> points = {{0, 0, 1}, {1, 2, 5}, {3, 1, -2}, {2, 4, 0}};
  const PotentialField field(points);
  ASSERT_TRUE(field.usable());
  const auto width = [&](double a, double b, double c, double d) {
    const double mean = (a + b + c + d) / 4;
    const double sum =
        (a - mean) * (a - mean) + (b - mean) * (b - mean) + (c - mean) * (c - mean) + (d - mean) * (d - mean);
    return std::sqrt(sum / 3) * std::pow(4, -1.0 / 6);
  };
  const double hx = width(0, 1, 3, 2), hy = width(0, 2, 1, 4);
  EXPECT_NEAR(field.width_x(), hx, 1e-12);
  double sum = 0, weights = 0;
  for (const auto& p : points) {
    const double weight = std::exp(-std::pow((1.5 - p.x) / hx, 2) / 2) * std::exp(-std::pow((0.5 - p.y) / hy, 2) / 2);
    sum += weight * p.value;
    weights += weight;
  }
  EXPECT_NEAR(field.at(1.5, 0.5), sum / weights, 1e-12);
  EXPECT_NEAR(field.residuals()[1], 5 - field.at(1, 2), 1e-12);
  EXPECT_FALSE(PotentialField({{0, 0, 1}, {0, 1, 2}, {0, 2, 3}}).usable()) << "no drift on one axis";
}

TEST(Potential, ARingIsMoreThanTwoDeviationsFromTheMedian) {
  std::vector<FieldPoint> points;
  for (int i = 0; i < 20; ++i) points.push_back({double(i), double(i % 5), 0.1 * (i % 3)});
  points[7].value = 50;
  const auto rings = PotentialField(points).atypical();
  EXPECT_TRUE(rings[7]);
  EXPECT_FALSE(rings[0] && rings[1] && rings[2]);
}

TEST(Potential, ContoursOfAPlane) {
  const auto lines = contour({{0, 1, 2}, {0, 1, 2}}, 0.5);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_DOUBLE_EQ(lines[0].first.first, 0.5);
  EXPECT_DOUBLE_EQ(lines[0].second.first, 0.5);
}

TEST_F(FigureData, Cost) {
  write_run(folder.path(), run_of("asr", "asr"));
  // 73728 parameters at 2 bytes and 4096 bytes: 0.151552 MB. AP (45 + 50 + 70) / 3.
  EXPECT_EQ(draw(figure_cost).csv,
            "label,extra_megabytes,log10_1_plus_megabytes,step_ms,AP\nasr,0.151552,0.0612836,12.5,55\n");
}

TEST_F(FigureData, VariantsAgainstTheFullMethod) {
  write_run(folder.path(), run_of("asr", "asr"));
  auto variant = run_of("asr-no-angular", "asr");
  variant.rows = {{50}, {40, 60}, {30, 50, 70}};
  write_run(folder.path(), variant);
  write_run(folder.path(), run_of("ewc-weak", "ewc"));  // no full version of it
  // AP 50 against 55; AF (20 + 10) / 2 against (5 + 10) / 2.
  EXPECT_EQ(draw(figure_variants).csv,
            "method,label,group,metric,pairs,difference,low,high\nasr,asr-no-angular,Other variants,AP,1,-5,,\n"
            "asr,asr-no-angular,Other variants,AF,1,7.5,,\n");
}

TEST_F(FigureData, Orders) {
  write_run(folder.path(), run_of("asr", "asr"));
  EXPECT_CONTAINS(draw(figure_orders).html, "Run with &#39;orders: 5&#39;");
  auto other = run_of("asr", "asr", 1);
  other.tasks = {"read", "count", "color"};
  other.rows = {{50}, {40, 60}, {45, 50, 85}};
  write_run(folder.path(), other);
  EXPECT_CONTAINS(draw(figure_orders).csv, "asr,AP,2,57.5,55,60,3.53553\n");
}

TEST_F(FigureData, Audit) {
  const auto run = write_run(folder.path(), run_of("asr", "asr"));
  std::filesystem::create_directories(run + "/stages/01");
  write_text(run + "/stages/01/kept.json",
             R"({"stage":1,"items":[{"kind":"prototypes","name":"a","bytes":8,"shape":[1],"sha256":""},)"
             R"({"kind":"prototypes","name":"b","bytes":1000,"shape":[1],"sha256":""},)"
             R"({"kind":"sample","name":"c","bytes":5,"shape":[1],"sha256":""}]})");
  const auto figure = draw(figure_audit);
  EXPECT_EQ(figure.csv, "label,kind,tensors,bytes\nasr,prototypes,2,1008\nasr,sample,1,5\n");
}

TEST_F(FigureData, TrainingReadsTheLog) {
  auto run = run_of("asr", "asr");
  const auto path = write_run(folder.path(), run);
  std::string log;
  for (int step = 10; step <= 30; step += 10)
    log += nlohmann::json{{"loss", 1.0},        {"current_steps", step},      {"stage", 1},
                          {"lr", 0.001 * step}, {"elapsed_time", 0.5 * step}, {"spectral_weight", 0.25}}
               .dump() +
           "\n";
  write_text(path + "/log.jsonl", log);
  const auto csv = draw(figure_training).csv;
  EXPECT_CONTAINS(csv, "asr,lr,20,0.02\n");
  EXPECT_CONTAINS(csv, "asr,spectral_weight,30,0.25\n");
  EXPECT_CONTAINS(csv, "asr,step_ms,20,500\n");  // 5 s for 10 steps
}

// Analysis files of one skill and task that hold what the figures on drift and distances need.
TEST_F(FigureData, DriftAndDistances) {
  const auto run = write_run(folder.path(), run_of("asr", "asr"));
  const double accuracy[] = {0.9, 0.5, 0.6};
  for (int64_t stage = 1; stage <= 3; ++stage) {
    TensorList tensors;
    tensors.add<int64_t>("skill", Dtype::I64, {1}, {0});
    tensors.add<int64_t>("task", Dtype::I64, {1}, {0});
    tensors.add<int64_t>("count", Dtype::I64, {1}, {4});
    tensors.add<double>("accuracy", Dtype::F64, {1}, {accuracy[stage - 1]});
    tensors.add<double>("entropy", Dtype::F64, {1}, {0.5 * static_cast<double>(stage)});
    tensors.add<double>("mean", Dtype::F64, {1, 2}, {static_cast<double>(stage * stage), 0});
    tensors.add<double>("variance", Dtype::F64, {1, 2}, {4, 1});
    tensors.add<double>("radial", Dtype::F64, {1, 2}, {0.5, 0.5 / static_cast<double>(stage)});
    tensors.add<double>("angular", Dtype::F64, {1, 2}, {0.5, 0.5});
    tensors.add<int64_t>("sample.skill", Dtype::I64, {4}, {0, 0, 0, 0});
    tensors.add<int64_t>("sample.task", Dtype::I64, {4}, {0, 0, 0, 0});
    tensors.add<float>("sample.correct", Dtype::F32, {4}, {1, 1, 1, 0});
    tensors.add<float>("sample.distance", Dtype::F32, {4}, {1, 2, 4, 8});
    std::filesystem::create_directories(cat(run, "/stages/0", stage));
    write_safetensors(cat(run, "/stages/0", stage, "/analysis.safetensors"), tensors.views(),
                      {{"skill_names", "[\"count\"]"}, {"task_names", "[\"count\"]"}});
  }
  const auto steps = skill_steps(load_runs({folder.path()}).runs.at(0)).steps;
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_NEAR(steps[0].lost, 40, 1e-9);
  EXPECT_NEAR(steps[1].lost, -10, 1e-9);
  EXPECT_DOUBLE_EQ(steps[1].prototype, 5);     // 4 to 9
  EXPECT_DOUBLE_EQ(steps[1].w2, 2.5);          // in units of the deviation, 2
  EXPECT_DOUBLE_EQ(steps[0].fine_loss, 0.25);  // the upper of two bins: 0.5 to 0.25
  EXPECT_DOUBLE_EQ(steps[0].entropy_increase, 0.5);
  EXPECT_EQ(steps[1].from, 2);
  EXPECT_CONTAINS(draw(figure_drift).csv, "asr,count,2,3,5,");
  EXPECT_EQ(
      draw(figure_distances).csv,
      "label,stage,answer,samples,lower_quartile,median,upper_quartile\nasr,1,right,3,1.5,2,3\nasr,1,wrong,1,8,8,8\n"
      "asr,2,right,3,1.5,2,3\nasr,2,wrong,1,8,8,8\nasr,3,right,3,1.5,2,3\nasr,3,wrong,1,8,8,8\n");
  EXPECT_CONTAINS(draw(figure_potential).html, "here are 2");
}

// Two samples of one skill, whitened by their deviation sqrt(2): the first stage moves both by 1, the second by
// nothing. W1 = Delta = 1 / sqrt(2); Gamma: the distance of -+1 / sqrt(2) to the quartiles of a normal law; half the
// score goes.
TEST_F(FigureData, Theorem) {
  const auto run = write_run(folder.path(), run_of("asr", "asr"));
  const std::vector<std::vector<float>> rows = {{0, 2}, {1, 3}, {1, 3}}, right = {{1, 1}, {1, 0}, {1, 0}};
  for (size_t stage = 1; stage <= 3; ++stage) {
    TensorList tensors;
    for (const char* name : {"skill", "task"}) tensors.add<int64_t>(name, Dtype::I64, {1}, {0});
    tensors.add<int64_t>("count", Dtype::I64, {1}, {2});
    for (const char* name : {"mean", "variance", "radial", "angular"})
      tensors.add<float>(name, Dtype::F32, {1, 1}, {1});
    for (const char* name : {"sample.skill", "sample.task"}) tensors.add<int64_t>(name, Dtype::I64, {2}, {0, 0});
    tensors.add<float>("sample.correct", Dtype::F32, {2}, right[stage - 1]);
    tensors.add<float>("sample.descriptor", Dtype::F32, {2, 1}, rows[stage - 1]);
    std::filesystem::create_directories(cat(run, "/stages/0", stage));
    write_safetensors(cat(run, "/stages/0", stage, "/analysis.safetensors"), tensors.views(),
                      {{"skill_names", "[\"count\"]"}, {"task_names", "[\"count\"]"}});
  }
  const double distance = std::sqrt(0.5), gamma = distance - 0.67448975;
  const auto figure = draw(figure_theorem);
  const auto expected = [](const std::string& names, const std::vector<double>& values) {
    DataCsv out({});
    out.add({"asr", names, "1", "2"}, values);
    return out.text().substr(1);
  };
  EXPECT_CONTAINS(figure.csv, expected("count", {2, 1, distance, gamma, gamma, distance, 50, 50, 50,
                                                 50 * (distance + 2 * gamma) / distance, kUnknown}));
  // Fitted on the second step alone, which says that nothing is lost, the first cannot be foreseen.
  EXPECT_CONTAINS(figure.csv, expected("all skills", {2, 1, kUnknown, kUnknown, kUnknown, kUnknown, 50, 50, 50,
                                                      50 * (distance + 2 * gamma) / distance, 0}));
  EXPECT_CONTAINS(figure.csv, "asr,count,2,3,2,1,0,");
  EXPECT_CONTAINS(figure.html, "an estimate");
}

// Ten samples a task; the third stage went on in the second one's slot. Only lines with probabilities say why.
TEST_F(FigureData, RoutingInPercentAndWhy) {
  const auto run = write_run(folder.path(), run_of("chooser", "chooser"));
  write_text(run + "/routing.csv", "task,stage-1,stage-2,base\ncount,9,1,0\ncolor,0,10,0\nread,2,7,1\n");
  std::filesystem::create_directories(run + "/predictions");
  const auto line = [](int id, double first, const char* slot) {
    return nlohmann::json{{"question_id", id},
                          {"question", "How many?"},
                          {"answer", "2"},
                          {"text", "3"},
                          {"score", 0},
                          {"slot", slot},
                          {"slots", {{"stage-1", first}, {"stage-2", 1 - first}}}}
               .dump() +
           "\n";
  };
  write_text(run + "/predictions/stage-03-task-01.jsonl",
             line(1, 0.9, "stage-1") + line(2, 0.25, "stage-2") + line(3, 0.75, "stage-1"));
  write_text(run + "/predictions/stage-03-task-02.jsonl", R"({"question_id":4,"text":"x","score":1})"
                                                          "\n");
  const auto figure = draw(figure_routing);
  EXPECT_EQ(figure.csv,
            "label,percent_of,of,adapter,percent\n"
            "chooser,samples of a task,count,stage-1,90\nchooser,samples of a task,count,stage-2,10\n"
            "chooser,samples of a task,color,stage-2,100\n"
            "chooser,samples of a task,read,stage-1,20\nchooser,samples of a task,read,stage-2,70\n"
            "chooser,samples of a task,read,base,10\n"
            "chooser,probability for a sample,count: 3 (2) How many?,stage-1,25\n"
            "chooser,probability for a sample,count: 3 (2) How many?,stage-2,75\n"
            "chooser,probability for a sample,count: 3 (2) How many?,stage-1,75\n"
            "chooser,probability for a sample,count: 3 (2) How many?,stage-2,25\n");
}

}  // namespace
}  // namespace asr
