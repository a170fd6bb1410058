// asr doctor CONFIG.yaml...: what would stop a run, and what it would cost, before any model is loaded.
#include "cli/doctor.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>

#include "backbones/clip_encoder.h"
#include "backbones/model_folder.h"
#include "base/assets.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/text.h"
#include "base/window.h"
#include "io/safetensors.h"
#include "io/safetensors_metadata.h"
#include "io/word_tokenizer.h"
#include "skills/taxonomy.h"
#include "tensor/cuda_facts.h"
#include "train/data.h"
#include "train/run_model.h"

namespace asr {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const char* name_of(Verdict verdict) {
  static const char* const kNames[] = {"ok", "assumed", "WARNING", "FAILS"};
  return kNames[static_cast<size_t>(verdict)];
}

}  // namespace

void DoctorTable::add(const std::string& what, Verdict verdict, const std::string& detail) {
  rows_.push_back({what, verdict, detail});
  failed_ = failed_ || verdict == Verdict::failure;
}

std::string DoctorTable::text(int columns) const {
  constexpr size_t kVerdict = 9;
  size_t widest = 0;
  for (const auto& row : rows_) widest = std::max(widest, row.what.size());
  if (columns > 0) widest = std::min<size_t>(widest, static_cast<size_t>(columns) / 3);
  const size_t indent = widest + 2 + kVerdict;
  const size_t room = columns > static_cast<int>(indent) + 20 ? static_cast<size_t>(columns) - indent : 100000;
  std::string out;
  for (const auto& row : rows_) {
    const auto what = row.what.size() > widest ? row.what.substr(0, widest) : row.what;
    const std::string verdict = name_of(row.verdict);
    out += what + std::string(widest + 2 - what.size(), ' ') + verdict + std::string(kVerdict - verdict.size(), ' ');
    const auto lines = broken(row.detail, room);
    for (size_t i = 0; i < lines.size(); ++i) out += (i ? std::string(indent, ' ') : "") + lines[i] + "\n";
  }
  return out;
}

json DoctorTable::to_json() const {
  json list = json::array();
  for (const auto& row : rows_)
    list.push_back({{"check", row.what}, {"verdict", name_of(row.verdict)}, {"detail", row.detail}});
  return list;
}

void check_configuration(Examined& e) {
  e.table.attempt("configuration", [&] {
    std::vector<Assignment> list;
    for (const auto& path : e.arguments.configs)
      for (auto& a : parse_yaml_options(read_file(path, 1 << 20), path)) list.push_back(std::move(a));
    for (const auto& text : e.arguments.sets) list.push_back(parse_assignment(text, "--set"));
    e.config = resolve_run(list);
    const auto& run = e.config->run;
    if (!run.taxonomy.empty()) use_taxonomy(read_taxonomy(run.taxonomy));
    return cat(join(run.method, ", "), " on ", run.stream.name);
  });
}

void check_device(Examined& e) {
  const auto& device = e.config->run.device;
  if (device == "cpu") return e.table.add("device", Verdict::ok, "cpu");
  if (at::hasCUDA()) {
    e.table.add("device", Verdict::ok, "cuda");
    if (e.config->run.base_precision != WeightFormat::fp8) return;
    const auto missing = missing_for_fp8(fp8_facts(at::Device(at::kCUDA, 0)));
    return e.table.add("base_precision", missing.empty() ? Verdict::ok : Verdict::failure,
                       missing.empty() ? "fp8" : missing);
  }
  e.table.add("device", e.arguments.assume ? Verdict::assumed : Verdict::failure,
              e.arguments.assume ? cat(e.arguments.planned_gpu(), "; this build or machine has no GPU")
                                 : cat("device=cuda: ", cuda_problem(cuda_facts()), ", or --assume to plan"));
}

namespace {

void load_parts(Examined& e, const ModelFolder& folder) {
  e.table.attempt("tokenizer", [&] {
    e.tokenizer = load_tokenizer(folder.path);
    return cat(e.tokenizer->size(), " tokens");
  });
  if (folder.config.contains("vision_config"))
    e.table.attempt("image processor", [&] {
      e.processor = load_image_processor(folder.path);
      return std::string("found");
    });
}

// Headers alone are read: names, types, shapes and the files' lengths.
std::string look_at_model(Examined& e) {
  check_model_path(e.model);
  std::error_code error;
  if (fs::is_directory(e.model, error)) {
    const auto folder = read_model_folder(e.model);
    const auto set = read_safetensors_set(e.model);
    e.shape = read_model_shape(e.model);
    load_parts(e, folder);
    return cat(folder.type, ", ", set.tensors.size(), " tensors in ", set.shards.size(), " files, ",
               human_bytes(e.shape->weight_bytes), ", ", e.shape->weight_size, " bytes a weight");
  }
  const auto file = read_safetensors(e.model);
  verify_checksum(file);
  e.shape = read_model_shape(e.model);
  const auto words = file.metadata.find("vocabulary");
  if (words != file.metadata.end()) {
    const json all = {{"vocabulary", metadata_json(file, "vocabulary")}};
    const auto pieces = JsonFields(all, e.model + ": metadata").texts("vocabulary");
    e.tokenizer = std::make_unique<WordTokenizer>(WordTokenizer::from_pieces(pieces, e.model));
  }
  return cat("built in, ", file.tensors.size(), " tensors, checksum right");
}

}  // namespace

void check_model(Examined& e) {
  const auto& name = e.config->run.model;
  if (e.arguments.assume && name.find('/') != std::string::npos && !path_exists(name)) {
    const auto assume = [&] {
      auto published = published_model(name);
      e.shape = published.shape;
      e.processor = std::move(published.processor);
      return cat(name, " is not there: published sizes, ", number(e.shape->weights() / 1e9, 2),
                 " billion weights of 2 bytes");
    };
    e.table.attempt("model", assume, Verdict::assumed);
    return;
  }
  // The paper's settings with the backbone that ships would run, but they are not what anyone means by them.
  const bool paper = e.config->run.recipe == Recipe::asr_paper;
  const bool small = paper && name.find('/') == std::string::npos && !path_exists(name);
  const auto look = [&] {
    e.model = find_model(name);
    const auto found = look_at_model(e);
    if (!small) return found;
    return cat("no model is given, so ", name, ", the small backbone that ships, would be trained; ",
               "add configs/backbones/NAME.yaml or --set model_name_or_path=DIR");
  };
  e.table.attempt("model", look, small ? Verdict::warning : Verdict::ok);
  if (!e.shape) return;
  const auto& shape = *e.shape;  // of a Q-Former, layers with cross-attention can be tapped
  const int64_t layers =
      shape.query_layers ? (shape.query_layers + shape.cross_every - 1) / shape.cross_every : shape.layers;
  if (e.config->run.tap_layers > layers)
    e.table.add("attention.layers", Verdict::failure,
                cat("attention.layers=", e.config->run.tap_layers, " but the model has ", layers, " layers to tap"));
  if (e.config->run.backbone.geometry_layer > shape.layers)
    e.table.add(
        "geometry.layer", Verdict::failure,
        cat("geometry.layer=", e.config->run.backbone.geometry_layer, " but the model has ", shape.layers, " layers"));
}

void check_parser(Examined& e) {
  if (!reads_parser(e.config->options.asr.skill)) return;
  std::string path;
  try {
    path = e.config->run.parser_path();
  } catch (const Error& error) {
    return e.table.add("skill parser", e.arguments.assume ? Verdict::assumed : Verdict::failure, error.what());
  }
  e.table.attempt("skill parser", [&] {
    verify_checksum(read_safetensors(path));
    return path;
  });
}

void check_encoders(Examined& e) {
  std::set<std::string> folders;
  for (const auto& composition : e.config->run.method)
    for (const auto& method : make_methods(composition, e.config->method_assignments))
      for (const auto& folder : method->encoder_folders()) folders.insert(folder);
  for (const auto& folder : folders) {
    if (e.arguments.assume && !path_exists(folder)) {
      e.table.add("encoder", Verdict::assumed, cat(folder, " is not there: as large as CLIP ViT-L/14 at 336 pixels"));
      continue;
    }
    e.table.attempt("encoder", [&] {
      const ClipEncoder encoder(folder);
      return cat("CLIP, vectors of ", encoder.picture_width(), " numbers, ",
                 human_bytes(clip_sizes(folder).weight_bytes), " in float32");
    });
  }
}

namespace {

using Check = void (*)(Examined&);
constexpr Check kChecks[] = {check_device, check_model,     check_parser, check_encoders,
                             check_stream, check_published, check_tasks,  check_estimate};

// Files that name both methods and a stream are settings of their own, such as configs/paper/*.yaml; the others, which
// add to a setting or change it, go with each of them.
std::vector<DoctorArguments> settings_of(const DoctorArguments& all) {
  const auto is_setting = [](const std::string& path) {
    bool stream = false, method = false;
    try {
      for (const auto& a : parse_yaml_options(read_file(path, 1 << 20), path)) {
        stream = stream || a.key == "stream.name";
        method = method || a.key == "method";
      }
    } catch (const Error&) {  // check_configuration says it
    }
    return stream && method;
  };
  std::vector<bool> own;
  for (const auto& path : all.configs) own.push_back(is_setting(path));
  if (std::count(own.begin(), own.end(), true) < 2) return {all};
  std::vector<DoctorArguments> out;
  for (size_t chosen = 0; chosen < own.size(); ++chosen) {
    if (!own[chosen]) continue;
    out.push_back(all);
    out.back().configs.clear();
    for (size_t i = 0; i < own.size(); ++i)
      if (i == chosen || !own[i]) out.back().configs.push_back(all.configs[i]);
  }
  return out;
}

json report_of(const Examined& e) {
  return {{"passed", !e.table.failed()}, {"checks", e.table.to_json()}, {"estimate", e.estimate}};
}

void run(const DoctorArguments& arguments, const Common& common) {
  const auto settings = settings_of(arguments);
  bool failed = false;
  json reports = json::array();
  for (const auto& one : settings) {
    Examined e{one, {}, {}, {}, {}, {}, {}, {}, {}, {}};
    check_configuration(e);
    if (e.config)
      for (const auto& check : kChecks) check(e);
    failed = failed || e.table.failed();
    reports.push_back(report_of(e));
    if (common.json) continue;
    if (settings.size() > 1) std::cout << (reports.size() > 1 ? "\n" : "") << join(one.configs, " ") << "\n";
    std::cout << e.table.text(output_columns());
  }
  if (common.json) print_json(settings.size() == 1 ? reports[0] : json{{"passed", !failed}, {"settings", reports}});
  if (failed) throw Error("the configuration would not run; see the lines marked FAILS", 2);
}

std::string image_count(const std::string& text, int64_t& images) {
  if (text == "all") {
    images = -1;
    return std::string();
  }
  const bool good = parse_int(text, images) && images >= 0;
  return good ? std::string() : cat("'", printable(text), "' is no number of pictures; give one, or all");
}

}  // namespace

void add_doctor_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("doctor", "what would stop a run and what it costs, before any model is loaded");
  auto a = std::make_shared<DoctorArguments>();
  auto images = std::make_shared<std::string>("20");
  command->add_option("CONFIG", a->configs, "YAML files of options, as for 'asr run'")->required();
  command->add_option("--set", a->sets, "one option, after all files")->type_name("KEY=VALUE")->expected(1)->take_all();
  command->add_option("--images", *images, "pictures decoded of every task and split; 0: none; all: every one")
      ->type_name("N|all")
      ->capture_default_str();
  command->add_option("--workers", a->workers, "threads that decode; 0: one a CPU")
      ->capture_default_str()
      ->check(CLI::Range(0, 256));
  command->add_flag("--assume", a->assume,
                    "where the model's or the stream's files are missing, estimate from published sizes");
  command
      ->add_option("--gpu", a->gpu,
                   cat("what device=cuda is taken for in the estimate: ", join(gpu_names(), ", "),
                       "; default: the one here with its own memory, or ", kUsualGpu, " where there is none"))
      ->check(CLI::IsMember(gpu_names()));
  command->add_option("--tflops", a->tflops, "TFLOP/s that your device sustains, instead of the assumption")
      ->check(between(1e-6, 1e6));
  command->add_option("--gpu-memory", a->gpu_memory, "GB of one GPU, instead of the assumption")
      ->check(between(0.1, 1e5));
  command->add_option("--processes", a->processes, "as for 'asr run --processes': GPUs that share a run")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  command->footer(
      "Exit status: 0 if nothing would stop the run (a WARNING does not), 2 if a line says FAILS or the command "
      "is wrong, 1 if the program itself failed. --json prints checks and estimate as one object. COLUMNS sets "
      "the width.");
  command->callback([a, images, &common] {
    const auto problem = image_count(*images, a->images);
    check(problem.empty(), "--images: ", problem);
    run(*a, common);
  });
}

}  // namespace asr
