// asr preprocess: images as a model's vision tower reads them, by the model family's own image processor.
#include <iostream>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "io/image_processor.h"
#include "io/safetensors.h"

namespace asr {
namespace {

using nlohmann::json;

struct PreprocessArguments {
  std::string model, output;
  std::vector<std::string> images;
};

template <class Value>
TensorView view(const std::string& name, Dtype dtype, const std::vector<int64_t>& shape,
                const std::vector<Value>& values) {
  return {name, dtype, shape, {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(Value)}};
}

void write_result(const std::string& path, const ProcessedImages& processed) {
  std::vector<TensorView> tensors = {view("pixel_values", Dtype::F32, processed.shape, processed.pixel_values)};
  if (!processed.layout_name.empty())
    tensors.push_back(view(processed.layout_name, Dtype::I64, processed.layout_shape, processed.layout));
  write_safetensors(path, tensors, {});
}

std::string sizes_text(const std::vector<int64_t>& shape) {
  std::vector<std::string> parts;
  for (int64_t size : shape) parts.push_back(std::to_string(size));
  return "[" + join(parts, ", ") + "]";
}

void print_result(const PreprocessArguments& arguments, const ProcessedImages& processed, const Common& common) {
  if (common.json) {
    json result = {{"images", arguments.images.size()}, {"output", arguments.output}};
    result["shapes"]["pixel_values"] = processed.shape;
    if (!processed.layout_name.empty()) {
      result["shapes"][processed.layout_name] = processed.layout_shape;
      result[processed.layout_name] = processed.layout;
    }
    return print_json(result);
  }
  std::cout << arguments.images.size() << (arguments.images.size() == 1 ? " image" : " images") << " to "
            << arguments.output << ": pixel_values " << sizes_text(processed.shape);
  if (!processed.layout_name.empty())
    std::cout << ", " << processed.layout_name << " " << sizes_text(processed.layout_shape);
  std::cout << "\n";
}

void run(const PreprocessArguments& arguments, const Common& common) {
  check_output(arguments.output, arguments.images);
  const auto processor = load_image_processor(arguments.model);
  ProcessedImages processed;
  for (const std::string& path : arguments.images) processor->append(read_image(path), path, processed);
  write_result(arguments.output, processed);
  print_result(arguments, processed, common);
}

}  // namespace

void add_preprocess_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("preprocess", "images as a model's vision tower reads them");
  auto arguments = std::make_shared<PreprocessArguments>();
  command->add_option("--model", arguments->model, "folder of a Hugging Face checkpoint")->required()->type_name("DIR");
  command->add_option("IMAGE", arguments->images, "JPEG or PNG files")->required();
  command->add_option("-o,--output", arguments->output, "result file: pixel_values, image_grid_thw or num_patches")
      ->required();
  command->callback([arguments, &common] { run(*arguments, common); });
}

}  // namespace asr
