// checksums.json of a run's folder: a SHA-256 for every text file of the run, so that damage and edits do not pass for
// results. (safetensors files carry their own.) A kill at any moment leaves the list true: a file that is about to be
// replaced has both checksums, the old and the new, until it has been.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace asr {

class Checksums {
 public:
  // The list of `folder`, or an empty one. A damaged list is an error.
  explicit Checksums(std::string folder);

  bool exist() const { return on_disk_; }  // runs of earlier versions have no list
  bool lists(const std::string& name) const { return files_.count(name) > 0; }
  std::vector<std::string> names() const;
  // What is wrong with the content of a listed file; empty: nothing.
  std::string problem(const std::string& name, const std::string& content) const;

  // Staged files are written by commit(), in this order.
  void stage(const std::string& name, std::string content);
  void commit();
  // A file that only grows is covered as far as it was when this was called; from `cover_whole` on it must end there.
  void cover_beginning(const std::string& name, int64_t bytes, const std::string& sha256);
  void cover_whole(const std::string& name, const std::string& sha256);
  // Takes in files of a run that has no list yet, as they are now.
  void adopt(const std::vector<std::string>& names);
  // One checksum a file, that of its content: decides what a process that was killed left open. Whether there was any.
  bool settle();
  void save();

 private:
  struct Entry {
    std::vector<std::string> accepted;  // the last one is the newest
    int64_t first_bytes = -1;           // of a file that grows; -1: the whole
  };

  std::string folder_;
  bool on_disk_ = false;
  std::map<std::string, Entry> files_;
  std::vector<std::pair<std::string, std::string>> staged_;
};

std::string sha256_of(const std::string& content);

// "RUN/predictions/x.jsonl" -> "RUN" and "predictions/x.jsonl", where RUN has a list; both empty otherwise.
std::pair<std::string, std::string> listed_place(const std::string& path);

// A file of a run whose content must be what the run wrote: another content, or a name that the list lacks, is an
// error. Where no list lies above it, nothing is checked.
void check_as_written(const std::string& path, const std::string& content);
std::string read_as_written(const std::string& path, size_t limit = size_t(1) << 30);
// The same for files that need not be of a run: a name that no list has passes.
void check_if_listed(const std::string& path);

// Of a JSON object that carries its own hash in the member "hash": what it must be.
std::string self_hash(nlohmann::json object);

// A text whose first line is a comment with the checksum of the rest, for YAML; its reader gets the rest back.
std::string with_checksum_line(const std::string& text);
std::string checked_by_line(const std::string& text, const std::string& path);

}  // namespace asr
