// manifest: a user's folder, every row checked, as a prepared stream. Also takes JSON documents, CSV and gzip, where
// stream.json names them.
#include "streams/manifest.h"

#include "streams/prepare/preparation.h"

namespace asr {

namespace {

struct Use {
  DataSplit split;
  FileShare share;
};

// One file may serve two splits; it is read once, so that a bad line counts once.
std::map<std::string, std::vector<Use>> uses_of(const ManifestTask& task) {
  std::map<std::string, std::vector<Use>> out;
  for (const auto& [split, file] : task.files) out[file.path].push_back({split, file.share});
  return out;
}

}  // namespace

void prepare_manifest(Preparation& preparation) {
  const auto manifest = read_manifest(preparation.options().source);
  preparation.default_images(manifest.images);
  preparation.frames = manifest.frames;
  for (const auto& task : manifest.tasks) preparation.add_task({task.name, task.metric, task.answer_tokens, {}});
  for (size_t i = 0; i < manifest.tasks.size(); ++i)
    preparation.unit(manifest.tasks[i].name, [&] {
      if (!manifest.tasks[i].groups.empty()) preparation.nest(i, manifest.tasks[i].groups);
      for (const auto& use : uses_of(manifest.tasks[i]))
        preparation.read(use.first, [&](const FileRecord& record, const RowPlace& place) {
          SampleRow row;
          const auto reason = read_row(record.value, row);
          if (!reason.empty()) return preparation.bad(place, row.id, reason);
          for (const auto& [split, share] : use.second)
            if (share_holds(share, row.image, row.id)) preparation.add(i, split, row, place);
        });
      if (manifest.tasks[i].files.at(DataSplit::val).share != FileShare::all)
        preparation.note("tasks with one file: about every fifth image is for validation, by a hash of its name");
    });
}

}  // namespace asr
