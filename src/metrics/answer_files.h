// Predictions joined with their references, from files. Predictions: JSON lines with question_id and text, the VQA
// result file, or NExT-QA's {video: {qid: answer}}. References: JSON lines with answer, answers or references; VQA
// annotations, TextVQA, GQA and CoIN documents, COCO captions, or NExT-QA's CSV.
#pragma once

#include "metrics/metric.h"

namespace asr {

// In the order of the predictions. An id that stands twice, or on one side only, is an error with file, line and id.
// COCO captions whose image ids are not the question ids are joined by row, as the caption evaluation numbers them.
std::vector<Answered> load_answered(const std::string& predictions, const std::string& references);

}  // namespace asr
