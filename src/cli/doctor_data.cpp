// asr doctor on the data: folders, counts against the published ones, ids, pictures, answers, lengths.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_set>

#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/text.h"
#include "cli/doctor.h"
#include "io/word_tokenizer.h"
#include "methods/method.h"
#include "metrics/metric.h"
#include "streams/manifest.h"
#include "streams/prepare/preparation.h"
#include "streams/prepare/stored.h"
#include "streams/published_sizes.h"
#include "train/run_parts.h"
#include "train/stage_phases.h"

namespace asr {
namespace {

using nlohmann::json;
constexpr int64_t kTokenised = 1000;  // texts of a task and split whose lengths are measured
constexpr double kTemplate = 14;      // tokens of a prompt around the question

// Without files: the published sizes.
void assume_stream(Examined& e) {
  const auto& run = e.config->run;
  const auto assume = [&] {
    const auto sizes = published_sizes(run.stream.name, run.stream.path);
    Workload work;
    for (const auto& task : sizes.tasks)
      work.tasks.push_back({task.name, task.train, task.scored, 0, questions_a_picture(task)});
    work.text_tokens = sizes.text_tokens;
    work.new_tokens = sizes.new_tokens;
    work.answer_tokens = sizes.new_tokens / 2;
    int64_t height = sizes.height, width = sizes.width;
    if (run.recipe == Recipe::asr_paper) {  // the longer side at most 512
      const int64_t longer = std::max(height, width);
      if (longer > 512) {
        height = height * 512 / longer;
        width = width * 512 / longer;
      }
    }
    work.picture_bytes = static_cast<double>(sizes.height * sizes.width * 3);
    if (e.shape) work.picture = picture_tokens(*e.shape, e.processor.get(), height, width);
    e.work = work;
    return cat(run.stream.path, " is not there: ", work.tasks.size(), " tasks, ", sizes.note, "; pictures of ", height,
               "x", width, ", ", number(work.questions(), 1), " scored questions about one within a task, ",
               sizes.text_tokens, " text tokens, ", sizes.new_tokens, " new ones");
  };
  e.table.attempt("stream", assume, Verdict::assumed);
}

// Two layers of every linear that may be adapted, of no model: enough to ask how adapters would be laid out.
class SitesOfNoModel {
 public:
  SitesOfNoModel() {
    using S = SitePart;
    const std::pair<const char*, SitePart> parts[] = {{"q", S::q},       {"k", S::k},          {"v", S::v},
                                                      {"o", S::o},       {"gate", S::gate},    {"up", S::up},
                                                      {"down", S::down}, {"vision", S::vision}};
    linear_.weight = at::zeros({kWidth, kWidth});
    for (int64_t layer = 0; layer < 2; ++layer)
      for (const auto& [name, part] : parts) sites.push_back({cat(name, ".", layer), &linear_, part, layer});
    sites.push_back({"projector", &linear_, S::projector});
  }
  std::vector<AdapterSite> sites;

 private:
  static constexpr int64_t kWidth = 4096;
  Linear linear_;
};

// What a method can say of the stream before it runs.
void check_plans(Examined& e) {
  SitesOfNoModel model;
  const auto& run = e.config->run;
  for (const auto& composition : run.method) {
    try {
      const auto methods = make_methods(composition, e.config->method_assignments);
      stage_layout(methods, method_parts(composition), model.sites, plain_layout(model.sites, run), 1);
      for (const auto& warning : plan_warnings(*e.config, composition, *e.stream, e.shape ? e.shape->layers : 0))
        e.table.add("method " + composition, Verdict::warning, warning);
    } catch (const Error& error) {
      e.table.add("method " + composition, Verdict::failure, error.what());
    }
  }
}

}  // namespace

void check_stream(Examined& e) {
  const auto& run = e.config->run;
  if (e.arguments.assume && !run.stream.path.empty() && !path_exists(run.stream.path)) return assume_stream(e);
  const bool missing = !run.stream.path.empty() && !path_exists(run.stream.path) && run.stream.name != "manifest";
  e.table.attempt("stream", [&] {
    try {
      e.stream = make_stream(with_run_seed(run.stream, run.seeds.front()));
    } catch (const Error& error) {
      fail(error.what(), missing ? "; or plan with published sizes: --assume" : "");
    }
    check_task_names(run, *e.stream);
    return cat(e.stream->name(), ", ", e.stream->tasks().size(), " tasks");
  });
  if (e.stream) check_plans(e);
}

void check_published(Examined& e) {
  const auto& options = e.config->run.stream;
  const auto path = options.path + "/stream.json";
  if (!e.stream || options.path.empty() || !path_exists(path)) return;
  const auto index = read_json(path);
  if (!index.is_object() || !index.contains("published")) return;  // a user's own folder
  std::vector<std::vector<std::string>> rows;
  try {
    check_prepared_index(index, path);
    rows = prepared_table(index);
  } catch (const Error& error) {
    return e.table.add("published counts", Verdict::failure, error.what());
  }
  int64_t compared = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    const auto& verdict = rows[i].back();
    compared += verdict != "-";
    if (verdict.rfind("differs", 0) == 0)
      e.table.add(cat("counts ", printable(rows[i][0], 18)), Verdict::warning,
                  cat("train ", rows[i][1], ", val ", rows[i][2], ", tune ", rows[i][3], "; published ", rows[i][5],
                      "; ", verdict));
  }
  e.table.add("published counts", Verdict::ok,
              compared == 0 ? "none are published for this stream"
                            : cat(compared, " compared; a line for each that differs",
                                  options.train || options.val ? "; stream.train and stream.val use a part" : ""));
}

namespace {

// What a look at one task and split found.
struct Found {
  int64_t rows = 0, pictured = 0, pictures = 0, empty = 0, bad = 0, first_bad = -1, tokenised = 0, expressible = 0,
          cut = 0;
  std::string problem;  // of the first bad row
  int64_t longest_question = 0, longest_answer = 0;
  double question_tokens = 0, answer_tokens = 0;                            // sums over the tokenised
  double visual = 0, positions = 0, together = 0, pixels = 0, seconds = 0;  // sums over the pictures
  std::unordered_set<size_t> ids, answers;                                  // hashes
};

class Looker {
 public:
  Looker(const Examined& e, size_t task, DataSplit split)
      : e_(e), task_(task), split_(split), paper_(e.config->run.recipe == Recipe::asr_paper) {
    found_.rows = e.stream->size(task, split);
    const int64_t images = e.arguments.images;
    picture_step_ = images < 0 ? 1 : images == 0 ? 0 : std::max<int64_t>(1, found_.rows / images);
    text_step_ = std::max<int64_t>(1, found_.rows / kTokenised);
    limit_ = e.stream->tasks()[task].answer_tokens * (e.shape && !e.shape->built_in() ? 4 : 1);
  }

  Found look(const std::string& label) {
    const auto cpus = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
    const int64_t count = e_.arguments.workers > 0 ? e_.arguments.workers : cpus;
    std::atomic<int64_t> next{0};
    std::atomic<int64_t> done{0};
    std::vector<std::thread> threads;
    for (int64_t i = 0; i < count; ++i)
      threads.emplace_back([&] {
        constexpr int64_t kChunk = 64;
        for (int64_t begin; (begin = next.fetch_add(kChunk)) < found_.rows;) {
          const int64_t end = std::min(found_.rows, begin + kChunk);
          for (int64_t row = begin; row < end; ++row) look_at(row);
          done += end - begin;
        }
      });
    Progress progress(label, found_.rows);
    for (int64_t shown = 0; shown < found_.rows;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(found_.rows > 2000 ? 50 : 1));
      const int64_t now = done;
      if (now > shown) progress.advance(now - shown);
      shown = now;
    }
    for (auto& thread : threads) thread.join();
    if (found_.rows > 2000) progress.finish();
    return std::move(found_);
  }

 private:
  void look_at(int64_t row) {
    try {
      const bool picture = picture_step_ > 0 && row % picture_step_ == 0;
      const auto start = std::chrono::steady_clock::now();
      const auto s = picture ? e_.stream->sample(task_, split_, row) : e_.stream->text(task_, split_, row);
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      const bool tokens = e_.tokenizer && row % text_step_ == 0;
      const auto question = tokens ? e_.tokenizer->encode(s.question) : std::vector<Token>();
      const auto answer = tokens ? e_.tokenizer->encode(s.answer) : std::vector<Token>();
      const auto seen = picture ? tokens_of(s) : PictureTokens();
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!found_.ids.insert(std::hash<std::string>()(s.id)).second)
        note(row, cat("id '", printable(s.id), "' is there twice"));
      found_.answers.insert(std::hash<std::string>()(s.answer));
      found_.empty += trimmed(s.answer).empty() || trimmed(s.question).empty();
      found_.pictured += s.has_picture;
      if (picture && s.has_picture) count_picture(s, seen, seconds);
      if (tokens) count_tokens(question, answer);
    } catch (const std::exception& error) {
      const std::lock_guard<std::mutex> lock(mutex_);
      note(row, error.what());
    }
  }

  PictureTokens tokens_of(const StreamSample& s) const {
    if (!e_.shape || s.height <= 0) return {};
    int64_t height = s.height, width = s.width;
    const int64_t longer = std::max(height, width);
    if (paper_ && longer > 512) {
      height = std::max<int64_t>(1, height * 512 / longer);
      width = std::max<int64_t>(1, width * 512 / longer);
    }
    return picture_tokens(*e_.shape, e_.processor.get(), height, width);
  }
  void count_picture(const StreamSample& s, const PictureTokens& seen, double seconds) {
    ++found_.pictures;
    found_.pixels += static_cast<double>(s.height * s.width);
    found_.seconds += seconds;
    found_.visual += seen.visual;
    found_.positions += seen.positions;
    found_.together += seen.together;
  }
  void count_tokens(const std::vector<Token>& question, const std::vector<Token>& answer) {
    const auto asked = static_cast<int64_t>(question.size()), said = static_cast<int64_t>(answer.size());
    ++found_.tokenised;
    found_.question_tokens += static_cast<double>(asked);
    found_.answer_tokens += static_cast<double>(said);
    found_.longest_question = std::max(found_.longest_question, asked);
    found_.longest_answer = std::max(found_.longest_answer, said);
    found_.cut += paper_ && asked + static_cast<int64_t>(kTemplate) > 256;
    const bool known =
        !e_.shape || !e_.shape->built_in() ||
        std::none_of(answer.begin(), answer.end(), [](const Token& t) { return t.id == WordTokenizer::kUnknown; });
    found_.expressible += known && said < limit_;
  }
  void note(int64_t row, const std::string& problem) {  // the first by number, whichever thread met it
    if (found_.first_bad < 0 || row < found_.first_bad) {
      found_.first_bad = row;
      found_.problem = problem;
    }
    ++found_.bad;
  }

  const Examined& e_;
  size_t task_;
  DataSplit split_;
  bool paper_;
  int64_t picture_step_ = 0, text_step_ = 1, limit_ = 0;
  std::mutex mutex_;
  Found found_;
};

std::string share(int64_t part, int64_t of) {
  return number(100.0 * static_cast<double>(part) / static_cast<double>(std::max<int64_t>(1, of)), 1) + " %";
}

int64_t common_entries(const std::unordered_set<size_t>& a, const std::unordered_set<size_t>& b) {
  return std::count_if(a.begin(), a.end(), [&](size_t value) { return b.count(value) > 0; });
}

std::string described(const char* label, const Found& f) {
  auto out = cat("; ", label, " ", f.rows, ", ", f.pictured, " with and ", f.rows - f.pictured, " without picture, ",
                 f.pictures, " decoded");
  if (f.tokenised)
    out += cat(", question up to ", f.longest_question, " and answer up to ", f.longest_answer, " tokens");
  return out;
}

// The line of a task, and what it adds to the sums over all tasks.
void judge_task(Examined& e, size_t task, const Found& train, const Found& scored) {
  const auto& t = e.stream->tasks()[task];
  const auto name = cat("task ", task + 1, " ", printable(t.name, 18));
  auto detail = t.metric + described("train", train) + described("scored", scored);
  if (train.rows == 0 || scored.rows == 0) return e.table.add(name, Verdict::failure, detail + "; a split is empty");
  const auto& worse = train.bad ? train : scored;
  if (train.bad + scored.bad)
    return e.table.add(name, Verdict::failure, cat(train.bad + scored.bad, " bad rows, the first: ", worse.problem));
  if (const int64_t empty = train.empty + scored.empty)
    return e.table.add(name, Verdict::failure, cat(empty, " rows have no question or no answer"));
  auto verdict = Verdict::ok;
  const auto warn = [&](const std::string& text) {
    verdict = Verdict::warning;
    detail += "; " + text;
  };
  if (const auto both = common_entries(train.ids, scored.ids))
    warn(cat(both, " ids stand in train and in the scored split"));
  if (scored.tokenised && scored.expressible < scored.tokenised)
    warn(cat("only ", share(scored.expressible, scored.tokenised), " of the answers can be written in the tokens ",
             "that are generated"));
  if (train.cut + scored.cut)
    warn(cat(share(train.cut + scored.cut, train.tokenised + scored.tokenised),
             " of the questions are longer than the recipe's 256 tokens and are cut"));
  const int64_t known = common_entries(scored.answers, train.answers);
  detail +=
      cat("; ", share(known, static_cast<int64_t>(scored.answers.size())), " of the scored answers occur in train");
  e.table.add(name, verdict, detail);
}

// Mean lengths and sizes over all that was looked at.
struct Sums {
  double texts = 0, question = 0, answer = 0, longest = 0, pictures = 0, visual = 0, positions = 0, together = 0;
  double pixels = 0, seconds = 0;
  void add(const Found& f) {
    texts += static_cast<double>(f.tokenised);
    question += f.question_tokens;
    answer += f.answer_tokens;
    longest = std::max(longest, static_cast<double>(f.longest_answer));
    pictures += static_cast<double>(f.pictures);
    visual += f.visual;
    positions += f.positions;
    together += f.together;
    pixels += f.pixels;
    seconds += f.seconds;
  }
};

void finish_workload(Examined& e, const Sums& sums) {
  auto& work = *e.work;
  const bool own = e.shape && e.shape->built_in();
  if (sums.texts > 0) {
    const double question = sums.question / sums.texts, answer = sums.answer / sums.texts;
    work.question_tokens = question;
    work.answer_tokens = answer + 1;
    work.text_tokens = question + answer + (own ? 2 : kTemplate);
    work.new_tokens = sums.longest + 1;
  }
  if (sums.pictures > 0) {
    work.picture = {sums.visual / sums.pictures, sums.positions / sums.pictures, sums.together / sums.pictures};
    work.picture_bytes = 3 * sums.pixels / sums.pictures;
    e.table.add("pictures", Verdict::ok,
                cat(number(sums.pictures, 0), " decoded, ", number(1000 * sums.seconds / sums.pictures, 1),
                    " ms each; ", number(work.picture.visual, 0), " visual and ", number(work.text_tokens, 0),
                    " text tokens a sample on average, ", number(work.questions(), 1),
                    " scored questions about a picture within a task"));
  } else if (e.shape) {
    work.picture = picture_tokens(*e.shape, e.processor.get(), 480, 640);
  }
}

}  // namespace

void check_tasks(Examined& e) {
  if (!e.stream) return;
  const auto metrics = metric_names();
  e.work.emplace();
  Sums sums;
  for (size_t task = 0; task < e.stream->tasks().size(); ++task) {
    const auto& t = e.stream->tasks()[task];
    if (std::find(metrics.begin(), metrics.end(), t.metric) == metrics.end())
      e.table.add(cat("metric of ", printable(t.name, 18)), Verdict::failure,
                  cat("'", t.metric, "' is unknown", did_you_mean(t.metric, metrics)));
    const auto look = [&](DataSplit split, const char* label) {
      return Looker(e, task, split).look(cat("doctor ", printable(t.name, 18), " ", label));
    };
    const auto train = look(DataSplit::train, "train"), scored = look(e.config->run.scored_split(), "scored");
    judge_task(e, task, train, scored);
    sums.add(train);
    sums.add(scored);
    e.work->tasks.push_back({t.name, train.rows, scored.rows,
                             t.novel ? e.stream->size(task, DataSplit::novel) : int64_t(0),
                             questions_a_picture(*e.stream, task, e.config->run.scored_split())});
  }
  finish_workload(e, sums);
}

}  // namespace asr
