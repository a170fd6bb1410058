// Each family's processor: against the outputs of transformers on the reference models, and by hand on small images.
#include "io/image_processor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "io/png.h"
#include "io/safetensors.h"
#include "tests/support/archive.h"
#include "tests/support/files.h"
#include "tests/support/image_files.h"

namespace asr {
namespace {

using nlohmann::json;
using Shape = std::vector<int64_t>;

Image8 flat(int64_t height, int64_t width, uint8_t value) {
  return {height, width, std::vector<uint8_t>(static_cast<size_t>(height * width) * 3, value)};
}

ProcessedImages process(const json& config, const std::vector<Image8>& images) {
  const auto processor = make_image_processor(config, "config.json");
  ProcessedImages out;
  for (const auto& image : images) processor->append(image, "a.png", out);
  return out;
}

json plain(const std::string& type) {  // pixel values stay bytes
  return {{"image_processor_type", type}, {"do_rescale", false}, {"do_normalize", false}};
}

TEST(ImageProcessor, ClipResizesTheShortSideAndCutsTheCentre) {
  json config = plain("CLIPImageProcessorFast");
  config["size"] = {{"shortest_edge", 4}};
  config["crop_size"] = {{"height", 4}, {"width", 4}};
  Image8 wide = flat(4, 8, 10);
  for (int y = 0; y < 4; ++y)
    for (int x = 2; x < 6; ++x) wide.rgb[static_cast<size_t>(y * 8 + x) * 3] = static_cast<uint8_t>(100 + x);
  const auto out = process(config, {wide, flat(1, 1, 7), flat(20000, 1, 9)});
  EXPECT_EQ(out.shape, (Shape{3, 3, 4, 4}));
  EXPECT_TRUE(out.layout_name.empty());
  for (int x = 0; x < 4; ++x) EXPECT_EQ(out.pixel_values[x], 102 + x);  // the red plane
  EXPECT_EQ(out.pixel_values[16], 10);
  EXPECT_EQ(out.pixel_values[48], 7);
  EXPECT_EQ(out.pixel_values[96], 9);
}

TEST(ImageProcessor, ClipPadsWhatIsSmallerThanItsCrop) {
  json config = plain("CLIPImageProcessor");
  config["do_resize"] = false;
  config["crop_size"] = 3;
  const auto out = process(config, {flat(2, 5, 8)});
  EXPECT_EQ(out.shape, (Shape{1, 3, 3, 3}));
  for (int i = 0; i < 9; ++i) EXPECT_EQ(out.pixel_values[i], i < 6 ? 8 : 0);
}

TEST(ImageProcessor, LlavaCanPadToASquareOfTheMeanColour) {
  json config = plain("LlavaImageProcessor");
  config["do_pad"] = true;
  config["size"] = 4;
  config["crop_size"] = 4;
  config["image_mean"] = {0.5, 0.25, 0.0};
  const auto out = process(config, {flat(2, 4, 200)});
  EXPECT_EQ(out.pixel_values[0], 127);
  EXPECT_EQ(out.pixel_values[16], 63);
  EXPECT_EQ(out.pixel_values[4], 200);
  EXPECT_EQ(out.pixel_values[12], 127);
}

TEST(ImageProcessor, BlipStretchesAndNormalises) {
  const json config = {{"image_processor_type", "BlipImageProcessor"},
                       {"size", {{"height", 2}, {"width", 3}}},
                       {"image_mean", {0.5, 0.5, 0.5}},
                       {"image_std", {0.25, 0.5, 1.0}}};
  const auto out = process(config, {flat(50, 7, 255)});
  EXPECT_EQ(out.shape, (Shape{1, 3, 2, 3}));
  EXPECT_FLOAT_EQ(out.pixel_values[0], 2);
  EXPECT_FLOAT_EQ(out.pixel_values[6], 1);
  EXPECT_FLOAT_EQ(out.pixel_values[12], 0.5);
}

TEST(ImageProcessor, QwenPatchesStandInMergeBlocks) {
  json config = plain("Qwen2VLImageProcessor");
  config.update({{"patch_size", 1}, {"merge_size", 2}, {"temporal_patch_size", 2}});
  config.update({{"min_pixels", 4}, {"max_pixels", 64}});
  Image8 image = flat(2, 4, 0);
  for (size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = static_cast<uint8_t>(i / 3 * 10 + i % 3);
  const auto out = process(config, {image, image});
  EXPECT_EQ(out.shape, (Shape{16, 6}));
  EXPECT_EQ(out.layout_name, "image_grid_thw");
  EXPECT_EQ(out.layout_shape, (Shape{2, 3}));
  EXPECT_EQ(out.layout, (Shape{1, 2, 4, 1, 2, 4}));
  const int order[] = {0, 1, 4, 5, 2, 3, 6, 7};  // pixels in merge order
  for (int p = 0; p < 8; ++p)
    for (int v = 0; v < 6; ++v) EXPECT_EQ(out.pixel_values[p * 6 + v], order[p] * 10 + v / 2);  // both frames alike
}

TEST(ImageProcessor, QwenSizesFollowItsRule) {
  json config = plain("Qwen2VLImageProcessor");
  config["size"] = {{"shortest_edge", 3136}, {"longest_edge", 50176}};
  // Halves round to even: 42/28 = 1.5 -> 2, 70/28 = 2.5 -> 2. Too small grows, too large shrinks.
  const std::vector<std::pair<std::pair<int, int>, std::pair<int, int>>> cases = {
      {{84, 140}, {6, 10}}, {{42, 70}, {4, 4}}, {{1, 1}, {4, 4}}, {{1000, 500}, {22, 10}}, {{1, 200}, {2, 58}}};
  for (const auto& [image, grid] : cases)
    EXPECT_EQ(process(config, {flat(image.first, image.second, 1)}).layout, (Shape{1, grid.first, grid.second}))
        << image.first << "x" << image.second;
  EXPECT_CONTAINS(error_of([&] { process(config, {flat(1, 201, 1)}); }), "more than 200 times");
}

TEST(ImageProcessor, InternvlTilesInReadingOrderWithAThumbnail) {
  json config = plain("GotOcr2ImageProcessorFast");
  config.update({{"crop_to_patches", true}, {"min_patches", 1}, {"max_patches", 6}, {"size", 2}});
  Image8 image = flat(4, 6, 0);
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 6; ++x) image.rgb[static_cast<size_t>(y * 6 + x) * 3] = static_cast<uint8_t>(y * 10 + x);
  const auto out = process(config, {image, flat(1, 1, 5)});
  EXPECT_EQ(out.layout_name, "num_patches");
  EXPECT_EQ(out.layout, (Shape{7, 1}));  // 3 columns, 2 rows, thumbnail; one pixel is one tile without it
  EXPECT_EQ(out.shape, (Shape{8, 3, 2, 2}));
  EXPECT_EQ(out.pixel_values[0], 0);
  EXPECT_EQ(out.pixel_values[12], 2);       // second tile: to the right
  EXPECT_EQ(out.pixel_values[3 * 12], 20);  // fourth: below the first
  config["crop_to_patches"] = false;
  EXPECT_EQ(process(config, {image}).layout, (Shape{1}));
  config["processor_class"] = "InternVLProcessor";
  EXPECT_EQ(process(config, {image}).layout, (Shape{7}));
}

TEST(ImageProcessor, InternvlTakesTheLargerOfEqualGridsOnlyForLargeImages) {
  json config = plain("GotOcr2ImageProcessor");
  config.update({{"crop_to_patches", true}, {"max_patches", 4}, {"size", 10}});
  EXPECT_EQ(process(config, {flat(14, 14, 1)}).layout, (Shape{1}));  // 196 pixels, 2x2 tiles have 400
  EXPECT_EQ(process(config, {flat(15, 15, 1)}).layout, (Shape{5}));
}

TEST(ImageProcessor, WrongConfigurationsNameFileAndKey) {
  const auto message = [](json config) { return error_of([&] { process(config, {flat(4, 4, 1)}); }); };
  json config = plain("CLIPImageProcesor");
  EXPECT_CONTAINS(message(config), "did you mean 'CLIPImageProcessor'");
  config = plain("CLIPImageProcessor");
  config["size"] = {{"shortest_edge", 1e300}};
  EXPECT_CONTAINS(message(config), "config.json: size: 'shortest_edge' must be a whole number");
  config = plain("BlipImageProcessor");
  config["resample"] = 0;
  EXPECT_CONTAINS(message(config), "'resample' 0 is not supported");
  config = plain("BlipImageProcessor");
  config["size"] = {{"height", 3}};
  EXPECT_CONTAINS(message(config), "\"height\" and \"width\"");
  config = plain("BlipImageProcessor");
  config["image_std"] = {1, 2};
  EXPECT_CONTAINS(message(config), "'image_std' must be a list of three numbers");
  config = plain("BlipImageProcessor");
  config["do_resize"] = "yes";
  EXPECT_CONTAINS(message(config), "'do_resize' must be true or false");
  EXPECT_CONTAINS(message({{"size", 3}}), "image_processor_type");
  config = plain("BlipImageProcessor");
  config["do_resize"] = false;
  EXPECT_CONTAINS(error_of([&] { process(config, {flat(2, 2, 1), flat(2, 3, 1)}); }), "one by one");
}

TEST(ImageProcessor, FoldersAreReadInTransformersOrder) {
  TemporaryFolder folder;
  EXPECT_CONTAINS(error_of([&] { load_image_processor(folder.path()); }), "no preprocessor_config.json");
  write_text(folder / "preprocessor_config.json", "{");
  EXPECT_CONTAINS(error_of([&] { load_image_processor(folder.path()); }), "config.json:1:2: not valid JSON");
  write_text(folder / "preprocessor_config.json", "[]");
  EXPECT_CONTAINS(error_of([&] { load_image_processor(folder.path()); }), "not a JSON object");
  json blip = plain("BlipImageProcessor");
  blip["size"] = 5;
  write_text(folder / "preprocessor_config.json", blip.dump());
  ProcessedImages first, second;
  load_image_processor(folder.path())->append(flat(2, 2, 1), "a", first);
  EXPECT_EQ(first.shape, (Shape{1, 3, 5, 5}));
  blip["size"] = 6;
  write_text(folder / "processor_config.json", json{{"image_processor", blip}}.dump());
  load_image_processor(folder.path())->append(flat(2, 2, 1), "a", second);
  EXPECT_EQ(second.shape, (Shape{1, 3, 6, 6}));
}

// The largest difference in steps of 1/255 before normalisation.
double steps_apart(const ProcessedImages& processed, const TensorView& expected,
                   const std::array<double, 3>& deviation) {
  EXPECT_EQ(processed.shape, expected.shape);
  if (processed.shape != expected.shape) return INFINITY;
  // Channels are the second axis, or the first part of a patch row.
  const int64_t inner = expected.shape.size() == 4 ? expected.shape[2] * expected.shape[3] : expected.shape[1] / 3;
  double worst = 0;
  for (size_t i = 0; i < processed.pixel_values.size(); ++i) {
    float value;
    std::memcpy(&value, expected.data.data + i * sizeof value, sizeof value);
    const double spread = deviation[static_cast<size_t>(static_cast<int64_t>(i) / inner % 3)] * 255;
    worst = std::max(worst, std::abs(static_cast<double>(processed.pixel_values[i]) - value) * spread);
  }
  return worst;
}

void expect_golden(const std::string& name, const std::string& layout) {
  const std::string archive = shared_data() + "/goldens/" + name + ".tar.gz";
  if (!std::filesystem::exists(archive)) GTEST_SKIP() << "no reference data at " << archive << "; set ASR_TEST_DATA";
  TemporaryFolder folder;
  ASSERT_TRUE(unpack(archive, folder.path()));
  const auto io = read_safetensors(folder / (name + "/io.safetensors"));
  const auto processor = load_image_processor(folder / name);
  ProcessedImages processed;
  for (int i = 0; const auto* view = io.find("proc.image_" + std::to_string(i)); ++i) {
    const auto png = encode_png(view->data.data, static_cast<int>(view->shape[1]), static_cast<int>(view->shape[0]));
    processor->append(decode_image(span_of(png), "golden"), "golden", processed);
  }
  const auto* whole = io.find("proc.pixel_values");
  const auto deviation =
      json::parse(read_text(folder / (name + "/preprocessor_config.json")))["image_std"].get<std::array<double, 3>>();
  const double apart = steps_apart(processed, whole ? *whole : io.at("in.pixel_values"), deviation);
  EXPECT_LE(apart, 1.001) << "steps of 1/255";  // a thousandth for float32
  testing::Test::RecordProperty("steps", std::to_string(apart));
  std::cout << name << ": largest difference " << apart << " steps of 1/255\n";
  if (layout.empty()) return;
  const auto& expected = io.at(layout);
  EXPECT_EQ(processed.layout_shape, expected.shape);
  ASSERT_EQ(processed.layout.size() * sizeof(int64_t), expected.data.size);
  EXPECT_EQ(std::memcmp(processed.layout.data(), expected.data.data, expected.data.size), 0);
}

TEST(ImageProcessorGolden, Llava) {
  expect_golden("llava-a", "");
}
TEST(ImageProcessorGolden, Qwen) {
  expect_golden("qwen2_5_vl-a", "in.image_grid_thw");
}
TEST(ImageProcessorGolden, Internvl) {
  expect_golden("internvl3-a", "proc.num_patches");
}
TEST(ImageProcessorGolden, Instructblip) {
  expect_golden("instructblip-a", "");
}

}  // namespace
}  // namespace asr
