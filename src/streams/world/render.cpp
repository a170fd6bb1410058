#include "streams/world/render.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace asr::world {
namespace {

constexpr const char* kDomainNames[] = {"plain",  "night",  "noisy", "gradient", "checker",
                                        "pastel", "sketch", "hard",  "varied"};

struct Rgb {
  double r, g, b;
};

constexpr Rgb kPalette[kColors] = {{0.86, 0.15, 0.15}, {0.13, 0.62, 0.22}, {0.15, 0.30, 0.85}, {0.93, 0.82, 0.12},
                                   {0.55, 0.20, 0.70}, {0.96, 0.52, 0.10}, {0.10, 0.75, 0.80}, {0.48, 0.30, 0.16}};

// 3x5 letters, one octal digit a row.
constexpr const char* kFont[26] = {"25755", "65656", "34443", "65556", "74647", "74644", "34553", "55755", "72227",
                                   "11152", "55655", "44447", "57755", "65555", "25552", "65644", "25563", "65655",
                                   "34216", "72222", "55557", "55552", "55775", "55255", "55222", "71247"};

double mix(double a, double b, double t) {
  return a + (b - a) * t;
}
Rgb mix(const Rgb& a, const Rgb& b, double t) {
  return {mix(a.r, b.r, t), mix(a.g, b.g, t), mix(a.b, b.b, t)};
}

struct Limb {
  double ax, ay, bx, by;
};

// hypot(x, y) < radius; hypot itself only where squares could round to the other side.
bool is_within(double x, double y, double radius) {
  const double square = x * x + y * y, limit = radius * radius;
  if (square < limit * (1 - 1e-9)) return true;
  return square <= limit * (1 + 1e-9) && std::hypot(x, y) < radius;
}

bool is_near(const Limb& limb, double x, double y) {
  const double vx = limb.bx - limb.ax, vy = limb.by - limb.ay;
  const double t = std::clamp(((x - limb.ax) * vx + (y - limb.ay) * vy) / (vx * vx + vy * vy), 0.0, 1.0);
  return is_within(x - limb.ax - t * vx, y - limb.ay - t * vy, 0.11);
}

bool in_person(double x, double y, Pose pose) {
  static const std::array<std::vector<Limb>, kPoses> limbs = {
      {{{0, -0.4, -0.1, 0.2},
        {-0.1, 0.2, 0.5, 0.45},
        {0.5, 0.45, 0.4, 0.9},
        {-0.1, 0.2, -0.7, 0.7},
        {-0.05, -0.25, 0.5, -0.1},
        {-0.05, -0.25, -0.55, 0.1}},  // running
       {{0, -0.45, 0, 0.1},
        {0, 0.1, 0.6, 0.5},
        {0, 0.1, -0.6, 0.5},
        {0, -0.35, 0.6, -0.85},
        {0, -0.35, -0.6, -0.85},
        {-0.8, 0.95, 0.8, 0.95}},  // jumping
       {{-0.2, -0.35, -0.2, 0.35},
        {-0.2, 0.35, 0.4, 0.35},
        {0.4, 0.35, 0.4, 0.9},
        {-0.2, -0.15, 0.3, 0.1},
        {-0.45, 0.45, -0.45, 0.95}},  // sitting
       {{0, -0.4, 0, 0.25},
        {0, 0.25, 0.25, 0.9},
        {0, 0.25, -0.25, 0.9},
        {0, -0.25, 0.65, -0.8},
        {0, -0.25, -0.4, 0.15}},                                                                           // waving
       {{-0.4, 0.5, 0.3, 0.5}, {0.3, 0.5, 0.9, 0.45}, {-0.1, 0.5, 0.2, 0.65}, {-0.95, 0.8, 0.95, 0.8}}}};  // sleeping
  static const double heads[kPoses][2] = {{0.08, -0.68}, {0, -0.72}, {-0.2, -0.65}, {0, -0.68}, {-0.68, 0.45}};
  const auto index = static_cast<size_t>(pose);
  if (is_within(x - heads[index][0], y - heads[index][1], 0.25)) return true;
  for (const auto& limb : limbs[index])
    if (is_near(limb, x, y)) return true;
  return false;
}

bool in_star(double x, double y) {
  const double radius = std::hypot(x, y), angle = std::atan2(x, -y), fifth = 2 * M_PI / 5;
  const double within = std::abs(std::remainder(angle, fifth));  // 0 at a point, fifth / 2 between points
  return radius * (std::cos(within) + std::sin(within) * 1.38) < 1.0;
}

bool in_bar(double x, double y, Orientation orientation) {
  double u = x, v = y;
  if (orientation == Orientation::vertical) {
    u = y;
    v = x;
  }
  if (orientation == Orientation::diagonal) {
    u = (x + y) * M_SQRT1_2;
    v = (y - x) * M_SQRT1_2;
  }
  return std::abs(u) < 1 && std::abs(v) < 0.22;
}

// Inside the object's outline, in its own coordinates: radius 1, x to the right, y down.
bool inside(const Object& o, double x, double y) {
  switch (o.shape) {
    case Shape::circle:
      return x * x + y * y < 1;
    case Shape::square:
      return std::max(std::abs(x), std::abs(y)) < 0.85;
    case Shape::triangle:
      return y < 0.75 && std::abs(x) < (y + 0.95) * 0.58;
    case Shape::cross:
      return std::min(std::abs(x), std::abs(y)) < 0.3 && std::max(std::abs(x), std::abs(y)) < 0.95;
    case Shape::star:
      return in_star(x, y);
    case Shape::diamond:
      return std::abs(x) + std::abs(y) < 1;
    case Shape::ring:
      return x * x + y * y < 1 && x * x + y * y > 0.3;
    case Shape::heart: {
      const double h = -y * 1.15 + 0.15, q = x * x * 1.3 + h * h - 0.55;
      return q * q * q - x * x * 1.3 * h * h * h < 0;
    }
    case Shape::arrow:
      return (x < 0.15 && x > -0.95 && std::abs(y) < 0.24) || (x >= 0.15 && std::abs(y) < (1 - x) * 0.85);
    case Shape::bar:
      return in_bar(x, y, o.orientation);
    case Shape::person:
      return in_person(x, y, o.pose);
    case Shape::sign:
      return std::abs(y) < 0.72;
  }
  return false;
}

// Printed letters of a sign.
bool inked(const Object& o, double x, double y) {
  const double letters = static_cast<double>(o.text.size()), cell = std::min(2.0 / letters, 0.95);
  const double along = x / cell + letters / 2;
  if (along < 0 || along >= letters) return false;
  const auto index = static_cast<size_t>(along);
  const double height = std::min(1.1, cell * 1.6);
  const int column = static_cast<int>((along - static_cast<double>(index)) * 4 - 0.5 + 1) - 1;
  const int row = static_cast<int>(std::floor((y / height + 0.5) * 5));
  if (column < 0 || column > 2 || row < 0 || row > 4) return false;
  return (kFont[o.text[index] - 'A'][row] - '0') >> (2 - column) & 1;
}

bool textured(const Object& o, double x, double y) {
  if (o.texture == Texture::striped) return std::fmod(x + y + 8, 0.5) < 0.25;
  if (o.texture == Texture::dotted) return is_within(std::remainder(x, 0.55), std::remainder(y, 0.55), 0.16);
  return false;
}

double radius_of(const Object& o) {
  return (o.size == Size::large ? 0.44 : 0.27) / 3;
}
double half_width(const Object& o) {
  return o.shape == Shape::sign ? 1.1 : 1.0;
}  // in radii
double center_x(const Object& o) {
  return (o.place % 3 + 0.5 + o.dx) / 3;
}
double center_y(const Object& o) {
  const int line = o.place / 3;
  return (line + 0.5 + o.dy) / 3;
}

struct Style {
  Rgb ground = {1, 1, 1}, other = {1, 1, 1};  // second colour of a gradient or checkerboard
  enum class Pattern { flat, gradient, checker } pattern = Pattern::flat;
  double noise = 0, wash = 0, jitter = 0;  // added noise; mix towards grey; change of an object's colour
  bool outline = false;
};

Style style_of(Domain domain) {
  using P = Style::Pattern;
  switch (domain) {
    case Domain::plain:
      return {};
    case Domain::night:
      return {{0.10, 0.10, 0.16}, {0.10, 0.10, 0.16}, P::flat, 0, 0, 0, false};
    case Domain::noisy:
      return {{0.85, 0.85, 0.85}, {0.85, 0.85, 0.85}, P::flat, 0.14, 0, 0, false};
    case Domain::gradient:
      return {{0.95, 0.90, 0.75}, {0.55, 0.70, 0.90}, P::gradient, 0, 0, 0, false};
    case Domain::checker:
      return {{0.92, 0.92, 0.92}, {0.72, 0.74, 0.78}, P::checker, 0, 0, 0, false};
    case Domain::pastel:
      return {{0.93, 0.91, 0.88}, {0.93, 0.91, 0.88}, P::flat, 0, 0.45, 0, false};
    case Domain::sketch:
      return {{0.98, 0.97, 0.93}, {0.98, 0.97, 0.93}, P::flat, 0, 0, 0, true};
    case Domain::hard:
      return {{0.70, 0.66, 0.58}, {0.45, 0.50, 0.56}, P::checker, 0.07, 0.25, 0.12, false};
    case Domain::varied:
      break;
  }
  return {};
}

// For pretraining: grounds, noise and colours differ from picture to picture, all milder than in the streams' domains.
Style random_style(Random& random) {
  using P = Style::Pattern;
  const auto ground = [&random]() -> Rgb {
    const double level = 0.45 + 0.5 * random.uniform();
    const auto tinted = [&] { return std::clamp(level + 0.12 * (random.uniform() - 0.5), 0.0, 1.0); };
    return {tinted(), tinted(), tinted()};
  };
  Style style;
  style.ground = ground();
  style.other = ground();
  style.pattern = random.chance(0.5) ? P::gradient : P::flat;
  style.noise = 0.06 * random.uniform();
  style.wash = 0.25 * random.uniform();
  style.jitter = 0.1 * random.uniform();
  return style;
}

constexpr int kFine = 3;  // samples a pixel and axis

// The samples of an axis: where they lie, and in which field of a checkerboard.
struct FineAxis {
  std::vector<double> place;
  std::vector<int> field;
  int middle(int pixel) const { return pixel * kFine + kFine / 2; }
};

FineAxis fine_axis(int size) {
  FineAxis out;
  for (int pixel = 0; pixel < size; ++pixel)
    for (int fine = 0; fine < kFine; ++fine) {
      out.place.push_back((pixel + (fine + 0.5) / kFine) / size);
      out.field.push_back(static_cast<int>(out.place.back() * 7));
    }
  return out;
}

// Of the sample in fine column x of fine line y.
Rgb background(const Style& style, const FineAxis& axis, int x, int y) {
  const auto column = static_cast<size_t>(x), line = static_cast<size_t>(y);
  if (style.pattern == Style::Pattern::gradient) return mix(style.ground, style.other, axis.place[line]);
  if (style.pattern == Style::Pattern::checker)
    return (axis.field[column] + axis.field[line]) % 2 ? style.other : style.ground;
  return style.ground;
}

struct Colors {
  Rgb object, under;
};

Rgb paint(const Object& o, const Style& style, const Colors& colors, double x, double y) {
  const Rgb& color = colors.object;
  if (style.outline && inside(o, x * 1.25, y * 1.25) && o.shape != Shape::person && o.shape != Shape::bar) {
    if (o.shape == Shape::sign && inked(o, x, y)) return color;
    return mix(colors.under, color, textured(o, x, y) ? 0.55 : 0.12);  // a faint fill keeps texture visible
  }
  const Rgb light = {0.97, 0.97, 0.97};
  if (o.shape == Shape::sign) {
    const bool bright = 0.3 * color.r + 0.6 * color.g + 0.1 * color.b > 0.55;  // print must stand out from its plate
    return inked(o, x, y) ? (bright ? Rgb{0.08, 0.08, 0.08} : light) : color;
  }
  return textured(o, x, y) ? mix(color, light, 0.8) : color;
}

// An object with what every sample would compute anew.
struct Placed {
  const Object& object;
  Rgb color;
  double x, y, radius, wide;
  double reach;  // in pixels, a little generous
};

Rgb sum_of(const Rgb& a, const Rgb& b) {
  return {a.r + b.r, a.g + b.g, a.b + b.b};
}

// The samples of a pixel, added up in the order of reading.
class PixelSums {
 public:
  PixelSums(const Style& style, int size) : style_(style), axis_(fine_axis(size)) {
    for (int s = 0; s < kFine * kFine; ++s) {
      ground_ = sum_of(ground_, style.ground);
      other_ = sum_of(other_, style.other);
    }
  }
  // Where no object is near.
  Rgb empty(int px, int py) const {
    if (style_.pattern != Style::Pattern::checker) {
      const Rgb value = background(style_, axis_, axis_.middle(px), axis_.middle(py));  // one look is enough
      return {value.r * kFine * kFine, value.g * kFine * kFine, value.b * kFine * kFine};
    }
    const auto first_x = static_cast<size_t>(px * kFine), first_y = static_cast<size_t>(py * kFine);
    const int column = axis_.field[first_x], line = axis_.field[first_y];
    const bool one_field =
        axis_.field[first_x + kFine - 1] == column && axis_.field[first_y + kFine - 1] == line;  // they only grow
    if (one_field) return (column + line) % 2 ? other_ : ground_;
    return with({}, px, py);
  }
  Rgb with(const std::vector<const Placed*>& near, int px, int py) const {
    Rgb sum{0, 0, 0};
    for (int s = 0; s < kFine * kFine; ++s) {
      const int column = px * kFine + s % kFine, line = py * kFine + s / kFine;
      const double x = axis_.place[static_cast<size_t>(column)], y = axis_.place[static_cast<size_t>(line)];
      Rgb value = background(style_, axis_, column, line);
      for (const auto* o : near) {
        const double u = (x - o->x) / o->radius, v = (y - o->y) / o->radius;
        if (std::abs(u) < o->wide && std::abs(v) < 1 && inside(o->object, u, v))
          value = paint(o->object, style_, {o->color, value}, u, v);
      }
      sum = sum_of(sum, value);
    }
    return sum;
  }

 private:
  const Style& style_;
  FineAxis axis_;
  Rgb ground_{0, 0, 0}, other_{0, 0, 0};
};

std::vector<Placed> placed_objects(const Scene& scene, const Style& style, int size, Random& random) {
  std::vector<Placed> out;
  for (const auto& o : scene.objects) {
    Rgb color = mix(kPalette[static_cast<int>(o.color)], {0.75, 0.75, 0.75}, style.wash);
    for (double* channel : {&color.r, &color.g, &color.b})
      *channel = std::clamp(*channel + (random.uniform() - 0.5) * 2 * style.jitter, 0.0, 1.0);
    out.push_back(
        {o, color, center_x(o), center_y(o), radius_of(o), half_width(o), radius_of(o) * half_width(o) * size + 1});
  }
  return out;
}

}  // namespace

const char* name_of(Domain domain) {
  return kDomainNames[static_cast<int>(domain)];
}

Box box_of(const Object& o) {
  const double radius = radius_of(o), wide = half_width(o);
  const double x = center_x(o), y = center_y(o);
  return {std::max(0.0, x - radius * wide), std::max(0.0, y - radius), std::min(1.0, x + radius * wide),
          std::min(1.0, y + radius)};
}

Image render(const Scene& scene, Domain domain, int size) {
  Random random({content_hash(scene), static_cast<uint64_t>(domain), static_cast<uint64_t>(size)});
  const Style style = domain == Domain::varied ? random_style(random) : style_of(domain);
  const auto objects = placed_objects(scene, style, size, random);
  const PixelSums sums(style, size);
  Image image{size, std::vector<uint8_t>(static_cast<size_t>(size) * size * 3)};
  std::vector<const Placed*> of_line, near;  // objects whose box touches the line, the pixel; most pixels have none
  for (int py = 0; py < size; ++py) {
    of_line.clear();
    for (const auto& o : objects)
      if (std::abs(py + 0.5 - o.y * size) <= o.reach) of_line.push_back(&o);
    for (int px = 0; px < size; ++px) {
      near.clear();
      for (const auto* o : of_line)
        if (std::abs(px + 0.5 - o->x * size) <= o->reach) near.push_back(o);
      const Rgb sum = near.empty() ? sums.empty(px, py) : sums.with(near, px, py);
      const double noise = style.noise > 0 ? (random.uniform() + random.uniform() - 1) * 2 * style.noise : 0;
      const double channels[3] = {sum.r, sum.g, sum.b};
      for (int c = 0; c < 3; ++c) {
        const double level = std::clamp(channels[c] / (kFine * kFine) + noise, 0.0, 1.0);
        image.pixels[(static_cast<size_t>(py) * size + px) * 3 + c] = static_cast<uint8_t>(level * 255 + 0.5);
      }
    }
  }
  return image;
}

}  // namespace asr::world
