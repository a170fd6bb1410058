// Sizes of the benchmarks' tasks, for estimates where their files are not there. `verified` sizes were read in the
// benchmark's own files; the others are of the source data sets or shared out evenly, and say so in `note`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace asr {

struct PublishedTask {
  std::string name;
  int64_t train = 0, scored = 0;
  int64_t pictures = 0;  // of which each scored question takes one, as chance will have it; 0: its own
};
double questions_a_picture(const PublishedTask& task);  // scored ones, about a picture that has any

struct PublishedSizes {
  std::vector<PublishedTask> tasks;
  bool verified = false;
  std::string note;                   // where the numbers are from
  double text_tokens = 40;            // of a sample with the prompt's template and the answer; an assumption
  double new_tokens = 8;              // generated until the longest answer of a batch ends; an assumption
  int64_t height = 480, width = 640;  // of a typical picture
};

// By the stream's name and its folder, which tells NExT-QA from VQA v2; an unknown one is an error.
PublishedSizes published_sizes(const std::string& stream, const std::string& path);

}  // namespace asr
