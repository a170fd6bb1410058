// Writes a file so that readers see the old content or the whole new one, never a part: a temporary
// neighbour is written, flushed to disk and renamed. Without commit() the temporary is removed.
#pragma once

#include <cstddef>
#include <string>

namespace asr {

class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t size);
  void write(const std::string& text) { write(text.data(), text.size()); }
  void commit();

 private:
  std::string path_, temporary_;
  int descriptor_ = -1;
};

void write_file_atomically(const std::string& path, const std::string& content);

// A process that was killed leaves temporaries behind. A folder that holds nothing else, or does not exist, is unused;
// removing them, here and in the folders below, is for the only process that writes there.
bool is_unused_folder(const std::string& folder);
void remove_temporaries(const std::string& folder);

// What was written to a file, or renamed in a folder, survives a power cut from here on.
void sync_to_disk(const std::string& path);

// The whole file; an error names the path. `limit` guards against reading a disk image by mistake.
std::string read_file(const std::string& path, size_t limit = size_t(1) << 30);

}  // namespace asr
