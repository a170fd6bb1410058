// Videos written here with the libraries that read them: known colours at known times, and everything that can be wrong
// with a file. A build without FFmpeg's libraries says so.
#include "io/video.h"

#include "tests/support/files.h"

#ifdef ASR_FFMPEG
extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/channel_layout.h>
#include <libavutil/display.h>
}
#endif

namespace asr {
namespace {

#ifndef ASR_FFMPEG

TEST(Video, ABuildWithoutItNamesTheOption) {
  EXPECT_FALSE(reads_videos());
  EXPECT_CONTAINS(error_of([] { read_video("/tmp/a.mp4", 4); }), "/tmp/a.mp4: this build reads no videos");
  EXPECT_CONTAINS(error_of([] { read_video_at("/tmp/a.mp4", {1}); }), "-DASR_FFMPEG=ON");
}

#else

constexpr int kWidth = 64, kHeight = 48, kRate = 10;

uint8_t grey_of(int frame) {
  return static_cast<uint8_t>(20 + 2 * frame);
}

void need(int code) {
  ASSERT_GE(code, 0);
}

// Frames of MPEG-4, each of one grey, with a white upper left corner; a key frame every twelve.
void encode(AVFormatContext* out, AVStream* stream, AVCodecContext* encoder, int frames) {
  AVFrame* frame = av_frame_alloc();
  AVPacket* packet = av_packet_alloc();
  frame->format = AV_PIX_FMT_YUV420P;
  frame->width = kWidth;
  frame->height = kHeight;
  need(av_frame_get_buffer(frame, 0));
  for (int i = 0; i <= frames; ++i) {
    if (i < frames) {
      need(av_frame_make_writable(frame));
      const int luma = 16 + grey_of(i) * 219 / 255;
      for (int y = 0; y < kHeight; ++y)
        for (int x = 0; x < kWidth; ++x)
          frame->data[0][y * frame->linesize[0] + x] = static_cast<uint8_t>(x < 16 && y < 16 ? 235 : luma);
      for (int plane = 1; plane < 3; ++plane)
        for (int y = 0; y < kHeight / 2; ++y)
          for (int x = 0; x < kWidth / 2; ++x) frame->data[plane][y * frame->linesize[plane] + x] = 128;
      frame->pts = i;
    }
    need(avcodec_send_frame(encoder, i < frames ? frame : nullptr));
    while (avcodec_receive_packet(encoder, packet) == 0) {
      av_packet_rescale_ts(packet, encoder->time_base, stream->time_base);
      packet->stream_index = stream->index;
      need(av_interleaved_write_frame(out, packet));
    }
  }
  av_packet_free(&packet);
  av_frame_free(&frame);
}

void write_video(const std::string& path, int frames, bool turned = false) {
  AVFormatContext* out = nullptr;
  need(avformat_alloc_output_context2(&out, nullptr, nullptr, path.c_str()));
  const AVCodec* codec = avcodec_find_encoder(AV_CODEC_ID_MPEG4);
  ASSERT_NE(codec, nullptr);
  AVCodecContext* encoder = avcodec_alloc_context3(codec);
  encoder->width = kWidth;
  encoder->height = kHeight;
  encoder->pix_fmt = AV_PIX_FMT_YUV420P;
  encoder->time_base = {1, kRate};
  encoder->framerate = {kRate, 1};
  encoder->gop_size = 12;
  encoder->bit_rate = 4'000'000;
  if (out->oformat->flags & AVFMT_GLOBALHEADER) encoder->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  need(avcodec_open2(encoder, codec, nullptr));
  AVStream* stream = avformat_new_stream(out, nullptr);
  need(avcodec_parameters_from_context(stream->codecpar, encoder));
  stream->time_base = encoder->time_base;
  stream->avg_frame_rate = encoder->framerate;
  if (turned) {
#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(60, 15, 100)
    auto* side = av_packet_side_data_new(&stream->codecpar->coded_side_data, &stream->codecpar->nb_coded_side_data,
                                         AV_PKT_DATA_DISPLAYMATRIX, 36, 0);
    auto* matrix = reinterpret_cast<int32_t*>(side->data);
#else
    auto* matrix = reinterpret_cast<int32_t*>(av_stream_new_side_data(stream, AV_PKT_DATA_DISPLAYMATRIX, 36));
#endif
    av_display_rotation_set(matrix, 90);  // to be turned right by a quarter
  }
  need(avio_open(&out->pb, path.c_str(), AVIO_FLAG_WRITE));
  need(avformat_write_header(out, nullptr));
  encode(out, stream, encoder, frames);
  need(av_write_trailer(out));
  avio_closep(&out->pb);
  avcodec_free_context(&encoder);
  avformat_free_context(out);
}

// A quarter of a second of silence.
void write_sound(const std::string& path) {
  AVFormatContext* out = nullptr;
  need(avformat_alloc_output_context2(&out, nullptr, nullptr, path.c_str()));
  AVStream* stream = avformat_new_stream(out, nullptr);
  auto* par = stream->codecpar;
  par->codec_type = AVMEDIA_TYPE_AUDIO;
  par->codec_id = AV_CODEC_ID_PCM_S16LE;
  par->sample_rate = 8000;
  av_channel_layout_default(&par->ch_layout, 1);
  par->bits_per_coded_sample = 16;
  par->block_align = 2;
  par->format = AV_SAMPLE_FMT_S16;
  stream->time_base = {1, 8000};
  need(avio_open(&out->pb, path.c_str(), AVIO_FLAG_WRITE));
  need(avformat_write_header(out, nullptr));
  AVPacket* packet = av_packet_alloc();
  need(av_new_packet(packet, 4000));
  std::fill_n(packet->data, 4000, uint8_t(0));
  packet->pts = packet->dts = 0;
  packet->duration = 2000;
  need(av_write_frame(out, packet));
  need(av_write_trailer(out));
  av_packet_free(&packet);
  avio_closep(&out->pb);
  avformat_free_context(out);
}

int grey_at(const Image8& image, int64_t y, int64_t x) {
  return image.rgb.at(static_cast<size_t>((y * image.width + x) * 3));
}
int frame_of(const Image8& image) {  // which frame it is, by its grey
  return static_cast<int>((grey_at(image, image.height / 2, image.width / 2) - 20 + 1) / 2);
}

class Video : public testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(Video, FramesAtTimesAndEvenlySpaced) {
  for (const char* name : {"a.mp4", "a.mkv", "a.avi"}) {
    const auto path = folder_ / name;
    write_video(path, 100);  // 10 s
    const auto four = read_video(path, 4);
    ASSERT_EQ(four.size(), 4u) << name;
    for (int i = 0; i < 4; ++i) {
      const auto& image = four[static_cast<size_t>(i)];
      EXPECT_EQ(image.height, kHeight);
      EXPECT_EQ(image.width, kWidth);
      EXPECT_NEAR(frame_of(image), 12 + 25 * i, 1) << name;  // shown at 1.25, 3.75, 6.25 and 8.75 s
      EXPECT_GT(grey_at(image, 4, 4), 240);
      EXPECT_LT(grey_at(image, kHeight - 4, 4), 235);
    }
    const auto chosen = read_video_at(path, {0, 0.52, 0.55, 5.05, 9.95});
    ASSERT_EQ(chosen.size(), 5u);
    const int wanted[5] = {0, 5, 5, 50, 99};
    for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(frame_of(chosen[i]), wanted[i], 1) << name;
    EXPECT_EQ(chosen[1].rgb, chosen[2].rgb);
  }
}

TEST_F(Video, ShortOnesGiveTheFramesTheyHave) {
  write_video(folder_ / "two.mp4", 2);
  EXPECT_EQ(read_video(folder_ / "two.mp4", 8).size(), 2u);
  EXPECT_EQ(read_video(folder_ / "two.mp4", 1).size(), 1u);
}

TEST_F(Video, ThePictureIsUpright) {
  write_video(folder_ / "t.mp4", 5, true);
  const auto image = read_video(folder_ / "t.mp4", 1)[0];
  EXPECT_EQ(image.height, kWidth);
  EXPECT_EQ(image.width, kHeight);
  EXPECT_GT(grey_at(image, 4, image.width - 5), 240);  // the corner has gone to the right
  EXPECT_LT(grey_at(image, 4, 4), 200);
}

TEST_F(Video, WhatIsWrongIsSaidInOneLine) {
  const auto refusal = [&](const std::string& name) { return error_of([&] { read_video(folder_ / name, 4); }); };
  EXPECT_CONTAINS(refusal("none.mp4"), "none.mp4: there is no such video");
  write_text(folder_ / "empty.mp4", "");
  EXPECT_CONTAINS(refusal("empty.mp4"), "empty.mp4: cannot be read as a video");
  write_text(folder_ / "text.mp4", std::string(4000, 'x'));
  EXPECT_CONTAINS(refusal("text.mp4"), "cannot be read as a video");
  // A list of other files must not be followed.
  write_text(folder_ / "list.mp4", "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:///etc/passwd\n");
  EXPECT_CONTAINS(refusal("list.mp4"), "cannot be read as a video");
  write_text(folder_ / "concat.mp4", "ffconcat version 1.0\nfile /etc/passwd\n");
  EXPECT_CONTAINS(refusal("concat.mp4"), "cannot be read as a video");
  write_sound(folder_ / "sound.mkv");
  EXPECT_CONTAINS(refusal("sound.mkv"), "holds no pictures, only sound");
  write_video(folder_ / "nothing.mkv", 0);
  EXPECT_CONTAINS(refusal("nothing.mkv"), "nothing.mkv: ");

  write_video(folder_ / "a.mp4", 100);
  write_video(folder_ / "a.mkv", 100);
  const auto cut = [&](const std::string& from, const std::string& to) {
    const auto bytes = read_text(folder_ / from);
    write_text(folder_ / to, bytes.substr(0, bytes.size() / 2));
  };
  cut("a.mp4", "cut.mp4");
  cut("a.mkv", "cut.mkv");
  EXPECT_CONTAINS(refusal("cut.mp4"), "cannot be read as a video");  // its index stood at the end
  const auto late = refusal("cut.mkv");
  EXPECT_TRUE(late.find("ends at") != std::string::npos || late.find("is damaged at") != std::string::npos) << late;

  EXPECT_CONTAINS(error_of([&] { read_video(folder_ / "a.mp4", 4, {{1000, 100}, 60}); }), "is too large");
  EXPECT_CONTAINS(error_of([&] { read_video(folder_ / "a.mp4", 4, {{}, -1}); }), "takes longer than");
  EXPECT_CONTAINS(error_of([&] { read_video_at(folder_ / "a.mp4", {2, 1}); }), "ascending times");
  EXPECT_CONTAINS(error_of([&] { read_video_at(folder_ / "a.mp4", {60}); }), "but a frame at 60 s is wanted");
}

// Bytes changed anywhere: frames, or one line.
TEST_F(Video, DamageNeverBreaksTheProgram) {
  for (const char* name : {"a.mp4", "a.mkv", "a.avi"}) {
    write_video(folder_ / name, 30);
    const auto bytes = read_text(folder_ / name);
    for (size_t at = 3; at < bytes.size(); at += bytes.size() / 60 + 1) {
      auto changed = bytes;
      for (size_t i = at; i < std::min(bytes.size(), at + 9); ++i) changed[i] = static_cast<char>(changed[i] ^ 0xa5);
      const auto path = folder_ / (std::string("changed-") + name);
      write_text(path, changed);
      try {
        for (const auto& image : read_video(path, 3, {{1 << 20, 4096}, 20}))
          EXPECT_EQ(image.rgb.size(), static_cast<size_t>(image.height * image.width * 3));
      } catch (const Error& error) {
        EXPECT_EQ(error.status, 2) << error.what();
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      }
    }
  }
}

#endif

}  // namespace
}  // namespace asr
