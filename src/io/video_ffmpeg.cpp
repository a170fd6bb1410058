// The half of io/video.h that needs FFmpeg's libraries (5.1 or newer).
#ifdef ASR_FFMPEG

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libavutil/imgutils.h>
#include <libavutil/mem.h>
#include <libswscale/swscale.h>
}

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "io/image_codecs.h"
#include "io/video.h"

namespace asr {
namespace {

constexpr size_t kLargestAllocation = size_t(1) << 29;  // bytes of one allocation inside the libraries
constexpr double kLate = 1;                             // seconds by which a frame may miss its time after damage
constexpr double kSeekAhead = 2;                        // seconds; nearer times are reached by decoding on
// Containers alone: playlists (hls, concat, dash) would open other files or the network.
constexpr const char* kFormats = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpeg,mpegts,flv,ogg,asf";

struct Free {
  void operator()(AVFormatContext* p) const { avformat_close_input(&p); }
  void operator()(AVCodecContext* p) const { avcodec_free_context(&p); }
  void operator()(AVFrame* p) const { av_frame_free(&p); }
  void operator()(AVPacket* p) const { av_packet_free(&p); }
  void operator()(SwsContext* p) const { sws_freeContext(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

std::string words(int code) {
  char text[AV_ERROR_MAX_STRING_SIZE] = {};
  av_strerror(code, text, sizeof(text));
  return text;
}

int interrupted(void* deadline) {
  return now() > *static_cast<const double*>(deadline) ? 1 : 0;
}

void quiet_once() {
  static const bool done = [] {
    av_log_set_level(AV_LOG_QUIET);  // errors are ours to word, one line each
    av_max_alloc(kLargestAllocation);
    return true;
  }();
  static_cast<void>(done);
}

// Quarter turns to the right that bring the picture upright; telephones store it as the sensor lay.
int quarter_turns(const AVStream& stream) {
  const uint8_t* matrix = nullptr;
#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(60, 15, 100)
  const auto* par = stream.codecpar;
  const auto* side = av_packet_side_data_get(par->coded_side_data, par->nb_coded_side_data, AV_PKT_DATA_DISPLAYMATRIX);
  if (side && side->size >= 36) matrix = side->data;
#else
  size_t size = 0;
  matrix = av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, &size);
  if (size < 36) matrix = nullptr;
#endif
  if (!matrix) return 0;
  const double degrees = -av_display_rotation_get(reinterpret_cast<const int32_t*>(matrix));
  return std::isfinite(degrees) ? ((static_cast<int>(std::lround(degrees / 90)) % 4) + 4) % 4 : 0;
}

Image8 turned_right(const Image8& image) {
  Image8 out{image.width, image.height, std::vector<uint8_t>(image.rgb.size())};
  for (int64_t y = 0; y < out.height; ++y)
    for (int64_t x = 0; x < out.width; ++x)
      for (int64_t c = 0; c < 3; ++c)
        out.rgb[static_cast<size_t>((y * out.width + x) * 3 + c)] =
            image.rgb[static_cast<size_t>(((image.height - 1 - x) * image.width + y) * 3 + c)];
  return out;
}

class Video {
 public:
  Video(const std::string& path, const VideoLimits& limits)
      : path_(path), limits_(limits), deadline_(now() + limits.seconds) {
    quiet_once();
    std::error_code error;
    check(std::filesystem::is_regular_file(path, error), path, ": there is no such video");
    open_container();
    open_decoder();
    packet_.reset(av_packet_alloc());
    frame_.reset(av_frame_alloc());
    shown_.reset(av_frame_alloc());
    check(packet_ && frame_ && shown_, path_, ": no memory for its frames");
  }

  // Of the pictures, in seconds; 0: the file does not say.
  double duration() const {
    if (stream_->duration > 0) return static_cast<double>(stream_->duration) * unit_;
    return input_->duration > 0 ? static_cast<double>(input_->duration) / AV_TIME_BASE : 0;
  }

  // How long it is, found by decoding all of it.
  double measured_duration() {
    while (next_frame()) {
    }
    const double out = shown_time_ + frame_seconds();
    check(any_, path_, ": holds no frames that can be decoded; is the file damaged?");
    seek(0);
    return out;
  }

  // The frame shown at `time`, which must not be before the one asked for last; `same`: it is that one.
  Image8 frame_at(double time, bool& same) {
    if (time > next_time_ + kSeekAhead || !begun_) seek(time);
    while (!ended_ && (!pending_ || next_time_ <= time || !any_)) next_frame();
    check(any_, path_, ": holds no frames that can be decoded; is the file damaged or empty?");
    const double end = shown_time_ + frame_seconds();
    check(!(ended_ || damaged_) || time <= end + kLate, path_, ": ", damaged_ ? "is damaged" : "ends", " at ",
          seconds(end), " s, but a frame at ", seconds(time), " s is wanted; fetch or convert the file again");
    check((shown_->flags & AV_FRAME_FLAG_CORRUPT) == 0, path_, ": the frame at ", seconds(shown_time_),
          " s is damaged; fetch or convert the file again");
    same = shown_time_ == taken_;
    taken_ = shown_time_;
    return same ? Image8() : picture();
  }

 private:
  static std::string seconds(double value) { return cat(std::round(value * 100) / 100); }
  double frame_seconds() const {
    const auto rate = stream_->avg_frame_rate;
    return rate.num > 0 && rate.den > 0 ? av_q2d(av_inv_q(rate)) : 0.04;
  }
  void check_time() const {
    check(now() <= deadline_, path_, ": takes longer than ", limits_.seconds,
          " s to decode; cut or convert it, or extract its frames");
  }

  void open_container() {
    AVFormatContext* input = avformat_alloc_context();
    check(input != nullptr, path_, ": no memory to open it");
    input->interrupt_callback = {interrupted, &deadline_};
    AVDictionary* options = nullptr;
    av_dict_set(&options, "protocol_whitelist", "file", 0);
    av_dict_set(&options, "format_whitelist", kFormats, 0);
    const int code = avformat_open_input(&input, ("file:" + path_).c_str(), nullptr, &options);
    av_dict_free(&options);
    check_time();
    check(code >= 0, path_, ": cannot be read as a video (", words(code), "); is it damaged or cut off?");
    input_.reset(input);
    const int found = avformat_find_stream_info(input, nullptr);
    check_time();
    check(found >= 0, path_, ": cannot be read as a video (", words(found), "); is it damaged or cut off?");
  }

  void open_decoder() {
    const AVCodec* codec = nullptr;
    const int index = av_find_best_stream(input_.get(), AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0);
    check(index != AVERROR_DECODER_NOT_FOUND, path_, ": FFmpeg's libraries here have no decoder for its pictures");
    check(index >= 0, path_, ": holds no pictures, only sound or data");
    stream_ = input_->streams[index];
    unit_ = av_q2d(stream_->time_base);
    start_ = stream_->start_time == AV_NOPTS_VALUE ? 0 : static_cast<double>(stream_->start_time) * unit_;
    for (unsigned i = 0; i < input_->nb_streams; ++i)
      if (static_cast<int>(i) != index) input_->streams[i]->discard = AVDISCARD_ALL;
    decoder_.reset(avcodec_alloc_context3(codec));
    check(decoder_ && avcodec_parameters_to_context(decoder_.get(), stream_->codecpar) >= 0, path_,
          ": its pictures have no valid description");
    decoder_->thread_count = 1;  // several videos are read at a time
    decoder_->max_pixels = limits_.frame.pixels;
    if (decoder_->width > 0 || decoder_->height > 0)
      check_dimensions(decoder_->height, decoder_->width, path_, limits_.frame);
    const int code = avcodec_open2(decoder_.get(), codec, nullptr);
    check(code >= 0, path_, ": its pictures cannot be decoded (", words(code), ")");
  }

  void seek(double time) {
    const auto target = static_cast<int64_t>((time + start_) / unit_);
    // Where a file has no index, decoding goes on from where it is, or from the beginning.
    if (begun_ || time > kSeekAhead)
      if (av_seek_frame(input_.get(), stream_->index, target, AVSEEK_FLAG_BACKWARD) < 0 && ended_)
        av_seek_frame(input_.get(), stream_->index, 0, AVSEEK_FLAG_BACKWARD | AVSEEK_FLAG_ANY);
    avcodec_flush_buffers(decoder_.get());
    begun_ = true;
    pending_ = any_ = ended_ = draining_ = false;
    next_time_ = 0;
  }

  // Makes the pending frame the one shown, and decodes the one after it; false at the end.
  bool next_frame() {
    begun_ = true;
    if (pending_) {
      av_frame_unref(shown_.get());
      av_frame_move_ref(shown_.get(), frame_.get());
      shown_time_ = next_time_;
      any_ = true;
      pending_ = false;
    }
    for (;;) {
      check_time();
      const int code = avcodec_receive_frame(decoder_.get(), frame_.get());
      if (code == 0) break;
      if (code == AVERROR_EOF) {
        ended_ = true;
        return false;
      }
      if (code != AVERROR(EAGAIN)) damaged_ = true;
      if (draining_ && code != AVERROR(EAGAIN)) {
        ended_ = true;
        return false;
      }
      feed();
    }
    const int64_t stamp = frame_->best_effort_timestamp;
    next_time_ = stamp == AV_NOPTS_VALUE ? (any_ ? shown_time_ + frame_seconds() : 0)
                                         : static_cast<double>(stamp) * unit_ - start_;
    pending_ = true;
    if (!any_) {  // the first frame is shown until the second
      av_frame_unref(shown_.get());
      av_frame_ref(shown_.get(), frame_.get());
      shown_time_ = next_time_;
      any_ = true;
    }
    return true;
  }

  void feed() {
    while (!draining_) {
      check_time();
      const int code = av_read_frame(input_.get(), packet_.get());
      if (code < 0) {
        if (code != AVERROR_EOF) damaged_ = true;
        draining_ = true;
        avcodec_send_packet(decoder_.get(), nullptr);
        return;
      }
      const bool ours = packet_->stream_index == stream_->index;
      const int sent = ours ? avcodec_send_packet(decoder_.get(), packet_.get()) : 0;
      av_packet_unref(packet_.get());
      if (sent < 0) damaged_ = true;  // the decoder goes on with the next packet
      if (ours) return;
    }
  }

  Image8 picture() const {
    const auto& f = *shown_;
    check_dimensions(f.height, f.width, path_, limits_.frame);
    const auto format = static_cast<AVPixelFormat>(f.format);
    const Owned<SwsContext> scaler(sws_getContext(f.width, f.height, format, f.width, f.height, AV_PIX_FMT_RGB24,
                                                  SWS_BILINEAR | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT, nullptr,
                                                  nullptr, nullptr));
    check(scaler != nullptr, path_, ": its pixels are in a form that cannot be converted");
    const int* from =
        sws_getCoefficients(f.colorspace == AVCOL_SPC_UNSPECIFIED ? SWS_CS_DEFAULT : static_cast<int>(f.colorspace));
    sws_setColorspaceDetails(scaler.get(), from, f.color_range == AVCOL_RANGE_JPEG ? 1 : 0,
                             sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
    // The converter writes whole blocks: into lines with room at their ends.
    uint8_t* lines[4] = {};
    int stride[4] = {};
    const int size = av_image_alloc(lines, stride, f.width, f.height, AV_PIX_FMT_RGB24, 64);
    check(size >= 0, path_, ": no memory for a frame of ", f.width, "x", f.height);
    const std::unique_ptr<uint8_t, void (*)(void*)> memory(lines[0], av_free);
    const int rows = sws_scale(scaler.get(), f.data, f.linesize, 0, f.height, lines, stride);
    check(rows == f.height, path_, ": a frame cannot be converted to RGB");
    Image8 out{f.height, f.width, {}};
    out.rgb.reserve(static_cast<size_t>(f.height) * static_cast<size_t>(f.width) * 3);
    for (int y = 0; y < f.height; ++y)
      out.rgb.insert(out.rgb.end(), lines[0] + static_cast<ptrdiff_t>(y) * stride[0],
                     lines[0] + static_cast<ptrdiff_t>(y) * stride[0] + f.width * 3);
    for (int turn = quarter_turns(*stream_); turn > 0; --turn) out = turned_right(out);
    return out;
  }

  const std::string path_;
  const VideoLimits limits_;
  double deadline_;
  Owned<AVFormatContext> input_;
  Owned<AVCodecContext> decoder_;
  AVStream* stream_ = nullptr;
  double unit_ = 0, start_ = 0;  // seconds of a time stamp, and of the first
  Owned<AVPacket> packet_;
  Owned<AVFrame> frame_, shown_;  // the one after, and the one shown
  double next_time_ = 0, shown_time_ = 0;
  bool begun_ = false, pending_ = false, any_ = false, ended_ = false, draining_ = false;
  bool damaged_ = false;
  double taken_ = -1;  // time of the frame given last
};

}  // namespace

bool reads_videos() {
  return true;
}

std::vector<Image8> read_video_at(const std::string& path, const std::vector<double>& times,
                                  const VideoLimits& limits) {
  Video video(path, limits);
  std::vector<Image8> out;
  double last = 0;
  for (const double time : times) {
    check(std::isfinite(time) && time >= last, path, ": frames are wanted at ascending times, not at ", time,
          " s after ", last, " s");
    last = time;
    bool same = false;
    auto frame = video.frame_at(time, same);
    out.push_back(same ? out.back() : std::move(frame));
  }
  return out;
}

std::vector<Image8> read_video(const std::string& path, int64_t count, const VideoLimits& limits) {
  check(count > 0, path, ": no frames of it are wanted");
  Video video(path, limits);
  double length = video.duration();
  if (!(length > 0)) length = video.measured_duration();
  std::vector<Image8> out;
  for (int64_t i = 0; i < count; ++i) {
    bool same = false;
    auto frame = video.frame_at((static_cast<double>(i) + 0.5) * length / static_cast<double>(count), same);
    if (!same) out.push_back(std::move(frame));
  }
  return out;
}

}  // namespace asr

#endif
